//! The processes of the demo. Each is this program again, knowing nothing of the reader's own configuration. Those that are
//! kept going are replaced when they are gone, but only after a while, so that first everybody can see what becomes of what
//! they held.

use crate::config::LogLevel;
use crate::report::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tokio::process::{Child, Command};

/// Short, so that nobody has to wait for long: a relay that loses it to a busy machine joins anew.
const RELAY_LEASE: &str = "2s";

/// A relay ends with its process, and nobody starts another one before all is verified. So this one is not lost so soon.
const RELAY_PROCESS_LEASE: &str = "10s";

/// What the processes of the demo have in common.
pub(super) struct Setup {
    pub(super) url: String,
    pub(super) folder: PathBuf,
    pub(super) workers: usize,
    pub(super) things: u32,
    pub(super) lease: Duration,
    pub(super) log_level: LogLevel,
}

impl Setup {
    /// This program again, as another process that knows nothing of the reader's own configuration.
    pub(super) fn command(&self) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["TIDEMILL_", "RELAY_", "NEXRENDER_"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(&*name);
            }
        }
        // That a process is lost is part of the play, and nobody needs to be warned of it.
        let is_told = matches!(self.log_level, LogLevel::Info | LogLevel::Debug | LogLevel::Trace);
        command
            .env("TIDEMILL_DATABASE_INIT", "embedded")
            .env("TIDEMILL_LOG_LEVEL", self.log_level.as_str())
            .env("XDG_CONFIG_HOME", &self.folder)
            .current_dir(&self.folder)
            // Its end is their sign that we are gone.
            .stdin(Stdio::piped())
            .stderr(if is_told { Stdio::inherit() } else { Stdio::null() })
            .kill_on_drop(true);
        Ok(command)
    }

    pub(super) fn worker(&self, number: usize, work: Duration) -> std::io::Result<Command> {
        let mut command = self.command()?;
        command
            .args(["demo-worker", "--database", &self.url])
            .args(["--things", &self.things.to_string(), "--workers", &self.workers.to_string()])
            // The dashboard, relays and importers are processes, too.
            .args(["--named", "worker-", "--work-ms", &work.as_millis().to_string()])
            .env("TIDEMILL_PROCESS_NAME", format!("worker-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", format!("{}ms", self.lease.as_millis()));
        Ok(command)
    }

    /// A relay that publishes to this sink, ready to be started.
    pub(super) fn relay(&self, number: usize, sink: &str) -> std::io::Result<Command> {
        let mut command = self.command()?;
        command
            .args(["demo-relay", "--database", &self.url, "--sink", sink])
            .env("TIDEMILL_PROCESS_NAME", format!("relay-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", RELAY_PROCESS_LEASE)
            .env("TIDEMILL_OUTBOX_LEASE", RELAY_LEASE)
            .stdout(Stdio::null());
        Ok(command)
    }
}

/// Sends a signal to a process, unless it is gone already.
pub(super) fn signal(child: &Child, signal: Signal) -> bool {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

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
        self.places().iter().filter_map(|place| place.running()?.id()).collect()
    }

    /// Kills one of them; false when it is none of ours, or gone already.
    pub(super) fn kill(&self, pid: u32) -> bool {
        // Nobody looks after our children in the meantime, so that the number cannot belong to somebody else by now.
        let places = self.places();
        let mut running = places.iter().filter_map(Place::running);
        running.find(|child| child.id() == Some(pid)).is_some_and(|child| signal(child, Signal::KILL))
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
    fn running(&self) -> Option<&Child> {
        match &self.state {
            State::Runs(child) => Some(child),
            State::Gone { .. } => None,
        }
    }

    fn child(self) -> Option<Child> {
        match self.state {
            State::Runs(child) => Some(*child),
            State::Gone { .. } => None,
        }
    }
}
