//! The relays: real processes that append to one file, and what is done to them.

use super::{BATCH, LEASE, PATIENCE};
use crate::Stage;
use fastrand::Rng;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_testkit::{Guarded, Signal};

/// What a relay says when it has lost its slots without being killed.
const LAPSED: [&str; 2] = ["could not renew its lease", "was given up by others"];

/// What a relay ends with that finds no database when it starts.
const UNREACHABLE: &str = "error[TM02";

/// All relays of a run.
pub(super) struct Crew {
    stage: Stage,
    clock: SystemClock,
    live: Vec<Relay>,
    /// Those that were stopped, and when they go on.
    frozen: Vec<(Relay, Monotonic)>,
    logs: Vec<(i64, PathBuf)>,
    /// Processes to which something was done, after which one batch may be there twice.
    disturbed: BTreeSet<i64>,
}

struct Relay {
    child: Guarded,
    log: PathBuf,
}

impl Crew {
    pub(super) fn new(url: &str) -> Self {
        Self {
            // A process that is stopped for a while is to come back, not to end.
            stage: Stage::on(url).with("TIDEMILL_PROCESS_LEASE", "60s"),
            clock: SystemClock::new(),
            live: Vec::new(),
            frozen: Vec::new(),
            logs: Vec::new(),
            disturbed: BTreeSet::new(),
        }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.stage.path("events.jsonl")
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(super) fn hire(&mut self) {
        let log = self.stage.path(&format!("relay-{}.log", self.logs.len()));
        let (batch, lease) = (BATCH.to_string(), format!("{}s", LEASE.as_secs()));
        let arguments = ["relay", "--sink", "file:events.jsonl", "--batch", &batch, "--lease", &lease];
        let mut command = self.stage.command(&arguments);
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = Guarded::spawn(command).unwrap();
        self.logs.push((child.pid().into(), log.clone()));
        self.live.push(Relay { child, log });
    }

    pub(super) fn count(&self) -> usize {
        self.live.len() + self.frozen.len()
    }

    /// Starts others for those that ended because the database was away when they started. Nothing else ends a relay.
    pub(super) fn mend(&mut self) {
        let ended = self.live.extract_if(.., |relay| relay.child.wait_deadline(Duration::ZERO).is_some());
        for relay in ended.collect::<Vec<_>>() {
            let said = fs::read_to_string(&relay.log).unwrap();
            assert!(
                said.contains(UNREACHABLE) && !said.contains("publishing to"),
                "a relay has ended: {said}"
            );
            self.hire();
        }
    }

    /// Kills one of those that run, and starts another one.
    pub(super) fn kill_one(&mut self, chance: &mut Rng) {
        let mut killed = self.live.swap_remove(chance.usize(..self.live.len()));
        killed.child.signal(Signal::KILL).unwrap();
        killed.child.wait_deadline(PATIENCE).unwrap();
        self.disturbed.insert(killed.child.pid().into());
        self.hire();
    }

    /// Stops one of those that run for longer than its lease.
    pub(super) fn freeze_one(&mut self, chance: &mut Rng) {
        let mut frozen = self.live.swap_remove(chance.usize(..self.live.len()));
        frozen.child.signal(Signal::STOP).unwrap();
        self.disturbed.insert(frozen.child.pid().into());
        self.frozen.push((frozen, self.clock.monotonic().plus(LEASE + Duration::from_secs(2))));
    }

    /// Lets those go on whose time has come.
    pub(super) fn thaw(&mut self) {
        let now = self.clock.monotonic();
        let due = self.frozen.extract_if(.., |(_, at)| *at <= now).map(|(relay, _)| relay);
        for mut ghost in due {
            ghost.child.signal(Signal::CONT).unwrap();
            self.live.push(ghost);
        }
    }

    pub(super) fn has_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Something happens to all of them.
    pub(super) fn disturb_all(&mut self) {
        self.disturbed.extend(self.live.iter().map(|relay| i64::from(relay.child.pid())));
    }

    /// Asks relays to end until so many are left; each has to end in order.
    pub(super) fn dismiss(&mut self, left: usize) {
        while self.live.len() > left {
            let mut leaving = self.live.remove(0);
            leaving.child.signal(Signal::TERM).unwrap();
            let ended = leaving.child.wait_deadline(PATIENCE).expect("it ends within 25 seconds");
            assert!(ended.success(), "{ended:?}: {}", fs::read_to_string(&leaving.log).unwrap());
        }
    }

    /// Processes that may have published a batch without being able to say so.
    pub(super) fn disturbed(&self) -> &BTreeSet<i64> {
        &self.disturbed
    }

    /// Processes that say that they have lost a lease.
    pub(super) fn lapsed(&self) -> BTreeSet<i64> {
        let said = |(_, log): &&(i64, PathBuf)| {
            let text = fs::read_to_string(log).unwrap();
            LAPSED.iter().any(|words| text.contains(words))
        };
        self.logs.iter().filter(said).map(|(pid, _)| *pid).collect()
    }
}
