//! The health of a worker, for `/health`, from what it last saw.

use super::WorkerOptions;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Phase, RenderId, Trouble};
use tidemill_domain::time::Monotonic;

/// Without an answer of the database for this long, a worker is unhealthy.
const DATABASE_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Debug)]
pub struct Health {
    pub worker: String,
    pub process: ProcessId,
    pub is_stopping: bool,
    pub paused: Option<Paused>,
    /// Time since the last answer of the database.
    pub database_age: Option<Duration>,
    /// Time since leases were last renewed.
    pub lease_loop_age: Option<Duration>,
    pub lease_for: Duration,
    /// Time since it last looked for renders.
    pub last_poll_age: Option<Duration>,
    pub farm: Checked,
    pub storage: Checked,
    pub inspector: Checked,
    pub capacity: usize,
    /// Places in use.
    pub busy: usize,
    pub in_flight: Vec<InFlight>,
    pub completed: u64,
    pub failed: u64,
}

/// Why a worker claims nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paused {
    pub code: Code,
    pub message: String,
    pub since: Duration,
}

/// The result of the last check of a backend.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// None before the first check.
    pub age: Option<Duration>,
    pub trouble: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    pub id: RenderId,
    pub phase: Phase,
}

impl Health {
    /// Everything that is wrong, for people; empty if the worker is healthy.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let is_old = |age: Option<Duration>, most: Duration| age.is_none_or(|age| age > most);
        if let Some(paused) = &self.paused {
            problems.push(format!("it claims no renders: {} ({})", paused.message, paused.code));
        }
        if is_old(self.database_age, DATABASE_AGE_MAX) {
            problems.push("the database has not answered for too long".to_owned());
        }
        if is_old(self.lease_loop_age, self.lease_for) {
            problems.push("the leases of its renders are not renewed".to_owned());
        }
        for (what, checked) in
            [("nexrender", &self.farm), ("the NAS", &self.storage), ("ffprobe", &self.inspector)]
        {
            if let Some(trouble) = &checked.trouble {
                problems.push(format!("{what}: {} ({})", trouble.message, trouble.code));
            }
        }
        problems
    }

    pub fn is_healthy(&self) -> bool {
        self.problems().is_empty()
    }
}

/// What a worker records about itself.
#[derive(Debug, Default)]
pub(super) struct Vitals {
    pub(super) completed: u64,
    pub(super) failed: u64,
    /// Why it claims nothing, and since when.
    pub(super) paused: Option<(Code, String, Monotonic)>,
    /// When the database last answered.
    pub(super) database: Option<Monotonic>,
    /// When leases were last renewed.
    pub(super) lease_loop: Option<Monotonic>,
    /// When it last looked for renders.
    pub(super) poll: Option<Monotonic>,
    /// The last check of the farm, the storage and the inspector.
    pub(super) checked: Option<(Monotonic, [Option<Trouble>; 3])>,
    /// Whether the waits of renders were ended since the last check that failed, the last pause, or the first failure of a
    /// render.
    pub(super) has_ended_waits: bool,
    /// The last response time of the farm.
    pub(super) farm_took: Option<Duration>,
    /// The duration of the last copy.
    pub(super) copy_took: Option<Duration>,
}

impl Vitals {
    /// Returns whether it was not paused before.
    pub(super) fn pause(&mut self, code: Code, message: &str, now: Monotonic) -> bool {
        let since = self.paused.as_ref().map(|(_, _, since)| *since);
        self.paused = Some((code, message.to_owned(), since.unwrap_or(now)));
        // All may be well again before a check sees that it was not.
        self.has_ended_waits = false;
        since.is_none()
    }

    /// The health of a worker without renders.
    pub(super) fn health(&self, options: &WorkerOptions, now: Monotonic) -> Health {
        let age = |at: Option<Monotonic>| at.map(|at| now.since(at));
        let paused = self.paused.as_ref().map(|(code, message, since)| Paused {
            code: *code,
            message: message.clone(),
            since: now.since(*since),
        });
        let checked_at = self.checked.as_ref().map(|(at, _)| *at);
        let troubles = self.checked.as_ref().map(|(_, troubles)| troubles.clone()).unwrap_or_default();
        let [farm, storage, inspector] = troubles.map(|trouble| Checked { age: age(checked_at), trouble });
        Health {
            worker: options.name.clone(),
            process: options.process,
            is_stopping: false,
            paused,
            database_age: age(self.database),
            lease_loop_age: age(self.lease_loop),
            lease_for: options.policy.lease_for,
            last_poll_age: age(self.poll),
            farm,
            storage,
            inspector,
            capacity: options.capacity.get(),
            busy: 0,
            in_flight: Vec::new(),
            completed: self.completed,
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Places;
    use tidemill_domain::render::output::Correction;
    use tidemill_domain::render::{Failure, NodePath, PathMap, Policy};

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn read(vitals: &Vitals, now: u64) -> Health {
        let folder = NodePath::parse("/nas").unwrap();
        let paths = PathMap::new(Vec::new()).unwrap();
        let places = Places {
            staging: folder.clone(),
            output: folder,
            posters: None,
            paths,
            correction: Correction::Revision,
        };
        let process = ProcessId::new(uuid::Uuid::from_u128(1));
        vitals.health(&WorkerOptions::new(process, "one", Policy::standard().unwrap(), places), at(now))
    }

    #[test]
    fn who_says_nothing_is_not_well() {
        assert_eq!(read(&Vitals::default(), 1).problems().len(), 2);
    }

    #[test]
    fn a_worker_is_well_as_long_as_all_that_it_needs_was_just_seen() {
        let mut vitals = Vitals { database: Some(at(1)), lease_loop: Some(at(1)), ..Vitals::default() };

        assert_eq!(read(&vitals, 5).problems(), Vec::<String>::new());
        assert_eq!(read(&vitals, 62).problems().len(), 2);
        let trouble = Trouble::new(Failure::NasNotMounted, "an empty folder");
        vitals.checked = Some((at(4), [None, Some(trouble), None]));
        assert_eq!(read(&vitals, 5).problems(), ["the NAS: an empty folder (TM1537)"]);
    }

    #[test]
    fn a_pause_counts_from_its_first_reason() {
        let mut vitals = Vitals { has_ended_waits: true, ..Vitals::default() };

        assert!(vitals.pause(Code::NexrenderSecretRefused, "403", at(5)));
        assert!(!vitals.pause(Code::NasNotMounted, "empty", at(7)));

        let paused = read(&vitals, 15).paused.unwrap();
        assert_eq!((paused.code, paused.since), (Code::NasNotMounted, Duration::from_secs(10)));
        assert!(!vitals.has_ended_waits, "the next check that passes ends the waits");
        assert!(vitals.paused.take().is_some() && read(&vitals, 15).paused.is_none());
    }
}
