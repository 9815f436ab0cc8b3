//! Statements on what is known of compositions: `aep_field_mapping`, `render_profile` and `render_revision`.

use crate::codec::DbTime;
use crate::row::render::part::{FieldMappingRow, ProfileRow};
use crate::tx::GapMost;
use serde_json::{Value, json};
use sqlx::PgConnection;

/// Whatever types an adopted table has, the records find them.
pub(crate) async fn mapping_save(
    connection: &mut PgConnection,
    rows: &[FieldMappingRow],
) -> Result<u64, sqlx::Error> {
    let given: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "composition_id": row.composition_id,
                "field_name": row.field_name,
                "layer_name": row.layer_name,
                "layer_composition": row.layer_composition,
                "property": row.property,
                "kind": row.kind,
                "source": row.source,
                "optional": row.optional,
                "unused": row.unused,
            })
        })
        .collect();
    let done = sqlx::query(
        "insert into aep_field_mapping
             (composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused)
         select r.composition_id, r.field_name, r.layer_name, r.layer_composition, r.property, r.kind, r.source,
                r.optional, r.unused
         from jsonb_populate_recordset(null::aep_field_mapping, $1::jsonb) as r
         on conflict (composition_id, field_name) do update
         set layer_name = excluded.layer_name, layer_composition = excluded.layer_composition,
             property = excluded.property, kind = excluded.kind, source = excluded.source,
             optional = excluded.optional, unused = excluded.unused",
    )
    .bind(Value::from(given).to_string())
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// By composition and field. Rows of an adopted table that say nothing are left out.
pub(crate) async fn mapping_list(
    connection: &mut PgConnection,
    composition: Option<&str>,
) -> Result<Vec<FieldMappingRow>, sqlx::Error> {
    sqlx::query_as(
        r#"select composition_id::text as composition_id, field_name::text as field_name,
                  layer_name::text as layer_name, layer_composition, property, kind, source, optional, unused
           from aep_field_mapping
           where ($1::text is null or composition_id::text = $1)
             and composition_id is not null
             and field_name is not null
             and layer_name is not null
           order by composition_id::text collate "C", field_name::text collate "C""#,
    )
    .bind(composition)
    .fetch_all(connection)
    .await
}

pub(crate) async fn mapping_delete(
    connection: &mut PgConnection,
    composition: &str,
    field: Option<&str>,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from aep_field_mapping
         where composition_id::text = $1
           and ($2::text is null or field_name = $2)",
    )
    .bind(composition)
    .bind(field)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn profile_save(
    connection: &mut PgConnection,
    rows: &[ProfileRow],
    by: &str,
    now: DbTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into render_profile (composition, definition, updated_at, updated_by)
         select p.composition, p.definition, $3, $4
         from unnest($1::text[], $2::text[]) as p (composition, definition)
         on conflict (composition) do update
         set definition = excluded.definition, updated_at = excluded.updated_at, updated_by = excluded.updated_by",
    )
    .bind(rows.iter().map(|row| row.composition.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.definition.as_str()).collect::<Vec<_>>())
    .bind(now)
    .bind(by)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// By composition.
pub(crate) async fn profile_list(
    connection: &mut PgConnection,
    composition: Option<&str>,
) -> Result<Vec<ProfileRow>, sqlx::Error> {
    sqlx::query_as(
        r#"select composition, definition
           from render_profile
           where $1::text is null or composition = $1
           order by composition collate "C""#,
    )
    .bind(composition)
    .fetch_all(connection)
    .await
}

pub(crate) async fn profile_delete(
    connection: &mut PgConnection,
    composition: &str,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query("delete from render_profile where composition = $1")
        .bind(composition)
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Of mappings and of profiles.
pub(crate) async fn revisions(connection: &mut PgConnection) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as("select mappings, profiles from render_revision").fetch_one(connection).await
}

/// Compositions of renders that have not ended, or that failed since then because nobody knew them, which have no profile
/// or no mapping: how many such renders there are, and what there is. Needs `render_queue_status` and
/// `render_queue_ended`.
pub(crate) async fn gaps(
    connection: &mut PgConnection,
    unknown: &str,
    since: DbTime,
    most: GapMost,
) -> Result<Vec<(String, i64, bool, bool)>, sqlx::Error> {
    sqlx::query_as(
        "select wanted.composition, wanted.count, wanted.has_profile, wanted.has_mapping
         from (
             select one.composition, count(*) as count,
                    exists (select from render_profile p where p.composition = one.composition) as has_profile,
                    exists (select from aep_field_mapping m where m.composition_id::text = one.composition) as has_mapping
             from (
                 (select composition_id::text as composition
                  from render_queue
                  where status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
                  limit $3)
                 union all
                 (select composition_id::text
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
