//! Field mappings, in the document's table `aep_field_mapping`.

use crate::error::Result;
use crate::statement::{Columns, Stored};
use crate::tx::Renders;
use tidemill_domain::audit::{Actor, AuditEntry};
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
