//! Statements on `render_leftover`.

use crate::codec::DbTime;
use crate::row::render::part::LeftoverRow;
use crate::tx::NewLeftover;
use sqlx::SqliteConnection;

/// One that is there already stays as it is.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    row: &NewLeftover<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into render_leftover
             (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (render_id, epoch) do nothing",
    )
    .bind(row.render_id)
    .bind(row.epoch)
    .bind(row.nexrender_job_id)
    .bind(row.staged_path)
    .bind(row.slot)
    .bind(row.file)
    .bind(row.since)
    .bind(row.look_after)
    .execute(connection)
    .await?;
    Ok(())
}

/// Takes those that are due; nobody else does before `look_after`.
pub(crate) async fn take(
    connection: &mut SqliteConnection,
    now: DbTime,
    look_after: DbTime,
    limit: i64,
) -> Result<Vec<LeftoverRow>, sqlx::Error> {
    sqlx::query_as(
        "update render_leftover
         set look_after = $2
         where (render_id, epoch) in (
             select render_id, epoch
             from render_leftover
             where look_after <= $1
             order by look_after
             limit $3
         )
         returning render_id, epoch, nexrender_job_id, staged_path, slot, file, since",
    )
    .bind(now)
    .bind(look_after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn keep(
    connection: &mut SqliteConnection,
    id: i64,
    epoch: i64,
    look_after: DbTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "update render_leftover
         set look_after = $3
         where render_id = $1
           and epoch = $2",
    )
    .bind(id)
    .bind(epoch)
    .bind(look_after)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delete(
    connection: &mut SqliteConnection,
    id: i64,
    epoch: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from render_leftover
         where render_id = $1
           and epoch = $2",
    )
    .bind(id)
    .bind(epoch)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn count(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from render_leftover").fetch_one(connection).await
}
