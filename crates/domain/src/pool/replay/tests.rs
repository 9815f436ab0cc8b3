//! A log that was tampered with does not pass the auditor.

use super::*;
use crate::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use crate::pool::estimate::Pace;
use crate::pool::pass::pass;
use crate::pool::{Class, End, Holder, PoolName, TicketId};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

fn settings() -> Settings {
    Settings { policy: Policy::Halving, threshold_percent: 100, ..Settings::new("ADW".parse().unwrap(), 28) }
}

fn acquire(id: u128, dag: &str, parallel: u32) -> Command {
    let ticket = TicketId::new(Uuid::from_u128(id));
    let parallel = NonZeroU32::new(parallel);
    let part = Part { pool: settings().name, ticket, parallel, sessions: None, least: None };
    Command::Acquire(Box::new(Acquire {
        request: ticket,
        parts: vec![part],
        holder: Holder::run(dag, "r").unwrap(),
        class: Class::Normal,
        table: "T".to_owned(),
        hint: None,
        lease_for: None,
        deadline: None,
        stays: Duration::ZERO,
        call: None,
    }))
}

fn release(dag: &str) -> Command {
    let by = ReleaseBy::Holder(Holder::run(dag, "r").unwrap());
    let end = End::Released { failed: false };
    Command::Release(Box::new(Release { pool: settings().name, by, epoch: None, end, call: None }))
}

/// Some hours of a pool: grants, a downgrade, a wait, and an upgrade.
fn log() -> Vec<Record> {
    let name: PoolName = settings().name;
    let mut ledgers = BTreeMap::from([(name.clone(), Ledger::new(settings(), 0))]);
    let passes: Vec<Vec<Command>> = vec![
        vec![acquire(1, "a", 8), acquire(2, "b", 8)],
        vec![acquire(3, "c", 16)],
        vec![acquire(4, "d", 8)],
        vec![release("a")],
        vec![acquire(5, "b", 12)],
        vec![release("c"), acquire(6, "d", 4)],
        vec![acquire(7, "a", 8)],
        vec![release("b"), release("d")],
    ];
    let mut log = Vec::new();
    for (minute, commands) in (0..).zip(&passes) {
        let now = Timestamp::EPOCH.plus(Duration::from_secs(60 * minute));
        let mut outcome = pass(&mut ledgers, now, Pace::default(), commands).unwrap();
        log.append(&mut outcome.records.remove(&name).unwrap());
    }
    assert_eq!(replay(&settings(), &log).unwrap().ledger, ledgers[&name]);
    log
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

            let found = replay(&settings(), &log).unwrap_err();

            let is_found =
                matches!(found, Contradiction::AgainstPolicy { .. } | Contradiction::OverAdmitted { .. });
            assert!(is_found, "{place}: {found}");
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

    let found = replay(&settings(), &log).unwrap_err();

    assert!(matches!(found, Contradiction::AgainstPolicy { .. }), "{found}");
}

#[test]
fn a_grant_beyond_the_limit_is_found() {
    let log = log();
    let smaller = Settings { max_units: 15, ..settings() };

    let found = replay(&smaller, &log).unwrap_err();

    assert!(matches!(found, Contradiction::OverAdmitted { usage: 16, limit: 15, .. }), "{found}");
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
fn a_grant_in_a_pause_is_found() {
    let mut log = log();
    let mut paused = settings();
    paused.paused = Some(crate::pool::settings::Pause {
        by: "minsu".into(),
        reason: "patch day".into(),
        at: Timestamp::EPOCH,
    });
    let event = Event::Configured { settings: Box::new(paused), by: None };
    let first = Record { version: 0, seq: 0, at: Timestamp::EPOCH, holder: None, event, summary: None };
    log.insert(0, first);

    let found = replay(&settings(), &log).unwrap_err();

    assert!(matches!(found, Contradiction::AgainstPolicy { .. }), "{found}");
}
