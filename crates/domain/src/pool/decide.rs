//! Which requests of a queue may start now, and with how much: the policies.
//!
//! A policy sees one pool: usage, limit and the queue in order. It returns grants and changes nothing. A request for
//! several pools is `held` in this one while another of them has no room: it keeps its place, and counts as one that does
//! not fit.

mod adaptive;

use super::{Reason, Ticket, TicketId, Weight};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

pub(super) use adaptive::{LOOK_AHEAD, is_protected};
pub use adaptive::{OVERTAKES_MAX, SLACK, adaptive_steps};

crate::words! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Policy: "a policy is adaptive, halving or fifo" => about: &'static str {
        #[default]
        Adaptive = "adaptive" => "The first request gets a reservation, and others start early if they do not delay it. A request \
            starts with less only if it should then end earlier, or if many wait and its deadline still holds.",
        /// Stored under its first name, `document`, so that older versions can read it.
        #[serde(rename = "document", alias = "halving")]
        Halving = "halving" or "document" => "In order. A request that does not fit gets half, or half of that, down to the \
            minimum. No overtaking.",
        Fifo = "fifo" => "In order. A request gets all of its units or waits. No overtaking.",
    }

    /// Why a request could start now.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Turn => sentence: &'static str {
        #[default]
        First = "first" => "it was first in the queue",
        EndsBefore = "ends_before" => "it started ahead of others, because it should end before the first request can start",
        SpareUnits = "spare_units" => "it started ahead of others, because the first request does not need these units",
    }

    /// Why it got as much as it did.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Size => sentence: &'static str {
        #[default]
        Full = "full" => "all of its units fit",
        Halved = "halved" => "more did not fit",
        EndsEarlier = "ends_earlier" => "with less it should end earlier than if it waits for all of its units",
        Probe = "probe" => "the database refused connections, so it starts with its minimum as a probe",
        Pressure = "pressure" => "many requests wait, and with less it should still end before its deadline",
    }
}

impl Policy {
    pub fn least(self, asked: NonZeroU32, least: NonZeroU32) -> NonZeroU32 {
        match self {
            Self::Adaptive | Self::Halving => least.min(asked),
            Self::Fifo => asked,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claimant {
    pub ticket: TicketId,
    pub asked: NonZeroU32,
    pub least: NonZeroU32,
    pub weight: Weight,
    /// The units that it already has, if it waits for more.
    pub has: u64,
    /// How many later requests started before it.
    pub overtaken: u32,
    /// The start that it was told to expect.
    pub estimated_start: Option<Timestamp>,
}

impl Claimant {
    pub fn of(ticket: &Ticket) -> Self {
        // More is granted in full or not at all.
        let (asked, least) = match ticket.upgrade.filter(|_| ticket.state.counts()) {
            Some(upgrade) => (upgrade.parallel, upgrade.parallel),
            None => (ticket.asked, ticket.least),
        };
        Self {
            ticket: ticket.id,
            asked,
            least,
            weight: ticket.weight,
            has: ticket.units(),
            overtaken: ticket.overtaken,
            estimated_start: ticket.eta.map(|eta| eta.p50),
        }
    }

    /// The units that a grant of `parallel` would add to what it has.
    pub fn needs(&self, parallel: NonZeroU32) -> u64 {
        self.weight.units(parallel).saturating_sub(self.has)
    }
}

/// What is expected of runs: only the adaptive policy asks.
pub trait Forecast {
    fn now(&self) -> Timestamp;

    /// Half of such runs are shorter.
    fn run_time(&self, ticket: TicketId, parallel: NonZeroU32) -> Duration;

    /// When a waiting request should have ended.
    fn deadline(&self, ticket: TicketId) -> Timestamp;

    /// When units are expected back, and how many, in order of time.
    fn releases(&self) -> Vec<(Timestamp, u64)>;
}

#[derive(Clone, Copy)]
pub struct View<'a> {
    pub limit: u64,
    pub usage: u64,
    /// In order.
    pub queue: &'a [Claimant],
    pub held: &'a BTreeSet<TicketId>,
    pub forecast: &'a dyn Forecast,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    pub ticket: TicketId,
    pub parallel: NonZeroU32,
    pub turn: Turn,
    pub size: Size,
}

/// The grants, in order. Total, and never over the limit.
pub fn decide(policy: Policy, view: &View<'_>) -> Vec<Grant> {
    match policy {
        Policy::Adaptive => adaptive::decide(view),
        Policy::Halving => in_order(view, |claimant| downgrade_steps(claimant.asked, claimant.least)),
        Policy::Fifo => in_order(view, |claimant| std::iter::once(claimant.asked)),
    }
}

/// Each request gets the first of its `steps` that fits. The rest is reserved for the first request that gets none.
fn in_order<I: Iterator<Item = NonZeroU32>>(view: &View<'_>, steps: impl Fn(&Claimant) -> I) -> Vec<Grant> {
    let mut usage = view.usage;
    let mut grants = Vec::new();
    for claimant in view.queue.iter().take_while(|claimant| !view.held.contains(&claimant.ticket)) {
        let room = view.limit.saturating_sub(usage);
        let Some(parallel) = steps(claimant).find(|step| claimant.needs(*step) <= room) else { break };
        usage += claimant.needs(parallel);
        let size = if parallel < claimant.asked { Size::Halved } else { Size::Full };
        grants.push(Grant { ticket: claimant.ticket, parallel, turn: Turn::First, size });
    }
    grants
}

/// By which rules a request started, as one sentence.
pub fn why_started(turn: Turn, size: Size) -> String {
    format!("{}, and {}", turn.sentence(), size.sentence())
}

/// Why the remaining requests wait, in order; `usage` is that after [`decide`].
pub fn reasons(policy: Policy, view: &View<'_>, shrunk: Option<Reason>) -> Vec<(TicketId, Reason)> {
    let room = view.limit.saturating_sub(view.usage);
    let draining = match policy {
        Policy::Adaptive => {
            view.queue.iter().position(|claimant| is_protected(claimant, view.forecast.now()))
        }
        Policy::Halving | Policy::Fifo => None,
    };
    let mut waits_for_all = adaptive::waits_for_all(view);
    let mut is_better_later = |claimant: &Claimant| policy == Policy::Adaptive && waits_for_all(claimant);
    let reason = |(place, claimant): (usize, &Claimant)| {
        let fits = claimant.needs(claimant.least) <= room;
        let reason = match shrunk {
            Some(reason) => reason,
            None if place == 0 && view.held.contains(&claimant.ticket) => Reason::OtherPool,
            None if place == 0 && fits => Reason::EndsEarlierInFull,
            None if place == 0 => Reason::PoolFull,
            None if fits && draining.is_some_and(|draining| draining < place) => Reason::PoolDraining,
            None if fits && is_better_later(claimant) => Reason::EndsEarlierInFull,
            None if fits => Reason::LargerRequestReserved,
            None => Reason::BehindInQueue,
        };
        (claimant.ticket, reason)
    };
    view.queue.iter().enumerate().map(reason).collect()
}

/// The values that a downgrade tries: what was asked for, halved again and again, and finally the least.
pub fn downgrade_steps(asked: NonZeroU32, least: NonZeroU32) -> impl Iterator<Item = NonZeroU32> {
    let least = least.min(asked);
    std::iter::successors(Some(asked), move |step| {
        if *step == least {
            return None;
        }
        let half = NonZeroU32::new(step.get() / 2).unwrap_or(least);
        Some(half.max(least))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::{id, some};
    use proptest::prelude::*;

    #[test]
    fn the_first_name_of_halving_is_still_read_and_stored() {
        for word in ["halving", "document"] {
            assert_eq!(word.parse(), Ok(Policy::Halving));
            assert_eq!(serde_json::from_str::<Policy>(&format!("\"{word}\"")).unwrap(), Policy::Halving);
        }
        assert_eq!(Policy::Halving.to_string(), "halving");
        assert_eq!(serde_json::to_string(&Policy::Halving).unwrap(), "\"document\"");
    }

    fn claimant(number: u128, asked: u32, least: u32) -> Claimant {
        let (ticket, asked, least) = (id(number), some(asked), some(least));
        Claimant { ticket, asked, least, weight: Weight::PLAIN, has: 0, overtaken: 0, estimated_start: None }
    }

    /// The policies that go in order do not ask it.
    struct NoForecast;

    impl Forecast for NoForecast {
        fn now(&self) -> Timestamp {
            Timestamp::EPOCH
        }

        fn run_time(&self, _: TicketId, _: NonZeroU32) -> Duration {
            Duration::ZERO
        }

        fn deadline(&self, _: TicketId) -> Timestamp {
            Timestamp::EPOCH
        }

        fn releases(&self) -> Vec<(Timestamp, u64)> {
            Vec::new()
        }
    }

    fn granted(policy: Policy, limit: u64, usage: u64, queue: &[Claimant]) -> Vec<u32> {
        let held = BTreeSet::new();
        let view = View { limit, usage, queue, held: &held, forecast: &NoForecast };
        decide(policy, &view).into_iter().map(|grant| grant.parallel.get()).collect()
    }

    #[test]
    fn the_documents_cases() {
        let check = |usage, asked, expected: &[u32]| {
            assert_eq!(granted(Policy::Halving, 950, usage, &[claimant(1, asked, 2)]), expected);
        };
        check(72, 8, &[8]);
        check(942, 16, &[8]);
        check(947, 3, &[3]);
        check(948, 3, &[2]);
        check(949, 8, &[]);
        check(995, 8, &[]);
    }

    #[test]
    fn nobody_overtakes_the_first_that_does_not_fit() {
        let queue = [claimant(1, 4, 4), claimant(2, 32, 32), claimant(3, 1, 1)];
        assert_eq!(granted(Policy::Halving, 20, 0, &queue), [4]);
        assert_eq!(granted(Policy::Fifo, 20, 0, &queue), [4]);
    }

    #[test]
    fn fifo_gives_all_or_nothing() {
        assert_eq!(granted(Policy::Fifo, 10, 4, &[claimant(1, 8, 1)]), [] as [u32; 0]);
        assert_eq!(granted(Policy::Fifo, 10, 2, &[claimant(1, 8, 1)]), [8]);
    }

    #[test]
    fn each_who_waits_is_told_why() {
        let queue = [claimant(1, 32, 32), claimant(2, 8, 8), claimant(3, 1, 1)];
        let held = BTreeSet::new();
        let view = View { limit: 20, usage: 16, queue: &queue, held: &held, forecast: &NoForecast };

        let told: Vec<Reason> =
            reasons(Policy::Halving, &view, None).into_iter().map(|(_, reason)| reason).collect();
        assert_eq!(told, [Reason::PoolFull, Reason::BehindInQueue, Reason::LargerRequestReserved]);
    }

    proptest! {
        #[test]
        fn in_order_nobody_exceeds_the_limit_gets_less_than_the_least_or_overtakes(
            policy in prop::sample::select(vec![Policy::Halving, Policy::Fifo]),
            limit in 0_u64..200,
            usage in 0_u64..250,
            asks in prop::collection::vec((1_u32..64, 1_u32..64, 0_u64..8, any::<bool>()), 0..12),
        ) {
            let mut held = BTreeSet::new();
            let mut queue = Vec::new();
            for (index, (asked, least, has, is_held)) in (0..).zip(asks) {
                let claimant = Claimant { has, ..claimant(index, asked, least.min(asked)) };
                if is_held && index % 3 == 0 {
                    held.insert(claimant.ticket);
                }
                queue.push(claimant);
            }
            let view = View { limit, usage, queue: &queue, held: &held, forecast: &NoForecast };

            let grants = decide(policy, &view);

            let mut after = usage;
            for (grant, claimant) in grants.iter().zip(&queue) {
                prop_assert_eq!(grant.ticket, claimant.ticket);
                prop_assert!(grant.parallel >= claimant.least && grant.parallel <= claimant.asked);
                prop_assert!(!held.contains(&grant.ticket));
                let needs = claimant.needs(grant.parallel);
                after += needs;
                prop_assert!(needs == 0 || after <= limit);
            }
            if let Some(head) = queue.get(grants.len()) {
                let least = if policy == Policy::Fifo { head.asked } else { head.least };
                prop_assert!(held.contains(&head.ticket) || after + head.needs(least) > limit.max(after));
            }
        }
    }

    #[test]
    fn an_empty_queue_gets_nothing() {
        for policy in Policy::ALL {
            assert_eq!(granted(policy, 950, 0, &[]), [] as [u32; 0]);
        }
    }

    fn steps(asked: u32, least: u32) -> Vec<u32> {
        downgrade_steps(some(asked), some(least)).map(NonZeroU32::get).collect()
    }

    #[test]
    fn the_documents_mistakes_are_not_made() {
        assert_eq!(steps(8, 2), [8, 4, 2], "not 1");
        assert_eq!(steps(3, 2), [3, 2], "2 is tried");
        assert_eq!(steps(1, 1), [1], "not 0");
        assert_eq!(steps(2, 8), [2], "less than the least was asked for");
    }

    proptest! {
        #[test]
        fn it_falls_from_what_was_asked_to_the_least(asked in 1_u32.., least in 1_u32..) {
            let steps = steps(asked, least);

            prop_assert_eq!(steps.first(), Some(&asked));
            prop_assert_eq!(steps.last(), Some(&least.min(asked)));
            prop_assert!(steps.windows(2).all(|pair| pair[0] > pair[1]));
            prop_assert!(steps.len() <= 34);
        }
    }

    #[test]
    fn a_downgrade_halves_down_to_the_least() {
        let least = NonZeroU32::MIN.saturating_add(1);
        let steps = downgrade_steps(NonZeroU32::new(25).unwrap(), least).map(NonZeroU32::get);

        assert_eq!(steps.collect::<Vec<_>>(), [25, 12, 6, 3, 2]);
    }
}
