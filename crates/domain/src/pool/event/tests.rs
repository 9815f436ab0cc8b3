//! Every event can be stored and read back.

use super::*;
use crate::lease::Epoch;
use crate::pool::breaker::Phase;
use crate::pool::settings::Capacity;
use crate::pool::settings::{Pause, PoolName};
use crate::pool::ticket::Upgrade;
use crate::pool::weight::{Shape, WeightModel, weigh};
use crate::pool::{Class, Policy, State};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use uuid::Uuid;

fn number() -> impl Strategy<Value = NonZeroU32> {
    (1_u32..).prop_map(|number| NonZeroU32::new(number).unwrap())
}

fn id() -> impl Strategy<Value = TicketId> {
    any::<u128>().prop_map(|id| TicketId::new(Uuid::from_u128(id)))
}

/// Within the years that have a calendar.
fn instant() -> impl Strategy<Value = Timestamp> {
    (-60_000_000_000_000_000_i64..250_000_000_000_000_000).prop_map(Timestamp::from_micros)
}

/// Whole milliseconds, which the text form can express.
fn time() -> impl Strategy<Value = Duration> {
    (0_u64..31 * 86_400_000).prop_map(Duration::from_millis)
}

fn pool() -> impl Strategy<Value = PoolName> {
    "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}".prop_map(|name| name.parse().unwrap())
}

fn holder() -> impl Strategy<Value = Holder> {
    ("[^\\p{Cc}]{1,20}", "[^\\p{Cc}]{1,20}", "[^\\p{Cc}]{0,20}", any::<i32>())
        .prop_map(|(dag, run, task, map_index)| Holder::new(&dag, &run, &task, map_index).unwrap())
}

fn weight() -> impl Strategy<Value = Weight> {
    (select(WeightModel::ALL.to_vec()), any::<bool>(), 1_u8..5, 1_u32..1_000, 1_u32..1_000).prop_map(
        |(model, hint_effective, sets, parallel, sessions)| {
            let some = |number| NonZeroU32::new(number).unwrap();
            let shape = Shape { parallel: some(parallel), sessions: some(sessions) };
            weigh(model, hint_effective, sets, shape).2
        },
    )
}

prop_compose! {
    fn ticket()(
        (id, request, with, holder) in (id(), id(), prop::collection::vec(pool(), 0..3), holder()),
        (state, class, weight) in (select(State::ALL.to_vec()), select(Class::ALL.to_vec()), weight()),
        (asked, least, granted) in (number(), number(), of(number())),
        upgrade in of((number(), instant()).prop_map(|(parallel, since)| Upgrade { parallel, since })),
        epoch in any::<i64>().prop_map(Epoch::new),
        (enqueued_at, granted_at, claimed_at) in (instant(), of(instant()), of(instant())),
        (doubted_at, ask_by) in (of(instant()), instant()),
        (deadline, overtaken) in (of(instant()), any::<u32>()),
        eta in of((instant(), instant()).prop_map(|(p50, p90)| Eta { p50, p90 })),
        (lease_for, table) in (of(time()), any::<String>()),
        (hint, call) in (of(any::<String>()), of(any::<String>())),
    ) -> Ticket {
        Ticket {
            id, request, with, holder, state, class, weight, asked, least, granted, upgrade, epoch,
            enqueued_at, granted_at, claimed_at, doubted_at, deadline, eta, overtaken, ask_by, lease_for, table, hint, call,
        }
    }
}

prop_compose! {
    fn capacity()(
        window in select(vec!["22:00-06:00", "SUN 00:00-24:00", "MON-FRI 06:30-22:15"]),
        max_units: u32,
    ) -> Capacity {
        Capacity { window: window.parse().unwrap(), max_units }
    }
}

prop_compose! {
    fn settings()(
        (name, external_id, db_type) in (pool(), of(any::<i64>()), any::<String>()),
        (max_units, threshold_percent, server_sets) in (any::<u32>(), any::<u8>(), any::<u8>()),
        (default_units, min_units, default_degree) in (number(), number(), number()),
        (weight, policy) in (select(WeightModel::ALL.to_vec()), select(Policy::ALL.to_vec())),
        hint_effective: bool,
        paused in of((any::<String>(), any::<String>(), instant()).prop_map(|(by, reason, at)| Pause { by, reason, at })),
        capacity in prop::collection::vec(capacity(), 0..4),
        zone in select(vec!["UTC", "Asia/Seoul", "Europe/Berlin"]),
        (lease_for, max_hold, claim_for) in (time(), time(), time()),
    ) -> Settings {
        Settings {
            name, external_id, db_type, max_units, threshold_percent, default_units, min_units, weight,
            hint_effective, default_degree, server_sets, policy, paused, capacity,
            zone: zone.parse().unwrap(), lease_for, max_hold, claim_for,
        }
    }
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        any::<bool>().prop_map(|failed| End::Released { failed }),
        any::<String>().prop_map(|reason| End::Refused { reason }),
        (any::<String>(), any::<String>()).prop_map(|(by, reason)| End::ByOperator { by, reason }),
        select(vec![
            End::ByProbe,
            End::Unclaimed,
            End::HeldTooLong,
            End::StoppedAsking,
            End::GaveUp,
            End::ExceedsPool,
            End::PoolRemoved,
        ]),
    ]
}

fn breaker() -> impl Strategy<Value = Box<Breaker>> {
    let phase = prop_oneof![
        Just(Phase::Closed),
        of(instant()).prop_map(|until| Phase::Open { until }),
        of(id()).prop_map(|ticket| Phase::Probing { ticket }),
        Just(Phase::Ramping),
    ];
    (phase, instant(), any::<String>(), of(any::<String>()), any::<u64>(), time()).prop_map(
        |(phase, since, reason, by, units, pause)| {
            Box::new(Breaker { phase, since, reason, by, units, pause })
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (settings(), of(any::<String>()))
            .prop_map(|(settings, by)| Event::Configured { settings: Box::new(settings), by }),
        (settings(), prop::collection::vec(ticket(), 0..4), breaker()).prop_map(
            |(settings, tickets, breaker)| Event::Snapshot { settings: Box::new(settings), tickets, breaker }
        ),
        breaker().prop_map(|breaker| Event::Breaker { breaker }),
        ticket().prop_map(|ticket| Event::Enqueued { ticket: Box::new(ticket) }),
        (id(), number(), number(), weight(), instant()).prop_map(|(ticket, asked, least, weight, ask_by)| {
            Event::Asked { ticket, asked, least, weight, ask_by }
        }),
        (id(), number(), instant(), select(Turn::ALL.to_vec()), select(Size::ALL.to_vec())).prop_map(
            |(ticket, parallel, ask_by, turn, size)| Event::Granted { ticket, parallel, ask_by, turn, size }
        ),
        (id(), instant(), instant())
            .prop_map(|(ticket, p50, p90)| Event::Estimated { ticket, eta: Eta { p50, p90 } }),
        (id(), of(any::<String>())).prop_map(|(ticket, call)| Event::Claimed { ticket, call }),
        (id(), instant()).prop_map(|(ticket, ask_by)| Event::Unclaimed { ticket, ask_by }),
        (id(), of(any::<String>())).prop_map(|(ticket, call)| Event::Reacquired { ticket, call }),
        (id(), number(), number()).prop_map(|(ticket, parallel, asked)| Event::Resized {
            ticket,
            parallel,
            asked
        }),
        (id(), of(number())).prop_map(|(ticket, parallel)| Event::Wanted { ticket, parallel }),
        id().prop_map(|ticket| Event::Doubted { ticket }),
        id().prop_map(|ticket| Event::Confirmed { ticket }),
        (id(), end()).prop_map(|(ticket, end)| Event::Ended { ticket, end }),
    ]
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), *value, "{text}");
}

#[test]
fn a_record_that_does_not_say_who_changed_the_pool_still_parses() {
    let settings = Box::new(Settings::new("ADW".parse().unwrap(), 8));
    let event = Event::Configured { settings, by: None };
    let text = serde_json::to_string(&event).unwrap();

    assert!(!text.contains("\"by\""), "{text}");
    survives(&event);
}

proptest! {
    #[test]
    fn a_ticket_survives_the_log(ticket in ticket()) {
        survives(&ticket);
    }

    #[test]
    fn settings_survive_the_log(settings in settings()) {
        survives(&settings);
    }

    #[test]
    fn an_event_survives_the_log_and_says_what_it_is(event in event()) {
        survives(&event);
        let text = serde_json::to_value(&event).unwrap();
        prop_assert!(text.as_object().unwrap().contains_key(event.kind()), "{}", text);
    }
}
