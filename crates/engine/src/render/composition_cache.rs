//! Cache of profiles and mappings, for up to an hour. Changing one changes a revision in the database, which is checked
//! on every use.

use crate::locked;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::render::mapping::{self, BadMapping};
use tidemill_domain::render::{Mapping, Profile};
use tidemill_domain::time::Monotonic;
use tidemill_store::render::Revisions;
use tidemill_store::{Store, StoreError};

const KEPT_FOR: Duration = Duration::from_secs(3600);

const KEPT_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Composition {
    /// None if it has no profile.
    pub(super) profile: Option<Profile>,
    pub(super) mapping: Result<Mapping, BadMapping>,
}

#[derive(Debug, Default)]
pub(super) struct CompositionCache {
    kept: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    revisions: Option<Revisions>,
    known: HashMap<String, (Monotonic, Arc<Composition>)>,
}

impl CacheState {
    fn find(&mut self, composition: &str, revisions: Revisions, now: Monotonic) -> Option<Arc<Composition>> {
        if self.revisions != Some(revisions) {
            self.known.clear();
            self.revisions = Some(revisions);
        }
        self.known.retain(|_, (since, _)| now.since(*since) < KEPT_FOR);
        self.known.get(composition).map(|(_, known)| known.clone())
    }

    fn keep(&mut self, composition: &str, revisions: Revisions, now: Monotonic, known: &Arc<Composition>) {
        if self.revisions == Some(revisions) && self.known.len() < KEPT_MAX {
            self.known.insert(composition.to_owned(), (now, known.clone()));
        }
    }
}

impl CompositionCache {
    pub(super) async fn of(
        &self,
        store: &Store,
        composition: &str,
        now: Monotonic,
    ) -> Result<Arc<Composition>, StoreError> {
        let mut tx = store.read().await?;
        let revisions = tx.renders().revisions().await?;
        let kept = locked(&self.kept).find(composition, revisions, now);
        if let Some(known) = kept {
            return Ok(known);
        }
        let profile = tx.renders().profile(composition).await?;
        let rows = tx.renders().field_mappings(Some(composition)).await?;
        let mapping = mapping::read(&rows).map(|mut all| all.remove(composition).unwrap_or_default());
        let known = Arc::new(Composition { profile, mapping });
        locked(&self.kept).keep(composition, revisions, now, &known);
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Revisions = Revisions { mappings: 1, profiles: 1 };
    const NEW: Revisions = Revisions { mappings: 2, profiles: 1 };

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn known_composition() -> Arc<Composition> {
        Arc::new(Composition { profile: None, mapping: Ok(Mapping::default()) })
    }

    #[test]
    fn what_is_known_is_believed_for_an_hour_and_until_somebody_changes_it() {
        let mut kept = CacheState::default();
        assert!(kept.find("a", OLD, at(0)).is_none());
        kept.keep("a", OLD, at(0), &known_composition());

        assert!(kept.find("a", OLD, at(3_599)).is_some());
        assert!(kept.find("b", OLD, at(3_599)).is_none());
        assert!(kept.find("a", OLD, at(3_600)).is_none());
        kept.keep("a", OLD, at(3_600), &known_composition());
        assert!(kept.find("a", NEW, at(3_601)).is_none());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let mut kept = CacheState::default();
        assert!(kept.find("a", NEW, at(0)).is_none());

        kept.keep("a", OLD, at(0), &known_composition());

        assert!(kept.find("a", NEW, at(1)).is_none());
    }
}
