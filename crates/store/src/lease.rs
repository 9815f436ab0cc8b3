//! Leases: load the row, apply the domain's rule, save; and the fence that every settling transaction passes.

use crate::crash_point;
use crate::error::Result;
use crate::process::ProcessRecord;
use crate::statement::{Columns, stored};
use crate::tx::{Leases, Renewal};
use std::collections::{HashMap, HashSet};
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRecord {
    pub key: LeaseKey,
    pub lease: Lease,
    /// Whether its owner may act on it now.
    pub is_live: bool,
    pub acquired_at: Option<Timestamp>,
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

    /// Renews leases that have their own term. Leases that are neither renewed nor lost were locked by another
    /// transaction: retry those.
    #[crate::boxed]
    pub async fn renew(&mut self, asked: &[(LeaseKey, Fence, Duration)]) -> Result<Renewed> {
        let keys: Vec<&LeaseKey> = asked.iter().map(|(key, ..)| key).collect();
        let locked: HashSet<(String, String)> = self.lease_lock_free(&keys).await?.into_iter().collect();
        let now = self.now().await?;
        let is_among = |set: &HashSet<(String, String)>, key: &LeaseKey| {
            set.contains(&(key.kind().to_owned(), key.name().to_owned()))
        };
        let renewals: Vec<Renewal<'_>> = asked
            .iter()
            .filter(|(key, ..)| is_among(&locked, key))
            .map(|(key, fence, ttl)| Renewal { key, fence: *fence, until: now.plus(*ttl) })
            .collect();
        let done: HashSet<(String, String)> = self.lease_renew(&renewals, now).await?.into_iter().collect();
        crash_point!("lease_renewed");
        let (renewed, lost) =
            renewals.iter().map(|asked| asked.key.clone()).partition(|key| is_among(&done, key));
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
        for LeaseRow { key, lease, .. } in rows {
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

    async fn lease_records(&mut self, rows: impl IntoIterator<Item = LeaseRow>) -> Result<Vec<LeaseRecord>> {
        let mut owners: HashMap<ProcessId, Life> = HashMap::new();
        let now = self.now().await?;
        let mut records = Vec::new();
        for LeaseRow { key, lease, acquired_at } in rows {
            let owner = match lease {
                Lease::Free { .. } => Life::Gone,
                Lease::Held { fence, .. } => match owners.get(&fence.owner) {
                    Some(known) => *known,
                    None => {
                        let process = self.process_by_id(fence.owner).await?;
                        let found = life(process.as_ref(), now);
                        owners.insert(fence.owner, found);
                        found
                    }
                },
            };
            records.push(LeaseRecord { key, lease, is_live: lease.is_live(owner, now), acquired_at });
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

stored! {
    pub(crate) struct LeaseRow in ("tidemill_lease", "kind/name") |row| {
        pub(crate) key: LeaseKey => key(row)?,
        pub(crate) lease: Lease => lease(row)?,
        acquired_at: Option<Timestamp>,
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
