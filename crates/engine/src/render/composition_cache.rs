//! Cache of profiles and mappings, for up to an hour. Changing one changes a revision in the database, which is checked
//! on every use.

use super::task::Problem;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::{Mapping, Profile};
use tidemill_domain::time::Monotonic;
use tidemill_store::render::Revisions;

const KEPT_FOR: Duration = Duration::from_secs(3600);

const KEPT_MAX: usize = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Composition {
    pub(super) profile: Result<Profile, Problem>,
    pub(super) mapping: Result<Mapping, Problem>,
}

#[derive(Debug, Default)]
pub(super) struct CompositionCache {
    revisions: Option<Revisions>,
    known: HashMap<String, (Monotonic, Arc<Composition>)>,
}

impl CompositionCache {
    pub(super) fn find(
        &mut self,
        composition: &str,
        revisions: Revisions,
        now: Monotonic,
    ) -> Option<Arc<Composition>> {
        if self.revisions != Some(revisions) {
            self.known.clear();
            self.revisions = Some(revisions);
        }
        self.known.retain(|_, (since, _)| now.since(*since) < KEPT_FOR);
        self.known.get(composition).map(|(_, known)| known.clone())
    }

    pub(super) fn keep(
        &mut self,
        composition: &str,
        revisions: Revisions,
        now: Monotonic,
        known: &Arc<Composition>,
    ) {
        if self.revisions == Some(revisions) && self.known.len() < KEPT_MAX {
            self.known.insert(composition.to_owned(), (now, known.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::code::Code;

    const OLD: Revisions = Revisions { mappings: 1, profiles: 1 };
    const NEW: Revisions = Revisions { mappings: 2, profiles: 1 };

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn known_composition() -> Arc<Composition> {
        let no_profile = (Code::UnknownComposition, "there is no profile".to_owned());
        Arc::new(Composition { profile: Err(no_profile), mapping: Ok(Mapping::default()) })
    }

    #[test]
    fn what_is_known_is_believed_for_an_hour_and_until_somebody_changes_it() {
        let mut kept = CompositionCache::default();
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
        let mut kept = CompositionCache::default();
        assert!(kept.find("a", NEW, at(0)).is_none());

        kept.keep("a", OLD, at(0), &known_composition());

        assert!(kept.find("a", NEW, at(1)).is_none());
    }
}
