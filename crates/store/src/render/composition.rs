//! What is known of compositions: field mappings, in the document's table `aep_field_mapping`, and profiles.

use crate::error::{Result, damaged};
use crate::statement::{One, rows, statements, stored};
use crate::tx::Renders;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::code::Code;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::time::Timestamp;

stored! {
    /// Counters that grow with each change to mappings or profiles, also by SQL: caches compare them.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Revisions in ("render_revision", "mappings") {
        pub mappings: i64,
        pub profiles: i64,
    }
}

impl Renders<'_> {
    /// Saves rows, checked by `domain::render::mapping::read`; replaces those of the same fields. Returns how many.
    pub async fn save_field_mappings(&mut self, rows: &[MappingRow], actor: &Actor) -> Result<u64> {
        let count = self.render_mapping_save(rows).await?;
        self.audit_mapping(actor, "render.mapping.save", &format!("{count} rows")).await?;
        Ok(count)
    }

    /// Deletes the rows of a composition, or of one field. Returns how many.
    #[crate::boxed]
    pub async fn delete_field_mappings(
        &mut self,
        composition: &str,
        field: Option<&str>,
        actor: &Actor,
    ) -> Result<u64> {
        let count = self.render_mapping_delete(composition, field).await?;
        if count > 0 {
            let what = format!("{count} rows of {composition}");
            self.audit_mapping(actor, "render.mapping.delete", &what).await?;
        }
        Ok(count)
    }

    async fn audit_mapping(&mut self, actor: &Actor, action: &str, what: &str) -> Result<()> {
        self.audit().record(&AuditEntry::new(actor.clone(), action, "render/mapping").because(what)).await
    }
}

stored! {
    impl MappingRow in ("aep_field_mapping", "composition_id/field_name") {
        composition = "composition_id", field_name, layer_name, layer_composition, property, kind, source, optional,
        unused,
    }
}

impl Renders<'_> {
    /// Saves checked profiles; replaces those of the same composition. Returns how many.
    #[crate::boxed]
    pub async fn save_profiles(&mut self, profiles: &[Profile], actor: &Actor) -> Result<u64> {
        // Of two for one composition the later counts; one statement cannot write a row twice.
        let by_composition: BTreeMap<&str, &Profile> =
            profiles.iter().map(|profile| (profile.composition.as_str(), profile)).collect();
        let mut rows = Vec::with_capacity(by_composition.len());
        for (composition, profile) in by_composition {
            let definition = serde_json::to_string(profile);
            rows.push((composition, definition.map_err(|error| sqlx::Error::Encode(error.into()))?));
        }
        let now = self.now().await?;
        let count = self.render_profile_save(&rows, &actor.name, now).await?;
        for (composition, _) in &rows {
            let object = object(composition);
            let entry = AuditEntry::new(actor.clone(), "render.profile.save", &object);
            self.audit_insert(&entry, now).await?;
        }
        Ok(count)
    }

    pub async fn profiles(&mut self) -> Result<Vec<Profile>> {
        self.render_profile_list(None).await?.iter().map(profile).collect()
    }

    pub async fn profile(&mut self, composition: &str) -> Result<Option<Profile>> {
        self.render_profile_list(Some(composition)).await?.first().map(profile).transpose()
    }

    /// False if there is none.
    #[crate::boxed]
    pub async fn delete_profile(&mut self, composition: &str, actor: &Actor) -> Result<bool> {
        if self.render_profile_delete(composition).await? == 0 {
            return Ok(false);
        }
        let entry = AuditEntry::new(actor.clone(), "render.profile.delete", &object(composition));
        self.audit().record(&entry).await?;
        Ok(true)
    }
}

fn profile((composition, definition): &(String, String)) -> Result<Profile> {
    serde_json::from_str(definition).map_err(|_| damaged("render_profile", "definition", composition))
}

/// The audited object.
fn object(composition: &str) -> String {
    format!("render/profile/{composition}")
}

stored! {
    /// A composition without profile or mapping.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct RenderGap in ("render_queue", "composition") {
        pub composition: String,
        pub renders: u64,
        /// Without one it is not rendered.
        pub has_profile: bool,
        pub has_mapping: bool,
    }
}

/// Renders to search for compositions without a profile.
const RENDERS_MAX: i64 = 10_000;

const GAPS_MAX: i64 = 50;

/// Period for renders that failed without a profile.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// By column names.
fn mapping_json(row: &MappingRow) -> Value {
    json!({
        "composition_id": row.composition, "field_name": row.field_name, "layer_name": row.layer_name,
        "layer_composition": row.layer_composition, "property": row.property, "kind": row.kind.to_string(),
        "source": row.source, "optional": row.optional,
        "unused": row.unused.map(|unused| unused.to_string()),
    })
}

macro_rules! save_mappings {
    ($rows:literal) => {
        concat!(
            "insert into aep_field_mapping
                 (composition_id, field_name, layer_name, layer_composition, property, kind, source, optional, unused)
             select r.composition_id, r.field_name, r.layer_name, r.layer_composition, r.property, r.kind, r.source,
                    r.optional, r.unused
             from ", $rows, " where true
             on conflict (composition_id, field_name) do update
             set layer_name = excluded.layer_name, layer_composition = excluded.layer_composition,
                 property = excluded.property, kind = excluded.kind, source = excluded.source,
                 optional = excluded.optional, unused = excluded.unused"
        )
    };
}

statements! {
    /// On PostgreSQL through records of the table, which fit any column types of an adopted one.
    fn render_mapping_save(mappings: &[MappingRow]) -> u64 {
        postgres {
            bind(Value::from_iter(mappings.iter().map(mapping_json)).to_string())
            save_mappings!("jsonb_populate_recordset(null::aep_field_mapping, $1::jsonb) as r")
        }
        sqlite {
            bind(rows(mappings, mapping_json))
            save_mappings!(
                "{rows r $1: composition_id text, field_name text, layer_name text, layer_composition text,
                  property text, kind text, source text, optional boolean, unused text}"
            )
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

    /// A word that only this queue has.
    pub fn Renders::queue() -> One<String> {
        "select queue from render_revision"
    }

    pub fn Renders::revisions() -> One<Revisions> {
        "select mappings, profiles from render_revision"
    }

    /// Compositions without a profile or mapping, by name: of renders that have not ended, or that failed for this
    /// reason in the last 24 hours. Needs `render_queue_status` and `render_queue_ended`.
    pub fn Renders::gaps() at now -> Vec<RenderGap> {
        bind(Code::UnknownComposition.to_string(), now.minus(DAY), RENDERS_MAX, GAPS_MAX)
        "select wanted.composition, wanted.renders, wanted.has_profile, wanted.has_mapping
         from (
             select one.composition, count(*) as renders,
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
