//! The rules of failed events, alone and combined for one aggregate.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The failed events of one aggregate by place, changed by the rules and nothing else.
#[derive(Default)]
struct Aggregate {
    rows: BTreeMap<i64, FailedEvent>,
    next: i64,
    delivered: Vec<i64>,
    skipped: BTreeSet<i64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// The relay reads an event that is refused, or that it believes must be held.
    Read {
        is_held: bool,
        is_permanent: bool,
    },
    /// The relay tries the first ones; an operator acts in between on one of them; the relay settles.
    Try {
        many: usize,
        refused_at: usize,
        is_permanent: bool,
        meanwhile: Option<(usize, Order)>,
    },
    Operate(usize, Order),
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Skip,
    Replay,
    Edit,
}

impl Order {
    fn verb(self) -> Verb {
        match self {
            Self::Skip => Verb::Skip,
            Self::Replay => Verb::Replay,
            Self::Edit => Verb::Edit(Edit::new(None, None).unwrap()),
        }
    }
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Skip), Just(Order::Replay), Just(Order::Edit)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<bool>(), any::<bool>()).prop_map(|(is_held, is_permanent)| Step::Read { is_held, is_permanent }),
        3 => (1..5_usize, 0..6_usize, any::<bool>(), prop::option::of((0..5_usize, order())))
            .prop_map(|(many, refused_at, is_permanent, meanwhile)| {
                Step::Try { many, refused_at, is_permanent, meanwhile }
            }),
        1 => (0..8_usize, order()).prop_map(|(which, order)| Step::Operate(which, order)),
    ]
}

impl Aggregate {
    fn open(&self) -> Vec<(i64, FailedEvent)> {
        self.rows.iter().filter(|(_, row)| row.state.is_open()).map(|(seq, row)| (*seq, *row)).collect()
    }

    fn promote(&mut self, now: Timestamp) {
        if let Some(row) = self.rows.values_mut().find(|row| row.state.is_open()) {
            row.state = first(row.state, now);
        }
    }

    fn operate(&mut self, which: usize, order: Order, now: Timestamp) {
        let Some(seq) = self.rows.keys().nth(which % self.rows.len().max(1)).copied() else { return };
        let head = self.open().first().map(|(seq, _)| EventId::new(*seq));
        let failed_event = self.rows[&seq];
        let behind = head.filter(|_| failed_event.state == FailedEventState::Held);
        let facts = FailedEventFacts { failed_event, behind, original: Original::Kept };
        if let Ok(after) = operate(facts, &order.verb(), now) {
            assert!(order.verb().applies_to(failed_event.state.word()));
            assert!(after.revision > failed_event.revision);
            self.rows.insert(seq, after);
        }
        self.promote(now);
    }

    fn take(&mut self, step: &Step, policy: &RetryPolicy, now: Timestamp) {
        match step {
            Step::Read { is_held, is_permanent } => {
                self.next += 1;
                let refused = after_refusal(0, *is_permanent, policy, now, 0.5);
                let asked = if *is_held { FailedEventState::Held } else { refused };
                let place = if self.open().is_empty() { Place::First } else { Place::Behind };
                let state = admitted(asked, place, now);
                let attempts = u32::from(!*is_held && place == Place::First);
                self.rows.insert(self.next, FailedEvent { state, attempts, revision: 0 });
            }
            Step::Operate(which, order) => self.operate(*which, *order, now),
            Step::Try { many, refused_at, is_permanent, meanwhile } => {
                let open = self.open();
                if !matches!(
                    open.first(),
                    Some((_, FailedEvent { state: FailedEventState::Waiting { .. }, .. }))
                ) {
                    return;
                }
                let tried: Vec<(i64, FailedEvent)> = open.into_iter().take(*many).collect();
                if let Some((which, order)) = meanwhile {
                    self.operate(*which, *order, now);
                }
                let attempts: Vec<Attempted> = tried
                    .iter()
                    .take(refused_at + 1)
                    .enumerate()
                    .map(|(n, (seq, seen))| Attempted {
                        failed_event: self.rows.get(seq).copied(),
                        seen: seen.revision,
                        attempt: if n == *refused_at {
                            Attempt::Refused(after_refusal(seen.attempts, *is_permanent, policy, now, 0.5))
                        } else {
                            Attempt::Delivered
                        },
                    })
                    .collect();
                for ((seq, _), settlement) in tried.iter().zip(settle(&attempts, now)) {
                    match settlement {
                        Settlement::Left => {}
                        Settlement::Gone => {
                            self.rows.remove(seq);
                            self.delivered.push(*seq);
                        }
                        Settlement::Now(after) => {
                            self.rows.insert(*seq, after);
                        }
                    }
                }
                self.promote(now);
            }
        }
    }

    fn check(&mut self, policy: &RetryPolicy) {
        for (n, (seq, row)) in self.open().into_iter().enumerate() {
            assert_eq!(row.state == FailedEventState::Held, n > 0, "{seq} is {row:?}");
            assert!(row.attempts <= policy.attempts_max, "{seq} is {row:?}");
        }
        for (seq, row) in &self.rows {
            if row.state == FailedEventState::Skipped {
                self.skipped.insert(*seq);
            }
        }
        for seq in &self.skipped {
            assert_eq!(self.rows[seq].state, FailedEventState::Skipped, "{seq} came back");
        }
        assert!(self.delivered.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", self.delivered);
    }
}

proptest! {
    /// One head with the lowest position, no event comes back, attempts are bounded, and deliveries are in
    /// order, whatever operators do in between.
    #[test]
    fn the_events_of_an_aggregate_keep_their_order(steps in prop::collection::vec(step(), 1..60)) {
        let policy = RetryPolicy { attempts_max: 3, ..RetryPolicy::standard().unwrap() };
        let mut aggregate = Aggregate::default();
        for (n, step) in steps.iter().enumerate() {
            aggregate.take(step, &policy, Timestamp::from_micros(i64::try_from(n).unwrap()));
            aggregate.check(&policy);
        }
    }

    #[test]
    fn a_refused_event_waits_within_bounds_or_is_parked(
        attempts: u32, is_permanent: bool, attempts_max in 0..50_u32, unit: f64, micros in 0..1_000_000_i64,
    ) {
        let policy = RetryPolicy { attempts_max, ..RetryPolicy::standard().unwrap() };
        let now = Timestamp::from_micros(micros);
        match after_refusal(attempts, is_permanent, &policy, now, unit) {
            FailedEventState::Waiting { next_attempt_at } => {
                prop_assert!(!is_permanent && attempts < attempts_max);
                let wait = next_attempt_at.since(now);
                prop_assert!((Duration::from_millis(4400)..=Duration::from_secs(600)).contains(&wait), "{wait:?}");
            }
            state => {
                prop_assert_eq!(state, FailedEventState::Parked);
                prop_assert!(is_permanent || attempts.saturating_add(1) >= attempts_max);
            }
        }
    }
}

fn waiting(revision: i64) -> FailedEvent {
    let state = FailedEventState::Waiting { next_attempt_at: Timestamp::from_micros(0) };
    FailedEvent { state, attempts: 1, revision }
}

fn facts(state: FailedEventState) -> FailedEventFacts {
    let failed_event = FailedEvent { state, ..waiting(4) };
    let behind = (state == FailedEventState::Held).then(|| EventId::new(7));
    FailedEventFacts { failed_event, behind, original: Original::Kept }
}

#[test]
fn a_held_event_is_not_replayed_before_the_one_it_waits_behind() {
    let now = Timestamp::from_micros(5);

    let refused = operate(facts(FailedEventState::Held), &Verb::Replay, now).unwrap_err();

    assert_eq!(refused, FailedEventRefusal::Behind { head: EventId::new(7) });
    assert!(refused.fix().contains("replay event 7"));
}

#[test]
fn what_a_held_event_says_can_be_changed_but_not_its_turn() {
    let redirect = Verb::Redirect(Redirect::new("elsewhere").unwrap());

    let after = operate(facts(FailedEventState::Held), &redirect, Timestamp::from_micros(5)).unwrap();

    assert_eq!((after.state, after.revision), (FailedEventState::Held, 5));
}

#[test]
fn a_replay_begins_anew_and_at_once() {
    let now = Timestamp::from_micros(5);

    let after = operate(facts(FailedEventState::Parked), &Verb::Replay, now).unwrap();

    assert_eq!(
        after,
        FailedEvent { state: FailedEventState::Waiting { next_attempt_at: now }, attempts: 0, revision: 5 }
    );
}

#[test]
fn an_event_that_is_gone_can_only_be_skipped() {
    let gone = FailedEventFacts { original: Original::Gone, ..facts(FailedEventState::Parked) };
    let now = Timestamp::from_micros(5);

    assert_eq!(operate(gone, &Verb::Replay, now), Err(FailedEventRefusal::Gone));
    assert_eq!(operate(gone, &Verb::Skip, now).unwrap().state, FailedEventState::Skipped);
}

#[test]
fn those_behind_an_event_that_was_edited_meanwhile_are_sent_again() {
    let delivered =
        |failed_event| Attempted { failed_event: Some(failed_event), seen: 1, attempt: Attempt::Delivered };
    let held = FailedEvent { state: FailedEventState::Held, ..waiting(1) };

    let settled =
        settle(&[delivered(waiting(1)), delivered(waiting(2)), delivered(held)], Timestamp::from_micros(0));

    assert_eq!(settled, [Settlement::Gone, Settlement::Left, Settlement::Left]);
}

#[test]
fn what_no_sink_would_take_is_no_edit() {
    use super::super::event::Payload;

    assert!(Edit::new(Some(Payload::Json("{".to_owned())), None).is_err());
    assert!(Edit::new(None, Some([(String::new(), "b".to_owned())].into())).is_err());
    assert!(Redirect::new("no topic").is_err());
}

#[test]
fn only_what_waits_is_tried_again_at_some_instant() {
    let at = Timestamp::from_micros(5);

    assert_eq!(FailedEventState::Waiting { next_attempt_at: at }.next_attempt_at(), Some(at));
    for state in [FailedEventState::Held, FailedEventState::Parked, FailedEventState::Skipped] {
        assert_eq!(state.next_attempt_at(), None);
    }
}

#[test]
fn an_event_waits_until_its_attempts_are_used_up() {
    use crate::outbox::failed_event::{FailedEventState, RetryPolicy, after_refusal};
    use crate::time::Timestamp;
    let (policy, now) = (RetryPolicy::standard().unwrap(), Timestamp::from_micros(0));
    assert!(matches!(after_refusal(0, false, &policy, now, 0.0), FailedEventState::Waiting { .. }));
    assert_eq!(after_refusal(9, false, &policy, now, 0.0), FailedEventState::Parked);
    assert_eq!(after_refusal(0, true, &policy, now, 0.0), FailedEventState::Parked);
}

#[test]
fn each_fate_has_a_word_of_its_own() {
    let failed = StateWord::ALL.map(EventOutcome::Failed);
    let all = [EventOutcome::Pending, EventOutcome::Published].into_iter().chain(failed);

    let words: std::collections::BTreeSet<_> = all.map(EventOutcome::as_str).collect();

    assert_eq!(words.len(), 6);
    for state in StateWord::ALL {
        assert_eq!(EventOutcome::of(false, Some(state)), EventOutcome::Failed(state));
    }
    assert_eq!(EventOutcome::of(false, None), EventOutcome::Pending);
}

#[test]
fn a_failed_event_counts_more_than_its_place() {
    use crate::outbox::{EventOutcome, failed_event::StateWord};
    assert_eq!(EventOutcome::of(true, None).as_str(), "published");
    assert_eq!(EventOutcome::of(true, Some(StateWord::Parked)).as_str(), "parked");
}
