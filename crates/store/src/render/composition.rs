//! What is known of compositions: field mappings, in the document's table `aep_field_mapping`, and profiles.

use crate::error::{Result, damaged};
use crate::statement::{Columns, Stored};
use crate::tx::Renders;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::code::Code;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;

/// Counters that grow with each change to mappings or profiles, also by SQL: caches compare them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revisions {
    pub mappings: i64,
    pub profiles: i64,
}

impl Renders<'_> {
    pub async fn revisions(&mut self) -> Result<Revisions> {
        let (mappings, profiles) = self.render_revision_find().await?;
        Ok(Revisions { mappings, profiles })
    }

    /// Saves rows, checked by `domain::render::mapping::read`; replaces those with the same composition and field.
    /// Returns how many.
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

impl Stored for MappingRow {
    const PLACE: (&'static str, &'static str) = ("aep_field_mapping", "composition_id/field_name");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            composition: row.get("composition_id")?,
            field_name: row.get("field_name")?,
            layer_name: row.get("layer_name")?,
            layer_composition: row.get("layer_composition")?,
            property: row.get("property")?,
            kind: row.get("kind")?,
            source: row.get("source")?,
            optional: row.get("optional")?,
            unused: row.get("unused")?,
        })
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

/// Period for renders that failed without a profile.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A composition without profile or mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderGap {
    pub composition: String,
    pub renders: u64,
    /// Without one it is not rendered.
    pub has_profile: bool,
    pub has_mapping: bool,
}

impl Renders<'_> {
    /// Compositions without a profile or mapping, by name: of renders that have not ended, or that failed for this
    /// reason in the last 24 hours.
    #[crate::boxed]
    pub async fn gaps(&mut self) -> Result<Vec<RenderGap>> {
        let since = self.now().await?.minus(DAY);
        let unknown = Code::UnknownComposition.to_string();
        let rows = self.render_gaps(&unknown, since).await?;
        let gap = |(composition, renders, has_profile, has_mapping): (String, i64, bool, bool)| RenderGap {
            composition,
            renders: u64::try_from(renders).unwrap_or_default(),
            has_profile,
            has_mapping,
        };
        Ok(rows.into_iter().map(gap).collect())
    }
}
