//! Statements on `tidemill_lease`.
//!
//! Lock order: lease, then process. The strength of a lock says what it blocks: granting a lease takes `for update`;
//! settling under it takes `for key share`, which blocks a take-over but lets a renewal through.

use crate::codec::DbId;
use crate::lease::LeaseRow;
use crate::statement::{Exists, rows, statements};
use serde_json::{Value, json};
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

/// The new end, if the lease still has its fence.
pub(crate) struct Renewal<'a> {
    pub(crate) key: &'a LeaseKey,
    pub(crate) fence: Fence,
    pub(crate) until: Timestamp,
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
    fn lease_lock_all(keys: &[LeaseKey]) -> Vec<LeaseRow> {
        bind(rows(keys, key_json))
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
         where (kind, name) in (select kind, name from {rows asked $1: kind text, name text})
         order by kind, name {for update}"
    }

    fn lease_lock(key: &LeaseKey) -> Option<LeaseRow> {
        bind(key.kind(), key.name())
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
         where kind = $1 and name = $2 {for update}"
    }

    /// Without a lock.
    fn lease_find(key: &LeaseKey) -> Option<LeaseRow> {
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

    /// `lease::next` with `Renew` as one guarded statement, for many leases.
    fn lease_renew(renewals: &[Renewal<'_>], now: Timestamp) -> Vec<(String, String)> {
        bind(
            rows(renewals, |asked| {
                let mut row = fence_json(asked.key, asked.fence);
                row["until"] = asked.until.as_micros().into();
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
    fn lease_lock_lapsed(now: Timestamp, limit: u32) -> Vec<LeaseRow> {
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
    fn lease_free(leases: &[LeaseRow]) -> () {
        bind(rows(leases, |lease| key_json(&lease.key)))
        "update tidemill_lease set owner = null, until = null, acquired_at = null
         where (kind, name) in (select kind, name from {rows lapsed $1: kind text, name text})"
    }

    fn lease_owned_by(owner: ProcessId) -> Vec<LeaseRow> {
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease where owner = $1"
    }

    /// The free or the held ones, in the order of the primary key, without sorting them all.
    fn lease_list(is_free: bool, limit: i64) -> Vec<LeaseRow> {
        "select kind, name, epoch, owner, until, acquired_at from tidemill_lease where (owner is null) = $1
         order by kind, name limit $2"
    }
}
