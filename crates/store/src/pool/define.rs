//! Creates, changes and removes pools. Each change has an audit entry in the same transaction, and a record in the log
//! of the pool.

use super::pass::{Lapses, PassRequest};
use super::row::json;
use super::{POOL_CHANGED, PoolRecord, object};
use crate::error::Result;
use crate::tx::Pools;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::pool::command::Command;
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::{PoolName, Settings};

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
        // Versions start at the current time, so a version remembered from an earlier pool of this name is always
        // older.
        if self.pool_insert(settings, &json(settings)?, now, now.as_micros()).await? == 0 {
            let taken = match self.pool_find(settings.name.as_str()).await? {
                Some(_) => Defined::NameTaken,
                None => self.external_id_taken(settings).await?.unwrap_or(Defined::NameTaken),
            };
            return Ok(taken);
        }
        self.configure(settings).await?;
        let entry = AuditEntry::new(actor.clone(), "pool.create", &object(settings.name.as_str()));
        self.audit_insert(&entry, now).await?;
        Ok(Defined::Done)
    }

    /// Locks the pool for a change in this transaction.
    pub async fn lock(&mut self, name: &PoolName) -> Result<Option<PoolRecord>> {
        let locked = self.pool_lock_all(&[name.to_string()]).await?;
        locked.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// Changes the settings, and runs a pass with them.
    #[crate::boxed]
    pub async fn set(&mut self, settings: &Settings, actor: &Actor, reason: Option<&str>) -> Result<Defined> {
        let name = settings.name.to_string();
        let locked = self.pool_lock_all(std::slice::from_ref(&name)).await?;
        let Some(row) = locked.into_iter().next() else { return Ok(Defined::NoSuchPool) };
        if let Some(taken) = self.external_id_taken(settings).await? {
            return Ok(taken);
        }
        let before = row.settings()?;
        // Releases by the old external id would not find the pool.
        let tickets = u64::try_from(row.active + row.waiting).unwrap_or(0);
        if before.external_id != settings.external_id && tickets > 0 {
            return Ok(Defined::InUse { tickets });
        }
        if before == *settings {
            return Ok(Defined::Done);
        }
        let now = self.now().await?;
        self.pool_update(settings, &json(settings)?, now).await?;
        self.configure(settings).await?;
        let verb = match (&before.paused, &settings.paused) {
            (None, Some(_)) => "pool.pause",
            (Some(_), None) => "pool.resume",
            _ => "pool.set",
        };
        let change = |settings: &Settings| {
            let Settings { max_units, threshold_percent, .. } = settings;
            format!("{max_units} units at {threshold_percent} %")
        };
        let entry =
            AuditEntry::new(actor.clone(), verb, &object(&name)).from_to(&change(&before), &change(settings));
        self.audit_insert(&entry.with_reason(reason), now).await?;
        Ok(Defined::Done)
    }

    /// Removes a pool without live tickets, and its whole history.
    #[crate::boxed]
    pub async fn remove(&mut self, name: &PoolName, actor: &Actor, reason: Option<&str>) -> Result<Defined> {
        let locked = self.pool_lock_all(&[name.to_string()]).await?;
        let Some(row) = locked.first() else { return Ok(Defined::NoSuchPool) };
        let tickets = u64::try_from(row.active + row.waiting).unwrap_or(0);
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

    async fn configure(&mut self, settings: &Settings) -> Result<()> {
        let pools = BTreeSet::from([settings.name.clone()]);
        let commands = [Command::Configure { settings: Box::new(settings.clone()) }];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        self.pass(&mut BTreeMap::new(), &request).await?;
        // Waiting processes may find more room, or none.
        self.wake(POOL_CHANGED);
        Ok(())
    }

    async fn external_id_taken(&mut self, settings: &Settings) -> Result<Option<Defined>> {
        let Some(external_id) = settings.external_id else { return Ok(None) };
        let Some(row) = self.pool_find_external(external_id).await? else { return Ok(None) };
        let name = row.name()?;
        Ok((name != settings.name).then_some(Defined::ExternalIdTaken(name)))
    }
}
