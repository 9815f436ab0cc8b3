//! The past from a log, what it would have been, and advice.

use super::*;
use crate::pool::decide::{Size, Turn};
use crate::pool::settings::Capacity;
use crate::pool::simulate::advice::{Advice, NIGHTS_LEAST, NIGHTS_MOST, advise};
use crate::pool::simulate::past::{Log, OtherSettings, Past};
use crate::pool::tests::{record, ticket};
use crate::pool::{End, Event, Record};

/// The log of one pool that had this night.
fn log_of(workload: &Workload, night: &Night, pool: &PoolName) -> Vec<Record> {
    let mut events: Vec<(Timestamp, Event)> = Vec::new();
    for (number, (batch, run)) in (1..).zip(workload.batches.iter().zip(&night.runs)) {
        if batch.pool != *pool {
            continue;
        }
        let mut ticket = ticket(number, batch.asked.get(), batch.arrives_at);
        let id = ticket.id;
        ticket.least = batch.least.unwrap_or(some(2)).min(batch.asked);
        (ticket.holder, ticket.table) = (batch.holder.clone(), batch.table.clone());
        events.push((batch.arrives_at, Event::Enqueued { ticket: Box::new(ticket) }));
        let Some(Start { at, until, parallel, .. }) = run.start else { continue };
        events.push((
            at,
            Event::Granted { ticket: id, parallel, ask_by: at, turn: Turn::First, size: Size::Full },
        ));
        events.push((at, Event::Claimed { ticket: id, call: None }));
        events.push((until, Event::Ended { ticket: id, end: End::Released { failed: false } }));
    }
    events.sort_by_key(|(at, _)| *at);
    let settings = Box::new(start_of(workload, pool).settings.clone());
    let first = (workload.begins_at, Event::Configured { settings, by: None });
    std::iter::once(first).chain(events).map(|(at, event)| record(at, event)).collect()
}

fn start_of<'a>(workload: &'a Workload, pool: &PoolName) -> &'a PoolStart {
    workload.pools.iter().find(|start| start.settings.name == *pool).unwrap()
}

/// Follows the log of one pool of the workload.
fn past_of(workload: &Workload, pool: &str, since: Timestamp, until: Timestamp) -> Past {
    let pool: PoolName = pool.parse().unwrap();
    let night = simulate(workload).unwrap();
    let start = start_of(workload, &pool);
    let mut log = Log::new(start.settings.clone());
    log_of(workload, &night, &pool).iter().for_each(|record| log.see(record));
    log.past(&start.run_times, since, until)
}

#[test]
fn a_replay_without_other_settings_is_the_night_as_it_was() {
    for policy in Policy::ALL {
        let workload = with_policy(Scenario::Crisis, 3, policy);
        let past = past_of(&workload, "ADW", MIDNIGHT, after(24 * 3_600));

        let (was, again) = (past.as_it_was(), past.as_it_would_have_been(OtherSettings::default()).unwrap());

        assert_eq!((was.score.batches, was.score.failures), (840.0, 0.0));
        close(again.score.wait_mean, was.score.wait_mean, 2.0);
        close(again.score.wait_p95, was.score.wait_p95, 2.0);
        close(again.score.flow_mean, was.score.flow_mean, 1.0);
        close(again.score.sla_misses, was.score.sla_misses, 10.0);
        close(again.score.peak, was.score.peak, 1.0);
        assert_eq!(was.usage.len(), 24 * 12);
        assert_eq!(was.usage.iter().map(|step| step.most).max(), Some(was.score.peak as u64));
    }
}

#[test]
fn a_higher_limit_shortens_the_waits_of_the_past() {
    let workload = with_policy(Scenario::Crisis, 3, Policy::Fifo);
    let past = past_of(&workload, "ADW", MIDNIGHT, after(24 * 3_600));
    let would_be = |other| past.as_it_would_have_been(other).unwrap().score;

    let higher = would_be(OtherSettings { limit: Some(1_140), ..OtherSettings::default() });
    let halving = would_be(OtherSettings { policy: Some(Policy::Halving), ..OtherSettings::default() });

    let was = past.as_it_was().score;
    assert!(higher.wait_p95 < was.wait_p95 / 1.5 && higher.peak > 950.0, "{was:?} {higher:?}");
    assert!(halving.downgrades > 0.0 && was.downgrades == 0.0, "{halving:?}");
}

#[test]
fn what_began_before_only_fills_the_pool() {
    let past = past_of(&two_batches(), "p", after(50), after(600));

    let was = past.as_it_was();

    assert_eq!((was.score.batches, was.score.wait_max), (1.0, 300.0), "only the second arrived in time");
    assert_eq!(past.workload.batches.len(), 2);
    assert_eq!(was.usage[0].most, 8, "the first one holds its units");
    let ended = past_of(&two_batches(), "p", after(500), after(1_200));
    assert_eq!(ended.workload.batches.len(), 1, "the first one had ended");
}

#[test]
fn who_has_not_ended_runs_as_long_as_usual() {
    let workload = two_batches();
    let (pool, night) = (workload.batches[0].pool.clone(), simulate(&workload).unwrap());
    let mut log = Log::new(workload.pools[0].settings.clone());
    let mut records = log_of(&workload, &night, &pool);
    records.retain(|record| !matches!(record.event, Event::Ended { .. }));
    records.iter().for_each(|record| log.see(record));

    let past = log.past(&workload.pools[0].run_times, MIDNIGHT, after(450));

    let until: Vec<Timestamp> = past.night.runs.iter().map(|run| run.start.unwrap().until).collect();
    assert_eq!(until, [after(450), after(1_000)], "the first one should have ended");
}

/// Every night, two DAGs start at one o'clock, and only one of them fits.
fn piled_up(nights: u64) -> Past {
    let day = 24 * 3_600;
    let batch = |night: u64, dag: &str| {
        let arrives = night * day + 3_600;
        format!(
            r#"{{"pool": "p", "dag": "{dag}", "arrives_seconds": {arrives}, "parallel": 10, "min": 10,
                 "run_seconds": 280}}"#
        )
    };
    let batches: Vec<String> = (0..nights).flat_map(|night| [batch(night, "a"), batch(night, "b")]).collect();
    let text = format!(
        r#"{{"pools": [{{"name": "p", "max_units": 10, "threshold_percent": 100}}], "batches": [{}]}}"#,
        batches.join(",")
    );
    let workload = file::read(text.as_bytes()).unwrap();
    past_of(&workload, "p", MIDNIGHT, after(nights * day))
}

#[test]
fn advice_needs_some_nights() {
    let least = NIGHTS_LEAST as u64;
    let few = advise(&piled_up(least - 1), |_, _| {}).unwrap();
    let enough = advise(&piled_up(least), |_, _| {}).unwrap();

    assert_eq!((few.nights, few.proposals.len()), (2, 0));
    assert_eq!(enough.nights, 3);
    assert_eq!(enough.now.wait_max, 280.0);
}

#[test]
fn the_capacity_of_the_window_in_which_batches_arrive_is_advised() {
    let mut past = piled_up(4);
    past.present.max_units = 100;
    past.present.capacity = ["22:00-23:00", "00:00-06:00"]
        .map(|window| Capacity { window: window.parse().unwrap(), max_units: 19 })
        .into();

    let advice = advise(&past, |_, _| {}).unwrap();

    let texts: Vec<&str> = advice.proposals.iter().map(|proposal| proposal.text.as_str()).collect();
    assert!(texts.contains(&"raise the capacity at 00:00-06:00 from 19 to 20 units"), "{texts:?}");
    assert!(advice.basis().starts_with("based on 4 nights; "), "{}", advice.basis());
    let full = Advice { nights: NIGHTS_MOST, ..advice };
    assert_eq!(full.basis(), "based on 30 nights", "a longer log adds nothing");
}

#[test]
fn of_the_capacities_that_are_too_large_the_one_that_saves_most_is_advised() {
    let mut past = piled_up(4);
    past.present.max_units = 1_000;
    past.present.capacity = vec![Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 2_000 }];
    // One DAG starts in the window and the other at noon.
    for batch in past.workload.batches.iter_mut().filter(|batch| batch.holder.dag_id() == "b") {
        batch.arrives_at = batch.arrives_at.plus(Duration::from_secs(11 * 3_600));
    }

    let advice = advise(&past, |_, _| {}).unwrap();

    let texts: Vec<&str> = advice.proposals.iter().map(|proposal| proposal.text.as_str()).collect();
    assert_eq!(texts, ["lower the capacity at 22:00-06:00 from 2000 to 1600 units: more is not needed"]);
}

#[test]
fn who_starts_together_is_advised_to_start_one_after_the_other() {
    let mut candidates = 0;
    let advice = advise(&piled_up(4), |_, count| candidates = count).unwrap();

    let best = &advice.proposals[0];
    assert_eq!(best.text, "start 1 of the DAGs of 01:00 5 minutes later");
    assert_eq!((best.dags.len(), best.then.wait_max), (1, 0.0));
    assert!(candidates >= 11, "{candidates}");
    assert!(
        advice.proposals.iter().all(|proposal| proposal.then.failures == 0.0),
        "a smaller pool fits nobody"
    );
}
