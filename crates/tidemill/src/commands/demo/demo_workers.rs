//! The workers of the demo: started, followed by what they tell, killed, frozen, stopped.

use super::processes::{self, Setup};
use super::waited_in_vain;
use super::worker::KIND;
use crate::report::Failure;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::{Store, StoreOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;

const WORK: Duration = Duration::from_millis(200);

pub(super) struct DemoWorkers {
    members: Vec<Member>,
    told: mpsc::UnboundedReceiver<(usize, Value)>,
    /// Who acquired which thing last.
    owners: HashMap<u64, usize>,
    /// On which things work was settled.
    settled: HashSet<u64>,
    things: usize,
    url: String,
    clock: SystemClock,
}

struct Member {
    child: Child,
    /// Its end is the workers' sign that we are gone.
    _stdin: Option<ChildStdin>,
    is_running: bool,
}

impl DemoWorkers {
    pub(super) fn start(setup: &Setup) -> Result<Self, Failure> {
        let (sender, told) = mpsc::unbounded_channel();
        let failed = |error: std::io::Error| Failure::unexpected("a worker could not be started", &error);
        let mut members = Vec::new();
        for number in 0..setup.workers {
            let mut child = setup
                .worker(number + 1, WORK)
                .map_err(failed)?
                .stdout(Stdio::piped())
                .spawn()
                .map_err(failed)?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
            if let Some(stdout) = stdout {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(stdout).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        if let Ok(event) = serde_json::from_str(&line) {
                            let _demo_gone = sender.send((number, event));
                        }
                    }
                });
            }
            members.push(Member { child, _stdin: stdin, is_running: true });
        }
        Ok(Self {
            members,
            told,
            owners: HashMap::new(),
            settled: HashSet::new(),
            things: setup.things as usize,
            url: setup.url.clone(),
            clock: SystemClock::new(),
        })
    }

    /// Follows what the workers tell until `is_it` says so, at most for `limit`.
    async fn follow(
        &mut self,
        limit: Duration,
        waiting_for: &str,
        mut is_it: impl FnMut(&Self, usize, &Value) -> bool,
    ) -> Result<(), Failure> {
        let following = async {
            while let Some((number, event)) = self.told.recv().await {
                match (event["event"].as_str(), event["thing"].as_u64()) {
                    (Some("acquired"), Some(thing)) => drop(self.owners.insert(thing, number)),
                    (Some("settled"), Some(thing)) => drop(self.settled.insert(thing)),
                    _ => {}
                }
                if is_it(self, number, &event) {
                    return true;
                }
            }
            false
        };
        if matches!(tokio::time::timeout(limit, following).await, Ok(true)) {
            return Ok(());
        }
        Err(waited_in_vain(waiting_for))
    }

    fn owns_nothing(&self, number: usize) -> bool {
        self.owners.values().all(|owner| *owner != number)
    }

    /// Until every thing has an owner that has shown what it can.
    pub(super) async fn until_all_work(&mut self, limit: Duration) -> Result<(), Failure> {
        let waiting_for = "work to be settled on every thing";
        self.follow(limit, waiting_for, |workers, _, _| workers.settled.len() == workers.things).await
    }

    /// Kills an owner; tells how long it took until others had all that it held, and how much that was.
    pub(super) async fn kill_one(&mut self, limit: Duration) -> Result<(Duration, usize), Failure> {
        let victim = self.an_owner()?;
        let since = self.clock.monotonic();
        self.signal(victim, Signal::KILL);
        self.members[victim].is_running = false;
        let held = self.owners.values().filter(|owner| **owner == victim).count();
        let waiting_for = format!("the {KIND} leases of the killed worker to move");
        self.follow(limit, &waiting_for, |workers, _, _| workers.owns_nothing(victim)).await?;
        Ok((self.clock.monotonic().since(since), held))
    }

    /// Freezes an owner while it works; true when it is refused after it was woken.
    pub(super) async fn freeze_one(
        &mut self,
        frozen_for: Duration,
        limit: Duration,
    ) -> Result<bool, Failure> {
        let victim = self.an_owner()?;
        self.freeze_at_work(victim, limit).await?;
        tokio::time::sleep(frozen_for).await;
        if !self.owns_nothing(victim) {
            let waiting_for = "the leases of the frozen worker to move";
            self.follow(limit, waiting_for, |workers, _, _| workers.owns_nothing(victim)).await?;
        }
        self.signal(victim, Signal::CONT);
        let is_refused = |_: &Self, number, event: &Value| number == victim && event["event"] == "refused";
        self.follow(limit, "the ghost to be refused", is_refused).await?;
        Ok(true)
    }

    /// In the middle of its work, and not while it holds the file's write lock: that would stop the others, too.
    async fn freeze_at_work(&mut self, victim: usize, limit: Duration) -> Result<(), Failure> {
        for _ in 0..20 {
            let is_at_work =
                |_: &Self, number, event: &Value| number == victim && event["event"] == "working";
            self.follow(limit, "a worker to work", is_at_work).await?;
            self.signal(victim, Signal::STOP);
            let options =
                StoreOptions { busy_timeout: Duration::from_millis(200), ..StoreOptions::default() };
            let store = Store::open(self.url.parse()?, &options).await?;
            let is_free = store.begin().await.is_ok();
            store.close().await;
            if is_free {
                return Ok(());
            }
            self.signal(victim, Signal::CONT);
        }
        Err(Failure::new(Code::Unexpected, "the worker always held the write lock", "run it again"))
    }

    /// Asks everybody to end; true when all do so in time and in order.
    pub(super) async fn stop_all(&mut self, limit: Duration) -> bool {
        let mut in_order = true;
        for number in 0..self.members.len() {
            if self.members[number].is_running {
                self.signal(number, Signal::TERM);
            }
        }
        for member in self.members.iter_mut().filter(|member| member.is_running) {
            let ended = tokio::time::timeout(limit, member.child.wait()).await;
            in_order &= matches!(ended, Ok(Ok(status)) if status.success());
            member.is_running = false;
        }
        in_order
    }

    /// Ends whoever still runs, however the play went.
    pub(super) async fn end(mut self) {
        for member in &mut self.members {
            let _gone_already = member.child.kill().await;
        }
    }

    fn an_owner(&self) -> Result<usize, Failure> {
        let mut owners: Vec<usize> = self.owners.values().copied().collect();
        owners.sort_unstable();
        let owner = owners.into_iter().find(|owner| self.members[*owner].is_running);
        owner.ok_or_else(|| {
            Failure::new(Code::Unexpected, "no worker of the demo holds a lease", "run it again")
        })
    }

    fn signal(&self, number: usize, signal: Signal) {
        processes::signal(&self.members[number].child, signal);
    }
}
