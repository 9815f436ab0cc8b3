//! Statements on what renders show.

use crate::row::render::part::DataRow;
use sqlx::SqliteConnection;

pub(crate) async fn find(connection: &mut SqliteConnection, id: i64) -> Result<Option<DataRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, coalesce(gfx_data, 'null') as gfx_data, gfx_key_id
         from render_queue
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Those whose data, or a job made of it, is not under this key, by id.
pub(crate) async fn lock_others(
    connection: &mut SqliteConnection,
    key: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<DataRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, coalesce(gfx_data, 'null') as gfx_data, gfx_key_id
         from render_queue q
         where id > $2
           and (
               gfx_key_id is not $1
               or exists (
                   select 1 from render_attempt a
                   where a.render_id = q.id
                     and a.document is not null
                     and a.document_key_id is not $1
               )
           )
         order by id
         limit $3",
    )
    .bind(key)
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn save(
    connection: &mut SqliteConnection,
    id: i64,
    text: &str,
    key: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_queue
         set gfx_data = $2, gfx_key_id = $3, revision = revision + 1
         where id = $1",
    )
    .bind(id)
    .bind(text)
    .bind(key)
    .execute(connection)
    .await?;
    Ok(())
}
