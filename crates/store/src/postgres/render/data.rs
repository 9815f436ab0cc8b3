//! Statements on what renders show.

use crate::row::render::part::DataRow;
use sqlx::PgConnection;

pub(crate) async fn find(connection: &mut PgConnection, id: i64) -> Result<Option<DataRow>, sqlx::Error> {
    sqlx::query_as(
        "select id::bigint as id, coalesce(gfx_data::text, 'null') as gfx_data, gfx_key_id
         from render_queue
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Locks those whose data, or a job made of it, is not under this key, by id.
pub(crate) async fn lock_others(
    connection: &mut PgConnection,
    key: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<DataRow>, sqlx::Error> {
    sqlx::query_as(
        "select id::bigint as id, coalesce(gfx_data::text, 'null') as gfx_data, gfx_key_id
         from render_queue q
         where id > $2
           and (
               gfx_key_id is distinct from $1
               or exists (
                   select from render_attempt a
                   where a.render_id = q.id
                     and a.document is not null
                     and a.document_key_id is distinct from $1
               )
           )
         order by id
         limit $3
         for update",
    )
    .bind(key)
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Whatever type an adopted table has, the record finds it.
pub(crate) async fn save(
    connection: &mut PgConnection,
    id: i64,
    text: &str,
    key: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_queue
         set gfx_data = (
                 select r.gfx_data
                 from jsonb_populate_record(null::render_queue, jsonb_build_object('gfx_data', $2::jsonb)) as r
             ),
             gfx_key_id = $3, revision = revision + 1
         where id = $1",
    )
    .bind(id)
    .bind(text)
    .bind(key)
    .execute(connection)
    .await?;
    Ok(())
}
