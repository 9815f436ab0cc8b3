//! Schedules: how they are defined, taken when due, paused and recorded.

use crate::Bench;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::job::ExecutionId;
use tidemill_domain::schedule::{MissedRuns, Schedule, TickOutcome};
use tidemill_domain::time::Timestamp;
use tidemill_store::schedule::{
    Defined, DueSchedule, DueTick, NextTick, Room, ScheduleRecord, TICKS_KEPT, TickRecord, UnlaunchedTicks,
};

crate::on_both![
    a_definition_that_did_not_change_keeps_its_next_tick_and_its_pause,
    a_definition_that_changed_begins_anew_and_stays_paused,
    of_many_programs_that_bring_one_schedule_at_once_one_is_new,
    only_a_schedule_that_is_due_and_whose_job_is_here_is_taken,
    a_schedule_that_somebody_has_taken_is_passed_over,
    a_turn_that_does_not_commit_was_never_there,
    each_tick_is_recorded_once,
    a_tick_that_finds_no_room_waits_and_is_not_missed,
    missed_ticks_are_recorded_and_the_newest_is_up,
    what_comes_during_a_pause_never_fires,
    a_schedule_that_is_removed_is_gone_with_its_ticks,
    a_clock_that_is_set_back_repeats_nothing,
    a_definition_that_is_not_understood_does_not_stand_before_others,
    only_the_newest_ticks_are_kept,
    ticks_are_listed_by_pages,
    local_times_follow_the_clocks_of_berlin_and_new_york,
    the_next_ticks_are_those_of_schedules_that_are_not_paused,
    a_tick_without_a_launch_is_told_until_a_later_one_fired_and_for_a_while,
    a_schedule_with_many_refused_ticks_hides_no_other_schedule,
];

const HOUR: Duration = Duration::from_secs(3600);

fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Operator, request_id: None }
}

/// The bench's clock begins at 02:00, so its first tick is at 03:00.
fn hourly(name: &str) -> Schedule {
    Schedule::new(name, "load").cron("0 * * * *")
}

fn at(text: &str) -> Timestamp {
    format!("2026-11-15T{text}Z").parse().unwrap()
}

async fn define(bench: &Bench, schedule: &Schedule) -> Defined {
    let mut tx = bench.begin().await;
    let defined = tx.schedules().define(schedule, &schedule.plan().unwrap(), &ann()).await.unwrap();
    tx.commit().await.unwrap();
    defined
}

async fn find(bench: &Bench, name: &str) -> ScheduleRecord {
    bench.begin().await.schedules().find(name).await.unwrap().unwrap()
}

async fn ticks(bench: &Bench, name: &str) -> Vec<TickRecord> {
    bench.begin().await.schedules().ticks(name, None, 2000).await.unwrap()
}

/// One turn; what is up counts as launched by the execution of this number.
async fn turn(bench: &Bench, room: Room, execution: i64) -> Option<DueSchedule> {
    let mut tx = bench.begin().await;
    let taken = tx.schedules().take_due(&["load"], room).await.unwrap();
    if let Some(DueSchedule { schedule, due: DueTick::Fires { tick, .. }, .. }) = &taken {
        assert!(tx.schedules().record_tick(schedule, *tick, Ok(ExecutionId::new(execution))).await.unwrap());
    }
    tx.commit().await.unwrap();
    taken
}

fn fires(taken: &Option<DueSchedule>) -> Option<Timestamp> {
    match taken {
        Some(DueSchedule { due: DueTick::Fires { tick, .. }, .. }) => Some(*tick),
        _ => None,
    }
}

async fn a_definition_that_did_not_change_keeps_its_next_tick_and_its_pause(bench: Bench) {
    let schedule = hourly("s").window("00:00-24:00").parameter("day", "${tick.date}").parameter("a", "가");
    assert_eq!(define(&bench, &schedule).await, Defined::New);
    bench.begin().await.schedules().pause("s", &ann(), "audit").await.unwrap();
    let mut tx = bench.begin().await;
    tx.schedules().pause("s", &ann(), "audit").await.unwrap();
    tx.commit().await.unwrap();
    let before = find(&bench, "s").await;

    bench.advance(5 * HOUR);
    assert_eq!(define(&bench, &schedule).await, Defined::Unchanged);

    assert_eq!(find(&bench, "s").await, before);
    assert_eq!((before.schedule, before.next_at), (schedule, Some(at("03:00:00"))));
    let pause = before.pause.unwrap();
    assert_eq!((pause.by.as_str(), pause.reason.as_str(), pause.at), ("ann", "audit", at("02:00:00")));
}

async fn the_next_ticks_are_those_of_schedules_that_are_not_paused(bench: Bench) {
    define(&bench, &hourly("a")).await;
    define(&bench, &hourly("b")).await;
    bench.advance(HOUR);
    turn(&bench, Room::Full, 1).await;
    let mut tx = bench.begin().await;
    tx.schedules().pause("b", &ann(), "audit").await.unwrap();

    let next = tx.schedules().next_ticks(10).await.unwrap();

    let (schedule, job) = ("a".to_owned(), "load".to_owned());
    assert_eq!(next, [NextTick { schedule, job, next_at: Some(at("03:00:00")), is_waiting: true }]);
}

async fn a_tick_without_a_launch_is_told_until_a_later_one_fired_and_for_a_while(bench: Bench) {
    let policies = [("skip", MissedRuns::Skip), ("latest", MissedRuns::Latest)];
    for (name, policy) in policies {
        define(&bench, &hourly(name).missed(policy)).await;
    }
    let unlaunched = async || {
        let ticks = bench.begin().await.schedules().unlaunched_ticks(HOUR, 100).await.unwrap();
        let counted = |ticks: UnlaunchedTicks| (ticks.schedule, ticks.count, ticks.tick, ticks.outcome);
        ticks.into_iter().map(counted).collect::<Vec<_>>()
    };
    assert_eq!(unlaunched().await, []);

    // 03:00 and 04:00 are missed. One policy skips them, the other makes up for them with the latest.
    bench.advance(2 * HOUR + HOUR / 2);
    turn(&bench, Room::Free, 1).await;
    turn(&bench, Room::Free, 2).await;
    let missed = [("skip".to_owned(), 2, at("04:00:00"), TickOutcome::Missed)];
    assert_eq!(unlaunched().await, missed);

    bench.advance(HOUR / 2);
    let fired = [turn(&bench, Room::Free, 3).await, turn(&bench, Room::Free, 4).await];
    assert!(fired.iter().all(|taken| fires(taken) == Some(at("05:00:00"))));
    assert_eq!(unlaunched().await, missed, "decided less than an hour ago");
    bench.advance(HOUR);
    assert_eq!(unlaunched().await, []);

    let mut tx = bench.begin().await;
    let DueTick::Fires { tick, .. } =
        tx.schedules().take_due(&["load"], Room::Free).await.unwrap().unwrap().due
    else {
        panic!("06:00 is due")
    };
    assert!(tx.schedules().record_tick("latest", tick, Err("TM1004: no")).await.unwrap());
    tx.commit().await.unwrap();
    bench.advance(24 * HOUR);
    let refused = bench.begin().await.schedules().unlaunched_ticks(HOUR, 100).await.unwrap();
    assert_eq!((refused.len(), refused[0].reason.as_deref()), (1, Some("TM1004: no")));
    let mut tx = bench.begin().await;
    tx.schedules().pause("latest", &ann(), "audit").await.unwrap();
    assert_eq!(tx.schedules().unlaunched_ticks(HOUR, 100).await.unwrap(), [], "it is paused");
}

async fn a_schedule_with_many_refused_ticks_hides_no_other_schedule(bench: Bench) {
    let mut tx = bench.begin().await;
    for (name, ticks) in [("a", 5), ("b", 1), ("c", 3)] {
        let schedule = hourly(name);
        tx.schedules().define(&schedule, &schedule.plan().unwrap(), &ann()).await.unwrap();
        for number in 0..ticks {
            let (tick, why) = (bench.now().plus(HOUR * number), format!("TM1004: number {number}"));
            assert!(tx.schedules().record_tick(name, tick, Err(why.as_str())).await.unwrap());
        }
    }

    let found = tx.schedules().unlaunched_ticks(HOUR, 2).await.unwrap();

    let last: Vec<_> =
        found.iter().map(|ticks| (ticks.schedule.as_str(), ticks.count, ticks.reason.as_deref())).collect();
    assert_eq!(last, [("a", 5, Some("TM1004: number 4")), ("b", 1, Some("TM1004: number 0"))]);
}

async fn a_schedule_that_is_removed_is_gone_with_its_ticks(bench: Bench) {
    define(&bench, &hourly("s")).await;
    bench.advance(HOUR);
    assert!(fires(&turn(&bench, Room::Free, 1).await).is_some());

    let mut tx = bench.begin().await;
    assert!(!tx.schedules().remove("other", &ann(), "gone").await.unwrap());
    assert!(tx.schedules().remove("s", &ann(), "gone").await.unwrap());
    tx.commit().await.unwrap();

    bench.advance(HOUR);
    assert!(turn(&bench, Room::Free, 2).await.is_none());
    assert!(ticks(&bench, "s").await.is_empty());
    assert_eq!(define(&bench, &hourly("s")).await, Defined::New);
}

async fn a_definition_that_changed_begins_anew_and_stays_paused(bench: Bench) {
    define(&bench, &hourly("s")).await;
    let mut tx = bench.begin().await;
    tx.schedules().pause("s", &ann(), "audit").await.unwrap();
    tx.commit().await.unwrap();
    bench.advance(5 * HOUR);

    let changed = hourly("s").cron("30 * * * *").missed(MissedRuns::Latest);
    assert_eq!(define(&bench, &changed).await, Defined::Changed);

    let found = find(&bench, "s").await;
    assert_eq!((found.schedule, found.next_at), (changed, Some(at("07:30:00"))));
    assert!(found.pause.is_some());
}

async fn of_many_programs_that_bring_one_schedule_at_once_one_is_new(bench: Bench) {
    let mut rivals = Vec::new();
    for _ in 0..8 {
        let store = bench.store.clone();
        rivals.push(tokio::spawn(async move {
            let mut tx = store.begin().await.unwrap();
            let schedule = hourly("s");
            let defined = tx.schedules().define(&schedule, &schedule.plan().unwrap(), &ann()).await.unwrap();
            tx.commit().await.unwrap();
            defined
        }));
    }

    let mut new = 0;
    for rival in rivals {
        new += usize::from(rival.await.unwrap() == Defined::New);
    }

    assert_eq!(new, 1);
}

async fn only_a_schedule_that_is_due_and_whose_job_is_here_is_taken(bench: Bench) {
    define(&bench, &hourly("ours")).await;
    define(&bench, &Schedule::new("foreign", "load2").cron("0 * * * *")).await;
    assert_eq!(turn(&bench, Room::Free, 1).await, None, "nothing is due");
    let mut tx = bench.begin().await;
    let looked = tx.schedules().next_look(&["load"]).await.unwrap();
    assert_eq!(looked, (at("02:00:00"), Some(at("03:00:00"))));
    assert_eq!(tx.schedules().next_look(&["oad", "load3"]).await.unwrap().1, None);
    tx.rollback().await.unwrap();

    bench.advance(HOUR);

    assert_eq!(turn(&bench, Room::Free, 1).await.unwrap().schedule, "ours");
    assert_eq!(turn(&bench, Room::Free, 2).await, None, "nobody here has the job of the other");
    assert_eq!(find(&bench, "foreign").await.next_at, Some(at("03:00:00")));
}

async fn a_schedule_that_somebody_has_taken_is_passed_over(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        // There the one writer's transaction keeps everybody out.
        return;
    }
    define(&bench, &hourly("a")).await;
    define(&bench, &hourly("b")).await;
    bench.advance(HOUR);
    let (mut one, mut other, mut third) = (bench.begin().await, bench.begin().await, bench.begin().await);

    let first = one.schedules().take_due(&["load"], Room::Free).await.unwrap().unwrap();
    let second = other.schedules().take_due(&["load"], Room::Free).await.unwrap().unwrap();
    let none = third.schedules().take_due(&["load"], Room::Free).await.unwrap();

    assert_eq!((first.schedule.as_str(), second.schedule.as_str(), none), ("a", "b", None));
}

async fn a_turn_that_does_not_commit_was_never_there(bench: Bench) {
    define(&bench, &hourly("s")).await;
    bench.advance(HOUR);
    let before = find(&bench, "s").await;
    let mut tx = bench.begin().await;
    let taken = tx.schedules().take_due(&["load"], Room::Free).await.unwrap();
    assert!(tx.schedules().record_tick("s", fires(&taken).unwrap(), Ok(ExecutionId::new(1))).await.unwrap());
    tx.rollback().await.unwrap();

    assert_eq!(find(&bench, "s").await, before);
    assert_eq!(ticks(&bench, "s").await, []);
    assert_eq!(fires(&turn(&bench, Room::Free, 2).await), Some(at("03:00:00")), "it is due again");
}

async fn each_tick_is_recorded_once(bench: Bench) {
    define(&bench, &hourly("s")).await;
    bench.advance(HOUR);
    let fired = fires(&turn(&bench, Room::Free, 7).await).unwrap();

    let mut tx = bench.begin().await;
    let again = tx.schedules().record_tick("s", fired, Ok(ExecutionId::new(8))).await.unwrap();
    let refused = tx.schedules().record_tick("s", fired, Err("no")).await.unwrap();
    tx.commit().await.unwrap();

    assert!(!again && !refused);
    let recorded = ticks(&bench, "s").await;
    assert_eq!(recorded.len(), 1);
    assert_eq!((recorded[0].outcome, recorded[0].execution), (TickOutcome::Fired, Some(ExecutionId::new(7))));
    let found = find(&bench, "s").await;
    assert_eq!((found.last_tick_at, found.next_at), (Some(at("03:00:00")), Some(at("04:00:00"))));
}

async fn a_tick_that_finds_no_room_waits_and_is_not_missed(bench: Bench) {
    define(&bench, &hourly("s")).await;
    bench.advance(HOUR);

    let full = turn(&bench, Room::Full, 1).await.unwrap();
    assert_eq!(full.due, DueTick::Nothing);
    assert!(find(&bench, "s").await.is_waiting);
    assert_eq!(turn(&bench, Room::Free, 1).await, None, "it is left alone for a moment");
    bench.advance(HOUR / 2);

    assert_eq!(fires(&turn(&bench, Room::Free, 1).await), Some(at("03:00:00")));
    assert!(!find(&bench, "s").await.is_waiting);
}

async fn missed_ticks_are_recorded_and_the_newest_is_up(bench: Bench) {
    define(&bench, &hourly("s").missed(MissedRuns::Latest)).await;
    bench.advance(3 * HOUR + HOUR / 2);

    let taken = turn(&bench, Room::Free, 9).await;

    assert_eq!(fires(&taken), Some(at("05:00:00")));
    let recorded: Vec<_> =
        ticks(&bench, "s").await.into_iter().map(|tick| (tick.tick, tick.outcome)).collect();
    let expected = [
        (at("05:00:00"), TickOutcome::Fired),
        (at("04:00:00"), TickOutcome::Missed),
        (at("03:00:00"), TickOutcome::Missed),
    ];
    assert_eq!(recorded, expected);
    assert_eq!(turn(&bench, Room::Free, 10).await, None);
}

async fn what_comes_during_a_pause_never_fires(bench: Bench) {
    define(&bench, &hourly("s").missed(MissedRuns::All { limit: 100 })).await;
    let mut tx = bench.begin().await;
    let paused = tx.schedules().pause("s", &ann(), "stocktaking").await.unwrap().unwrap();
    assert_eq!(
        tx.schedules().pause("s", &Actor::system(), "other").await.unwrap(),
        Some(paused),
        "the first counts"
    );
    assert_eq!(tx.schedules().pause("none", &ann(), "x").await.unwrap(), None);
    tx.commit().await.unwrap();
    bench.advance(5 * HOUR);
    assert_eq!(turn(&bench, Room::Free, 1).await, None);

    let mut tx = bench.begin().await;
    let resumed = tx.schedules().resume("s", &ann(), Some("done")).await.unwrap().unwrap();
    assert_eq!(tx.schedules().resume("none", &ann(), None).await.unwrap(), None);
    tx.commit().await.unwrap();

    assert_eq!((resumed.pause, resumed.next_at), (None, Some(at("08:00:00"))));
    assert_eq!(turn(&bench, Room::Free, 1).await, None);
    assert_eq!(ticks(&bench, "s").await, []);
    let mut tx = bench.begin().await;
    let audit = tx.audit().entries(&Default::default(), 10).await.unwrap();
    let actions: Vec<&str> = audit.iter().map(|line| line.entry.action.as_str()).collect();
    assert_eq!(actions[..3], ["schedule.resume", "schedule.pause", "schedule.define"]);
}

async fn a_clock_that_is_set_back_repeats_nothing(bench: Bench) {
    define(&bench, &hourly("s")).await;
    bench.advance(HOUR);
    assert_eq!(fires(&turn(&bench, Room::Free, 1).await), Some(at("03:00:00")));

    bench.clock.jump_to(at("02:30:00"));
    assert_eq!(turn(&bench, Room::Free, 2).await, None);
    assert_eq!(find(&bench, "s").await.next_at, Some(at("04:00:00")));

    // Even where somebody lets it begin anew from there.
    define(&bench, &hourly("s").missed(MissedRuns::Latest)).await;
    assert_eq!(find(&bench, "s").await.next_at, Some(at("03:00:00")));
    bench.clock.jump_to(at("03:00:10"));
    let again = turn(&bench, Room::Free, 3).await.unwrap();
    assert_eq!(again.due, DueTick::DecidedBefore { tick: at("03:00:00") });
    assert_eq!(find(&bench, "s").await.next_at, Some(at("04:00:00")));
    assert_eq!(ticks(&bench, "s").await.len(), 1);
}

async fn a_definition_that_is_not_understood_does_not_stand_before_others(bench: Bench) {
    define(&bench, &hourly("a")).await;
    define(&bench, &hourly("b")).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("update tidemill_schedule set zone = 'Mars/North' where name = 'a'").await.unwrap();
    tx.commit().await.unwrap();
    bench.advance(HOUR);

    let damaged = turn(&bench, Room::Free, 1).await.unwrap();
    let other = turn(&bench, Room::Free, 1).await;

    assert!(matches!(damaged.due, DueTick::Damaged(bad) if bad.part == "zone"), "{:?}", damaged.schedule);
    assert_eq!(fires(&other), Some(at("03:00:00")));
    assert_eq!(turn(&bench, Room::Free, 1).await, None);
}

async fn only_the_newest_ticks_are_kept(bench: Bench) {
    define(&bench, &Schedule::new("s", "load").cron("* * * * * *").grace(Duration::from_secs(5000))).await;
    let count = TICKS_KEPT + 5;
    let start = bench.now();
    bench.advance(Duration::from_secs(count.into()));
    let mut tx = bench.begin().await;
    for number in 1..=count {
        let taken = tx.schedules().take_due(&["load"], Room::Free).await.unwrap();
        assert!(
            tx.schedules()
                .record_tick("s", fires(&taken).unwrap(), Ok(ExecutionId::new(number.into())))
                .await
                .unwrap()
        );
    }
    tx.commit().await.unwrap();

    let kept = ticks(&bench, "s").await;

    assert_eq!(kept.len() as u32, TICKS_KEPT);
    assert_eq!(kept.last().unwrap().tick, start.plus(Duration::from_secs(6)));
}

async fn ticks_are_listed_by_pages(bench: Bench) {
    define(&bench, &hourly("s")).await;
    for execution in 1..=3 {
        bench.advance(HOUR);
        turn(&bench, Room::Free, execution).await;
    }
    let mut tx = bench.begin().await;

    let first = tx.schedules().ticks("s", None, 2).await.unwrap();
    let second = tx.schedules().ticks("s", Some(first[1].tick), 2).await.unwrap();

    let times = |page: &[TickRecord]| page.iter().map(|tick| tick.tick).collect::<Vec<_>>();
    assert_eq!(times(&first), [at("05:00:00"), at("04:00:00")]);
    assert_eq!(times(&second), [at("03:00:00")]);
    assert_eq!(tx.schedules().list(10).await.unwrap().len(), 1);
}

async fn local_times_follow_the_clocks_of_berlin_and_new_york(bench: Bench) {
    let check = async |name: &str, zone: &str, start: &str, expected: [&str; 3]| {
        bench.clock.jump_to(start.parse().unwrap());
        define(&bench, &Schedule::new(name, "load").cron("30 2 * * *").zone(zone)).await;
        for expected in expected {
            let next_at = find(&bench, name).await.next_at.unwrap();
            assert_eq!(next_at, expected.parse().unwrap(), "{zone}");
            bench.clock.jump_to(next_at);
            assert_eq!(fires(&turn(&bench, Room::Free, 1).await), Some(next_at), "{zone}");
        }
        let mut tx = bench.begin().await;
        tx.schedules().pause(name, &ann(), "done").await.unwrap();
        tx.commit().await.unwrap();
    };

    let spring = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    check("a", "Europe/Berlin", "2026-03-28T00:00:00Z", spring).await;
    let autumn = ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    check("b", "Europe/Berlin", "2026-10-24T00:00:00Z", autumn).await;
    let spring = ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"];
    check("c", "America/New_York", "2026-03-07T00:00:00Z", spring).await;
    let autumn = ["2026-10-31T06:30:00Z", "2026-11-01T07:30:00Z", "2026-11-02T07:30:00Z"];
    check("d", "America/New_York", "2026-10-31T00:00:00Z", autumn).await;
}
