//! The relays: real processes that publish to one sink, and what is done to them.

use super::sink::Sink;
use super::{BATCH, LEASE, PATIENCE};
use crate::Stage;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;
use tidemill_testkit::{Guarded, Signal};

/// What a relay says when it has lost its slots without being killed.
const LAPSED: [&str; 2] = ["could not renew its lease", "was given up by others"];

/// What a relay says when it does not know what has become of a batch.
const UNANSWERED: &str = "does not take events";

/// What a relay says when it has joined the others.
const JOINED: &str = "has joined and publishes to";

/// What a relay ends with that finds no database when it starts.
const UNREACHABLE: &str = "error[TM02";

/// All relays of a run.
pub(super) struct Crew {
    stage: Stage,
    sink: String,
    clock: SystemClock,
    live: Vec<Relay>,
    /// Those that were stopped, and when they go on.
    frozen: Vec<(Relay, Monotonic)>,
    logs: Vec<(i64, PathBuf)>,
    /// How often something was done to a process, after which one batch may be there twice.
    disturbed: BTreeMap<i64, usize>,
}

struct Relay {
    child: Guarded,
    log: PathBuf,
}

impl Crew {
    pub(super) fn new(url: &str, sink: &Sink) -> Self {
        Self {
            // A process that is stopped for a while is to come back, not to end.
            stage: sink.dress(Stage::on(url).with("TIDEMILL_PROCESS_LEASE", "10m")),
            sink: sink.address(),
            clock: SystemClock::new(),
            live: Vec::new(),
            frozen: Vec::new(),
            logs: Vec::new(),
            disturbed: BTreeMap::new(),
        }
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(super) fn hire(&mut self) {
        let log = self.stage.path(&format!("relay-{}.log", self.logs.len()));
        let (batch, lease) = (BATCH.to_string(), format!("{}s", LEASE.as_secs()));
        // Everything that is not answered for is in the log, and not only once a minute.
        let arguments = ["relay", "--sink", &self.sink, "--batch", &batch, "--lease", &lease, "-vv"];
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

    /// Waits until all that run listen to signals and publish.
    pub(super) async fn until_all_publish(&mut self) {
        let publish = async {
            loop {
                self.mend();
                let says_so = |relay: &Relay| fs::read_to_string(&relay.log).unwrap().contains(JOINED);
                if self.live.iter().all(says_so) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, publish).await.expect("relays that publish");
    }

    /// Kills one of those that run, and starts another one.
    pub(super) fn kill_one(&mut self, chance: &mut Rng) {
        let mut killed = self.live.swap_remove(chance.usize(..self.live.len()));
        killed.child.signal(Signal::KILL).unwrap();
        killed.child.wait_deadline(PATIENCE).unwrap();
        self.disturb(killed.child.pid());
        self.hire();
    }

    /// Stops one of those that run for longer than its lease.
    pub(super) fn freeze_one(&mut self, chance: &mut Rng) {
        let mut frozen = self.live.swap_remove(chance.usize(..self.live.len()));
        frozen.child.signal(Signal::STOP).unwrap();
        self.disturb(frozen.child.pid());
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
        let pids: Vec<u32> = self.live.iter().map(|relay| relay.child.pid()).collect();
        pids.into_iter().for_each(|pid| self.disturb(pid));
    }

    fn disturb(&mut self, pid: u32) {
        *self.disturbed.entry(pid.into()).or_default() += 1;
    }

    /// Asks relays to end until so many are left; each has to end in order.
    pub(super) fn dismiss(&mut self, left: usize) {
        while self.live.len() > left {
            let mut leaving = self.live.remove(0);
            leaving.child.signal(Signal::TERM).unwrap();
            let ended = leaving.child.wait_deadline(PATIENCE).expect("it ends");
            assert!(ended.success(), "{ended:?}: {}", fs::read_to_string(&leaving.log).unwrap());
        }
    }

    /// How often each process may have published a batch without being able to say so, or to know it.
    pub(super) fn excuses(&self) -> BTreeMap<i64, usize> {
        let mut excuses = self.disturbed.clone();
        for (pid, log) in &self.logs {
            let is_excuse = |line: &&str| line.contains(UNANSWERED) || has_lapsed(line);
            *excuses.entry(*pid).or_default() +=
                fs::read_to_string(log).unwrap().lines().filter(is_excuse).count();
        }
        excuses
    }

    /// Processes that say that they have lost a lease, although nothing was done to them.
    pub(super) fn lapsed(&self) -> BTreeSet<i64> {
        let said = |(pid, log): &&(i64, PathBuf)| {
            !self.disturbed.contains_key(pid) && has_lapsed(&fs::read_to_string(log).unwrap())
        };
        self.logs.iter().filter(said).map(|(pid, _)| *pid).collect()
    }
}

fn has_lapsed(said: &str) -> bool {
    LAPSED.iter().any(|words| said.contains(words))
}
