//! The health of a worker, for `/health`, from what it last saw.

use super::Registry;
use crate::locked;
use std::sync::{Mutex, MutexGuard};
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
    noted: Mutex<VitalsState>,
}

#[derive(Debug, Default)]
struct VitalsState {
    is_stopping: bool,
    completed: u64,
    failed: u64,
    paused: Option<(Code, String, Monotonic)>,
    database: Option<Monotonic>,
    lease_loop: Option<Monotonic>,
    poll: Option<Monotonic>,
    farm: LastCheck,
    storage: LastCheck,
    inspector: LastCheck,
}

type LastCheck = Option<(Monotonic, Option<Trouble>)>;

/// A backend that is checked regularly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Farm,
    Storage,
    Inspector,
}

impl Vitals {
    fn noted(&self) -> MutexGuard<'_, VitalsState> {
        locked(&self.noted)
    }

    pub(super) fn stops(&self) {
        self.noted().is_stopping = true;
    }

    pub(super) fn completed(&self) {
        self.noted().completed += 1;
    }

    pub(super) fn failed(&self) {
        self.noted().failed += 1;
    }

    pub(super) fn database_answered(&self, now: Monotonic) {
        self.noted().database = Some(now);
    }

    pub(super) fn leases_seen_to(&self, now: Monotonic) {
        self.noted().lease_loop = Some(now);
    }

    pub(super) fn polled(&self, now: Monotonic) {
        self.noted().poll = Some(now);
    }

    pub(super) fn looked(&self, part: Part, now: Monotonic, trouble: Option<Trouble>) {
        let mut noted = self.noted();
        let look = match part {
            Part::Farm => &mut noted.farm,
            Part::Storage => &mut noted.storage,
            Part::Inspector => &mut noted.inspector,
        };
        *look = Some((now, trouble));
    }

    /// Returns whether it was not paused before.
    pub(super) fn pause(&self, code: Code, message: &str, now: Monotonic) -> bool {
        let mut noted = self.noted();
        let since = noted.paused.as_ref().map(|(_, _, since)| *since);
        noted.paused = Some((code, message.to_owned(), since.unwrap_or(now)));
        since.is_none()
    }

    /// Returns whether it was paused before.
    pub(super) fn resume(&self) -> bool {
        self.noted().paused.take().is_some()
    }

    pub(super) fn is_paused(&self) -> bool {
        self.noted().paused.is_some()
    }

    pub(super) fn read(&self, of: HealthInput<'_>, now: Monotonic) -> Health {
        let noted = self.noted();
        let age = |at: Option<Monotonic>| at.map(|at| now.since(at));
        let checked = |look: &LastCheck| Checked {
            age: look.as_ref().map(|(at, _)| now.since(*at)),
            trouble: look.as_ref().and_then(|(_, trouble)| trouble.clone()),
        };
        let paused = noted.paused.as_ref().map(|(code, message, since)| Paused {
            code: *code,
            message: message.clone(),
            since: now.since(*since),
        });
        let in_flight =
            of.registry.all().iter().map(|held| InFlight { id: held.id, phase: held.phase() }).collect();
        Health {
            worker: of.worker.to_owned(),
            process: of.process,
            is_stopping: noted.is_stopping,
            paused,
            database_age: age(noted.database),
            lease_loop_age: age(noted.lease_loop),
            lease_for: of.lease_for,
            last_poll_age: age(noted.poll),
            farm: checked(&noted.farm),
            storage: checked(&noted.storage),
            inspector: checked(&noted.inspector),
            capacity: of.capacity,
            busy: of.busy,
            in_flight,
            completed: noted.completed,
            failed: noted.failed,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HealthInput<'a> {
    pub(super) worker: &'a str,
    pub(super) process: ProcessId,
    pub(super) lease_for: Duration,
    pub(super) capacity: usize,
    pub(super) busy: usize,
    pub(super) registry: &'a Registry,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::render::Failure;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn read(vitals: &Vitals, now: u64) -> Health {
        let reading = HealthInput {
            worker: "one",
            process: ProcessId::new(uuid::Uuid::from_u128(1)),
            lease_for: Duration::from_secs(60),
            capacity: 2,
            busy: 0,
            registry: &Registry::default(),
        };
        vitals.read(reading, at(now))
    }

    #[test]
    fn who_says_nothing_is_not_well() {
        assert_eq!(read(&Vitals::default(), 1).problems().len(), 2);
    }

    #[test]
    fn a_worker_is_well_as_long_as_all_that_it_needs_was_just_seen() {
        let vitals = Vitals::default();
        vitals.database_answered(at(1));
        vitals.leases_seen_to(at(1));

        assert_eq!(read(&vitals, 10).problems(), Vec::<String>::new());
        assert_eq!(read(&vitals, 62).problems().len(), 2);
        vitals.looked(Part::Storage, at(9), Some(Trouble::new(Failure::NasNotMounted, "an empty folder")));
        assert_eq!(read(&vitals, 10).problems(), ["the NAS: an empty folder (TM1537)"]);
    }

    #[test]
    fn a_pause_counts_from_its_first_reason() {
        let vitals = Vitals::default();

        assert!(vitals.pause(Code::NexrenderSecretRefused, "403", at(5)));
        assert!(!vitals.pause(Code::NasNotMounted, "empty", at(7)));

        let paused = read(&vitals, 15).paused.unwrap();
        assert_eq!((paused.code, paused.since), (Code::NasNotMounted, Duration::from_secs(10)));
        assert!(vitals.resume() && !vitals.is_paused() && !vitals.resume());
    }
}
