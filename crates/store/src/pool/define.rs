//! Creates, changes and removes pools, opens and closes their breakers, and releases tickets. Each change has an audit
//! entry and a log record.

use super::pass::{Lapses, PassRequest};
use super::row::json;
use super::{POOL_CHANGED, PoolRecord, object};
use crate::error::Result;
use crate::tx::Pools;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::action::Action;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::pool::breaker::Phase;
use tidemill_domain::pool::command::{Answer, Command, Release, Released};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event_summary::{Change, changes, plain};
use tidemill_domain::pool::{BreakerChange, End, PoolName, ReleaseBy, Settings, TicketId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Defined {
    Done,
    NameTaken,
    ExternalIdTaken(PoolName),
    NoSuchPool,
    /// It has live tickets.
    InUse {
        tickets: u64,
    },
}

impl Pools<'_> {
    #[crate::boxed]
    pub async fn create(&mut self, settings: &Settings, actor: &Actor) -> Result<Defined> {
        let now = self.now().await?;
        // Versions start at the current time, so they are above those of an earlier pool of this name.
        if self.pool_insert(settings, &json(settings)?, now, now.as_micros()).await? == 0 {
            let taken = match self.pool_find(settings.name.as_str()).await? {
                Some(_) => Defined::NameTaken,
                None => self.external_id_taken(settings).await?.unwrap_or(Defined::NameTaken),
            };
            return Ok(taken);
        }
        self.configure(settings, actor).await?;
        let entry = AuditEntry::new(actor.clone(), "pool.create", &object(settings.name.as_str()));
        self.audit_insert(&entry, now).await?;
        Ok(Defined::Done)
    }

    /// Locks the pool for a change in this transaction.
    pub async fn lock(&mut self, name: &PoolName) -> Result<Option<PoolRecord>> {
        Ok(self.pool_locked(name).await?.map(|row| row.record))
    }

    /// Changes the settings, and runs a pass with them.
    #[crate::boxed]
    pub async fn set(&mut self, settings: &Settings, actor: &Actor, reason: Option<&str>) -> Result<Defined> {
        let Some(record) = self.lock(&settings.name).await? else { return Ok(Defined::NoSuchPool) };
        if let Some(taken) = self.external_id_taken(settings).await? {
            return Ok(taken);
        }
        let before = record.settings;
        // Releases by the old external id would not find the pool.
        let tickets = record.active + record.waiting;
        if before.external_id != settings.external_id && tickets > 0 {
            return Ok(Defined::InUse { tickets });
        }
        if before == *settings {
            return Ok(Defined::Done);
        }
        let now = self.now().await?;
        // The pass compares with the settings before, so it comes first.
        self.configure(settings, actor).await?;
        self.pool_update(settings, &json(settings)?, now).await?;
        let action = match (&before.paused, &settings.paused) {
            (was, Some(_)) if *was != settings.paused => Some(Action::PoolPause),
            (Some(_), None) => Some(Action::PoolResume),
            _ => None,
        };
        let changes = changes(&before, settings);
        let words = |settings: &Settings, value: fn(&Change) -> &Value| {
            let state = action.map(|_| settings.paused.as_ref().map_or("open", |_| "paused").to_owned());
            let changed = changes.iter().map(|change| format!("{} {}", change.name, plain(value(change))));
            state.into_iter().chain(changed).collect::<Vec<_>>().join(", ")
        };
        let verb = action.map_or("pool.set", Action::as_str);
        let entry = AuditEntry::new(actor.clone(), verb, &object(settings.name.as_str()))
            .from_to(&words(&before, |change| &change.from), &words(settings, |change| &change.to));
        self.audit_insert(&entry.with_reason(reason), now).await?;
        Ok(Defined::Done)
    }

    /// Removes a pool without live tickets, and its whole history.
    #[crate::boxed]
    pub async fn remove(&mut self, name: &PoolName, actor: &Actor, reason: Option<&str>) -> Result<Defined> {
        let Some(record) = self.lock(name).await? else { return Ok(Defined::NoSuchPool) };
        let tickets = record.active + record.waiting;
        if tickets > 0 {
            return Ok(Defined::InUse { tickets });
        }
        self.pool_delete(name.as_str()).await?;
        let now = self.now().await?;
        let entry = AuditEntry::new(actor.clone(), "pool.delete", &object(name.as_str()));
        self.audit_insert(&entry.with_reason(reason), now).await?;
        if let Some(event) = self.lifecycle_events().of_removal(name, now) {
            self.publish(&event).await?;
        }
        self.wake(POOL_CHANGED);
        Ok(Defined::Done)
    }

    /// Changes the circuit breaker of a pool, and runs a pass with it.
    #[crate::boxed]
    pub async fn set_breaker(
        &mut self,
        name: &PoolName,
        change: BreakerChange,
        actor: &Actor,
    ) -> Result<Defined> {
        let Some(record) = self.lock(name).await? else { return Ok(Defined::NoSuchPool) };
        let before = record.breaker;
        let by_hand = match &change {
            BreakerChange::Open { reason, .. } => Some((Action::BreakerOpen, "open", reason.clone())),
            BreakerChange::Close { reason, .. } if before.phase != Phase::Closed => {
                Some((Action::BreakerClose, "closed", reason.clone()))
            }
            // The pass itself records a refusal.
            BreakerChange::Close { .. } | BreakerChange::Refused { .. } => None,
        };
        self.command(name, Command::Breaker { pool: name.clone(), change }).await?;
        if let Some((action, after, reason)) = by_hand {
            let now = self.now().await?;
            let entry = AuditEntry::new(actor.clone(), action.as_str(), &object(name.as_str()));
            let entry = entry.from_to(before.phase.as_str(), after).because(&reason);
            self.audit_insert(&entry, now).await?;
        }
        Ok(Defined::Done)
    }

    async fn configure(&mut self, settings: &Settings, actor: &Actor) -> Result<()> {
        let by = Some(actor.name.clone());
        let command = Command::Configure { settings: Box::new(settings.clone()), by };
        self.command(&settings.name, command).await
    }

    async fn command(&mut self, name: &PoolName, command: Command) -> Result<()> {
        let pools = BTreeSet::from([name.clone()]);
        let commands = [command];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        self.pass(&mut BTreeMap::new(), &request).await?;
        // Waiting processes may find more room, or none.
        self.wake(POOL_CHANGED);
        Ok(())
    }

    async fn external_id_taken(&mut self, settings: &Settings) -> Result<Option<Defined>> {
        let Some(external_id) = settings.external_id else { return Ok(None) };
        let Some(record) = self.find_external(external_id).await? else { return Ok(None) };
        let name = record.settings.name;
        Ok((name != settings.name).then_some(Defined::ExternalIdTaken(name)))
    }

    /// Releases the units of a ticket of any holder, or removes it from the queue. `None` if there is no live ticket.
    #[crate::boxed]
    pub async fn release_ticket(
        &mut self,
        id: TicketId,
        actor: &Actor,
        reason: &str,
    ) -> Result<Option<(PoolName, Released)>> {
        let Some(found) = self.ticket(id).await? else { return Ok(None) };
        let pool = found.pool;
        let pools: BTreeSet<PoolName> = found.ticket.with.iter().chain([&pool]).cloned().collect();
        let release = Release {
            pool: pool.clone(),
            by: ReleaseBy::Ticket(id),
            epoch: None,
            end: End::ByOperator { by: actor.name.clone(), reason: reason.to_owned() },
            call: None,
        };
        let commands = [Command::Release(Box::new(release))];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        let outcome = self.pass(&mut BTreeMap::new(), &request).await?;
        let Some(Answer::Released(released)) = outcome.answers.into_iter().next() else { return Ok(None) };
        if !released.released && !released.cancelled_waiting {
            return Ok(None);
        }
        let now = self.now().await?;
        let entry = AuditEntry::new(actor.clone(), "pool.release", &object(pool.as_str()))
            .from_to(&found.ticket.holder.to_string(), "released")
            .because(reason);
        self.audit_insert(&entry, now).await?;
        self.wake(POOL_CHANGED);
        Ok(Some((pool, released)))
    }
}
