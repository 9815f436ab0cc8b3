//! The workers of the verification: they print JSON lines, and the demo kills, freezes and stops them.

use super::processes::{self, Setup};
use super::worker::{KIND, SETTLED};
use super::{GRACE, LIMIT, Stage, THINGS, Verdicts, WORKERS, failure, timed_out, unexpected, until};
use crate::report::Result;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::process::ProcessState;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::audit::AuditFilter;
use tidemill_store::{Store, StoreOptions};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;

const WORK: Duration = Duration::from_millis(200);

pub(super) struct DemoWorkers {
    children: Vec<Child>,
    /// Kept open: a worker stops when its standard input ends.
    _inputs: Vec<ChildStdin>,
    /// What the workers print, with the index of the worker.
    lines: mpsc::UnboundedReceiver<(usize, Value)>,
    /// The worker that acquired each thing last.
    owners: HashMap<u64, usize>,
    settled: HashSet<u64>,
    killed: Option<usize>,
    url: String,
}

impl DemoWorkers {
    pub(super) fn start(setup: &Setup) -> Result<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        let (mut children, mut inputs) = (Vec::new(), Vec::new());
        for index in 0..WORKERS {
            let mut command = setup.worker(index + 1, WORK)?;
            let mut child = command.stdout(Stdio::piped()).spawn().map_err(unexpected)?;
            if let Some(stdout) = child.stdout.take() {
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(stdout).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        if let Ok(event) = serde_json::from_str(&line) {
                            let _demo_ended = sender.send((index, event));
                        }
                    }
                });
            }
            inputs.extend(child.stdin.take());
            children.push(child);
        }
        let (owners, settled, url) = (HashMap::new(), HashSet::new(), setup.url.clone());
        Ok(Self { children, _inputs: inputs, lines, owners, settled, killed: None, url })
    }

    /// Reads what the workers print until `is_done`.
    async fn follow(
        &mut self,
        what: &str,
        mut is_done: impl FnMut(&Self, usize, &Value) -> bool,
    ) -> Result<()> {
        let following = async {
            while let Some((index, event)) = self.lines.recv().await {
                match (event["event"].as_str(), event["thing"].as_u64()) {
                    (Some("acquired"), Some(thing)) => drop(self.owners.insert(thing, index)),
                    (Some("settled"), Some(thing)) => drop(self.settled.insert(thing)),
                    _ => {}
                }
                if is_done(self, index, &event) {
                    return true;
                }
            }
            false
        };
        match tokio::time::timeout(LIMIT, following).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(timed_out(what)),
        }
    }

    async fn follow_event(&mut self, of: usize, name: &str, what: &str) -> Result<()> {
        self.follow(what, |_, index, event| index == of && event["event"] == name).await
    }

    fn leases_of(&self, index: usize) -> usize {
        self.owners.values().filter(|owner| **owner == index).count()
    }

    pub(super) async fn until_all_work(&mut self) -> Result<()> {
        let what = "work on every thing";
        self.follow(what, |workers, _, _| workers.settled.len() == THINGS as usize).await
    }

    /// Kills an owner; returns how long the takeover took and how many leases moved.
    pub(super) async fn kill_one(&mut self) -> Result<(Duration, usize)> {
        let victim = self.an_owner()?;
        let (clock, held) = (SystemClock::new(), self.leases_of(victim));
        let killed_at = clock.monotonic();
        self.signal(victim, Signal::KILL);
        self.killed = Some(victim);
        self.follow("a takeover from the killed worker", |workers, _, _| workers.leases_of(victim) == 0)
            .await?;
        Ok((clock.monotonic().since(killed_at), held))
    }

    /// Freezes an owner at work, and waits until its write is refused after it was resumed.
    pub(super) async fn freeze_one(&mut self, frozen_for: Duration) -> Result<()> {
        let victim = self.an_owner()?;
        self.freeze_at_work(victim).await?;
        tokio::time::sleep(frozen_for).await;
        if self.leases_of(victim) > 0 {
            let what = "a takeover from the frozen worker";
            self.follow(what, |workers, _, _| workers.leases_of(victim) == 0).await?;
        }
        self.signal(victim, Signal::CONT);
        self.follow_event(victim, "refused", "the refusal of the frozen worker").await
    }

    /// Freezes a worker while it does not hold the write lock of the file, which would stop the others too.
    async fn freeze_at_work(&mut self, victim: usize) -> Result<()> {
        for _ in 0..20 {
            self.follow_event(victim, "working", "a worker at work").await?;
            self.signal(victim, Signal::STOP);
            let busy_timeout = Duration::from_millis(200);
            let options = StoreOptions { busy_timeout, ..StoreOptions::default() };
            let store = Store::open(self.url.parse()?, &options).await?;
            let is_free = store.begin().await.is_ok();
            store.close().await;
            if is_free {
                return Ok(());
            }
            self.signal(victim, Signal::CONT);
        }
        Err(failure("the worker always held the write lock"))
    }

    /// Stops all workers; true if they exit with success in time.
    pub(super) async fn stop_all(&mut self) -> bool {
        let mut is_clean = true;
        for child in &self.children {
            processes::signal(child, Signal::TERM);
        }
        for (index, child) in self.children.iter_mut().enumerate() {
            let ended = tokio::time::timeout(GRACE, child.wait()).await;
            is_clean &= self.killed == Some(index) || matches!(ended, Ok(Ok(status)) if status.success());
        }
        is_clean
    }

    pub(super) async fn end(mut self) {
        for child in &mut self.children {
            let _ended_already = child.kill().await;
        }
    }

    fn an_owner(&self) -> Result<usize> {
        let owner = self.owners.values().copied().filter(|owner| self.killed != Some(*owner)).min();
        owner.ok_or_else(|| failure("no worker of the demo holds a lease"))
    }

    fn signal(&self, index: usize, signal: Signal) {
        processes::signal(&self.children[index], signal);
    }
}

/// Checks in the audit log that no two owners ever worked on the same thing at the same time.
pub(super) async fn judge(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    let mut tx = stage.store.read().await?;
    let (mut settled, mut moves, mut violations) = (0, 0, 0);
    for thing in 1..=THINGS {
        let object = Some(format!("{KIND}/{thing}"));
        let filter = AuditFilter { object, action: Some(SETTLED.to_owned()), ..AuditFilter::default() };
        let mut log = tx.audit().entries(&filter, 10_000).await?;
        log.reverse();
        settled += log.len();
        let (moved, violated) = judge_one(&log);
        moves += moved;
        violations += violated;
    }
    drop(tx);
    verdicts.add(
        violations == 0 && settled > 0,
        format!("{settled} pieces of work over {moves} changes of owner, {violations} by a former owner"),
    );
    // A killed process counts as alive until its lease ends.
    let ended = until("the workers to end", async || {
        let processes = stage.store.read().await?.processes().list(100).await?;
        let mut others = processes.iter().filter(|process| process.id != stage.server);
        Ok((!others.any(|process| matches!(process.state, ProcessState::Live { .. }))).then_some(()))
    });
    verdicts.add(ended.await.is_ok(), "no worker counts as alive any more");
    Ok(())
}

/// Counts changes of owner, and violations: epochs never decrease, and each has one owner.
fn judge_one(log: &[AuditRecord]) -> (usize, usize) {
    let mut owners: HashMap<i64, &str> = HashMap::new();
    let (mut latest, mut violations) = (0, 0);
    for record in log {
        let epoch = record.entry.to.as_deref().and_then(|epoch| epoch.parse().ok()).unwrap_or(-1);
        let owner = owners.entry(epoch).or_insert(&record.entry.actor.name);
        if epoch < latest || *owner != record.entry.actor.name {
            violations += 1;
        }
        latest = latest.max(epoch);
    }
    (owners.len().saturating_sub(1), violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::audit::{Actor, AuditEntry};
    use tidemill_domain::time::Timestamp;

    fn settled(owner: &str, epoch: i64) -> AuditRecord {
        let actor = Actor { name: owner.into(), ..Actor::system() };
        let entry = AuditEntry::new(actor, SETTLED, "demo/1").from_to("", &epoch.to_string());
        AuditRecord { id: 0, at: Timestamp::EPOCH, entry }
    }

    #[test]
    fn owners_after_one_another_are_in_order() {
        let log = [settled("a", 1), settled("a", 1), settled("b", 2), settled("a", 3)];

        assert_eq!(judge_one(&log), (2, 0));
    }

    #[test]
    fn a_planted_ghost_is_found() {
        let ghost = [settled("a", 1), settled("b", 2), settled("a", 1)];
        let twins = [settled("a", 1), settled("b", 1)];

        assert_eq!(judge_one(&ghost).1, 1);
        assert_eq!(judge_one(&twins).1, 1);
    }
}
