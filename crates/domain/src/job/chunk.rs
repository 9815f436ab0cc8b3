//! Processes, writes, retries and skips the items of a chunk: the algorithm of Spring Batch 5.2, without I/O.
//!
//! The caller asks a [`Chunk`] for the [next action](Chunk::next_action) and reports the result, until it ends:
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
//! Items are numbered from 0 in the order in which they were read; the caller has the items themselves.

mod action;

pub use action::{Action, Counters, Failure, FailureReason, Processed, Retry, Skip};

use crate::item::{ErrorKind, Phase};
use crate::job::fault::{FaultPolicy, SkipDecision};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ItemState {
    /// Neither committed, filtered nor skipped.
    Pending,
    Filtered,
    Skipped,
    /// Written in the open transaction.
    Written,
    Committed,
}

#[derive(Clone, Debug)]
struct Slot {
    state: ItemState,
    /// Has an output that can be written.
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
    /// Filtered items that each attempt counts when all its items are processed. A scan starts again at 0.
    filtered: u64,
    announcements: Vec<Skip>,
    /// Announced at each commit of the chunk, behind the others.
    read_skips: Vec<Skip>,
    announce_now: Option<Skip>,
    write_attempts: u32,
    write_error: Option<ErrorKind>,
    /// Set if the last rollback was for another attempt.
    retry: Option<Retry>,
    /// Set when the last attempt to write all items has failed: now one item per transaction.
    is_scanning: bool,
}

crate::getters!(Chunk<'_> {
    /// Counts since [`take_counters`](Self::take_counters).
    counters: Counters,
    /// The attempt that follows the last rollback; none if it was for something else, such as a scan.
    retry: Option<Retry>,
    /// Whether items are written one by one, to find those that fail.
    is_scanning: bool,
});

impl<'p> Chunk<'p> {
    /// An empty chunk of a step that has skipped `skips_before` items. Without a policy the first error ends the step.
    pub fn new(policy: Option<&'p FaultPolicy>, skips_before: u64) -> Self {
        Self {
            policy,
            slots: Vec::new(),
            stage: Stage::Transform(0),
            skips_before,
            counters: Counters::default(),
            read_errors: 0,
            filtered: 0,
            announcements: Vec::new(),
            read_skips: Vec::new(),
            announce_now: None,
            write_attempts: 0,
            write_error: None,
            retry: None,
            is_scanning: false,
        }
    }

    /// Items that are read after a fatal error do not count.
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
            self.read_skips.push(Skip::new(Phase::Read, index));
        }
    }

    pub fn next_action(&mut self) -> Action {
        if let Some(skip) = self.announce_now.take() {
            return Action::Announce(skip);
        }
        loop {
            let action = match self.stage.clone() {
                Stage::Transform(from) => self.transform(from),
                Stage::Write => self.write(),
                Stage::Commit => Some(Action::Commit),
                stage @ (Stage::RollBack | Stage::Failing(_)) => {
                    self.counters.rollback += 1;
                    self.repeat();
                    if let Stage::Failing(failure) = stage {
                        self.stage = Stage::Ended(Action::Fail(failure));
                    }
                    Some(Action::RollBack)
                }
                Stage::Ended(action) => Some(action),
            };
            if let Some(action) = action {
                return action;
            }
        }
    }

    /// The next item to process; none if the stage has changed.
    fn transform(&mut self, from: usize) -> Option<Action> {
        let is_enough = self.is_scanning && self.ready().next().is_some();
        let next = (from..self.slots.len()).find(|&index| self.is_pending(index));
        let index = match next {
            Some(index) if !is_enough => index,
            _ => {
                self.counters.filter += self.filtered;
                self.stage = Stage::Write;
                return None;
            }
        };
        if let Some(kind) = self.exhausted(index) {
            if self.skips(Phase::Process, index, &kind, FailureReason::RetryExhausted) {
                self.announcements.push(Skip::new(Phase::Process, index));
                self.stage = Stage::Transform(index + 1);
            }
            return None;
        }
        if self.slots[index].is_ready {
            self.stage = Stage::Transform(index + 1);
            return None;
        }
        Some(Action::Process(index))
    }

    /// The error of an item that has no attempts left.
    fn exhausted(&self, index: usize) -> Option<ErrorKind> {
        let slot = &self.slots[index];
        let kind = slot.last_error.as_ref()?;
        match self.policy {
            Some(policy) if policy.may_retry(kind, slot.attempts) => None,
            _ => Some(kind.clone()),
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
                self.slots[index].state = ItemState::Filtered;
                self.filtered += 1;
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
            self.announce_now = Some(Skip::new(Phase::Process, index));
            self.stage = Stage::Transform(index + 1);
        }
    }

    /// The items to write; none if the stage has changed.
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
        self.is_scanning = !policy.may_write_again(&kind, self.write_attempts);
        let retry = Retry { phase: Phase::Write, index: None, attempts: self.write_attempts };
        self.retry = (!self.is_scanning).then_some(retry);
        self.write_error = Some(kind);
        self.stage = Stage::RollBack;
    }

    /// The scan has found the item that cannot be written.
    fn scan_failed(&mut self, index: Option<usize>, kind: &ErrorKind) {
        let (Some(policy), Some(index)) = (self.policy, index) else {
            return self.fail(Phase::Write, index, FailureReason::NotTolerated);
        };
        if self.skips(Phase::Write, index, kind, FailureReason::NotTolerated) {
            self.announcements.push(Skip::new(Phase::Write, index));
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
        self.begin_attempt();
        if self.is_complete() {
            self.stage = Stage::Ended(Action::Done);
        }
    }

    /// Whether the next commit has skips to announce.
    pub fn has_skips(&self) -> bool {
        !self.announcements.is_empty() || !self.read_skips.is_empty()
    }

    /// The skips to announce before the next commit, in the order of Spring Batch: processed, written, read.
    pub fn take_skips(&mut self) -> Vec<Skip> {
        let mut skips = std::mem::take(&mut self.announcements);
        skips.sort_by_key(|skip| skip.phase != Phase::Process);
        skips.extend_from_slice(&self.read_skips);
        self.read_skips.iter_mut().for_each(|skip| skip.is_repeated = true);
        skips
    }

    /// Counts since the last call.
    pub fn take_counters(&mut self) -> Counters {
        self.skips_before += self.counters.skips();
        std::mem::take(&mut self.counters)
    }

    /// Whether the next commit is the last of this chunk, so that the reader's position may move on.
    pub fn is_complete(&self) -> bool {
        self.slots.iter().all(|slot| slot.state != ItemState::Pending)
    }

    /// How many items from the start are settled. A restart in the middle of a scan leaves them out.
    pub fn offset(&self) -> usize {
        self.slots.iter().take_while(|slot| slot.state != ItemState::Pending).count()
    }

    /// Whether the step has failed and only has to end.
    pub fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Ended(Action::Fail(_)))
    }

    /// Whether the next write may fail without a rollback, so that it needs a savepoint.
    pub fn needs_savepoint(&self) -> bool {
        self.is_scanning && self.policy.is_some_and(|policy| !policy.no_rollback.is_empty())
    }

    /// Skips what has failed if the policy allows it. Otherwise the step fails: at the limit, or with `otherwise`.
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

    /// After a rollback: starts again with the items that are not settled.
    fn repeat(&mut self) {
        let keeps_outputs = self.policy.is_some_and(|policy| !policy.is_processor_transactional);
        for slot in &mut self.slots {
            if slot.state == ItemState::Written {
                slot.state = ItemState::Pending;
            }
            slot.is_ready &= keeps_outputs;
        }
        self.begin_attempt();
    }

    fn begin_attempt(&mut self) {
        if self.is_scanning {
            self.filtered = 0;
        }
        self.stage = Stage::Transform(0);
    }

    /// All items that are ready; one during a scan.
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
