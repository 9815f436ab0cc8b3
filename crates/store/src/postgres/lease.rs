//! Statements on `tidemill_lease`.
//!
//! Locks are always taken in the order lease, then process; whoever needs both keeps to it. The strength of a
//! lock says what it keeps out: who gives a lease to somebody takes it `for update`; who settles under it takes it
//! `for key share`, which keeps a take-over waiting but lets a renewal through.

use crate::codec::{DbId, DbTime};
use crate::row::LeaseRow;
use crate::tx::Renewal;
use sqlx::PgConnection;
use tidemill_domain::lease::{Fence, LeaseKey};

/// Makes sure that there is a row to lock.
pub(crate) async fn insert_free(connection: &mut PgConnection, key: &LeaseKey) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_lease (kind, name, epoch)
         values ($1, $2, 0)
         on conflict (kind, name) do nothing",
    )
    .bind(key.kind())
    .bind(key.name())
    .execute(connection)
    .await?;
    Ok(())
}

/// The same for many.
pub(crate) async fn insert_free_all(
    connection: &mut PgConnection,
    keys: &[LeaseKey],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_lease (kind, name, epoch)
         select kind, name, 0
         from unnest($1::text[], $2::text[]) as asked (kind, name)
         order by kind, name
         on conflict (kind, name) do nothing",
    )
    .bind(keys.iter().map(LeaseKey::kind).collect::<Vec<_>>())
    .bind(keys.iter().map(LeaseKey::name).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks many, in the order of their keys.
pub(crate) async fn lock_all(
    connection: &mut PgConnection,
    keys: &[LeaseKey],
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease
         where (kind, name) in (select kind, name from unnest($1::text[], $2::text[]) as asked (kind, name))
         order by kind, name
         for update",
    )
    .bind(keys.iter().map(LeaseKey::kind).collect::<Vec<_>>())
    .bind(keys.iter().map(LeaseKey::name).collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

pub(crate) async fn lock(
    connection: &mut PgConnection,
    key: &LeaseKey,
) -> Result<Option<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease
         where kind = $1
           and name = $2
         for update",
    )
    .bind(key.kind())
    .bind(key.name())
    .fetch_optional(connection)
    .await
}

/// Without a lock: for who only wants to see.
pub(crate) async fn find(
    connection: &mut PgConnection,
    key: &LeaseKey,
) -> Result<Option<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease
         where kind = $1
           and name = $2",
    )
    .bind(key.kind())
    .bind(key.name())
    .fetch_optional(connection)
    .await
}

pub(crate) async fn save_held(
    connection: &mut PgConnection,
    key: &LeaseKey,
    fence: Fence,
    until: Option<DbTime>,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_lease
         set epoch = $3, owner = $4, until = $5, acquired_at = $6, renewed_at = $6
         where kind = $1
           and name = $2",
    )
    .bind(key.kind())
    .bind(key.name())
    .bind(fence.epoch.get())
    .bind(DbId::from(fence.owner))
    .bind(until)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Saves many that one process has got, for as long as it lives.
pub(crate) async fn save_held_all(
    connection: &mut PgConnection,
    held: &[(LeaseKey, Fence)],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_lease l
         set epoch = asked.epoch, owner = asked.owner, until = null, acquired_at = $5
         from unnest($1::text[], $2::text[], $3::bigint[], $4::uuid[]) as asked (kind, name, epoch, owner)
         where l.kind = asked.kind
           and l.name = asked.name",
    )
    .bind(held.iter().map(|(key, _)| key.kind()).collect::<Vec<_>>())
    .bind(held.iter().map(|(key, _)| key.name()).collect::<Vec<_>>())
    .bind(held.iter().map(|(_, fence)| fence.epoch.get()).collect::<Vec<_>>())
    .bind(held.iter().map(|(_, fence)| fence.owner.as_uuid()).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks those that can be had at once, and returns them: one lease in somebody else's hands must not keep all
/// others from being renewed.
pub(crate) async fn lock_free(
    connection: &mut PgConnection,
    keys: &[&LeaseKey],
) -> Result<Vec<(String, String)>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name
         from tidemill_lease
         where (kind, name) in (select kind, name from unnest($1::text[], $2::text[]) as asked (kind, name))
         order by kind, name
         for no key update skip locked",
    )
    .bind(keys.iter().map(|key| key.kind()).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.name()).collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

/// One guarded statement for `lease::next` with `Renew`, for many leases at once.
pub(crate) async fn renew(
    connection: &mut PgConnection,
    renewals: &[Renewal<'_>],
    now: DbTime,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    sqlx::query_as(
        "update tidemill_lease l
         set until = asked.until, renewed_at = $6
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
         returning l.kind, l.name",
    )
    .bind(renewals.iter().map(|asked| asked.key.kind()).collect::<Vec<_>>())
    .bind(renewals.iter().map(|asked| asked.key.name()).collect::<Vec<_>>())
    .bind(renewals.iter().map(|asked| asked.fence.epoch.get()).collect::<Vec<_>>())
    .bind(renewals.iter().map(|asked| asked.fence.owner.as_uuid()).collect::<Vec<_>>())
    .bind(renewals.iter().map(|asked| asked.until).collect::<Vec<_>>())
    .bind(now)
    .fetch_all(connection)
    .await
}

/// One guarded statement for `lease::next` with `Release`.
pub(crate) async fn release(
    connection: &mut PgConnection,
    key: &LeaseKey,
    fence: Fence,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "update tidemill_lease
         set owner = null, until = null, acquired_at = null
         where kind = $1
           and name = $2
           and owner = $3
           and epoch = $4",
    )
    .bind(key.kind())
    .bind(key.name())
    .bind(DbId::from(fence.owner))
    .bind(fence.epoch.get())
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Releases a lease on what will never be leased again, so that its row need not be kept.
pub(crate) async fn forget(
    connection: &mut PgConnection,
    key: &LeaseKey,
    fence: Fence,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_lease
         where kind = $1
           and name = $2
           and owner = $3
           and epoch = $4",
    )
    .bind(key.kind())
    .bind(key.name())
    .bind(DbId::from(fence.owner))
    .bind(fence.epoch.get())
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// The same for one that is free already.
pub(crate) async fn forget_free(connection: &mut PgConnection, key: &LeaseKey) -> Result<(), sqlx::Error> {
    sqlx::query(
        "delete from tidemill_lease
         where kind = $1
           and name = $2
           and owner is null",
    )
    .bind(key.kind())
    .bind(key.name())
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks in the order of the keys, so that two who lock many do not wait for each other in a circle. Returns
/// the kinds.
pub(crate) async fn release_all(
    connection: &mut PgConnection,
    owner: DbId,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "with held as (
             select kind, name
             from tidemill_lease
             where owner = $1
             order by kind, name
             for update
         )
         update tidemill_lease l
         set owner = null, until = null, acquired_at = null
         from held
         where l.kind = held.kind
           and l.name = held.name
         returning l.kind",
    )
    .bind(owner)
    .fetch_all(connection)
    .await
}

/// The fence: a lock that a take-over has to wait for, so the answer holds until the transaction ends.
pub(crate) async fn confirm(
    connection: &mut PgConnection,
    key: &LeaseKey,
    fence: Fence,
) -> Result<bool, sqlx::Error> {
    let found: Option<i32> = sqlx::query_scalar(
        "select 1
         from tidemill_lease
         where kind = $1
           and name = $2
           and owner = $3
           and epoch = $4
         for key share",
    )
    .bind(key.kind())
    .bind(key.name())
    .bind(DbId::from(fence.owner))
    .bind(fence.epoch.get())
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}

/// One guarded statement for `lease::next` with `Expire`. A silent process counts as gone only once it has been
/// declared dead, because that was done under its own lock. Asked the other way round (no live process), a process
/// that registered after this statement began would look like none. Returns the leases as they were.
pub(crate) async fn expire(
    connection: &mut PgConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
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
         select kind, name, epoch, owner, until, acquired_at
         from lapsed",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn owned_by(
    connection: &mut PgConnection,
    owner: DbId,
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease
         where owner = $1",
    )
    .bind(owner)
    .fetch_all(connection)
    .await
}

/// Those that are free, or those that are held, in the order of the primary key: nobody reads and sorts them all.
pub(crate) async fn list(
    connection: &mut PgConnection,
    is_free: bool,
    limit: i64,
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease
         where (owner is null) = $1
         order by kind, name
         limit $2",
    )
    .bind(is_free)
    .bind(limit)
    .fetch_all(connection)
    .await
}
