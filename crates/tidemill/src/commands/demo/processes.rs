//! The processes of the demo. Each is this program again, without your configuration. A [`Supervisor`] replaces
//! processes that ended, after a pause in which you can see how others take over their work. [`KillWorker`] kills one.

use super::{LEASE, PAUSE, STOP_TIME, THINGS, WORKERS, unexpected};
use crate::config::LogLevel;
use crate::report::Result;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_server::action::{CannotPerform, ExtraAction, Performed, Performing};
use tidemill_store::process::ProcessRecord;
use tidemill_store::{Store, StoreError};
use tokio::process::{Child, Command};

/// How long a worker takes for a piece of work after the verification: long enough to keep the audit log small.
const SLOW_WORK: Duration = Duration::from_secs(2);

/// Short, because a relay that loses its lease just joins again.
const RELAY_LEASE: &str = "2s";

/// Long, because nothing restarts a relay whose process expires during the verification.
const RELAY_PROCESS_LEASE: &str = "10s";

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) url: String,
    pub(super) folder: PathBuf,
    pub(super) log_level: LogLevel,
}

impl Setup {
    /// This program as another process, without your configuration.
    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().map_err(unexpected)?);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["TIDEMILL_", "RELAY_", "NEXRENDER_"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(&*name);
            }
        }
        // Lost processes are part of the demo, so their warnings are hidden by default.
        let is_verbose = matches!(self.log_level, LogLevel::Info | LogLevel::Debug | LogLevel::Trace);
        command
            .args(arguments)
            .args(["--database", &self.url])
            .env("TIDEMILL_DATABASE_INIT", "embedded")
            .env("TIDEMILL_LOG_LEVEL", self.log_level.as_str())
            .env("XDG_CONFIG_HOME", &self.folder)
            .current_dir(&self.folder)
            // When the demo ends, so does this pipe, and then the process stops.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(if is_verbose { Stdio::inherit() } else { Stdio::null() })
            .kill_on_drop(true);
        Ok(command)
    }

    pub(super) fn worker(&self, number: usize, work: Duration) -> Result<Command> {
        let mut command = self.command(&["demo-worker"])?;
        command
            .args(["--things", &THINGS.to_string(), "--workers", &WORKERS.to_string()])
            // The dashboard, relays and importers are processes too.
            .args(["--named", "worker-", "--work-ms", &work.as_millis().to_string()])
            .env("TIDEMILL_PROCESS_NAME", format!("worker-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", format!("{}ms", LEASE.as_millis()));
        Ok(command)
    }

    pub(super) fn start_worker(&self, number: usize) -> Result<Child> {
        self.worker(number, SLOW_WORK)?.spawn().map_err(unexpected)
    }

    pub(super) fn start_relay(&self, number: usize) -> Result<Child> {
        let mut command = self.command(&["demo-relay", "--sink", &self.sink()])?;
        command
            .env("TIDEMILL_PROCESS_NAME", format!("relay-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", RELAY_PROCESS_LEASE)
            .env("TIDEMILL_OUTBOX_LEASE", RELAY_LEASE);
        command.spawn().map_err(unexpected)
    }

    pub(super) fn sink(&self) -> String {
        format!("file:{}", self.folder.join("published.jsonl").display())
    }
}

/// Sends a signal to a process; false if it has ended.
pub(super) fn signal(child: &Child, signal: Signal) -> bool {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Pause before a process is replaced: longer than a takeover.
const REPLACE_AFTER: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct Supervisor {
    setup: Arc<Setup>,
    start: fn(&Setup, usize) -> Result<Child>,
    members: Mutex<Vec<Member>>,
    clock: SystemClock,
}

#[derive(Debug)]
struct Member {
    /// Numbers are never reused, so that a process is not mistaken for the one before it.
    number: usize,
    child: Child,
    ended_at: Option<Monotonic>,
}

impl Supervisor {
    pub(super) fn new(setup: &Arc<Setup>, start: fn(&Setup, usize) -> Result<Child>) -> Self {
        Self { setup: Arc::clone(setup), start, members: Mutex::default(), clock: SystemClock::new() }
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, number: usize) -> Result<Member> {
        Ok(Member { number, child: (self.start)(&self.setup, number)?, ended_at: None })
    }

    pub(super) fn begin(&self, numbers: impl Iterator<Item = usize>) -> Result<()> {
        for number in numbers {
            let member = self.start(number)?;
            self.members().push(member);
        }
        Ok(())
    }

    pub(super) async fn keep(&self) {
        loop {
            self.replace();
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn replace(&self) {
        let now = self.clock.monotonic();
        let mut members = self.members();
        let mut next = members.iter().map(|member| member.number + 1).max().unwrap_or(1);
        for member in members.iter_mut() {
            if matches!(member.child.try_wait(), Ok(None)) {
                continue;
            }
            let ended_at = *member.ended_at.get_or_insert(now);
            if now.since(ended_at) < REPLACE_AFTER {
                continue;
            }
            match self.start(next) {
                Ok(new) => {
                    *member = new;
                    next += 1;
                }
                Err(failure) => {
                    tracing::warn!(?failure, "a process of the demo was not replaced, will try again");
                    member.ended_at = Some(now);
                }
            }
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.members().iter().filter_map(|member| member.child.id()).collect()
    }

    /// Kills a process; false if it is not one of ours or has ended.
    pub(super) fn kill(&self, pid: u32) -> bool {
        // The lock keeps `replace` from reaping children, so the pid cannot belong to another process.
        let members = self.members();
        let found = members.iter().find(|member| member.child.id() == Some(pid));
        found.is_some_and(|member| signal(&member.child, Signal::KILL))
    }

    /// Stops all processes; kills those that take too long.
    pub(super) async fn end(&self) {
        let mut members = std::mem::take(&mut *self.members());
        for member in &mut members {
            // A process stops when its standard input ends.
            drop(member.child.stdin.take());
        }
        let all = async {
            for member in &mut members {
                let _ended_anyway = member.child.wait().await;
            }
        };
        let _killed_when_dropped = tokio::time::timeout(STOP_TIME, all).await;
    }
}

/// The button of the demo dashboard: kills the worker process with the most leases.
#[derive(Debug)]
pub(super) struct KillWorker {
    pub(super) workers: Arc<Supervisor>,
    pub(super) store: Store,
}

impl KillWorker {
    /// The live worker with the most leases, and how many it has.
    async fn choose(&self) -> Result<Option<(ProcessRecord, usize)>, StoreError> {
        let pids = self.workers.pids();
        let mut tx = self.store.read().await?;
        let now = tx.now().await?;
        let mut workers = Vec::new();
        for process in tx.processes().list(1_000).await? {
            if process.state.is_live(now) && pids.contains(&process.identity.pid) {
                let leases = tx.leases().of_process(process.id).await?.len();
                workers.push((process, leases));
            }
        }
        Ok(workers.into_iter().max_by_key(|(_, leases)| *leases))
    }
}

impl ExtraAction for KillWorker {
    fn name(&self) -> &'static str {
        "demo.kill"
    }

    fn title(&self) -> &'static str {
        "Kill a worker (kill -9)"
    }

    fn explanation(&self) -> &'static str {
        "Sends SIGKILL to the worker process with the most leases. Watch the leases below: within seconds they have other \
         owners and a higher epoch. Then a new worker starts."
    }

    fn unavailable(&self) -> Option<String> {
        let none_yet = "There is no worker yet: workers start after the verification.";
        self.workers.pids().is_empty().then(|| none_yet.to_owned())
    }

    fn perform(&self) -> Performing<'_> {
        Box::pin(async {
            let cannot =
                |why: String| CannotPerform { why, remedy: "wait a few seconds and try again".to_owned() };
            match self.choose().await.map_err(|error| cannot(error.to_string()))? {
                Some((ProcessRecord { id, identity, .. }, leases)) if self.workers.kill(identity.pid) => {
                    let name = identity.name;
                    let story = format!("{name} was killed (SIGKILL) while it held {leases} leases");
                    Ok(Performed { object: format!("process/{id}"), story })
                }
                _ => Err(cannot("no worker is running; workers start after the verification".to_owned())),
            }
        })
    }
}
