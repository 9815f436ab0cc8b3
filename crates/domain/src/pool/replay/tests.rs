//! A log that was tampered with does not pass the auditor.

mod turn;

use super::*;
use crate::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use crate::pool::estimate::Pace;
use crate::pool::pass::pass;
use crate::pool::tests::{at, id, record, some};
use crate::pool::{End, Holder, PoolName};
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// The audit of a whole log.
pub(in crate::pool) fn replay<'a>(
    settings: &Settings,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<Audit, Contradiction> {
    let mut replay = Replay::new(settings);
    records.into_iter().try_for_each(|record| replay.follow(record))?;
    Ok(replay.end())
}

fn settings() -> Settings {
    settings_of(Policy::Halving)
}

fn settings_of(policy: Policy) -> Settings {
    Settings { threshold_percent: 100, policy, ..Settings::new("ADW".parse().unwrap(), 28) }
}

fn acquire(number: u128, dag: &str, parallel: u32) -> Command {
    acquire_at_least(number, dag, parallel, None)
}

fn acquire_at_least(number: u128, dag: &str, parallel: u32, least: Option<u32>) -> Command {
    let (ticket, least) = (id(number), least.map(some));
    let part =
        Part { pool: settings().name, ticket, parallel: NonZeroU32::new(parallel), sessions: None, least };
    let holder = Holder::run(dag, "r").unwrap();
    let acquire = Acquire { table: "T".to_owned(), ..Acquire::new(ticket, holder, vec![part]) };
    Command::Acquire(Box::new(acquire))
}

fn release(dag: &str) -> Command {
    let by = ReleaseBy::Holder(Holder::run(dag, "r").unwrap());
    let end = End::Released { failed: false };
    Command::Release(Box::new(Release { pool: settings().name, by, epoch: None, end, call: None }))
}

/// The log of these passes, ten seconds apart.
fn log_of(policy: Policy, passes: &[Vec<Command>]) -> Vec<Record> {
    let settings = settings_of(policy);
    let name: PoolName = settings.name.clone();
    let mut ledgers = BTreeMap::from([(name.clone(), Ledger::new(settings.clone(), 0))]);
    let mut log = Vec::new();
    for (index, commands) in (0..).zip(passes) {
        let mut outcome = pass(&mut ledgers, at(10 * index), Pace::default(), commands).unwrap();
        log.append(&mut outcome.records.remove(&name).unwrap());
    }
    let audit = replay(&settings, &log).unwrap();
    assert_eq!((&audit.ledger, audit.violations), (&ledgers[&name], Vec::new()));
    log
}

/// Some hours of a pool: grants, a downgrade, a wait, and an upgrade.
fn log() -> Vec<Record> {
    log_of(
        Policy::Halving,
        &[
            vec![acquire(1, "a", 8), acquire(2, "b", 8)],
            vec![acquire(3, "c", 16)],
            vec![acquire(4, "d", 8)],
            vec![release("a")],
            vec![acquire(5, "b", 12)],
            vec![release("c"), acquire(6, "d", 4)],
            vec![acquire(7, "a", 8)],
            vec![release("b"), release("d")],
        ],
    )
}

fn faults(policy: Policy, log: &[Record]) -> Vec<Fault> {
    let audit = replay(&settings_of(policy), log).unwrap();
    audit.violations.into_iter().map(|violation| violation.fault).collect()
}

/// Renumbers the records without gaps.
fn renumber(log: &mut [Record]) {
    let (mut version, mut seq, mut was) = (0, 0, i64::MIN);
    for record in log {
        (version, seq) = if record.version == was { (version, seq + 1) } else { (version + 1, 0) };
        was = record.version;
        (record.version, record.seq) = (version, seq);
    }
}

fn places(log: &[Record], is: impl Fn(&Event) -> bool) -> Vec<usize> {
    let places: Vec<usize> = (0..log.len()).filter(|place| is(&log[*place].event)).collect();
    assert!(!places.is_empty());
    places
}

#[test]
fn an_honest_log_passes() {
    let log = log();

    let audit = replay(&settings(), &log).unwrap();

    assert_eq!((audit.records, audit.peak), (u64::try_from(log.len()).unwrap(), 28));
    assert_eq!(audit.ledger.usage(), 8);
}

#[test]
fn any_grant_that_is_raised_or_lowered_by_one_is_found() {
    let honest = log();
    let is_grant = |event: &Event| matches!(event, Event::Granted { .. });
    for place in places(&honest, is_grant) {
        for change in [-1, 1] {
            let mut log = honest.clone();
            let Event::Granted { parallel, .. } = &mut log[place].event else { panic!() };
            *parallel = NonZeroU32::new(parallel.get().checked_add_signed(change).unwrap()).unwrap();

            let found = faults(Policy::Halving, &log);

            let is_wrong =
                |fault: &Fault| matches!(fault, Fault::AgainstPolicy { .. } | Fault::OverAdmitted { .. });
            assert!(found.iter().any(is_wrong), "{place}: {found:?}");
        }
    }
}

#[test]
fn more_than_was_wanted_is_found() {
    let mut log = log();
    let grows =
        places(&log, |event| matches!(event, Event::Resized { parallel, .. } if parallel.get() == 12));
    let Event::Resized { parallel, .. } = &mut log[grows[0]].event else { panic!() };
    *parallel = parallel.saturating_add(1);

    let found = faults(Policy::Halving, &log);

    assert!(found.iter().any(|fault| matches!(fault, Fault::AgainstPolicy { .. })), "{found:?}");
}

#[test]
fn a_grant_beyond_the_limit_is_found() {
    let log = log();
    let smaller = Settings { max_units: 15, ..settings() };

    let found = &replay(&smaller, &log).unwrap().violations[0].fault;

    assert!(matches!(found, Fault::OverAdmitted { usage: 16, limit: 15, .. }), "{found}");
}

#[test]
fn a_grant_that_is_there_twice_is_found() {
    let honest = log();
    for place in places(&honest, |event| matches!(event, Event::Granted { .. })) {
        let mut log = honest.clone();
        log.insert(place, log[place].clone());
        assert!(matches!(replay(&settings(), &log), Err(Contradiction::Missing { .. })), "{place}");

        let mut again = log[place].clone();
        again.seq += 1;
        log[place + 1] = again;
        for record in &mut log[place + 2..] {
            if record.version == honest[place].version {
                record.seq += 1;
            }
        }
        assert!(matches!(replay(&settings(), &log), Err(Contradiction::WrongState { .. })), "{place}");
    }
}

#[test]
fn a_record_that_is_missing_is_found() {
    let honest = log();
    // Numbers do not reveal a missing last record of a pass.
    let is_followed = |place: &usize| honest[place + 1].version == honest[*place].version;
    for place in (1..honest.len() - 1).filter(is_followed) {
        let mut log = honest.clone();
        log.remove(place);

        let found = replay(&settings(), &log).unwrap_err();

        assert!(matches!(found, Contradiction::Missing { .. }), "{place}: {found}");
    }
}

#[test]
fn a_pass_that_is_missing_is_found() {
    let honest = log();
    for version in 2..honest.last().unwrap().version {
        let log: Vec<Record> = honest.iter().filter(|record| record.version != version).cloned().collect();

        let found = replay(&settings(), &log).unwrap_err();

        assert_eq!(found, Contradiction::Gap { last: version - 1, found: version + 1 });
    }
}

#[test]
fn a_release_that_was_taken_out_is_found_even_if_the_rest_is_numbered_anew() {
    let honest = log();
    let ended = places(&honest, |event| matches!(event, Event::Ended { .. }));
    for place in ended {
        let mut log = honest.clone();
        log.remove(place);
        renumber(&mut log);

        let found = replay(&settings(), &log);

        // Either a later record contradicts, or the final state differs.
        let state = replay(&settings(), &honest).unwrap().ledger;
        assert!(found.is_err() || found.unwrap().ledger != state, "{place}");
    }
}

#[test]
fn every_grant_in_a_pause_is_found_and_many_are_counted() {
    let mut passes = Vec::new();
    for number in 0..120 {
        let dag = number.to_string();
        passes.push(vec![acquire(number, &dag, 8)]);
        passes.push(vec![release(&dag)]);
    }
    let honest = log_of(Policy::Adaptive, &passes);
    let mut paused = settings_of(Policy::Adaptive);
    paused.paused = Some(crate::pool::settings::Pause {
        by: "minsu".into(),
        reason: "patch day".into(),
        at: Timestamp::EPOCH,
    });
    let event = Event::Configured { settings: Box::new(paused), by: None };
    let mut log = vec![Record { version: 0, ..record(at(0), event) }];
    log.extend(honest);

    let audit = replay(&settings(), &log).unwrap();

    assert_eq!((audit.violations.len(), audit.violation_count), (VIOLATIONS_KEPT, 120));
    let faults = audit.violations.iter().map(|violation| &violation.fault);
    assert!(faults.zip(0..).all(|(fault, number)| *fault == Fault::Paused { ticket: id(number) }));
    assert_eq!(audit.violations[0].version, 1);
}

#[test]
fn a_grant_that_is_none_of_the_steps_is_found() {
    let honest = log_of(Policy::Adaptive, &[vec![acquire_at_least(1, "a", 20, Some(3))]]);
    let place = places(&honest, |event| matches!(event, Event::Granted { .. }))[0];
    for (granted, is_fine) in
        [(20, true), (10, true), (5, true), (3, true), (7, false), (4, false), (2, false), (21, false)]
    {
        let mut log = honest.clone();
        let Event::Granted { parallel, .. } = &mut log[place].event else { panic!() };
        *parallel = some(granted);

        let found = faults(Policy::Adaptive, &log);

        let expected = Fault::AgainstPolicy { ticket: id(1), parallel: some(granted) };
        assert_eq!(found.contains(&expected), !is_fine, "{granted}: {found:?}");
    }
}

#[test]
fn a_pool_is_audited_once_a_night_in_its_zone() {
    let settings = Settings { zone: "Asia/Seoul".parse().unwrap(), ..settings() };
    let is_due = |last: Option<&str>, now: &str| {
        is_audit_due(&settings, last.map(|last| last.parse().unwrap()), now.parse().unwrap())
    };

    assert!(is_due(None, "2026-11-15T12:00:00Z"));
    assert!(!is_due(Some("2026-11-14T18:00:00Z"), "2026-11-15T17:59:59Z"), "from 03:00 to 02:59 in Seoul");
    assert!(is_due(Some("2026-11-14T18:00:00Z"), "2026-11-15T18:00:00Z"));
    assert!(is_due(Some("2026-11-15T17:59:00Z"), "2026-11-15T18:00:00Z"));
}
