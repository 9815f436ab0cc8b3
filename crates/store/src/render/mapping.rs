//! Field mappings, in the document's table `aep_field_mapping`.

use crate::error::StoreError;
use crate::row::damaged;
use crate::row::render::part::FieldMappingRow;
use crate::tx::Renders;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::render::mapping::MappingRow;

/// Numbers that grow whenever somebody changes a mapping or a profile, by us or by SQL: caches compare them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Revisions {
    pub mappings: i64,
    pub profiles: i64,
}

impl Renders<'_> {
    pub async fn revisions(&mut self) -> Result<Revisions, StoreError> {
        let (mappings, profiles) = self.render_revision_find().await?;
        Ok(Revisions { mappings, profiles })
    }

    /// Brings rows, which were checked (`domain::render::mapping::read`); those that are there with the same composition
    /// and field are replaced. How many.
    pub async fn save_field_mappings(
        &mut self,
        rows: &[MappingRow],
        actor: &Actor,
    ) -> Result<u64, StoreError> {
        let stored: Vec<FieldMappingRow> = rows.iter().map(stored).collect();
        let count = self.render_mapping_save(&stored).await?;
        self.audit_mapping(actor, "render.mapping.save", &format!("{count} rows")).await?;
        Ok(count)
    }

    /// The rows of one composition, or of all, by composition and field.
    pub async fn field_mappings(&mut self, composition: Option<&str>) -> Result<Vec<MappingRow>, StoreError> {
        self.render_mapping_list(composition).await?.into_iter().map(TryInto::try_into).collect()
    }

    /// Forgets the rows of a composition, or the one of a field. How many.
    pub async fn delete_field_mappings(
        &mut self,
        composition: &str,
        field: Option<&str>,
        actor: &Actor,
    ) -> Result<u64, StoreError> {
        let count = self.render_mapping_delete(composition, field).await?;
        if count > 0 {
            let what = format!("{count} rows of {composition}");
            self.audit_mapping(actor, "render.mapping.delete", &what).await?;
        }
        Ok(count)
    }

    async fn audit_mapping(&mut self, actor: &Actor, action: &str, what: &str) -> Result<(), StoreError> {
        self.audit().record(&AuditEntry::new(actor.clone(), action, "render/mapping").because(what)).await
    }
}

fn stored(row: &MappingRow) -> FieldMappingRow {
    FieldMappingRow {
        composition_id: row.composition.clone(),
        field_name: row.field_name.clone(),
        layer_name: row.layer_name.clone(),
        layer_composition: row.layer_composition.clone(),
        property: row.property.clone(),
        kind: row.kind.to_string(),
        source: row.source.clone(),
        optional: row.optional,
        unused: row.unused.map(|unused| unused.to_string()),
    }
}

impl TryFrom<FieldMappingRow> for MappingRow {
    type Error = StoreError;

    fn try_from(row: FieldMappingRow) -> Result<Self, StoreError> {
        let broken = |column| {
            damaged("aep_field_mapping", column, format!("{}/{}", row.composition_id, row.field_name))
        };
        let kind = row.kind.parse().map_err(|_| broken("kind"))?;
        let unused = row.unused.as_deref().map(str::parse).transpose().map_err(|_| broken("unused"))?;
        Ok(Self {
            composition: row.composition_id,
            field_name: row.field_name,
            layer_name: row.layer_name,
            layer_composition: row.layer_composition,
            property: row.property,
            kind,
            source: row.source,
            optional: row.optional,
            unused,
        })
    }
}
