//! Statements on compositions: `aep_field_mapping`, `render_profile` and `render_revision`.

use crate::statement::{One, rows, statements};
use serde_json::{Value, json};
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::time::Timestamp;

/// Renders to search for compositions without a profile.
const RENDERS_MAX: i64 = 10_000;

const GAPS_MAX: i64 = 50;

/// By column names.
fn mapping_json(row: &MappingRow) -> Value {
    json!({
        "composition_id": row.composition, "field_name": row.field_name, "layer_name": row.layer_name,
        "layer_composition": row.layer_composition, "property": row.property, "kind": row.kind.to_string(),
        "source": row.source, "optional": row.optional,
        "unused": row.unused.map(|unused| unused.to_string()),
    })
}

statements! {
    /// Goes through JSON records, which fit any column types of an adopted table.
    fn render_mapping_save(mappings: &[MappingRow]) -> u64 {
        postgres {
            bind(Value::from_iter(mappings.iter().map(mapping_json)).to_string())
            "insert into aep_field_mapping
                 (composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused)
             select r.composition_id, r.field_name, r.layer_name, r.layer_composition, r.property, r.kind, r.source,
                    r.optional, r.unused
             from jsonb_populate_recordset(null::aep_field_mapping, $1::jsonb) as r
             on conflict (composition_id, field_name) do update
             set layer_name = excluded.layer_name, layer_composition = excluded.layer_composition,
                 property = excluded.property, kind = excluded.kind, source = excluded.source,
                 optional = excluded.optional, unused = excluded.unused"
        }
        sqlite {
            for row in mappings
            bind(
                &row.composition, &row.field_name, &row.layer_name, &row.layer_composition, &row.property,
                row.kind.to_string(), &row.source, row.optional, row.unused.map(|unused| unused.to_string()),
            )
            "insert into aep_field_mapping
                 (composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
             on conflict (composition_id, field_name) do update
             set layer_name = excluded.layer_name, layer_composition = excluded.layer_composition,
                 property = excluded.property, kind = excluded.kind, source = excluded.source,
                 optional = excluded.optional, unused = excluded.unused"
        }
    }

    /// Of one composition, or of all, by composition and field. Skips empty rows of an adopted table.
    pub fn Renders::field_mappings(composition: Option<&str>) -> Vec<MappingRow> {
        "select composition_id{::text} as composition_id, field_name{::text} as field_name,
                layer_name{::text} as layer_name, layer_composition, property, kind, source, optional, unused
         from aep_field_mapping
         where ($1{::text} is null or composition_id{::text} = $1)
           and composition_id is not null
           and field_name is not null
           and layer_name is not null
         order by composition_id{::text} {collate C}, field_name{::text} {collate C}"
    }

    fn render_mapping_delete(composition: &str, field: Option<&str>) -> u64 {
        "delete from aep_field_mapping
         where composition_id{::text} = $1 and ($2{::text} is null or field_name = $2)"
    }

    fn render_profile_save(profiles: &[(&str, String)], by: &str, now: Timestamp) -> u64 {
        bind(
            rows(profiles, |(composition, definition)| json!({
                "composition": composition, "definition": definition,
            })),
            now, by,
        )
        "insert into render_profile (composition, definition, updated_at, updated_by)
         select composition, definition, $2, $3 from {rows new $1: composition text, definition text} where true
         on conflict (composition) do update
         set definition = excluded.definition, updated_at = excluded.updated_at, updated_by = excluded.updated_by"
    }

    fn render_profile_list(composition: Option<&str>) -> Vec<(String, String)> {
        "select composition, definition from render_profile where $1{::text} is null or composition = $1
         order by composition {collate C}"
    }

    fn render_profile_delete(composition: &str) -> u64 {
        "delete from render_profile where composition = $1"
    }

    /// Of mappings and of profiles.
    fn render_revision_find() -> One<(i64, i64)> {
        "select mappings, profiles from render_revision"
    }

    /// Compositions without a profile or mapping: of renders that have not ended, or that failed since then for this
    /// reason. Returns how many renders, and which of the two exists. Needs `render_queue_status` and
    /// `render_queue_ended`.
    fn render_gaps(unknown: &str, since: Timestamp) -> Vec<(String, i64, bool, bool)> {
        bind(unknown, since, RENDERS_MAX, GAPS_MAX)
        "select wanted.composition, wanted.count, wanted.has_profile, wanted.has_mapping
         from (
             select one.composition, count(*) as count,
                    exists (select 1 from render_profile p where p.composition = one.composition) as has_profile,
                    exists (
                        select 1 from aep_field_mapping m where m.composition_id{::text} = one.composition
                    ) as has_mapping
             from (
                 select *
                 from (select composition_id{::text} as composition
                       from render_queue
                       where status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
                       limit $3) as going
                 union all
                 select *
                 from (select composition_id{::text}
                       from render_queue
                       where ended_at > $2
                         and status = 'failed'
                         and error_code = $1
                       limit $3) as failed
             ) as one
             where one.composition is not null
             group by one.composition
         ) as wanted
         where not (wanted.has_profile and wanted.has_mapping)
         order by wanted.composition limit $4"
    }
}
