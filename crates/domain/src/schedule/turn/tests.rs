//! Each tick is decided once and in order, whatever the clock and the executions do.

use super::*;
use crate::schedule::{Outside, Schedule};
use proptest::prelude::*;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

fn at(text: &str) -> Timestamp {
    format!("2026-11-{text}Z").parse().unwrap()
}

fn hourly() -> Schedule {
    Schedule::new("s", "j").cron("0 * * * *")
}

fn plan(schedule: &Schedule) -> Plan {
    schedule.plan().unwrap()
}

fn due(next_at: Timestamp) -> ScheduleState {
    ScheduleState { next_at: Some(next_at), is_waiting: false }
}

fn free(now: Timestamp) -> Circumstances {
    Circumstances { now, is_earlier_running: false, has_room: true }
}

fn missed(ticks: &[&str]) -> Vec<PassedTick> {
    ticks.iter().map(|tick| PassedTick { at: at(tick), why: Passed::Missed }).collect()
}

#[test]
fn nothing_happens_before_its_time() {
    let state = due(at("15T03:00:00"));

    let turn = decide(&plan(&hourly()), state, free(at("15T02:59:59")));

    assert_eq!(turn, Turn { fires: None, passed: Vec::new(), state });
    let over = ScheduleState { next_at: None, is_waiting: false };
    assert_eq!(decide(&plan(&hourly()), over, free(at("15T02:59:59"))).state, over);
}

#[test]
fn a_tick_fires_up_to_the_end_of_its_grace() {
    for now in ["15T03:00:00", "15T03:01:00"] {
        let turn = decide(&plan(&hourly()), due(at("15T03:00:00")), free(at(now)));

        assert_eq!(turn.fires, Some(at("15T03:00:00")), "{now}");
        assert_eq!(turn.state, due(at("15T04:00:00")));
    }
}

#[test]
fn missed_ticks_are_recorded_or_made_up_for_as_the_policy_says() {
    let late = |policy, now| decide(&plan(&hourly().missed(policy)), due(at("15T03:00:00")), free(at(now)));

    let skip = late(MissedRuns::Skip, "15T05:30:00");
    assert_eq!((skip.fires, skip.state), (None, due(at("15T06:00:00"))));
    assert_eq!(skip.passed, missed(&["15T03:00:00", "15T04:00:00", "15T05:00:00"]));

    let skip_then_fire = late(MissedRuns::Skip, "15T05:00:30");
    assert_eq!(skip_then_fire.fires, Some(at("15T05:00:00")), "this one is in time");
    assert_eq!(skip_then_fire.passed, missed(&["15T03:00:00", "15T04:00:00"]));

    let latest = late(MissedRuns::Latest, "15T05:30:00");
    assert_eq!((latest.fires, latest.state), (Some(at("15T05:00:00")), due(at("15T06:00:00"))));
    assert_eq!(latest.passed, missed(&["15T03:00:00", "15T04:00:00"]));

    let all = late(MissedRuns::All { limit: 2 }, "15T05:30:00");
    assert_eq!((all.fires, all.state), (Some(at("15T04:00:00")), due(at("15T05:00:00"))));
    assert_eq!(all.passed, missed(&["15T03:00:00"]));
    let rest =
        decide(&plan(&hourly().missed(MissedRuns::All { limit: 2 })), all.state, free(at("15T05:30:00")));
    assert_eq!((rest.fires, rest.passed), (Some(at("15T05:00:00")), Vec::new()));
}

#[test]
fn a_month_of_missed_seconds_is_dealt_with_at_once() {
    let every_second = Schedule::new("s", "j").cron("* * * * * *");

    let turn = decide(&plan(&every_second), due(at("01T00:00:00")), free(at("30T00:00:00")));

    assert_eq!(turn.passed.len(), PASSED_MAX);
    let last = turn.passed.last().unwrap();
    assert_eq!((last.at, last.why), (at("29T23:58:59"), Passed::MissedMany));
    assert_eq!(turn.fires, Some(at("29T23:59:00")));
}

#[test]
fn an_earlier_execution_lets_a_tick_fire_be_skipped_or_wait() {
    let (tick, busy) =
        (at("15T03:00:00"), Circumstances { is_earlier_running: true, ..free(at("15T03:00:00")) });
    let turn = |overlap| decide(&plan(&hourly().overlap(overlap)), due(tick), busy);

    assert_eq!(turn(Overlap::Allow).fires, Some(tick));
    let skipped = turn(Overlap::Skip);
    assert_eq!(skipped.passed, [PassedTick { at: tick, why: Passed::Skipped }]);
    assert_eq!(skipped.state, due(at("15T04:00:00")));
    let waits = turn(Overlap::Wait);
    assert_eq!((waits.fires, waits.passed), (None, Vec::new()));
    assert_eq!(waits.state, ScheduleState { next_at: Some(tick), is_waiting: true });

    let hours_later = free(at("15T08:30:00"));
    let fires = decide(&plan(&hourly().overlap(Overlap::Wait)), waits.state, hours_later);
    assert_eq!(fires.fires, Some(tick), "who waits is not missed");
}

#[test]
fn a_tick_waits_where_there_is_no_room() {
    let full = Circumstances { has_room: false, ..free(at("15T03:00:00")) };

    let turn = decide(&plan(&hourly()), due(at("15T03:00:00")), full);

    assert_eq!((turn.fires, turn.state.is_waiting), (None, true));
    let later = decide(&plan(&hourly()), turn.state, free(at("15T03:59:00")));
    assert_eq!(later.fires, Some(at("15T03:00:00")));
}

#[test]
fn ticks_outside_of_the_windows_are_dropped_or_one_comes_when_the_next_opens() {
    let night = hourly().window("MON-FRI 22:00-00:30");
    let ticks = |schedule: &Schedule| -> Vec<Timestamp> {
        let plan = plan(schedule);
        // Saturday the 14th.
        let following = |tick: &Timestamp| plan.timetable.next_after(*tick);
        std::iter::successors(Some(at("14T00:00:00")), following).skip(1).take(4).collect()
    };

    let inside = ["16T22:00:00", "16T23:00:00", "17T00:00:00", "17T22:00:00"].map(at);
    assert_eq!(ticks(&night), inside);
    let half_past = night.clone().cron("30 * * * *");
    assert_eq!(ticks(&half_past), ["16T22:30:00", "16T23:30:00", "17T22:30:00", "17T23:30:00"].map(at));
    let put_off = half_past.outside(Outside::Defer);
    assert_eq!(ticks(&put_off), ["16T22:00:00", "16T22:30:00", "16T23:30:00", "17T22:00:00"].map(at));
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let crons =
        prop_oneof![Just("0 * * * *"), Just("*/7 * * * *"), Just("30 2 * * *"), Just("0,5 9-17 * * MON-FRI")];
    let policies = prop_oneof![
        Just(MissedRuns::Skip),
        Just(MissedRuns::Latest),
        (1..6_u32).prop_map(|limit| MissedRuns::All { limit })
    ];
    let overlaps = prop_oneof![Just(Overlap::Allow), Just(Overlap::Skip), Just(Overlap::Wait)];
    (crons, policies, overlaps, any::<bool>(), any::<bool>()).prop_map(
        |(cron, missed, overlap, window, defer)| {
            let schedule =
                Schedule::new("s", "j").cron(cron).zone("Europe/Berlin").missed(missed).overlap(overlap);
            let schedule = if window { schedule.window("SAT-THU 01:00-10:15") } else { schedule };
            if defer { schedule.outside(Outside::Defer) } else { schedule }
        },
    )
}

proptest! {
    #[test]
    fn every_tick_is_decided_on_once_and_in_order(
        schedule in schedules(),
        looks in proptest::collection::vec((0..5 * HOUR, any::<bool>(), any::<bool>()), 1..40),
    ) {
        let plan = plan(&schedule);
        let start: Timestamp = "2026-10-24T12:00:00Z".parse().unwrap();
        let mut state = ScheduleState { next_at: plan.timetable.next_after(start), is_waiting: false };
        let first = state.next_at.unwrap();
        let following = |tick: &Timestamp| plan.timetable.next_after(*tick);
        let (mut now, mut decided) = (start, Vec::<Timestamp>::new());
        for (pause, is_earlier_running, has_room) in looks {
            // The clock may also go back by up to an hour.
            now = now.plus(Duration::from_secs(pause)).minus(Duration::from_secs(pause % HOUR));
            for _ in 0..100 {
                let turn = decide(&plan, state, Circumstances { now, is_earlier_running, has_room });
                for passed in &turn.passed {
                    while passed.why == Passed::MissedMany && following(decided.last().unwrap()) != Some(passed.at) {
                        decided.push(following(decided.last().unwrap()).unwrap());
                    }
                    decided.push(passed.at);
                }
                decided.extend(turn.fires);
                if turn.state == state {
                    break;
                }
                state = turn.state;
            }
            prop_assert!(state.is_waiting || state.next_at.unwrap() > now, "nothing that is due is left");
        }
        let all: Vec<Timestamp> =
            std::iter::successors(Some(first), following).take_while(|tick| *tick < state.next_at.unwrap()).collect();
        prop_assert_eq!(decided, all);
    }

    #[test]
    fn at_most_so_many_missed_ticks_fire_as_the_policy_says(hours in 3..90_u64, limit in 1..20_u32) {
        let plan = plan(&hourly().missed(MissedRuns::All { limit }).overlap(Overlap::Allow));
        let first = at("01T00:00:00");
        let now = first.plus(Duration::from_secs(hours * HOUR + 30 * MINUTE));
        let (mut state, mut fired) = (due(first), Vec::new());
        while state.next_at.unwrap() <= now {
            let turn = decide(&plan, state, free(now));
            fired.extend(turn.fires);
            state = turn.state;
        }
        let expected = u64::from(limit).min(hours + 1);
        prop_assert_eq!(fired.len() as u64, expected);
        prop_assert_eq!(fired.last(), Some(&first.plus(Duration::from_secs(hours * HOUR))));
    }
}
