//! Processes of the demo that are kept going: who is gone is replaced after a while, so that first everybody can see what
//! becomes of what it held.

use crate::report::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tokio::process::Child;

/// How long the place of a process stays empty: longer than it takes until others have what it held.
const REST: Duration = Duration::from_secs(8);

/// Pause between two looks at who is gone.
const PAUSE: Duration = Duration::from_millis(250);

/// How long processes may take to end in order.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Starts the process with this number.
type Start = Box<dyn Fn(usize) -> Result<Child, Failure> + Send + Sync>;

pub(super) struct Supervisor {
    start: Start,
    places: Mutex<Vec<Place>>,
    clock: SystemClock,
}

struct Place {
    /// Numbers are not used again, so that nobody takes a process for the one before it.
    number: usize,
    state: State,
}

enum State {
    Runs(Box<Child>),
    Gone { since: Monotonic },
}

impl Supervisor {
    pub(super) fn new(start: impl Fn(usize) -> Result<Child, Failure> + Send + Sync + 'static) -> Self {
        Self { start: Box::new(start), places: Mutex::default(), clock: SystemClock::new() }
    }

    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, numbers: impl Iterator<Item = usize>) -> Result<(), Failure> {
        let mut places = self.places();
        for number in numbers {
            places.push(Place { number, state: State::Runs(Box::new((self.start)(number)?)) });
        }
        Ok(())
    }

    /// Replaces who is gone, until nobody asks for it any more.
    pub(super) async fn keep(&self) {
        loop {
            self.replace();
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn replace(&self) {
        let now = self.clock.monotonic();
        let mut places = self.places();
        let mut next = places.iter().map(|place| place.number + 1).max().unwrap_or(1);
        for place in places.iter_mut() {
            match &mut place.state {
                State::Runs(child) => {
                    if !matches!(child.try_wait(), Ok(None)) {
                        place.state = State::Gone { since: now };
                    }
                }
                State::Gone { since } if now.since(*since) < REST => {}
                State::Gone { since } => match (self.start)(next) {
                    Ok(child) => {
                        *place = Place { number: next, state: State::Runs(Box::new(child)) };
                        next += 1;
                    }
                    Err(failure) => {
                        tracing::warn!(?failure, "a process of the demo was not replaced, will try again");
                        *since = now;
                    }
                },
            }
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        let pid = |place: &Place| match &place.state {
            State::Runs(child) => child.id(),
            State::Gone { .. } => None,
        };
        self.places().iter().filter_map(pid).collect()
    }

    /// Kills one of them; false when it is none of ours, or gone already.
    pub(super) fn kill(&self, pid: u32) -> bool {
        // Nobody looks after our children in the meantime, so that the number cannot belong to somebody else by now.
        let places = self.places();
        let is_it = |place: &Place| matches!(&place.state, State::Runs(child) if child.id() == Some(pid));
        places.iter().any(is_it)
            && Pid::from_raw(pid.cast_signed()).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
    }

    /// Ends all of them, in order if they do so in time.
    pub(super) async fn end(&self) {
        let places = std::mem::take(&mut *self.places());
        let mut running: Vec<Child> = places.into_iter().filter_map(Place::child).collect();
        for child in &mut running {
            // Without their input they know that they are to end.
            drop(child.stdin.take());
        }
        let all = async {
            for child in &mut running {
                let _gone_anyway = child.wait().await;
            }
        };
        let _killed_when_dropped = tokio::time::timeout(STOP_TIME, all).await;
    }
}

impl Place {
    fn child(self) -> Option<Child> {
        match self.state {
            State::Runs(child) => Some(*child),
            State::Gone { .. } => None,
        }
    }
}
