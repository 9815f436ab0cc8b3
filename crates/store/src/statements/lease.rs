//! Statements on `tidemill_lease`.
//!
//! Lock order: lease, then process. The strength of a lock says what it blocks: granting a lease takes `for update`;
//! settling under it takes `for key share`, which blocks a take-over but lets a renewal through.

use crate::codec::DbTime;
use crate::lease::LeaseRow;
use crate::statement::{Exists, column, statements};
use tidemill_domain::lease::{Fence, LeaseKey};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;

/// The new end, if the lease still has its fence.
pub(crate) struct Renewal<'a> {
    pub(crate) key: &'a LeaseKey,
    pub(crate) fence: Fence,
    pub(crate) until: DbTime,
}

statements! {
    /// Ensures that there is a row to lock.
    fn lease_insert_free(key: &LeaseKey) -> () {
        bind(key.kind(), key.name())
        "insert into tidemill_lease (kind, name, epoch) values ($1, $2, 0)
         on conflict (kind, name) do nothing"
    }

    fn lease_insert_free_all(keys: &[LeaseKey]) -> () {
        postgres {
            bind(column(keys, LeaseKey::kind), column(keys, LeaseKey::name))
            "insert into tidemill_lease (kind, name, epoch)
             select kind, name, 0 from unnest($1::text[], $2::text[]) as asked (kind, name)
             order by kind, name
             on conflict (kind, name) do nothing"
        }
        sqlite {
            for key in keys
            bind(key.kind(), key.name())
            "insert into tidemill_lease (kind, name, epoch) values ($1, $2, 0)
             on conflict (kind, name) do nothing"
        }
    }

    /// In the order of their keys.
    fn lease_lock_all(keys: &[LeaseKey]) -> Vec<LeaseRow> {
        postgres {
            bind(column(keys, LeaseKey::kind), column(keys, LeaseKey::name))
            "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
             where (kind, name) in (select kind, name from unnest($1::text[], $2::text[]) as asked (kind, name))
             order by kind, name for update"
        }
        sqlite {
            for key in keys
            bind(key.kind(), key.name())
            "select kind, name, epoch, owner, until, acquired_at from tidemill_lease
             where kind = $1 and name = $2"
        }
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
        postgres {
            bind(
                column(held, |(key, _)| key.kind()), column(held, |(key, _)| key.name()),
                column(held, |(_, fence)| fence.epoch.get()),
                column(held, |(_, fence)| fence.owner.as_uuid()), now,
            )
            "update tidemill_lease l
             set epoch = asked.epoch, owner = asked.owner, until = null, acquired_at = $5
             from unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) as asked (kind, name, epoch, owner)
             where l.kind = asked.kind and l.name = asked.name"
        }
        sqlite {
            for (key, fence) in held
            bind(key.kind(), key.name(), fence.epoch, fence.owner, now)
            "update tidemill_lease
             set epoch = $3, owner = $4, until = null, acquired_at = $5, renewed_at = $5
             where kind = $1 and name = $2"
        }
    }

    /// Locks and returns those that are not locked: one busy lease must not keep the others from being renewed.
    fn lease_lock_free(keys: &[&LeaseKey]) -> Vec<(String, String)> {
        postgres {
            bind(column(keys, |key| key.kind()), column(keys, |key| key.name()))
            "select kind, name from tidemill_lease
             where (kind, name) in (select kind, name from unnest($1::text[], $2::text[]) as asked (kind, name))
             order by kind, name for no key update skip locked"
        }
        sqlite |_connection| {
            // The one writer excludes all others, so none is locked.
            Ok(keys.iter().map(|key| (key.kind().to_owned(), key.name().to_owned())).collect())
        }
    }

    /// `lease::next` with `Renew` as one guarded statement, for many leases.
    fn lease_renew(renewals: &[Renewal<'_>], now: Timestamp) -> Vec<(String, String)> {
        postgres {
            bind(
                column(renewals, |asked| asked.key.kind()), column(renewals, |asked| asked.key.name()),
                column(renewals, |asked| asked.fence.epoch.get()),
                column(renewals, |asked| asked.fence.owner.as_uuid()),
                column(renewals, |asked| asked.until), now,
            )
            "update tidemill_lease l set until = asked.until, renewed_at = $6
             from unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[], $5::timestamptz[])
                 as asked (kind, name, epoch, owner, until)
             where l.kind = asked.kind
               and l.name = asked.name
               and l.epoch = asked.epoch
               and l.owner = asked.owner
               and l.until > $6
               and exists (
                   select from tidemill_process p
                   where p.id = l.owner
                     and p.state = 'live'
                     and p.until > $6
               )
             returning l.kind, l.name"
        }
        sqlite {
            for asked in renewals
            bind(
                asked.key.kind(), asked.key.name(), asked.fence.epoch, asked.fence.owner,
                asked.until, now,
            )
            "update tidemill_lease set until = $5, renewed_at = $6
             where kind = $1
               and name = $2
               and epoch = $3
               and owner = $4
               and until > $6
               and exists (
                   select 1 from tidemill_process p
                   where p.id = owner
                     and p.state = 'live'
                     and p.until > $6
               )
             returning kind, name"
        }
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

    /// `lease::next` with `Expire` as one guarded statement. A silent process counts as gone only once it was declared
    /// dead, under its own lock. The opposite condition (no live process) would miss a process that registered after
    /// this statement began. Returns the leases as they were.
    fn lease_expire(now: Timestamp, limit: u32) -> Vec<LeaseRow> {
        postgres {
            "with lapsed as materialized (
                 select kind, name, epoch, owner, until, acquired_at
                 from tidemill_lease l
                 where owner is not null
                   and (
                       until <= $1
                       or exists (
                           select from tidemill_process p
                           where p.id = l.owner
                             and p.state <> 'live'
                       )
                   )
                 order by kind, name
                 limit $2
                 for update skip locked
             ), freed as (
                 update tidemill_lease l
                 set owner = null, until = null, acquired_at = null
                 from lapsed
                 where l.kind = lapsed.kind
                   and l.name = lapsed.name
             )
             select kind, name, epoch, owner, until, acquired_at from lapsed"
        }
        sqlite |tx: Tx| {
            let lapsed = tx.lease_lapsed(now, limit).await?;
            tx.lease_free(&lapsed).await?;
            Ok(lapsed)
        }
    }

    /// On PostgreSQL a part of `lease_expire`.
    fn lease_lapsed(now: Timestamp, limit: u32) -> Vec<LeaseRow> {
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
         order by kind, name limit $2"
    }

    fn lease_free(leases: &[LeaseRow]) -> () {
        for lease in leases
        bind(lease.key.kind(), lease.key.name())
        "update tidemill_lease set owner = null, until = null, acquired_at = null
         where kind = $1 and name = $2"
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
