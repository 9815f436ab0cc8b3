//! Profiles of compositions, and which compositions of renders nobody has described.

use crate::error::{StoreError, damaged};
use crate::tx::Renders;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::code::Code;
use tidemill_domain::render::Profile;

impl Renders<'_> {
    /// Brings profiles, which were checked; those that are there with the same composition are replaced. How many.
    #[crate::boxed]
    pub async fn save_profiles(&mut self, profiles: &[Profile], actor: &Actor) -> Result<u64, StoreError> {
        // Of two for one composition the later counts; one statement cannot write a row twice.
        let by_composition: BTreeMap<&str, &Profile> =
            profiles.iter().map(|profile| (profile.composition.as_str(), profile)).collect();
        let mut rows = Vec::with_capacity(by_composition.len());
        for (composition, profile) in by_composition {
            let definition = serde_json::to_string(profile);
            rows.push((composition, definition.map_err(|error| sqlx::Error::Encode(error.into()))?));
        }
        let now = self.now().await?;
        let count = self.render_profile_save(&rows, &actor.name, now.into()).await?;
        for (composition, _) in &rows {
            let object = object(composition);
            let entry = AuditEntry::new(actor.clone(), "render.profile.save", &object);
            self.audit_insert(&entry, now.into()).await?;
        }
        Ok(count)
    }

    pub async fn profiles(&mut self) -> Result<Vec<Profile>, StoreError> {
        self.render_profile_list(None).await?.iter().map(profile).collect()
    }

    pub async fn profile(&mut self, composition: &str) -> Result<Option<Profile>, StoreError> {
        self.render_profile_list(Some(composition)).await?.first().map(profile).transpose()
    }

    /// Forgets one. False when there is none.
    #[crate::boxed]
    pub async fn delete_profile(&mut self, composition: &str, actor: &Actor) -> Result<bool, StoreError> {
        if self.render_profile_delete(composition).await? == 0 {
            return Ok(false);
        }
        let entry = AuditEntry::new(actor.clone(), "render.profile.delete", &object(composition));
        self.audit().record(&entry).await?;
        Ok(true)
    }
}

fn profile((composition, definition): &(String, String)) -> Result<Profile, StoreError> {
    serde_json::from_str(definition).map_err(|_| damaged("render_profile", "definition", composition))
}

/// A profile, as the audit log names it.
fn object(composition: &str) -> String {
    format!("render/profile/{composition}")
}

/// What has failed for want of a profile is told for so long.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A composition that is not described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderGap {
    pub composition: String,
    /// How many renders want it.
    pub renders: u64,
    /// Whether it has a profile: without one it is not rendered.
    pub has_profile: bool,
    /// Whether any of its fields is mapped.
    pub has_mapping: bool,
}

impl Renders<'_> {
    /// Compositions of renders that have not ended, or failed in the last 24 hours because nobody knew them, which have no
    /// profile or no mapping; by name.
    #[crate::boxed]
    pub async fn gaps(&mut self) -> Result<Vec<RenderGap>, StoreError> {
        let since = self.now().await?.minus(DAY);
        let unknown = Code::UnknownComposition.to_string();
        let rows = self.render_gaps(&unknown, since.into()).await?;
        let gap = |(composition, renders, has_profile, has_mapping): (String, i64, bool, bool)| RenderGap {
            composition,
            renders: u64::try_from(renders).unwrap_or_default(),
            has_profile,
            has_mapping,
        };
        Ok(rows.into_iter().map(gap).collect())
    }
}
