//! Profiles of compositions.

use crate::error::{StoreError, damaged};
use crate::tx::Renders;
use std::collections::BTreeMap;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::render::Profile;

impl Renders<'_> {
    /// Brings profiles, which were checked; those that are there with the same composition are replaced. How many.
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
    pub async fn delete_profile(&mut self, composition: &str, actor: &Actor) -> Result<bool, StoreError> {
        if self.render_profile_delete(composition).await? == 0 {
            return Ok(false);
        }
        self.audit()
            .record(&AuditEntry::new(actor.clone(), "render.profile.delete", &object(composition)))
            .await?;
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
