//! Statements on `render_worker`.

use crate::codec::{DbId, DbTime};
use crate::row::render::part::WorkerRow;
use sqlx::PgConnection;

pub(crate) async fn save(connection: &mut PgConnection, row: &WorkerRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into render_worker (process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (process) do update
         set name = excluded.name, capacity = excluded.capacity, in_flight = excluded.in_flight,
             state = excluded.state, seen_at = excluded.seen_at, farm_micros = excluded.farm_micros,
             copy_micros = excluded.copy_micros",
    )
    .bind(row.process)
    .bind(&row.name)
    .bind(row.capacity)
    .bind(row.in_flight)
    .bind(&row.state)
    .bind(row.seen_at)
    .bind(row.farm_micros)
    .bind(row.copy_micros)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn delete(connection: &mut PgConnection, process: DbId) -> Result<(), sqlx::Error> {
    sqlx::query("delete from render_worker where process = $1").bind(process).execute(connection).await?;
    Ok(())
}

/// Forgets those that have not been heard of since `before`.
pub(crate) async fn prune(connection: &mut PgConnection, before: DbTime) -> Result<(), sqlx::Error> {
    sqlx::query("delete from render_worker where seen_at < $1").bind(before).execute(connection).await?;
    Ok(())
}

/// By name.
pub(crate) async fn list(
    connection: &mut PgConnection,
    since: DbTime,
) -> Result<Vec<WorkerRow>, sqlx::Error> {
    sqlx::query_as(
        "select process, name, capacity, in_flight, state, seen_at, farm_micros, copy_micros
         from render_worker
         where seen_at >= $1
         order by name, process",
    )
    .bind(since)
    .fetch_all(connection)
    .await
}
