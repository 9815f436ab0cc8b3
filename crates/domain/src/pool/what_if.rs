//! What would happen if a waiting request asked for something else: runs a pass on a copy.

use super::decide::adaptive_steps;
use super::estimate::Pace;
use super::pass::pass;
use super::{Command, Ledger, Policy, PoolName, State, TicketId};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// Whether a waiting ticket would start at once with `parallel`. `ledgers` has all pools of its request.
pub fn would_start(
    ledgers: &BTreeMap<PoolName, Ledger>,
    pool: &PoolName,
    ticket: TicketId,
    parallel: NonZeroU32,
    now: Timestamp,
) -> bool {
    let mut ledgers = ledgers.clone();
    let Some(ledger) = ledgers.get_mut(pool) else { return false };
    let Some(mut other) = ledger.ticket(ticket).filter(|ticket| ticket.state == State::Waiting).cloned()
    else {
        return false;
    };
    (other.asked, other.least) = (parallel, parallel);
    ledger.put(other);
    let looked = pass(&mut ledgers, now, Pace::default(), &[Command::Look { pool: pool.clone() }]);
    let after = ledgers.get(pool).and_then(|ledger| ledger.ticket(ticket));
    looked.is_ok() && after.is_some_and(|ticket| ticket.state.counts())
}

/// The most parallelism with which it would start at once; none when less does not help. By a binary search, where the
/// policy goes in order.
pub fn most_that_would_start(
    ledgers: &BTreeMap<PoolName, Ledger>,
    pool: &PoolName,
    ticket: TicketId,
    now: Timestamp,
) -> Option<NonZeroU32> {
    let (ledger, would) = (ledgers.get(pool)?, |parallel| would_start(ledgers, pool, ticket, parallel, now));
    let known = ledger.ticket(ticket)?;
    if ledger.settings().policy == Policy::Adaptive {
        // A smaller size runs longer, so it may have to wait where a larger one starts.
        return adaptive_steps(known.asked, known.least).find(|step| would(*step));
    }
    let asked = known.asked.get();
    let (mut starts, mut waits) = (0, asked.saturating_add(1));
    while starts + 1 < waits {
        let middle = starts + (waits - starts) / 2;
        let would = NonZeroU32::new(middle).is_some_and(would);
        if would { starts = middle } else { waits = middle }
    }
    NonZeroU32::new(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::command::{Acquire, Answer, Part};
    use crate::pool::tests::{id, some};
    use crate::pool::{Holder, Policy, Settings};
    use proptest::prelude::*;

    fn ask(ledgers: &mut BTreeMap<PoolName, Ledger>, run: u32, parallel: u32, least: u32) -> TicketId {
        let (ticket, pool) = (id(run.into()), "p".parse().unwrap());
        let (parallel, least) = (Some(some(parallel)), Some(some(least)));
        let part = Part { pool, ticket, parallel, sessions: None, least };
        let acquire = Acquire::new(ticket, Holder::run("d", &run.to_string()).unwrap(), vec![part]);
        let command = [Command::Acquire(Box::new(acquire))];
        let outcome = pass(ledgers, Timestamp::EPOCH, Pace::default(), &command).unwrap();
        assert!(matches!(outcome.answers[..], [Answer::Admitted { .. } | Answer::Waits(_)]));
        ticket
    }

    fn pool(max_units: u32) -> (PoolName, BTreeMap<PoolName, Ledger>) {
        let name: PoolName = "p".parse().unwrap();
        let settings = Settings {
            policy: Policy::Halving,
            threshold_percent: 100,
            min_units: NonZeroU32::MIN,
            ..Settings::new(name.clone(), max_units)
        };
        (name.clone(), BTreeMap::from([(name, Ledger::new(settings, 0))]))
    }

    #[test]
    fn the_first_of_the_queue_would_start_with_what_fits_and_the_second_with_nothing() {
        let (name, mut ledgers) = pool(10);
        ask(&mut ledgers, 1, 7, 7);
        let first = ask(&mut ledgers, 2, 8, 8);
        let second = ask(&mut ledgers, 3, 1, 1);
        let would = |ticket, parallel| would_start(&ledgers, &name, ticket, some(parallel), Timestamp::EPOCH);

        assert!(would(first, 3) && !would(first, 4));
        assert!(!would(second, 1), "nobody overtakes");
        let most = |ticket| most_that_would_start(&ledgers, &name, ticket, Timestamp::EPOCH);
        assert_eq!((most(first), most(second)), (Some(some(3)), None));
    }

    proptest! {
        #[test]
        fn who_waits_would_not_start_with_what_it_asks_for_and_nothing_is_changed(
            max in 1_u32..60,
            asks in prop::collection::vec((1_u32..40, 1_u32..40), 1..12),
        ) {
            let (name, mut ledgers) = pool(max);
            let mut tickets = Vec::new();
            for (run, (asked, least)) in (1..).zip(asks) {
                if least <= max {
                    tickets.push(ask(&mut ledgers, run, asked.max(least), least));
                }
            }
            let before = ledgers.clone();

            for id in tickets {
                let ticket = ledgers[&name].ticket(id).unwrap();
                let would = would_start(&ledgers, &name, id, ticket.least, Timestamp::EPOCH);
                prop_assert!(!would, "{ticket:?} would have been let in");
            }
            prop_assert!(ledgers == before);
        }
    }
}
