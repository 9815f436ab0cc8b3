//! The reference: processes and leases in memory, by the rules of the domain. It says what the store has to
//! answer; whether those rules are any good is for the oracles to say, which do not use them.

use super::transition::{self, KEYS, OWNERS, Transition};
use crate::{TTL, process_id};
use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;
use tidemill_domain::lease::{self, Fence, Lease, LeaseEvent, LeaseRefusal, Life, Term};
use tidemill_domain::process::{self, ProcessEvent, ProcessId, ProcessRefusal, ProcessState};
use tidemill_domain::time::Timestamp;
use tidemill_store::lease::Granted;

/// What the store says to one step. Process ids count from one and instants from zero in each case, so that
/// cases can share a database and a clock.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Answer {
    /// Nobody was asked.
    Nothing,
    Registered,
    Heartbeat(Result<(), ProcessRefusal>),
    Acquired(Result<Granted, LeaseRefusal>),
    /// The keys that were renewed.
    Renewed(Vec<usize>),
    Released(bool),
    Settled(bool),
    Stopped(Result<(), ProcessRefusal>),
    /// The runs that were declared dead.
    Died(Vec<usize>),
    /// The keys that were freed, and from whom.
    Lapsed(Vec<(usize, Fence)>),
}

/// What a run was given, in order; kept for ever, because ghosts remember.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory {
    given: [Vec<(Fence, Term)>; KEYS],
}

impl Memory {
    pub(super) fn note(&mut self, key: usize, fence: Fence, term: Term) {
        self.given[key].push((fence, term));
    }

    /// The fence for `key`, `back` steps before the latest; the oldest when there are not so many.
    pub(super) fn fence(&self, key: usize, back: usize) -> Option<Fence> {
        let given = &self.given[key];
        given.iter().rev().nth(back).or(given.first()).map(|(fence, _)| *fence)
    }

    /// What a bulk renewal asks for: the latest of each key, where it has a term of its own.
    pub(super) fn renewable(&self) -> Vec<(usize, Fence)> {
        let latest = self.given.iter().enumerate().filter_map(|(key, given)| Some((key, given.last()?)));
        latest
            .filter(|(_, (_, term))| matches!(term, Term::For(_)))
            .map(|(key, (fence, _))| (key, *fence))
            .collect()
    }
}

#[derive(Clone, Debug)]
struct Run {
    owner: usize,
    /// False once it has crashed, stopped, or heard that it is dead; what it does then, it does as a ghost.
    is_running: bool,
    state: ProcessState,
    memory: Memory,
}

/// All that is known in one case.
#[derive(Clone, Debug)]
pub(super) struct Model {
    now: Timestamp,
    runs: Vec<Run>,
    leases: [Lease; KEYS],
    /// What the store has to say to the latest step.
    pub(super) answer: Answer,
}

pub(super) fn id_of(run: usize) -> ProcessId {
    process_id(run as u128 + 1)
}

impl Model {
    fn new() -> Self {
        Self { now: Timestamp::EPOCH, runs: Vec::new(), leases: [Lease::NEW; KEYS], answer: Answer::Nothing }
    }

    pub(super) fn idle_owners(&self) -> Vec<usize> {
        (0..OWNERS)
            .filter(|owner| !self.runs.iter().any(|run| run.is_running && run.owner == *owner))
            .collect()
    }

    pub(super) fn running(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|run| self.runs[*run].is_running).collect()
    }

    pub(super) fn all_runs(&self) -> Vec<usize> {
        (0..self.runs.len()).collect()
    }

    /// Who could be given a lease.
    pub(super) fn alive(&self) -> Vec<usize> {
        let mut runs = self.running();
        runs.retain(|run| self.life(id_of(*run)) == Life::Alive);
        runs
    }

    /// The leases that somebody holds and nobody may act on.
    pub(super) fn lapsed(&self) -> Vec<usize> {
        let is_held = |key: &usize| matches!(self.leases[*key], Lease::Held { .. });
        (0..KEYS)
            .filter(is_held)
            .filter(|key| !self.leases[*key].is_live(self.life_of_owner(*key), self.now))
            .collect()
    }

    /// Who was ever given what.
    pub(super) fn fenced(&self) -> Vec<(usize, usize)> {
        let pairs = self.all_runs().into_iter().flat_map(|run| (0..KEYS).map(move |key| (run, key)));
        pairs.filter(|(run, key)| self.runs[*run].memory.fence(*key, 0).is_some()).collect()
    }

    /// Who was ever given something that can be renewed.
    pub(super) fn renewing(&self) -> Vec<usize> {
        let mut runs = self.all_runs();
        runs.retain(|run| !self.runs[*run].memory.renewable().is_empty());
        runs
    }

    fn allows(&self, transition: &Transition) -> bool {
        let is_running = |run: &usize| self.runs.get(*run).is_some_and(|run| run.is_running);
        let has_fence = |run: &usize, key: &usize| {
            self.runs.get(*run).is_some_and(|run| run.memory.fence(*key, 0).is_some())
        };
        match transition {
            Transition::Register { owner, .. } => self.idle_owners().contains(owner),
            Transition::Acquire { run, .. } | Transition::Stop { run } | Transition::Crash { run } => {
                is_running(run)
            }
            Transition::Heartbeat { run, .. } => *run < self.runs.len(),
            Transition::Renew { run, .. } => self.renewing().contains(run),
            Transition::Release { run, key } | Transition::Settle { run, key, .. } => has_fence(run, key),
            Transition::ExpireProcesses | Transition::ExpireLeases | Transition::Advance { .. } => true,
        }
    }

    fn step(&mut self, transition: &Transition) -> Answer {
        self.now = self.now.plus(transition.delay());
        match transition {
            Transition::Advance { .. } => Answer::Nothing,
            Transition::Register { owner, .. } => {
                let state = ProcessState::Live { until: self.now.plus(TTL) };
                self.runs.push(Run { owner: *owner, is_running: true, state, memory: Memory::default() });
                Answer::Registered
            }
            Transition::Crash { run } => {
                self.runs[*run].is_running = false;
                Answer::Nothing
            }
            Transition::Heartbeat { run, .. } => {
                let run = &mut self.runs[*run];
                let after = process::next(run.state, ProcessEvent::Heartbeat { ttl: TTL }, self.now);
                // Whoever is told that it is dead stops, and its owner may register again.
                run.is_running &= after.is_ok();
                Answer::Heartbeat(after.map(|after| run.state = after))
            }
            Transition::Stop { run } => self.stop(*run),
            Transition::Acquire { run, key, term, .. } => Answer::Acquired(self.acquire(*run, *key, *term)),
            Transition::Renew { run, ttl, .. } => {
                let asked = self.runs[*run].memory.renewable();
                let term = Term::For(*ttl);
                let mut renewed = asked;
                renewed.retain(|(key, fence)| self.happens(*key, LeaseEvent::Renew { fence: *fence, term }));
                Answer::Renewed(renewed.into_iter().map(|(key, _)| key).collect())
            }
            Transition::Release { run, key } => {
                let fence = self.runs[*run].memory.fence(*key, 0);
                Answer::Released(fence.is_some_and(|fence| self.happens(*key, LeaseEvent::Release { fence })))
            }
            Transition::Settle { run, key, back } => {
                let fence = self.runs[*run].memory.fence(*key, *back);
                Answer::Settled(fence.is_some_and(|fence| lease::settles(self.leases[*key], fence)))
            }
            Transition::ExpireProcesses => self.expire_processes(),
            Transition::ExpireLeases => self.expire_leases(),
        }
    }

    fn acquire(&mut self, run: usize, key: usize, term: Term) -> Result<Granted, LeaseRefusal> {
        let before = self.leases[key];
        let event = LeaseEvent::Acquire { by: id_of(run), life: self.life(id_of(run)), term };
        let after = lease::next(before, self.life_of_owner(key), event, self.now)?;
        let Lease::Held { fence, until } = after else { panic!("an acquired lease is free") };
        self.leases[key] = after;
        self.runs[run].memory.note(key, fence, term);
        let taken_over_from = match before {
            Lease::Held { fence, .. } => Some(fence.owner),
            Lease::Free { .. } => None,
        };
        Ok(Granted { fence, until, taken_over_from })
    }

    /// Whether `event` is accepted; if so, it has happened.
    fn happens(&mut self, key: usize, event: LeaseEvent) -> bool {
        let after = lease::next(self.leases[key], self.life_of_owner(key), event, self.now);
        after.map(|after| self.leases[key] = after).is_ok()
    }

    fn stop(&mut self, run: usize) -> Answer {
        self.runs[run].is_running = false;
        let after = process::next(self.runs[run].state, ProcessEvent::Stop, self.now);
        if let Ok(after) = after {
            self.runs[run].state = after;
            for lease in &mut self.leases {
                if matches!(lease, Lease::Held { fence, .. } if fence.owner == id_of(run)) {
                    *lease = Lease::Free { epoch: lease.epoch() };
                }
            }
        }
        Answer::Stopped(after.map(|_| ()))
    }

    fn expire_processes(&mut self) -> Answer {
        let mut died = Vec::new();
        for (number, run) in self.runs.iter_mut().enumerate() {
            if let ProcessState::Live { .. } = run.state
                && let Ok(after) = process::next(run.state, ProcessEvent::Expire, self.now)
            {
                run.state = after;
                died.push(number);
            }
        }
        Answer::Died(died)
    }

    /// A silent process keeps its leases until it has been declared dead, or somebody takes them over.
    fn expire_leases(&mut self) -> Answer {
        let mut lapsed = Vec::new();
        for key in 0..KEYS {
            let Lease::Held { fence, .. } = self.leases[key] else { continue };
            let state = self.runs.iter().enumerate().find(|(run, _)| id_of(*run) == fence.owner);
            let undeclared = state.is_some_and(|(_, run)| matches!(run.state, ProcessState::Live { .. }));
            let life = if undeclared { Life::Alive } else { Life::Gone };
            if let Ok(after) = lease::next(self.leases[key], life, LeaseEvent::Expire, self.now) {
                self.leases[key] = after;
                lapsed.push((key, fence));
            }
        }
        Answer::Lapsed(lapsed)
    }

    fn life_of_owner(&self, key: usize) -> Life {
        match self.leases[key] {
            Lease::Held { fence, .. } => self.life(fence.owner),
            Lease::Free { .. } => Life::Gone,
        }
    }

    fn life(&self, id: ProcessId) -> Life {
        let run = self.runs.iter().enumerate().find(|(run, _)| id_of(*run) == id);
        if run.is_some_and(|(_, run)| run.state.is_live(self.now)) { Life::Alive } else { Life::Gone }
    }
}

/// The reference as proptest wants it.
pub(super) struct Reference;

impl ReferenceStateMachine for Reference {
    type State = Model;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::new()).boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Transition> {
        transition::transitions(model)
    }

    fn apply(mut model: Model, transition: &Transition) -> Model {
        model.answer = model.step(transition);
        model
    }

    fn preconditions(model: &Model, transition: &Transition) -> bool {
        model.allows(transition)
    }
}
