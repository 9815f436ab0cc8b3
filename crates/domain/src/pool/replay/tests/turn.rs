//! Grants out of turn, and overtakes.

use super::*;
use crate::pool::Class;

/// A request for 16 units waits, and so many small ones start before it; the last of them has units.
fn overtaking(count: u32) -> Vec<Record> {
    let mut passes = vec![vec![acquire(1, "a", 20)], vec![acquire_at_least(2, "large", 16, Some(16))]];
    for number in 0..count {
        let mut commands =
            vec![acquire_at_least((3 + number).into(), &format!("small-{number}"), 2, Some(2))];
        if let Some(before) = number.checked_sub(1) {
            commands.push(release(&format!("small-{before}")));
        }
        passes.push(commands);
    }
    let log = log_of(Policy::Adaptive, &passes);
    let is_overtake =
        |record: &&Record| matches!(record.event, Event::Granted { turn, .. } if turn != Turn::First);
    assert_eq!(log.iter().filter(is_overtake).count(), count.min(OVERTAKES_MAX) as usize);
    log
}

/// Appends a pass with one more record.
fn forge(log: &mut Vec<Record>, at: Timestamp, event: Event) {
    let version = log.last().unwrap().version + 1;
    log.push(Record { version, ..record(at, event) });
}

fn grant(number: u128, parallel: u32, turn: Turn) -> Event {
    let size = crate::pool::decide::Size::Full;
    Event::Granted { ticket: id(number), parallel: some(parallel), ask_by: Timestamp::EPOCH, turn, size }
}

#[test]
fn a_grant_to_another_than_the_first_of_the_queue_is_found() {
    for policy in Policy::ALL {
        let mut log = log_of(
            policy,
            &[
                vec![acquire(1, "a", 28)],
                vec![acquire_at_least(2, "b", 20, Some(20))],
                vec![acquire_at_least(3, "c", 20, Some(20))],
                vec![release("a")],
            ],
        );
        let place = places(&log, |event| matches!(event, Event::Granted { .. }))[1];
        log[place].event = grant(3, 20, Turn::First);

        let found = faults(policy, &log);

        let expected = Fault::WrongTurn { ticket: id(3), turn: Turn::First, ahead: 1, policy };
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn a_promotion_by_age_counts_in_the_order_of_the_queue() {
    let bulk = |number, dag: &str| match acquire_at_least(number, dag, 20, Some(20)) {
        Command::Acquire(acquire) => Command::Acquire(Box::new(Acquire { class: Class::Bulk, ..*acquire })),
        other => other,
    };
    let mut passes = vec![vec![acquire(1, "a", 28)], vec![bulk(2, "b")]];
    // After a quarter of an hour, the older request is no longer behind a new one of the next class.
    passes.extend((0..95).map(|_| vec![bulk(2, "b")]));
    passes.extend([vec![acquire_at_least(3, "c", 20, Some(20))], vec![release("a")]]);
    let mut log = log_of(Policy::Fifo, &passes);
    let place = places(&log, |event| matches!(event, Event::Granted { .. }))[1];
    assert_eq!(log[place].event.ticket(), Some(id(2)));

    log[place].event = grant(3, 20, Turn::First);

    assert!(matches!(faults(Policy::Fifo, &log)[..], [Fault::WrongTurn { ahead: 1, .. }, ..]));
}

#[test]
fn an_overtake_under_a_policy_that_goes_in_order_is_found() {
    let log = overtaking(1);
    for policy in [Policy::Halving, Policy::Fifo] {
        let found = faults(policy, &log);

        let expected = Fault::WrongTurn { ticket: id(3), turn: Turn::SpareUnits, ahead: 1, policy };
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn an_overtake_that_is_recorded_as_the_first_or_the_first_as_an_overtake_is_found() {
    let honest = overtaking(2);
    let policy = Policy::Adaptive;
    for place in places(&honest, |event| matches!(event, Event::Granted { .. })) {
        let mut log = honest.clone();
        let Event::Granted { ticket, turn, .. } = &mut log[place].event else { panic!() };
        *turn = if *turn == Turn::First { Turn::EndsBefore } else { Turn::First };
        let (ticket, turn) = (*ticket, *turn);

        let found = faults(policy, &log);

        let ahead = usize::from(turn == Turn::First);
        assert_eq!(found[0], Fault::WrongTurn { ticket, turn, ahead, policy });
    }
}

#[test]
fn one_overtake_more_than_allowed_is_found() {
    let mut log = overtaking(OVERTAKES_MAX + 1);
    let at = log.last().unwrap().at;
    let last = u128::from(3 + OVERTAKES_MAX);

    forge(&mut log, at, grant(last, 2, Turn::SpareUnits));

    let (ticket, by, why) = (id(2), id(last), "had been overtaken too often");
    assert_eq!(faults(Policy::Adaptive, &log), [Fault::Overtaken { ticket, by, why }]);
}

#[test]
fn an_overtake_of_a_request_that_has_waited_too_long_is_found() {
    let mut log = overtaking(OVERTAKES_MAX + 1);
    // All but the first overtakes are taken out: only the time is over.
    let second = places(&log, |event| event.ticket() == Some(id(4)))[0];
    log.truncate(second);
    let ticket = replay(&settings_of(Policy::Adaptive), &log).unwrap().ledger.ticket(id(2)).cloned().unwrap();
    let late = ticket.eta.unwrap().p50.plus(SLACK).plus(Duration::from_secs(1));
    let (holder, enqueued_at) = (Holder::run("x", "r").unwrap(), late);
    let (asked, least, eta) = (some(2), some(2), None);
    let new =
        Ticket { id: id(9), request: id(9), holder, asked, least, enqueued_at, overtaken: 0, eta, ..ticket };
    forge(&mut log, late, Event::Enqueued { ticket: Box::new(new) });
    forge(&mut log, late, grant(9, 2, Turn::SpareUnits));

    let why = "had waited too long beyond its estimate";
    assert_eq!(faults(Policy::Adaptive, &log), [Fault::Overtaken { ticket: id(2), by: id(9), why }]);
}

#[test]
fn an_overtake_of_a_holder_that_waits_for_more_is_found() {
    let mut log = log_of(
        Policy::Adaptive,
        &[
            vec![acquire_at_least(1, "a", 8, Some(8)), acquire_at_least(2, "b", 12, Some(12))],
            vec![acquire_at_least(3, "a", 24, Some(24))],
            vec![acquire_at_least(4, "c", 4, Some(4))],
        ],
    );
    let at = log.last().unwrap().at;

    forge(&mut log, at, grant(4, 4, Turn::SpareUnits));

    let why = "has units and waits for more";
    assert_eq!(faults(Policy::Adaptive, &log), [Fault::Overtaken { ticket: id(1), by: id(4), why }]);
}

#[test]
fn a_grant_past_a_holder_that_waits_for_more_is_found_even_if_its_request_was_for_several_pools() {
    let mut log = log_of(
        Policy::Adaptive,
        &[
            vec![acquire_at_least(1, "a", 8, Some(8)), acquire_at_least(2, "b", 12, Some(12))],
            vec![acquire_at_least(3, "a", 24, Some(24))],
            vec![acquire_at_least(4, "c", 4, Some(4))],
        ],
    );
    let place = places(&log, |event| matches!(event, Event::Enqueued { ticket } if ticket.id == id(1)))[0];
    let Event::Enqueued { ticket } = &mut log[place].event else { panic!() };
    ticket.with = vec!["ERP".parse().unwrap()];
    assert_eq!(faults(Policy::Adaptive, &log), []);
    let at = log.last().unwrap().at;

    forge(&mut log, at, grant(4, 4, Turn::First));

    let expected = Fault::WrongTurn { ticket: id(4), turn: Turn::First, ahead: 1, policy: Policy::Adaptive };
    assert_eq!(faults(Policy::Adaptive, &log), [expected]);
}

#[test]
fn more_units_out_of_turn_are_found() {
    let mut log = log_of(
        Policy::Adaptive,
        &[
            vec![acquire_at_least(1, "a", 8, Some(8)), acquire_at_least(2, "b", 12, Some(12))],
            vec![acquire_at_least(3, "c", 24, Some(24))],
            vec![acquire_at_least(4, "a", 12, Some(12))],
        ],
    );
    let at = log.last().unwrap().at;

    forge(&mut log, at, Event::Resized { ticket: id(1), parallel: some(12), asked: some(12) });

    let expected = Fault::WrongTurn { ticket: id(1), turn: Turn::First, ahead: 1, policy: Policy::Adaptive };
    assert_eq!(faults(Policy::Adaptive, &log), [expected]);
}

#[test]
fn more_units_before_the_claim_are_found_while_others_wait() {
    let mut log = log_of(
        Policy::Adaptive,
        &[
            vec![acquire_at_least(1, "a", 18, Some(18)), acquire_at_least(4, "d", 10, Some(10))],
            vec![acquire_at_least(2, "b", 20, Some(5))],
            vec![acquire_at_least(3, "c", 28, Some(28))],
            vec![release("d")],
            vec![release("a")],
        ],
    );
    let granted =
        replay(&settings_of(Policy::Adaptive), &log).unwrap().ledger.ticket(id(2)).cloned().unwrap();
    assert_eq!((granted.state, granted.granted), (State::Granted, Some(some(10))));
    let at = log.last().unwrap().at;

    forge(&mut log, at, Event::Resized { ticket: id(2), parallel: some(20), asked: some(20) });

    let expected = Fault::AgainstPolicy { ticket: id(2), parallel: some(20) };
    assert_eq!(faults(Policy::Adaptive, &log), [expected]);
}

#[test]
fn overtakes_that_a_ticket_counts_wrongly_are_found() {
    for overtakes in [0, 3] {
        let mut log = overtaking(overtakes);
        let place =
            places(&log, |event| matches!(event, Event::Enqueued { ticket } if ticket.id == id(2)))[0];
        let Event::Enqueued { ticket } = &mut log[place].event else { panic!() };
        ticket.overtaken = 7;
        let expected = Fault::WrongOvertakes { ticket: id(2), stored: 7 + overtakes, counted: overtakes };
        assert_eq!(faults(Policy::Adaptive, &log), std::slice::from_ref(&expected), "it still waits");

        let at = log.last().unwrap().at;
        forge(&mut log, at, Event::Ended { ticket: id(2), end: End::GaveUp });
        assert_eq!(faults(Policy::Adaptive, &log), [expected], "it has left");
    }
}

#[test]
fn overtakes_are_counted_on_from_a_snapshot() {
    let log = overtaking(5);
    let state = replay(&settings_of(Policy::Adaptive), &log).unwrap().ledger;
    let at = log.last().unwrap().at;
    let first = record(at, state.snapshot());

    assert_eq!(faults(Policy::Adaptive, std::slice::from_ref(&first)), []);
    let mut wrong = log;
    let mut event = state.snapshot();
    let Event::Snapshot { tickets, .. } = &mut event else { panic!() };
    tickets.iter_mut().for_each(|ticket| ticket.overtaken = 0);
    forge(&mut wrong, at, event);
    assert_eq!(faults(Policy::Adaptive, &wrong), [Fault::WrongSnapshot]);
}
