//! The share of a relay: which slots it takes and which it releases.
//!
//! Every relay decides for itself, from what it saw a moment ago. Two never have the same slot even if they see different
//! things, because the database gives only free slots, and only the owner releases one. The rules here make the relays
//! agree, with as few moves as possible:
//!
//! - Fair shares differ by at most one slot and add up to 256. With more than 256 relays, some have none and wait. Where
//!   groups are shared, they differ by at most one group and add up to 16.
//! - A relay releases only what it has beyond its share, and takes only what it lacks.
//! - Relays with more than the smaller of the two sizes get the larger one, the oldest first. Moving towards the shares
//!   does not change this: a relay that releases down to a larger share still has more than the smaller size. So while
//!   no relay joins or ends, all agree on the shares however old their view is, and no slot moves twice.
//!
//! It takes two turns of each relay: in one, those with too many release; in the next, those with too few take.

use super::{Group, Instance, LiveRelay, RelayId, Slot, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// A relay takes or releases, never both.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Free slots to ask for, in order of preference. Others may be faster.
    pub take: Vec<Slot>,
    /// Slots to release once their events in flight are settled.
    pub release: Vec<Slot>,
}

/// What relay `me` should do, given the live relays, its own slots and the free ones. A retired relay does nothing.
pub fn plan(me: RelayId, live: &[LiveRelay], mine: &BTreeSet<Slot>, free: &BTreeSet<Slot>) -> Plan {
    let Some(relay) = live.iter().find(|relay| relay.id == me) else { return Plan::default() };
    let unit = relay.unit();
    let free = unit.whole(&free.difference(mine).copied().collect());
    match relay.instance {
        Some(instance) => fixed(instance, unit, mine, &free),
        None => fair(me, live, unit, mine, &free),
    }
}

/// How many slots each relay should have where they share fairly.
pub fn sizes(live: &[LiveRelay]) -> BTreeMap<RelayId, usize> {
    let count = live.len().max(1);
    // All relays share the same unit.
    let step = live.first().map_or(1, |relay| in_unit(relay.unit()));
    let units = Slot::COUNT / step;
    let (smaller, larger_count) = (units / count * step, units % count);
    let mut ranked: Vec<&LiveRelay> = live.iter().collect();
    ranked.sort_by_key(|relay| (relay.slots <= smaller, relay.joined_at, relay.id));
    ranked
        .into_iter()
        .enumerate()
        .map(|(place, relay)| (relay.id, smaller + step * usize::from(place < larger_count)))
        .collect()
}

const fn in_unit(unit: Unit) -> usize {
    match unit {
        Unit::Slot => 1,
        Unit::Group => Group::SLOTS,
    }
}

/// Units are handed over whole: sizes are multiples of a unit, and slots of a unit are adjacent.
fn fair(me: RelayId, live: &[LiveRelay], unit: Unit, mine: &BTreeSet<Slot>, free: &BTreeSet<Slot>) -> Plan {
    let sizes = sizes(live);
    let whole = |slots: usize| slots / in_unit(unit) * in_unit(unit);
    let lacks =
        |id: RelayId, slots: usize| sizes.get(&id).map_or(0, |size| size.saturating_sub(whole(slots)));
    let size = sizes.get(&me).copied().unwrap_or_default();
    let kept = unit.whole(mine);
    let surplus = kept.len().saturating_sub(size);
    let release = mine.difference(&kept).chain(kept.iter().rev().take(surplus)).copied().collect();

    // Each starts where the relays before it end, so that relays at the same time do not all ask for the same slots; and
    // wraps around, so that nothing stays free because of a slow relay.
    let free: Vec<Slot> = free.iter().copied().collect();
    let before: usize =
        live.iter().filter(|other| other.id < me).map(|other| lacks(other.id, other.slots)).sum();
    let begin = before % free.len().max(1);
    let wanted = lacks(me, kept.len()).min(free.len());
    let take = free.iter().cycle().skip(begin).take(wanted).copied().collect();
    Plan { take, release }
}

fn fixed(instance: Instance, unit: Unit, mine: &BTreeSet<Slot>, free: &BTreeSet<Slot>) -> Plan {
    let kept = unit.whole(mine);
    let is_kept = |slot: &Slot| instance.has(*slot, unit) && kept.contains(slot);
    Plan {
        take: free.iter().copied().filter(|slot| instance.has(*slot, unit)).collect(),
        release: mine.iter().copied().filter(|slot| !is_kept(slot)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::relay::tests::relay;
    use super::*;
    use proptest::prelude::*;

    /// Relays that share fairly with this many slots each; the rest of the 256 is free.
    fn state() -> impl Strategy<Value = Vec<LiveRelay>> {
        prop::collection::vec(0..140_usize, 1..12).prop_map(|counts| {
            let mut left = Slot::COUNT;
            let having = counts.into_iter().zip(1..).map(|(count, n)| {
                let count = count.min(left);
                left -= count;
                relay(n, None, count)
            });
            having.collect()
        })
    }

    /// The slots of each relay, and the free ones.
    fn deal(live: &[LiveRelay]) -> (Vec<BTreeSet<Slot>>, BTreeSet<Slot>) {
        let mut slots = Slot::all();
        let owned = live.iter().map(|relay| slots.by_ref().take(relay.slots).collect()).collect();
        (owned, slots.collect())
    }

    /// The same with transactions: this many groups each, and the rest is free.
    fn state_of_groups() -> impl Strategy<Value = Vec<LiveRelay>> {
        prop::collection::vec(0..10_usize, 1..20).prop_map(|counts| {
            let mut left = Group::COUNT;
            let having = counts.into_iter().zip(1..).map(|(count, n)| {
                let count = count.min(left);
                left -= count;
                let transactional_id = Some("shop".to_owned());
                LiveRelay { transactional_id, ..relay(n, None, count * Group::SLOTS) }
            });
            having.collect()
        })
    }

    proptest! {
        /// The same holds for groups, which are never split.
        #[test]
        fn groups_are_shared_fairly_and_whole(live in state_of_groups()) {
            let (owned, free) = deal(&live);
            let sizes = sizes(&live);
            let (least, most) = (sizes.values().min().unwrap(), sizes.values().max().unwrap());
            prop_assert_eq!(sizes.values().sum::<usize>(), Slot::COUNT);
            prop_assert!(most - least <= Group::SLOTS);

            let mut wanted = Vec::new();
            for (relay, mine) in live.iter().zip(&owned) {
                let plan = plan(relay.id, &live, mine, &free);

                let taken: BTreeSet<Slot> = plan.take.iter().copied().collect();
                let released: BTreeSet<Slot> = plan.release.iter().copied().collect();
                prop_assert_eq!(&Unit::Group.whole(&taken), &taken);
                prop_assert_eq!(&Unit::Group.whole(&released), &released);
                prop_assert!(taken.is_subset(&free) && released.is_subset(mine));
                let size = sizes[&relay.id];
                prop_assert_eq!(taken.len(), size.saturating_sub(mine.len()).min(free.len()));
                prop_assert_eq!(released.len(), mine.len().saturating_sub(size));
                wanted.extend(taken);
            }
            let different: BTreeSet<Slot> = wanted.iter().copied().collect();
            prop_assert_eq!(different.len(), wanted.len().min(free.len()));
        }

        /// The rest of a split group is released and not requested.
        #[test]
        fn a_torn_group_is_let_go(slots in prop::collection::btree_set((0..=255_u8).prop_map(Slot::new), 0..256)) {
            let live = [LiveRelay { transactional_id: Some("shop".into()), ..relay(1, None, slots.len()) }];
            let free = Slot::all().filter(|slot| !slots.contains(slot)).collect();

            let plan = plan(live[0].id, &live, &slots, &free);

            let whole = Unit::Group.whole(&slots);
            let torn: Vec<Slot> = slots.difference(&whole).copied().collect();
            prop_assert_eq!(plan.release, torn);
            prop_assert_eq!(plan.take, Unit::Group.whole(&free).into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn fair_sizes_come_to_all_slots_and_differ_by_one(live in state()) {
            let sizes: Vec<usize> = sizes(&live).into_values().collect();

            prop_assert_eq!(sizes.len(), live.len());
            prop_assert_eq!(sizes.iter().sum::<usize>(), Slot::COUNT);
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }

        /// One relay is between its old slots and its share: all still agree.
        #[test]
        fn moving_towards_the_shares_does_not_change_them(
            live in state(),
            progress in prop::collection::vec(0..=100_usize, 12),
        ) {
            let before = sizes(&live);

            let mut on_the_way = live;
            for (relay, percent) in on_the_way.iter_mut().zip(progress) {
                let size = before[&relay.id];
                relay.slots = (relay.slots * (100 - percent) + size * percent) / 100;
            }

            prop_assert_eq!(sizes(&on_the_way), before);
        }

        #[test]
        fn a_relay_lets_go_only_surplus_and_takes_only_what_it_lacks(live in state()) {
            let (owned, free) = deal(&live);
            let sizes = sizes(&live);

            for (relay, mine) in live.iter().zip(&owned) {
                let plan = plan(relay.id, &live, mine, &free);

                let size = sizes[&relay.id];
                let taken: BTreeSet<Slot> = plan.take.iter().copied().collect();
                let released: BTreeSet<Slot> = plan.release.iter().copied().collect();
                prop_assert_eq!((taken.len(), released.len()), (plan.take.len(), plan.release.len()));
                prop_assert!(taken.is_subset(&free) && released.is_subset(mine));
                prop_assert_eq!(taken.len(), size.saturating_sub(mine.len()).min(free.len()));
                prop_assert_eq!(released.len(), mine.len().saturating_sub(size));
            }
        }

        /// When there is enough for all, no two relays ask for the same slot.
        #[test]
        fn who_look_at_once_reach_for_different_slots(live in state()) {
            let (owned, free) = deal(&live);

            let wanted: Vec<Slot> = live
                .iter()
                .zip(&owned)
                .flat_map(|(relay, mine)| plan(relay.id, &live, mine, &free).take)
                .collect();

            let different: BTreeSet<Slot> = wanted.iter().copied().collect();
            prop_assert_eq!(different.len(), wanted.len().min(free.len()));
        }
    }

    #[test]
    fn a_fourth_relay_is_given_a_quarter_by_the_others() {
        let live = [relay(1, None, 86), relay(2, None, 85), relay(3, None, 85), relay(4, None, 0)];
        let (owned, free) = deal(&live);

        let released: Vec<usize> = live
            .iter()
            .zip(&owned)
            .map(|(relay, mine)| plan(relay.id, &live, mine, &free).release.len())
            .collect();

        assert_eq!(released, [22, 21, 21, 0]);
    }

    #[test]
    fn more_relays_than_slots_leave_some_waiting() {
        let mut live: Vec<LiveRelay> = (0..256).map(|n| relay(n + 100, None, 1)).collect();
        // One that joined earlier by its clock, and has nothing.
        live.push(relay(1, None, 0));

        let sizes = sizes(&live);

        assert_eq!(sizes[&live[256].id], 0);
        assert!(live[..256].iter().all(|relay| sizes[&relay.id] == 1));
    }

    #[test]
    fn a_fixed_share_is_taken_when_it_is_free_and_nothing_else() {
        let instance = Instance::new(1, 3).unwrap();
        let live = [relay(1, Some(instance), 2)];
        let mine = BTreeSet::from([1, 4].map(Slot::new));
        let free = BTreeSet::from([0, 7, 9, 10].map(Slot::new));

        let plan = plan(live[0].id, &live, &mine, &free);

        assert_eq!(plan, Plan { take: [7, 10].map(Slot::new).to_vec(), release: vec![] });
    }

    #[test]
    fn a_fixed_share_of_groups_is_counted_by_groups() {
        let live = [LiveRelay {
            transactional_id: Some("shop".into()),
            ..relay(1, Some(Instance::new(1, 3).unwrap()), 0)
        }];

        let plan = plan(live[0].id, &live, &[].into(), &Slot::all().collect());

        let groups: BTreeSet<u8> = plan.take.iter().map(|slot| Group::of(*slot).get()).collect();
        assert_eq!((groups, plan.take.len()), (BTreeSet::from([1, 4, 7, 10, 13]), 80));
    }

    #[test]
    fn who_no_longer_counts_has_nothing_to_do() {
        let all: BTreeSet<Slot> = Slot::all().collect();

        let plan = plan(relay(1, None, 256).id, &[relay(2, None, 0)], &all, &all);

        assert_eq!(plan, Plan::default());
    }

    #[test]
    fn half_is_let_go_for_a_second_relay() {
        use crate::outbox::{LiveRelay, RelayId, Slot, share};
        use crate::time::Timestamp;
        let relay = |n: u128, slots| LiveRelay {
            id: RelayId::new(uuid::Uuid::from_u128(n)),
            name: String::new(),
            host: String::new(),
            pid: 1,
            instance: None,
            transactional_id: None,
            joined_at: Timestamp::EPOCH,
            slots,
        };
        let (old, new) = (relay(1, 256), relay(2, 0));
        let all = Slot::all().collect();
        let plan = share::plan(old.id, &[old, new], &all, &[].into());
        assert_eq!(plan.release.len(), 128);
    }
}
