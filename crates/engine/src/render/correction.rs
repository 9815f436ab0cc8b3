//! Corrections: a render that has ended is rendered again with other data, which is checked like that of a new render.

use super::{BadMaterial, Material};
use serde_json::Value;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::gfx::BadGfx;
use tidemill_domain::render::order::{check_revision, correct};
use tidemill_domain::render::{AllowList, RenderId, edit};
use tidemill_store::Tx;
use tidemill_store::render::RenderChanged;

/// What to change. Without a change the same data is rendered again.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Correction {
    /// The whole data as JSON, in place of what there is.
    pub data: Option<String>,
    /// Single values, by their paths.
    pub set: Vec<(String, Value)>,
    /// The revision that somebody has looked at; refused if there is a later one.
    pub revision: Option<i64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Corrected {
    pub changed: RenderChanged,
    /// What of the template stays empty.
    pub warnings: Vec<String>,
}

impl Correction {
    /// Needs a transaction. Without an allow list, workers check what may be used.
    #[crate::boxed]
    pub async fn apply(
        &self,
        tx: &mut Tx,
        id: RenderId,
        allow: Option<&AllowList>,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<Corrected, BadMaterial> {
        let refused = |changed| Ok(Corrected { changed, warnings: Vec::new() });
        let (found, now) = (tx.renders().find(id).await?, tx.now().await?);
        let Some(record) = found else { return refused(RenderChanged::NoSuchRender) };
        let revision = self.revision.unwrap_or(record.revision);
        let possible = check_revision(revision, record.revision).and_then(|()| correct(&record.render, now));
        if let Err(refusal) = possible {
            return refused(RenderChanged::Refused(refusal));
        }
        let current = tx.renders().data(id).await?.unwrap_or_default();
        let text = self.corrected(current)?;
        let material = Material::read(tx, &text, record.composition.as_deref()).await?;
        material.check(allow)?;
        let changed = tx.renders().correct(id, record.revision, &material.data, actor, reason).await?;
        Ok(Corrected { changed, warnings: material.warnings() })
    }

    fn corrected(&self, current: String) -> Result<String, BadGfx> {
        let text = self.data.clone().unwrap_or(current);
        if self.set.is_empty() {
            return Ok(text);
        }
        let mut data: Value =
            serde_json::from_str(&text).map_err(|error| BadGfx::NotJson { why: error.to_string() })?;
        for (path, value) in &self.set {
            edit::set(&mut data, path, value.clone())?;
        }
        Ok(data.to_string())
    }
}
