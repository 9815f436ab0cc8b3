//! Statements on `tidemill_lease`.

use crate::codec::{DbId, DbTime};
use crate::row::LeaseRow;
use crate::tx::Renewal;
use sqlx::SqliteConnection;
use tidemill_domain::lease::{Fence, LeaseKey};

/// Makes sure that there is a row to lock.
pub(crate) async fn insert_free(
    connection: &mut SqliteConnection,
    key: &LeaseKey,
) -> Result<(), sqlx::Error> {
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
    connection: &mut SqliteConnection,
    keys: &[LeaseKey],
) -> Result<(), sqlx::Error> {
    for key in keys {
        insert_free(&mut *connection, key).await?;
    }
    Ok(())
}

/// Reads many; the one writer's transaction keeps everybody out.
pub(crate) async fn lock_all(
    connection: &mut SqliteConnection,
    keys: &[LeaseKey],
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        rows.extend(lock(&mut *connection, key).await?);
    }
    Ok(rows)
}

pub(crate) async fn lock(
    connection: &mut SqliteConnection,
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

/// Without a lock: for who only wants to see.
pub(crate) async fn find(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
    held: &[(LeaseKey, Fence)],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    for (key, fence) in held {
        save_held(&mut *connection, key, *fence, None, now).await?;
    }
    Ok(())
}

/// The one writer's transaction keeps everybody out by itself, so all can be had.
pub(crate) async fn lock_free(
    _connection: &mut SqliteConnection,
    keys: &[&LeaseKey],
) -> Result<Vec<(String, String)>, sqlx::Error> {
    Ok(keys.iter().map(|key| (key.kind().to_owned(), key.name().to_owned())).collect())
}

/// One guarded statement for `lease::next` with `Renew`, once per lease.
pub(crate) async fn renew(
    connection: &mut SqliteConnection,
    renewals: &[Renewal<'_>],
    now: DbTime,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    let mut renewed = Vec::with_capacity(renewals.len());
    for asked in renewals {
        let row: Option<(String, String)> = sqlx::query_as(
            "update tidemill_lease
             set until = $5, renewed_at = $6
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
             returning kind, name",
        )
        .bind(asked.key.kind())
        .bind(asked.key.name())
        .bind(asked.fence.epoch.get())
        .bind(DbId::from(asked.fence.owner))
        .bind(asked.until)
        .bind(now)
        .fetch_optional(&mut *connection)
        .await?;
        renewed.extend(row);
    }
    Ok(renewed)
}

/// One guarded statement for `lease::next` with `Release`.
pub(crate) async fn release(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
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
pub(crate) async fn forget_free(
    connection: &mut SqliteConnection,
    key: &LeaseKey,
) -> Result<(), sqlx::Error> {
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

/// Returns the kinds.
pub(crate) async fn release_all(
    connection: &mut SqliteConnection,
    owner: DbId,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "update tidemill_lease
         set owner = null, until = null, acquired_at = null
         where owner = $1
         returning kind",
    )
    .bind(owner)
    .fetch_all(connection)
    .await
}

/// The fence. No take-over can happen while this transaction holds the write lock.
pub(crate) async fn confirm(
    connection: &mut SqliteConnection,
    key: &LeaseKey,
    fence: Fence,
) -> Result<bool, sqlx::Error> {
    let found: Option<i32> = sqlx::query_scalar(
        "select 1
         from tidemill_lease
         where kind = $1
           and name = $2
           and owner = $3
           and epoch = $4",
    )
    .bind(key.kind())
    .bind(key.name())
    .bind(DbId::from(fence.owner))
    .bind(fence.epoch.get())
    .fetch_optional(connection)
    .await?;
    Ok(found.is_some())
}

/// The guarded statements for `lease::next` with `Expire`. A silent process counts as gone only once it has been
/// declared dead, as on PostgreSQL. Returns the leases as they were.
pub(crate) async fn expire(
    connection: &mut SqliteConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<LeaseRow>, sqlx::Error> {
    let lapsed: Vec<LeaseRow> = sqlx::query_as(
        "select kind, name, epoch, owner, until, acquired_at
         from tidemill_lease l
         where owner is not null
           and (
               until <= $1
               or exists (
                   select 1 from tidemill_process p
                   where p.id = l.owner
                     and p.state <> 'live'
               )
           )
         order by kind, name
         limit $2",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(&mut *connection)
    .await?;
    for row in &lapsed {
        sqlx::query(
            "update tidemill_lease
             set owner = null, until = null, acquired_at = null
             where kind = $1
               and name = $2",
        )
        .bind(&row.kind)
        .bind(&row.name)
        .execute(&mut *connection)
        .await?;
    }
    Ok(lapsed)
}

pub(crate) async fn owned_by(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
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
