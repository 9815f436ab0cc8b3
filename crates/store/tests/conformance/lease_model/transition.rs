//! What can happen in one case, and how often each of it does.
//!
//! An *owner* is one of four programs. Each start of it is a *run*: a process with an id of its own. A run that
//! has crashed may come back as a ghost, which knows its old fences and nothing else.

use super::model::Model;
use crate::TTL;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use std::time::Duration;
use tidemill_domain::lease::Term;

pub(super) const OWNERS: usize = 4;
pub(super) const KEYS: usize = 2;

/// A term that ends well before its process does.
pub(super) const SHORT: Duration = Duration::from_secs(5);
/// A term that its process has to be kept alive for.
pub(super) const LONG: Duration = Duration::from_secs(25);

/// One step of a case. A `delay` passes between the sending of a call and its execution by the database.
#[derive(Clone, Debug)]
pub(super) enum Transition {
    /// A new run of `owner` registers.
    Register { owner: usize, delay: Duration },
    /// A run, or its ghost, says that it is alive.
    Heartbeat { run: usize, delay: Duration },
    /// A run asks for a lease; a take-over when the lease has lapsed.
    Acquire { run: usize, key: usize, term: Term, delay: Duration },
    /// A run, or its ghost, renews all that it was given for a term.
    Renew { run: usize, ttl: Duration, delay: Duration },
    /// A run, or its ghost, gives a lease back.
    Release { run: usize, key: usize },
    /// A run, or its ghost, settles work; `back` counts back from the latest fence that it was given.
    Settle { run: usize, key: usize, back: usize },
    /// A run ends in order.
    Stop { run: usize },
    /// A run ends without a word, or is merely held up: from outside, nobody can tell.
    Crash { run: usize },
    /// Whoever is silent is declared dead.
    ExpireProcesses,
    /// Whatever has lapsed is freed.
    ExpireLeases,
    /// Time passes.
    Advance { by: Duration },
}

impl Transition {
    /// How long its call is under way.
    pub(super) fn delay(&self) -> Duration {
        match self {
            Self::Register { delay, .. }
            | Self::Heartbeat { delay, .. }
            | Self::Acquire { delay, .. }
            | Self::Renew { delay, .. } => *delay,
            Self::Advance { by } => *by,
            _ => Duration::ZERO,
        }
    }
}

/// The steps that make sense after `model`.
pub(super) fn transitions(model: &Model) -> BoxedStrategy<Transition> {
    let mut choices = vec![
        (8, advance().prop_map(|by| Transition::Advance { by }).boxed()),
        (2, Just(Transition::ExpireProcesses).boxed()),
        (2, Just(Transition::ExpireLeases).boxed()),
    ];
    let idle = model.idle_owners();
    if !idle.is_empty() {
        let weight = if idle.len() == OWNERS { 80 } else { 8 };
        let register =
            (select(idle), delay()).prop_map(|(owner, delay)| Transition::Register { owner, delay });
        choices.push((weight, register.boxed()));
    }
    choices.extend(by_a_run(model.running()));
    choices.extend(take_over(model.alive(), model.lapsed()));
    choices.extend(by_anybody(model));
    Union::new_weighted(choices).boxed()
}

fn by_a_run(running: Vec<usize>) -> Vec<(u32, BoxedStrategy<Transition>)> {
    if running.is_empty() {
        return Vec::new();
    }
    let run = || select(running.clone());
    let acquire = (run(), 0..KEYS, term(), delay());
    vec![
        (14, (run(), delay()).prop_map(|(run, delay)| Transition::Heartbeat { run, delay }).boxed()),
        (
            14,
            acquire.prop_map(|(run, key, term, delay)| Transition::Acquire { run, key, term, delay }).boxed(),
        ),
        (1, run().prop_map(|run| Transition::Stop { run }).boxed()),
        (2, run().prop_map(|run| Transition::Crash { run }).boxed()),
    ]
}

/// What has lapsed is soon wanted by somebody else, and its owner may just then wake up.
fn take_over(alive: Vec<usize>, lapsed: Vec<usize>) -> Vec<(u32, BoxedStrategy<Transition>)> {
    if alive.is_empty() || lapsed.is_empty() {
        return Vec::new();
    }
    let acquire = (select(alive), select(lapsed), term());
    let acquire =
        acquire.prop_map(|(run, key, term)| Transition::Acquire { run, key, term, delay: Duration::ZERO });
    vec![(10, acquire.boxed()), (4, Just(Transition::ExpireLeases).boxed())]
}

/// Ghosts do these too.
fn by_anybody(model: &Model) -> Vec<(u32, BoxedStrategy<Transition>)> {
    let (runs, fenced, renewing) = (model.all_runs(), model.fenced(), model.renewing());
    let mut choices = Vec::new();
    if !runs.is_empty() {
        let late = select(runs).prop_map(|run| Transition::Heartbeat { run, delay: Duration::ZERO });
        choices.push((2, late.boxed()));
    }
    if !fenced.is_empty() {
        let one = || select(fenced.clone());
        let back = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
        let settle = (one(), back).prop_map(|((run, key), back)| Transition::Settle { run, key, back });
        choices.push((14, settle.boxed()));
        choices.push((2, one().prop_map(|(run, key)| Transition::Release { run, key }).boxed()));
    }
    if !renewing.is_empty() {
        let asked = (select(renewing), select(vec![SHORT, LONG]), delay());
        let renew = asked.prop_map(|(run, ttl, delay)| Transition::Renew { run, ttl, delay });
        choices.push((6, renew.boxed()));
    }
    choices
}

fn term() -> impl Strategy<Value = Term> {
    select(vec![Term::Process, Term::For(SHORT), Term::For(LONG)])
}

/// Most calls are quick, some are slow, and a few take longer than the lease that they are about.
fn delay() -> impl Strategy<Value = Duration> {
    prop_oneof![
        24 => Just(Duration::ZERO),
        4 => between(Duration::ZERO, TTL / 8),
        2 => between(Duration::ZERO, TTL * 2),
        1 => edge(),
    ]
}

fn advance() -> impl Strategy<Value = Duration> {
    prop_oneof![
        6 => between(Duration::ZERO, TTL / 4),
        2 => between(TTL / 4, TTL),
        1 => edge(),
    ]
}

/// The instants at which something ends, and those right before them.
fn edge() -> impl Strategy<Value = Duration> {
    let ends = [SHORT * 4 / 5, SHORT, TTL * 4 / 5, TTL, LONG * 4 / 5, LONG];
    let instant = Duration::from_micros(1);
    select(ends.into_iter().flat_map(|end| [end - instant, end]).collect::<Vec<_>>())
}

fn between(low: Duration, high: Duration) -> impl Strategy<Value = Duration> {
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap();
    (micros(low)..micros(high)).prop_map(Duration::from_micros)
}
