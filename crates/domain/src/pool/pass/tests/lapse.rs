//! Claims, heartbeats, silent holders and expiry.

use super::*;
use crate::pool::state::State;
use crate::time::Timestamp;

const LEASE: Duration = Duration::from_secs(60);

fn state(bench: &Bench, dag: &str) -> Option<State> {
    bench.ticket("ADW", dag).map(|ticket| ticket.state)
}

fn beating(bench: &mut Bench, dag: &str) -> TicketId {
    let mut wish = bench.wish(dag, &[("ADW", 4)]);
    wish.lease_for = Some(LEASE);
    bench.acquire(wish);
    bench.ticket("ADW", dag).unwrap().id
}

fn beat(bench: &mut Bench, ticket: TicketId, epoch: i64) -> Answer {
    bench.one(Command::Heartbeat { pool: pool("ADW"), ticket, epoch: Epoch::new(epoch) })
}

fn probe(bench: &mut Bench, ticket: TicketId, sessions: u32) -> Answer {
    let known = bench.ledgers[&pool("ADW")].ticket(ticket);
    let doubted_at = known.and_then(|ticket| ticket.doubted_at).unwrap_or(Timestamp::EPOCH);
    bench.one(Command::Probed { pool: pool("ADW"), ticket, doubted_at, sessions })
}

#[test]
fn an_answer_about_an_earlier_doubt_says_nothing() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = beating(&mut bench, "batch");
    bench.later(60);
    bench.lapsed("ADW", "batch");
    let doubted_at = bench.now;
    beat(&mut bench, ticket, 1);
    bench.later(120);
    bench.lapsed("ADW", "batch");
    assert_eq!(state(&bench, "batch"), Some(State::Suspect));

    bench.one(Command::Probed { pool: pool("ADW"), ticket, doubted_at, sessions: 0 });

    assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (Some(State::Suspect), 4));
}

/// A holder whose grant is reserved while it is away.
fn set_aside(bench: &mut Bench) -> TicketId {
    bench.ask("first", 10);
    bench.ask("batch", 4);
    bench.release("first");
    bench.ticket("ADW", "batch").unwrap().id
}

#[test]
fn units_are_set_aside_until_a_while_after_the_promise_to_ask_again() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    set_aside(&mut bench);
    let promised = bench.now.plus(Pace::default().most);

    let ticket = bench.ticket("ADW", "batch").unwrap();

    let settings = bench.ledgers[&pool("ADW")].settings();
    assert_eq!(ticket.ask_by, promised.plus(settings.claim_for));
    assert_eq!(expires_at(ticket, settings, bench.now), Some(ticket.ask_by));
}

#[test]
fn units_that_nobody_claims_come_back() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    set_aside(&mut bench);
    bench.later(419);
    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive, "not yet");
    bench.later(1);

    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Done);

    assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (None, 0));
    assert!(bench.last.ends.values().any(|end| *end == End::Unclaimed));
}

#[test]
fn who_waited_claims_its_units() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = set_aside(&mut bench);

    let answer = bench.one(Command::Claim { parts: vec![(pool("ADW"), ticket)] });

    assert_eq!(admitted(&answer), [4]);
    assert_eq!(state(&bench, "batch"), Some(State::Running));
    assert_eq!(bench.ticket("ADW", "batch").unwrap().epoch, Epoch::new(1));
}

#[test]
fn a_claim_in_the_queue_waits_on_and_one_without_a_ticket_is_gone() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("first", 10);
    bench.ask("batch", 4);
    let ticket = bench.ticket("ADW", "batch").unwrap().id;
    let claim = Command::Claim { parts: vec![(pool("ADW"), ticket)] };

    assert_eq!(waits(&bench.one(claim.clone())).position, 1);
    bench.release("batch");
    assert_eq!(bench.one(claim), Answer::Gone);
}

#[test]
fn who_was_gone_before_it_heard_of_its_units_gets_another_chance() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = set_aside(&mut bench);
    bench.one(Command::Claim { parts: vec![(pool("ADW"), ticket)] });
    let unclaim = Command::Unclaim { pool: pool("ADW"), ticket, epoch: Epoch::new(1) };

    assert_eq!(bench.one(unclaim.clone()), Answer::Done);
    assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (Some(State::Granted), 4));

    bench.ask("batch", 4);
    assert_eq!(bench.ticket("ADW", "batch").unwrap().epoch, Epoch::new(2));
    assert_eq!(bench.one(unclaim), Answer::Done);
    assert_eq!(state(&bench, "batch"), Some(State::Running), "it comes too late");
}

#[test]
fn whoever_is_heard_of_is_alive_and_a_ghost_is_not() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = beating(&mut bench, "batch");

    assert_eq!(beat(&mut bench, ticket, 1), Answer::Alive);
    assert_eq!(bench.last.records, BTreeMap::new(), "which decides nothing");
    assert!(bench.last.tickets[&pool("ADW")].contains_key(&ticket), "but is noted");
    bench.ask("batch", 4);
    assert_eq!(beat(&mut bench, ticket, 1), Answer::Gone);
    assert_eq!(beat(&mut bench, ticket, 2), Answer::Alive);
    bench.release("batch");
    assert_eq!(beat(&mut bench, ticket, 2), Answer::Gone);
}

#[test]
fn who_is_not_heard_of_is_in_doubt_and_still_counts() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    beating(&mut bench, "batch");
    bench.later(60);

    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Done);

    assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (Some(State::Suspect), 4));
    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive, "and is not doubted twice");
}

#[test]
fn who_promised_no_heartbeats_is_not_doubted() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("batch", 4);
    bench.later(3_600);

    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive);
    assert_eq!(state(&bench, "batch"), Some(State::Running));
}

#[test]
fn a_heartbeat_or_a_new_attempt_ends_the_doubt() {
    for again in [false, true] {
        let mut bench = Bench::of(&[("ADW", 10)]);
        let ticket = beating(&mut bench, "batch");
        bench.later(60);
        bench.lapsed("ADW", "batch");

        if again {
            let answer = bench.ask("batch", 4);
            assert!(matches!(answer, Answer::Admitted { is_duplicate: true, .. }), "{answer:?}");
            assert_eq!(beat(&mut bench, ticket, 1), Answer::Gone);
        } else {
            assert_eq!(beat(&mut bench, ticket, 1), Answer::Alive);
        }

        assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (Some(State::Running), 4));
    }
}

#[test]
fn a_probe_frees_only_what_is_in_doubt() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = beating(&mut bench, "batch");

    probe(&mut bench, ticket, 0);
    assert_eq!(state(&bench, "batch"), Some(State::Running), "it may be between two statements");

    bench.later(60);
    bench.lapsed("ADW", "batch");
    probe(&mut bench, ticket, 3);
    assert_eq!(state(&bench, "batch"), Some(State::Running), "its sessions were seen");

    bench.later(60);
    bench.lapsed("ADW", "batch");
    probe(&mut bench, ticket, 0);
    assert_eq!((state(&bench, "batch"), bench.usage("ADW")), (None, 0));
    assert_eq!(bench.last.ends[&ticket], End::ByProbe);
    assert_eq!(probe(&mut bench, ticket, 0), Answer::Gone);
}

#[test]
fn who_is_not_heard_of_does_not_hold_units_for_ever() {
    let day = 24 * 3_600;
    let mut bench = Bench::of(&[("ADW", 10)]);
    let beats = beating(&mut bench, "beats");
    bench.ask("silent", 4);
    let silent = bench.ticket("ADW", "silent").unwrap().id;
    bench.later(day);
    bench.lapsed("ADW", "silent");
    assert_eq!(bench.last.ends[&silent], End::HeldTooLong, "it never promised to be heard of");

    bench.lapsed("ADW", "beats");
    assert_eq!(
        state(&bench, "beats"),
        Some(State::Suspect),
        "however long it was heard of, doubt comes first"
    );
    bench.later(day - 1);
    assert_eq!(bench.lapsed("ADW", "beats"), Answer::Alive, "it counts");
    assert_eq!(bench.usage("ADW"), 4);
    bench.later(1);
    bench.lapsed("ADW", "beats");

    assert_eq!((state(&bench, "beats"), bench.usage("ADW")), (None, 0));
    assert_eq!(bench.last.ends[&beats], End::HeldTooLong);
}

#[test]
fn who_stops_asking_leaves_the_queue() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("first", 10);
    bench.ask("batch", 4);
    let ticket = bench.ticket("ADW", "batch").unwrap().clone();
    let patience = Pace::default().most + STOPPED_ASKING;
    let settings = bench.ledgers[&pool("ADW")].settings();
    assert_eq!(expires_at(&ticket, settings, bench.now), Some(bench.now.plus(patience)));
    bench.later(patience.as_secs() - 1);
    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive, "not yet");
    bench.later(1);

    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Done);

    assert_eq!(state(&bench, "batch"), None);
    assert_eq!(bench.last.ends[&ticket.id], End::StoppedAsking);
}

#[test]
fn who_is_heard_of_in_the_same_pass_is_spared() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    let ticket = beating(&mut bench, "batch");
    bench.later(60);

    let lapsed = Command::Lapsed { pool: pool("ADW"), ticket };
    let beat = Command::Heartbeat { pool: pool("ADW"), ticket, epoch: Epoch::new(1) };
    let answers = bench.run(&[lapsed, beat]);

    assert_eq!(answers, [Answer::Alive, Answer::Alive]);
    assert_eq!(state(&bench, "batch"), Some(State::Running));
}

#[test]
fn news_of_a_lapse_that_comes_too_late_ends_nothing() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    bench.ask("first", 10);
    bench.ask("batch", 4);
    bench.later(900);
    bench.ask("batch", 4);
    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive, "it has asked again");

    bench.release("first");
    assert_eq!(bench.lapsed("ADW", "batch"), Answer::Alive, "its units were set aside just now");

    let mut wish = bench.wish("late", &[("ADW", 4)]);
    wish.lease_for = Some(LEASE);
    bench.acquire(wish);
    assert_eq!(bench.lapsed("ADW", "late"), Answer::Alive, "it has heard of its units just now");
}

#[test]
fn the_time_of_a_ticket_follows_from_its_state() {
    let mut bench = Bench::of(&[("ADW", 10)]);
    beating(&mut bench, "batch");
    let start = bench.now;
    let settings = bench.ledgers[&pool("ADW")].settings().clone();
    let of = |bench: &Bench| expires_at(bench.ticket("ADW", "batch").unwrap(), &settings, bench.now);

    assert_eq!(of(&bench), Some(start.plus(LEASE)));
    bench.later(100 * 3_600);
    assert_eq!(of(&bench), Some(bench.now.plus(LEASE)), "who is heard of has its units for as long as that");
    bench.lapsed("ADW", "batch");
    assert_eq!(state(&bench, "batch"), Some(State::Suspect));
    assert_eq!(of(&bench), Some(bench.now.plus(settings.max_hold)));
    let ended = Ticket { state: State::Released, ..bench.ticket("ADW", "batch").unwrap().clone() };
    assert_eq!(expires_at(&ended, &settings, bench.now), None);
}
