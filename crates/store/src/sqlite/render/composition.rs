//! Statements on what is known of compositions: `aep_field_mapping`, `render_profile` and `render_revision`.

use crate::codec::DbTime;
use crate::row::render::part::{FieldMappingRow, ProfileRow};
use crate::tx::GapMost;
use sqlx::SqliteConnection;

pub(crate) async fn mapping_save(
    connection: &mut SqliteConnection,
    rows: &[FieldMappingRow],
) -> Result<u64, sqlx::Error> {
    let mut count = 0;
    for row in rows {
        let done = sqlx::query(
            "insert into aep_field_mapping
                 (composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             on conflict (composition_id, field_name) do update
             set layer_name = excluded.layer_name, layer_composition = excluded.layer_composition,
                 property = excluded.property, kind = excluded.kind, source = excluded.source,
                 optional = excluded.optional, unused = excluded.unused",
        )
        .bind(&row.composition_id)
        .bind(&row.field_name)
        .bind(&row.layer_name)
        .bind(&row.layer_composition)
        .bind(&row.property)
        .bind(&row.kind)
        .bind(&row.source)
        .bind(row.optional)
        .bind(&row.unused)
        .execute(&mut *connection)
        .await?;
        count += done.rows_affected();
    }
    Ok(count)
}

/// By composition and field.
pub(crate) async fn mapping_list(
    connection: &mut SqliteConnection,
    composition: Option<&str>,
) -> Result<Vec<FieldMappingRow>, sqlx::Error> {
    sqlx::query_as(
        "select composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused
         from aep_field_mapping
         where $1 is null or composition_id = $1
         order by composition_id, field_name",
    )
    .bind(composition)
    .fetch_all(connection)
    .await
}

pub(crate) async fn mapping_delete(
    connection: &mut SqliteConnection,
    composition: &str,
    field: Option<&str>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from aep_field_mapping
         where composition_id = $1
           and ($2 is null or field_name = $2)",
    )
    .bind(composition)
    .bind(field)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn profile_save(
    connection: &mut SqliteConnection,
    rows: &[ProfileRow],
    by: &str,
    now: DbTime,
) -> Result<u64, sqlx::Error> {
    let mut count = 0;
    for row in rows {
        let done = sqlx::query(
            "insert into render_profile (composition, definition, updated_at, updated_by)
             values ($1, $2, $3, $4)
             on conflict (composition) do update
             set definition = excluded.definition, updated_at = excluded.updated_at,
                 updated_by = excluded.updated_by",
        )
        .bind(&row.composition)
        .bind(&row.definition)
        .bind(now)
        .bind(by)
        .execute(&mut *connection)
        .await?;
        count += done.rows_affected();
    }
    Ok(count)
}

/// By composition.
pub(crate) async fn profile_list(
    connection: &mut SqliteConnection,
    composition: Option<&str>,
) -> Result<Vec<ProfileRow>, sqlx::Error> {
    sqlx::query_as(
        "select composition, definition
         from render_profile
         where $1 is null or composition = $1
         order by composition",
    )
    .bind(composition)
    .fetch_all(connection)
    .await
}

pub(crate) async fn profile_delete(
    connection: &mut SqliteConnection,
    composition: &str,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from render_profile where composition = $1")
        .bind(composition)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Of mappings and of profiles.
pub(crate) async fn revisions(connection: &mut SqliteConnection) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as("select mappings, profiles from render_revision").fetch_one(connection).await
}

/// Compositions of renders that have not ended, or that failed since then because nobody knew them, which have no profile
/// or no mapping: how many such renders there are, and what there is. Needs `render_queue_status` and
/// `render_queue_ended`.
pub(crate) async fn gaps(
    connection: &mut SqliteConnection,
    unknown: &str,
    since: DbTime,
    most: GapMost,
) -> Result<Vec<(String, i64, bool, bool)>, sqlx::Error> {
    sqlx::query_as(
        "select wanted.composition, wanted.count, wanted.has_profile, wanted.has_mapping
         from (
             select one.composition, count(*) as count,
                    exists (select 1 from render_profile p where p.composition = one.composition) as has_profile,
                    exists (select 1 from aep_field_mapping m where m.composition_id = one.composition) as has_mapping
             from (
                 select *
                 from (select composition_id as composition
                       from render_queue
                       where status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
                       limit $3)
                 union all
                 select *
                 from (select composition_id
                       from render_queue
                       where ended_at > $2
                         and status = 'failed'
                         and error_code = $1
                       limit $3)
             ) as one
             where one.composition is not null
             group by one.composition
         ) as wanted
         where not (wanted.has_profile and wanted.has_mapping)
         order by wanted.composition
         limit $4",
    )
    .bind(unknown)
    .bind(since)
    .bind(most.renders)
    .bind(most.told)
    .fetch_all(connection)
    .await
}
