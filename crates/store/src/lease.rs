//! Leases: load the row, apply the domain's rule, save; and the fence that every settling transaction passes.
//!
//! Lock order: lease, then process. The strength of a lock says what it blocks: granting a lease takes `for update`;
//! settling under it takes `for key share`, which blocks a take-over but lets a renewal through.

use crate::codec::DbId;
use crate::crash_point;
use crate::error::Result;
use crate::process::ProcessRecord;
use crate::statement::{Columns, Exists, rows, statements, stored};
use crate::tx::Leases;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::slice;
use std::time::Duration;
use tidemill_domain::lease::{self, Fence, Lease, LeaseEvent, LeaseKey, LeaseRefusal, Life, Term};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

/// Wake-up topic: leases of this kind became free.
pub fn freed_topic(kind: &str) -> String {
    format!("lease_freed:{kind}")
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Every settling write needs it.
    pub fence: Fence,
    /// The end of its own term, if it has one.
    pub until: Option<Timestamp>,
    /// The previous owner, if the lease had lapsed and was not free.
    pub taken_over_from: Option<ProcessId>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Renewed {
    pub renewed: Vec<LeaseKey>,
    pub lost: Vec<LeaseKey>,
}

/// A lease that lapsed and was freed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lapsed {
    pub key: LeaseKey,
    pub fence: Fence,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct LeaseRecord in ("tidemill_lease", "kind/name") |row| {
        pub key: LeaseKey => key(row)?,
        pub lease: Lease => lease(row)?,
        /// Whether its owner may act on it now.
        pub is_live: bool => false,
        pub acquired_at: Option<Timestamp>,
    }
}

impl Leases<'_> {
    #[crate::boxed]
    pub async fn acquire(
        &mut self,
        key: &LeaseKey,
        by: ProcessId,
        term: Term,
    ) -> Result<Result<Granted, LeaseRefusal>> {
        self.lease_insert_free(slice::from_ref(key)).await?;
        let row = self.lease_lock(key).await?;
        let before = row.map_or(Lease::NEW, |row| row.lease);
        let owner = match before {
            Lease::Held { fence, .. } => self.process_lock_shared(fence.owner).await?,
            Lease::Free { .. } => None,
        };
        let asker = self.process_lock_shared(by).await?;
        // All rows that the decision needs are locked now, so read the clock.
        let now = self.now().await?;
        let owner = life(owner.as_ref(), now);
        let asker = life(asker.as_ref(), now);
        match lease::next(before, owner, LeaseEvent::Acquire { by, life: asker, term }, now) {
            Ok(Lease::Held { fence, until }) => {
                self.lease_save_held(key, fence, until, now).await?;
                crash_point!("lease_acquired");
                let taken_over_from = match before {
                    Lease::Held { fence, .. } => Some(fence.owner),
                    Lease::Free { .. } => None,
                };
                Ok(Ok(Granted { fence, until, taken_over_from }))
            }
            Ok(Lease::Free { epoch }) => Ok(Err(LeaseRefusal::Fenced { current: epoch })),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Acquires the free ones of many leases, each for the life of process `by`.
    #[crate::boxed]
    pub async fn acquire_free(
        &mut self,
        keys: &[LeaseKey],
        by: ProcessId,
    ) -> Result<Vec<(LeaseKey, Granted)>> {
        self.lease_insert_free(keys).await?;
        let rows = self.lease_lock_all(keys).await?;
        let asker = self.process_lock_shared(by).await?;
        let now = self.now().await?;
        let asker = life(asker.as_ref(), now);
        let event = LeaseEvent::Acquire { by, life: asker, term: Term::Process };
        let mut held = Vec::with_capacity(rows.len());
        for row in rows {
            // The owner's process was not read, so it counts as alive.
            if let Ok(Lease::Held { fence, .. }) = lease::next(row.lease, Life::Alive, event, now) {
                held.push((row.key, fence));
            }
        }
        self.lease_save_held_all(&held, now).await?;
        let granted = |fence| Granted { fence, until: None, taken_over_from: None };
        Ok(held.into_iter().map(|(key, fence)| (key, granted(fence))).collect())
    }

    /// Renews leases with their own term. Retry those neither renewed nor lost: another transaction had locked them.
    #[crate::boxed]
    pub async fn renew(&mut self, asked: &[(LeaseKey, Fence, Duration)]) -> Result<Renewed> {
        let keys: Vec<&LeaseKey> = asked.iter().map(|(key, ..)| key).collect();
        let locked: HashSet<(String, String)> = self.lease_lock_free(&keys).await?.into_iter().collect();
        let now = self.now().await?;
        let is_among = |set: &HashSet<(String, String)>, key: &LeaseKey| {
            set.contains(&(key.kind().to_owned(), key.name().to_owned()))
        };
        let renewals: Vec<_> = asked
            .iter()
            .filter(|(key, ..)| is_among(&locked, key))
            .map(|(key, fence, ttl)| (key, *fence, now.plus(*ttl)))
            .collect();
        let done: HashSet<(String, String)> = self.lease_renew(&renewals, now).await?.into_iter().collect();
        crash_point!("lease_renewed");
        let (renewed, lost) =
            renewals.into_iter().map(|(key, ..)| key.clone()).partition(|key| is_among(&done, key));
        Ok(Renewed { renewed, lost })
    }

    pub async fn of_process(&mut self, owner: ProcessId) -> Result<Vec<(LeaseKey, Fence)>> {
        let rows = self.lease_owned_by(owner).await?;
        Ok(rows.into_iter().map(|row| (row.key, Fence { owner, epoch: row.lease.epoch() })).collect())
    }

    /// False if it was no longer ours.
    pub async fn release(&mut self, key: &LeaseKey, fence: Fence) -> Result<bool> {
        let released = self.lease_release(key, fence).await? == 1;
        if released {
            self.wake(&freed_topic(key.kind()));
        }
        Ok(released)
    }

    /// Frees at most `limit` leases whose term has passed or whose process has ended.
    #[crate::boxed]
    pub async fn expire(&mut self, limit: u32) -> Result<Vec<Lapsed>> {
        let now = self.now().await?;
        let rows = self.lease_lock_lapsed(now, limit).await?;
        self.lease_free(&rows).await?;
        let mut lapsed = Vec::with_capacity(rows.len());
        for LeaseRecord { key, lease, .. } in rows {
            if let Lease::Held { fence, .. } = lease {
                self.wake(&freed_topic(key.kind()));
                lapsed.push(Lapsed { key, fence });
            }
        }
        Ok(lapsed)
    }

    /// Held leases first.
    #[crate::boxed]
    pub async fn list(&mut self, limit: u32) -> Result<Vec<LeaseRecord>> {
        let mut rows = self.lease_list(false, limit.into()).await?;
        // If many are held, the free ones are not read at all.
        let left = i64::from(limit) - rows.len() as i64;
        if left > 0 {
            rows.extend(self.lease_list(true, left).await?);
        }
        self.lease_records(rows).await
    }

    /// Takes no lock.
    pub async fn find(&mut self, key: &LeaseKey) -> Result<Option<LeaseRecord>> {
        let row = self.lease_find(key).await?;
        Ok(self.lease_records(row).await?.pop())
    }

    async fn lease_records(
        &mut self,
        rows: impl IntoIterator<Item = LeaseRecord>,
    ) -> Result<Vec<LeaseRecord>> {
        let mut owners: HashMap<ProcessId, Life> = HashMap::new();
        let now = self.now().await?;
        let mut records = Vec::new();
        for mut record in rows {
            if let Lease::Held { fence: Fence { owner, .. }, .. } = record.lease {
                if let Entry::Vacant(unknown) = owners.entry(owner) {
                    let process = self.process_by_id(owner).await?;
                    unknown.insert(life(process.as_ref(), now));
                }
                record.is_live = record.lease.is_live(owners[&owner], now);
            }
            records.push(record);
        }
        Ok(records)
    }
}

/// A missing process was pruned, long after its end.
fn life(process: Option<&ProcessRecord>, now: Timestamp) -> Life {
    match process {
        Some(process) if process.state.is_live(now) => Life::Alive,
        _ => Life::Gone,
    }
}

fn key(row: &Columns<'_>) -> Result<LeaseKey, sqlx::Error> {
    let (kind, name): (String, String) = (row.get("kind")?, row.get("name")?);
    row.checked("name", LeaseKey::new(&kind, &name).ok())
}

fn lease(row: &Columns<'_>) -> Result<Lease, sqlx::Error> {
    let epoch = row.get("epoch")?;
    Ok(match row.get("owner")? {
        None => Lease::Free { epoch },
        Some(owner) => Lease::Held { fence: Fence { owner, epoch }, until: row.get("until")? },
    })
}

fn key_json(key: &LeaseKey) -> Value {
    json!({ "kind": key.kind(), "name": key.name() })
}

fn fence_json(key: &LeaseKey, fence: Fence) -> Value {
    json!({ "kind": key.kind(), "name": key.name(), "epoch": fence.epoch.get(), "owner": DbId::from(fence.owner) })
}

statements! {
    /// Ensures that there are rows to lock.
    fn lease_insert_free(keys: &[LeaseKey]) -> () {
        bind(rows(keys, key_json))
        "insert into tidemill_lease (kind, name, epoch)
         select kind, name, 0 from {rows asked $1: kind text, name text} where true order by kind, name
         on conflict (kind, name) do nothing"
    }

    /// In the order of their keys.
    fn lease_lock_all(keys: &[LeaseKey]) -> Vec<LeaseRecord> {
        bind(rows(keys, key_json))
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
         where (kind, name) in (select kind, name from {rows asked $1: kind text, name text})
         order by kind, name {for update}"
    }

    fn lease_lock(key: &LeaseKey) -> Option<LeaseRecord> {
        bind(key.kind(), key.name())
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
         where kind = $1 and name = $2 {for update}"
    }

    /// Without a lock.
    fn lease_find(key: &LeaseKey) -> Option<LeaseRecord> {
        bind(key.kind(), key.name())
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
         where kind = $1 and name = $2"
    }

    fn lease_save_held(key: &LeaseKey, fence: Fence, until: Option<Timestamp>, now: Timestamp) -> () {
        bind(key.kind(), key.name(), fence.epoch, fence.owner, until, now)
        "update tidemill_lease set epoch = $3, owner = $4, until = $5, acquired_at = $6, renewed_at = $6
         where kind = $1 and name = $2"
    }

    /// Saves many leases of one process, for as long as it lives.
    fn lease_save_held_all(held: &[(LeaseKey, Fence)], now: Timestamp) -> () {
        bind(rows(held, |(key, fence)| fence_json(key, *fence)), now)
        "update tidemill_lease as l
         set epoch = asked.epoch, owner = asked.owner, until = null, acquired_at = $2, renewed_at = $2
         from {rows asked $1: kind text, name text, epoch bigint, owner uuid}
         where l.kind = asked.kind and l.name = asked.name"
    }

    /// Locks and returns those that are not locked: one busy lease must not keep the others from being renewed.
    fn lease_lock_free(keys: &[&LeaseKey]) -> Vec<(String, String)> {
        postgres {
            bind(rows(keys, |key| key_json(key)))
            "select kind, name from tidemill_lease
             where (kind, name) in (select kind, name from {rows asked $1: kind text, name text})
             order by kind, name for no key update skip locked"
        }
        sqlite |_connection| {
            // The one writer excludes all others, so none is locked.
            Ok(keys.iter().map(|key| (key.kind().to_owned(), key.name().to_owned())).collect())
        }
    }

    /// `lease::next` with `Renew` as one guarded statement, for many leases, each with its fence and new end.
    fn lease_renew(renewals: &[(&LeaseKey, Fence, Timestamp)], now: Timestamp) -> Vec<(String, String)> {
        bind(
            rows(renewals, |(key, fence, until)| {
                let mut row = fence_json(key, *fence);
                row["until"] = until.as_micros().into();
                row
            }),
            now,
        )
        "update tidemill_lease set until = {instant asked.until}, renewed_at = $2
         from {rows asked $1: kind text, name text, epoch bigint, owner uuid, until bigint}
         where tidemill_lease.kind = asked.kind
           and tidemill_lease.name = asked.name
           and tidemill_lease.epoch = asked.epoch
           and tidemill_lease.owner = asked.owner
           and tidemill_lease.until > $2
           and exists (
               select 1 from tidemill_process p
               where p.id = tidemill_lease.owner
                 and p.state = 'live'
                 and p.until > $2
           )
         returning tidemill_lease.kind, tidemill_lease.name"
    }

    /// `lease::next` with `Release` as one guarded statement.
    fn lease_release(key: &LeaseKey, fence: Fence) -> u64 {
        bind(key.kind(), key.name(), fence.owner, fence.epoch)
        "update tidemill_lease set owner = null, until = null, acquired_at = null
         where kind = $1 and name = $2 and owner = $3 and epoch = $4"
    }

    /// Releases a lease that will never be granted again, and deletes its row.
    fn lease_forget(key: &LeaseKey, fence: Fence) -> u64 {
        bind(key.kind(), key.name(), fence.owner, fence.epoch)
        "delete from tidemill_lease where kind = $1 and name = $2 and owner = $3 and epoch = $4"
    }

    /// The same for one that is free already.
    fn lease_forget_free(key: &LeaseKey) -> () {
        bind(key.kind(), key.name())
        "delete from tidemill_lease where kind = $1 and name = $2 and owner is null"
    }

    /// Locks in the order of the keys, so that two such statements cannot deadlock. Returns the kinds.
    fn lease_release_all(owner: ProcessId) -> Vec<String> {
        "with held as materialized (
             select kind, name
             from tidemill_lease
             where owner = $1
             order by kind, name
             {for update}
         )
         update tidemill_lease set owner = null, until = null, acquired_at = null
         where (kind, name) in (select kind, name from held) returning kind"
    }

    /// The fence: whether `fence` may still settle work under this lease. The answer holds until the end of this
    /// transaction, because a take-over has to wait for its lock. On `false`, roll back.
    pub fn Leases::confirm(key: &LeaseKey, fence: Fence) -> Exists {
        bind(key.kind(), key.name(), fence.owner, fence.epoch)
        "select 1 from tidemill_lease where kind = $1 and name = $2 and owner = $3 and epoch = $4
         {for key share}"
    }

    /// `lease::next` with `Expire` as one guarded statement, together with `lease_free`. A silent process counts as gone
    /// only once it was declared dead, under its own lock. The opposite condition (no live process) would miss a process
    /// that registered after this statement began.
    fn lease_lock_lapsed(now: Timestamp, limit: u32) -> Vec<LeaseRecord> {
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease l
         where owner is not null
           and (
               until <= $1
               or exists (
                   select 1 from tidemill_process p
                   where p.id = l.owner
                     and p.state <> 'live'
               )
           )
         order by kind, name limit $2 {for update skip locked}"
    }

    /// The rows are locked.
    fn lease_free(leases: &[LeaseRecord]) -> () {
        bind(rows(leases, |lease| key_json(&lease.key)))
        "update tidemill_lease set owner = null, until = null, acquired_at = null
         where (kind, name) in (select kind, name from {rows lapsed $1: kind text, name text})"
    }

    fn lease_owned_by(owner: ProcessId) -> Vec<LeaseRecord> {
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease where owner = $1"
    }

    /// The free or the held ones, in the order of the primary key, without sorting them all.
    fn lease_list(is_free: bool, limit: i64) -> Vec<LeaseRecord> {
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease where (owner is null) = $1
         order by kind, name limit $2"
    }
}
