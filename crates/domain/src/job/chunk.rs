//! What becomes of each item of a chunk: the algorithm of Spring Batch 5.2, without any I/O.
//!
//! A [`Chunk`] is asked what to [do next](Chunk::next_action) and told how it went, until it is done or failed:
//!
//! ```text
//!   process each item ──► write all ──► commit
//!        │ fails             │ fails
//!        ▼                   ▼
//!    roll back, repeat    roll back, repeat; when the attempts are used up: scan
//!    until the attempts   (one item per transaction: process, write, commit; the one
//!    are used up: skip    that fails is rolled back and skipped)
//! ```
//!
//! Items are numbers here, from 0 in the order in which they were read; whoever drives the chunk has them.

mod action;

pub use action::{Action, Counters, Failure, FailureReason, Processed, Retry, Skip};

use crate::item::{ErrorKind, Phase};
use crate::job::fault::{FaultPolicy, SkipDecision};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ItemState {
    /// Neither committed nor left out.
    Pending,
    Filtered,
    Skipped,
    /// Written in the transaction that is open.
    Written,
    Committed,
}

#[derive(Clone, Debug)]
struct Slot {
    state: ItemState,
    /// Whether something came out of it that can be written.
    is_ready: bool,
    attempts: u32,
    last_error: Option<ErrorKind>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Processing, from this item on.
    Transform(usize),
    Write,
    Commit,
    RollBack,
    /// To be rolled back, then the end.
    Failing(Failure),
    Ended(Action),
}

#[derive(Debug)]
pub struct Chunk<'p> {
    policy: Option<&'p FaultPolicy>,
    slots: Vec<Slot>,
    stage: Stage,
    /// Skips of the step before this chunk.
    skips_before: u64,
    counters: Counters,
    read_errors: usize,
    announcements: Vec<Skip>,
    announce_now: Option<Skip>,
    write_attempts: u32,
    write_error: Option<ErrorKind>,
    /// What the last rollback was for, if it was for another attempt.
    retry: Option<Retry>,
    /// Set when the last attempt to write all has failed: from then on, one item per transaction.
    is_scanning: bool,
}

impl<'p> Chunk<'p> {
    /// An empty chunk of a step that has skipped `skips_before` items. Without a policy the first error is the end.
    pub fn new(policy: Option<&'p FaultPolicy>, skips_before: u64) -> Self {
        Self {
            policy,
            slots: Vec::new(),
            stage: Stage::Transform(0),
            skips_before,
            counters: Counters::default(),
            read_errors: 0,
            announcements: Vec::new(),
            announce_now: None,
            write_attempts: 0,
            write_error: None,
            retry: None,
            is_scanning: false,
        }
    }

    /// An item was read. What was read behind an error that is the end does not count.
    pub fn item_read(&mut self) {
        if matches!(self.stage, Stage::Failing(_)) {
            return;
        }
        self.counters.read += 1;
        self.slots.push(Slot { state: ItemState::Pending, is_ready: false, attempts: 0, last_error: None });
    }

    pub fn read_failed(&mut self, kind: &ErrorKind) {
        if matches!(self.stage, Stage::Failing(_)) {
            return;
        }
        let index = self.read_errors;
        self.read_errors += 1;
        if self.skips(Phase::Read, index, kind, FailureReason::NotTolerated) {
            self.announcements.push(Skip { phase: Phase::Read, index });
        }
    }

    pub fn next_action(&mut self) -> Action {
        if let Some(skip) = self.announce_now.take() {
            return Action::Announce(skip);
        }
        loop {
            match self.stage.clone() {
                Stage::Transform(from) => {
                    if let Some(action) = self.transform(from) {
                        return action;
                    }
                }
                Stage::Write => {
                    if let Some(action) = self.write() {
                        return action;
                    }
                }
                Stage::Commit => return Action::Commit,
                Stage::RollBack => {
                    self.counters.rollback += 1;
                    self.repeat();
                    return Action::RollBack;
                }
                Stage::Failing(failure) => {
                    self.counters.rollback += 1;
                    self.repeat();
                    self.stage = Stage::Ended(Action::Fail(failure));
                    return Action::RollBack;
                }
                Stage::Ended(action) => return action,
            }
        }
    }

    /// The next item to be processed, if there is one; otherwise the next stage.
    fn transform(&mut self, from: usize) -> Option<Action> {
        let is_enough = self.is_scanning && self.ready().next().is_some();
        let next = (from..self.slots.len()).find(|&index| self.is_pending(index));
        let index = match next {
            Some(index) if !is_enough => index,
            _ => {
                self.stage = Stage::Write;
                return None;
            }
        };
        if let Some(kind) = self.exhausted(index) {
            self.recover(index, &kind);
            return None;
        }
        if self.slots[index].is_ready {
            self.stage = Stage::Transform(index + 1);
            return None;
        }
        Some(Action::Process(index))
    }

    /// The error of an item that has no attempt left.
    fn exhausted(&self, index: usize) -> Option<ErrorKind> {
        let slot = &self.slots[index];
        let kind = slot.last_error.as_ref()?;
        match self.policy {
            Some(policy) if policy.may_retry(kind, slot.attempts) => None,
            _ => Some(kind.clone()),
        }
    }

    /// An item that could not be processed is left out, or is the end.
    fn recover(&mut self, index: usize, kind: &ErrorKind) {
        if self.skips(Phase::Process, index, kind, FailureReason::RetryExhausted) {
            self.announcements.push(Skip { phase: Phase::Process, index });
            self.stage = Stage::Transform(index + 1);
        }
    }

    pub fn processed(&mut self, index: usize, outcome: Processed) {
        match outcome {
            Processed::Output => {
                self.slots[index].is_ready = true;
                self.slots[index].last_error = None;
                self.stage = Stage::Transform(index + 1);
            }
            Processed::Filtered => {
                // It is not processed again when the chunk is repeated, so it is counted once.
                self.slots[index].state = ItemState::Filtered;
                self.counters.filter += 1;
                self.stage = Stage::Transform(index + 1);
            }
            Processed::Failed(kind) => self.process_failed(index, kind),
        }
    }

    fn process_failed(&mut self, index: usize, kind: ErrorKind) {
        let Some(policy) = self.policy else {
            return self.fail(Phase::Process, Some(index), FailureReason::NotTolerated);
        };
        if !policy.no_rollback.contains(&kind) {
            let attempts = self.slots[index].attempts + 1;
            let retry = Retry { phase: Phase::Process, index: Some(index), attempts };
            self.retry = policy.may_retry(&kind, attempts).then_some(retry);
            self.slots[index].attempts = attempts;
            self.slots[index].last_error = Some(kind);
            self.stage = Stage::RollBack;
            return;
        }
        if self.skips(Phase::Process, index, &kind, FailureReason::NotTolerated) {
            self.announce_now = Some(Skip { phase: Phase::Process, index });
            self.stage = Stage::Transform(index + 1);
        }
    }

    /// What is to be written, if anything is; otherwise the next stage.
    fn write(&mut self) -> Option<Action> {
        if self.is_scanning
            && let (Some(policy), Some(kind)) = (self.policy, &self.write_error)
            && !policy.skip.contains(kind)
        {
            self.fail(Phase::Write, None, FailureReason::RetryExhausted);
            return None;
        }
        let ready = self.written_at_once();
        if ready.is_empty() {
            self.stage = Stage::Commit;
            return None;
        }
        Some(Action::Write(ready))
    }

    pub fn written(&mut self, outcome: Result<(), ErrorKind>) {
        let ready = self.written_at_once();
        match outcome {
            Ok(()) => {
                for &index in &ready {
                    self.slots[index].state = ItemState::Written;
                }
                self.counters.write += ready.len() as u64;
                self.stage = Stage::Commit;
            }
            Err(kind) if self.is_scanning => self.scan_failed(ready.first().copied(), &kind),
            Err(kind) => self.write_failed(kind),
        }
    }

    fn write_failed(&mut self, kind: ErrorKind) {
        let Some(policy) = self.policy else {
            return self.fail(Phase::Write, None, FailureReason::NotTolerated);
        };
        self.write_attempts += 1;
        self.is_scanning = !policy.may_retry(&kind, self.write_attempts);
        let retry = Retry { phase: Phase::Write, index: None, attempts: self.write_attempts };
        self.retry = (!self.is_scanning).then_some(retry);
        self.write_error = Some(kind);
        self.stage = Stage::RollBack;
    }

    /// The item that could not be written has been found.
    fn scan_failed(&mut self, index: Option<usize>, kind: &ErrorKind) {
        let (Some(policy), Some(index)) = (self.policy, index) else {
            return self.fail(Phase::Write, index, FailureReason::NotTolerated);
        };
        if self.skips(Phase::Write, index, kind, FailureReason::NotTolerated) {
            self.announcements.push(Skip { phase: Phase::Write, index });
            self.retry = None;
            let needs_rollback = !policy.no_rollback.contains(kind);
            self.stage = if needs_rollback { Stage::RollBack } else { Stage::Commit };
        }
    }

    pub fn committed(&mut self) {
        self.counters.commit += 1;
        for slot in &mut self.slots {
            if slot.state == ItemState::Written {
                slot.state = ItemState::Committed;
            }
        }
        self.stage = if self.is_complete() { Stage::Ended(Action::Done) } else { Stage::Transform(0) };
    }

    /// The skips that have to be announced before the next commit, in order.
    pub fn take_skips(&mut self) -> Vec<Skip> {
        std::mem::take(&mut self.announcements)
    }

    /// What has been counted since [`take_counters`](Self::take_counters).
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What has been counted since this was last asked.
    pub fn take_counters(&mut self) -> Counters {
        self.skips_before += self.counters.skips();
        std::mem::take(&mut self.counters)
    }

    /// Whether the commit that comes next is the last of this chunk, so that the reader's position may move on.
    pub fn is_complete(&self) -> bool {
        self.slots.iter().all(|slot| slot.state != ItemState::Pending)
    }

    /// How many items from the beginning are settled: what a restart in the middle of a scan has to leave out.
    pub fn offset(&self) -> usize {
        self.slots.iter().take_while(|slot| slot.state != ItemState::Pending).count()
    }

    /// The attempt that the last rollback makes room for; none when it was for something else, such as a scan.
    pub fn retry(&self) -> Option<Retry> {
        self.retry
    }

    /// Whether the step has failed and only its end is left.
    pub fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Ended(Action::Fail(_)))
    }

    /// Whether the next write may fail without a rollback, so that its half-done work has to be undone by itself.
    pub fn needs_savepoint(&self) -> bool {
        self.is_scanning && self.policy.is_some_and(|policy| !policy.no_rollback.is_empty())
    }

    /// Skips what has failed, if the policy allows it. Otherwise the step fails: because of the limit, or as `otherwise`
    /// says.
    fn skips(&mut self, phase: Phase, index: usize, kind: &ErrorKind, otherwise: FailureReason) -> bool {
        let skips = self.skips_before + self.counters.skips();
        let decision = self.policy.map_or(SkipDecision::NotSkippable, |policy| policy.skip(kind, skips));
        match decision {
            SkipDecision::NotSkippable => self.fail(phase, Some(index), otherwise),
            SkipDecision::LimitExceeded => self.fail(phase, Some(index), FailureReason::SkipLimitExceeded),
            SkipDecision::Skip => match phase {
                Phase::Read => self.counters.read_skip += 1,
                Phase::Process => {
                    self.slots[index].state = ItemState::Skipped;
                    self.counters.process_skip += 1;
                }
                Phase::Write => {
                    self.slots[index].state = ItemState::Skipped;
                    self.counters.write_skip += 1;
                }
            },
        }
        decision == SkipDecision::Skip
    }

    fn fail(&mut self, phase: Phase, index: Option<usize>, reason: FailureReason) {
        self.stage = Stage::Failing(Failure { phase, index, reason });
    }

    /// After a rollback: from the beginning, with what is still to be done.
    fn repeat(&mut self) {
        let keeps_outputs = self.policy.is_some_and(|policy| !policy.is_processor_transactional);
        for slot in &mut self.slots {
            if slot.state == ItemState::Written {
                slot.state = ItemState::Pending;
            }
            slot.is_ready &= keeps_outputs;
        }
        self.stage = Stage::Transform(0);
    }

    /// The items of the next write: all that are ready, or one while the faulty one is searched for.
    fn written_at_once(&self) -> Vec<usize> {
        let most = if self.is_scanning { 1 } else { usize::MAX };
        self.ready().take(most).collect()
    }

    fn is_pending(&self, index: usize) -> bool {
        self.slots[index].state == ItemState::Pending
    }

    fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|&index| self.is_pending(index) && self.slots[index].is_ready)
    }
}

#[cfg(test)]
mod tests;
