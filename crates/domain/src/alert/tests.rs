//! Properties of alerts: states, notices, windows, silences and deliveries.

use super::delivery::{ATTEMPTS_MAX, Attempt, DeliveryState};
use super::silence::{SilenceRequest, quietest};
use super::window::{BUCKETS_MAX, Window};
use super::*;
use crate::audit::Actor;
use crate::time::Monotonic;
use proptest::prelude::*;

/// Instants from a small range, so that the clock goes back as often as forward.
fn instant() -> impl Strategy<Value = Timestamp> {
    (0..100_i64).prop_map(Timestamp::from_micros)
}

fn hold() -> impl Strategy<Value = Duration> {
    (0..40_u64).prop_map(Duration::from_micros)
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        4 => Just(Reading::Breached(2.0)),
        2 => Just(Reading::Fine(0.5)),
        1 => Just(Reading::Gone),
        1 => Just(Reading::Unknown),
    ]
}

fn state() -> impl Strategy<Value = AlertState> {
    prop_oneof![
        Just(AlertState::Inactive),
        instant().prop_map(|since| AlertState::Pending { since }),
        (instant(), instant()).prop_map(|(since, fired_at)| AlertState::Firing { since, fired_at }),
        (instant(), instant()).prop_map(|(fired_at, at)| AlertState::Resolved { fired_at, at }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(Reading, Timestamp)>> {
    prop::collection::vec((reading(), instant()), 1..60)
}

fn silenced() -> impl Strategy<Value = Option<Silence>> {
    prop::option::of(Just(silence(1, None, 10)))
}

proptest! {
    #[test]
    fn nothing_fires_before_its_time_has_passed_without_interruption(hold in hold(), steps in steps()) {
        let mut state = AlertState::Inactive;
        let mut breached_at: Vec<Timestamp> = Vec::new();
        for (reading, now) in steps {
            let was_firing = matches!(state, AlertState::Firing { .. });
            match reading {
                Reading::Breached(_) => breached_at.push(now),
                Reading::Fine(_) | Reading::Gone => breached_at.clear(),
                Reading::Unknown => {}
            }
            let (after, notice) = next(state, reading, hold, now);
            if notice == Some(Notice::Fired) {
                prop_assert!(!was_firing);
                let first = breached_at.iter().min().unwrap();
                prop_assert!(now.since(*first) >= hold, "fired {:?} after {first}", now.since(*first));
            }
            state = after;
        }
    }

    #[test]
    fn what_is_breached_all_the_time_fires_as_soon_as_its_time_has_passed(
        hold in hold(), mut times in prop::collection::vec(instant(), 1..40),
    ) {
        times.sort();
        let mut state = AlertState::Inactive;
        for now in &times {
            state = next(state, Reading::Breached(2.0), hold, *now).0;
            let is_firing = matches!(state, AlertState::Firing { .. });
            prop_assert_eq!(is_firing, now.since(times[0]) >= hold);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_delays_an_alert_by_no_more_than_its_time(
        hold in hold(), since in instant(), back in instant(),
    ) {
        prop_assume!(back < since);
        let pending = AlertState::Pending { since };
        let (state, _) = next(pending, Reading::Breached(2.0), hold, back);
        let (state, _) = next(state, Reading::Breached(2.0), hold, back.plus(hold));
        let is_firing = matches!(state, AlertState::Firing { .. });
        prop_assert!(is_firing, "{:?}", state);
    }

    #[test]
    fn notices_take_turns(hold in hold(), steps in steps()) {
        let mut state = AlertState::Inactive;
        let mut last = Notice::Resolved;
        for (reading, now) in steps {
            let (after, notice) = next(state, reading, hold, now);
            if let Some(notice) = notice {
                prop_assert_ne!(notice, last);
                last = notice;
            }
            state = after;
        }
    }

    #[test]
    fn the_unknown_changes_nothing(state in state(), hold in hold(), now in instant()) {
        prop_assert_eq!(next(state, Reading::Unknown, hold, now), (state, None));
    }

    #[test]
    fn nothing_is_active_after_a_fine_reading(state in state(), hold in hold(), now in instant()) {
        for reading in [Reading::Fine(0.0), Reading::Gone] {
            prop_assert!(!next(state, reading, hold, now).0.is_active());
        }
    }

    #[test]
    fn an_alert_is_never_over_before_it_fired(hold in hold(), steps in steps()) {
        let mut state = AlertState::Inactive;
        for (reading, now) in steps {
            state = next(state, reading, hold, now).0;
            match state {
                AlertState::Resolved { fired_at, at } => prop_assert!(fired_at <= at),
                AlertState::Firing { since, fired_at } => prop_assert!(since <= fired_at),
                AlertState::Inactive | AlertState::Pending { .. } => {}
            }
        }
    }

    #[test]
    fn any_instant_at_all_is_survived(state in state(), reading in reading(), seconds: u64, micros: i64) {
        let now = Timestamp::from_micros(micros);
        let _answer = next(state, reading, Duration::from_secs(seconds), now);
    }

    #[test]
    fn people_hear_of_each_firing_once_and_of_its_end_at_most_once(
        hold in hold(), steps in prop::collection::vec((reading(), instant(), silenced()), 1..80),
    ) {
        let (mut state, mut known) = (AlertState::Inactive, None);
        let mut heard: Vec<(Notice, AlertState)> = Vec::new();
        for (reading, now, silence) in steps {
            state = next(state, reading, hold, now).0;
            let notice = owed(state, known, silence.as_ref());
            prop_assert!(silence.is_none() || notice.is_none());
            if let Some(notice) = notice {
                known = announced(state, notice);
                heard.push((notice, state));
            }
            // All listeners now know the state.
            if silence.is_none() {
                let current = match state {
                    AlertState::Firing { fired_at, .. } => Some(fired_at),
                    _ => None,
                };
                prop_assert_eq!(known, current);
            }
        }
        for pair in heard.windows(2) {
            prop_assert!(pair[0].0 == Notice::Fired || pair[1].0 == Notice::Fired, "two ends in a row");
            prop_assert_ne!(pair[0], pair[1]);
        }
    }

    #[test]
    fn a_window_agrees_with_the_list_of_its_samples(
        values in prop::collection::vec(-1000.0..1000.0_f64, 1..200), pause in 1..9_u64, kept in 1..400_u64,
    ) {
        let (pause, length) = (Duration::from_secs(pause), Duration::from_secs(kept));
        // A bucket is at most as wide as the pause here, so that the list is matched exactly.
        prop_assume!(length / 240 <= pause);
        let mut window = Window::new(length);
        let mut list: Vec<(Monotonic, f64)> = Vec::new();
        let mut now = Monotonic::from_origin(Duration::ZERO);
        for value in values {
            now = now.plus(pause);
            window.add(value, now);
            list.push((now, value));
            list.retain(|(at, _)| now.since(*at) <= length);
        }
        let kept: Vec<f64> = list.iter().map(|(_, value)| *value).collect();
        #[expect(clippy::cast_precision_loss, reason = "there are few")]
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        prop_assert_eq!(window.value(Aggregate::Last), kept.last().copied());
        prop_assert_eq!(window.value(Aggregate::Max), kept.iter().copied().reduce(f64::max));
        prop_assert_eq!(window.value(Aggregate::Min), kept.iter().copied().reduce(f64::min));
        prop_assert!((window.value(Aggregate::Average).unwrap() - mean).abs() < 1e-6);
    }

    #[test]
    fn a_window_is_bounded_and_its_mean_lies_between_its_ends(
        values in prop::collection::vec(any::<f64>(), 0..2000), pauses in prop::collection::vec(0..50_u64, 2000),
    ) {
        let mut window = Window::new(Duration::from_secs(60));
        let mut now = Monotonic::from_origin(Duration::ZERO);
        for (value, pause) in values.iter().zip(pauses) {
            now = now.plus(Duration::from_millis(pause));
            window.add(*value, now);
        }
        let value = |aggregate| window.value(aggregate);
        prop_assert_eq!(value(Aggregate::Max).is_some(), values.iter().any(|value| value.is_finite()));
        if let (Some(least), Some(most)) = (value(Aggregate::Min), value(Aggregate::Max)) {
            prop_assert!(least <= most && least.is_finite() && most.is_finite());
            let mean = value(Aggregate::Average).unwrap();
            prop_assert!(mean.is_nan() || (least <= mean && mean <= most), "{} {} {}", least, mean, most);
        }
        prop_assert!(window.buckets.len() <= BUCKETS_MAX);
    }

    #[test]
    fn a_value_breaches_at_most_one_side_and_no_number_is_unknown(threshold in -9.0..9.0_f64, value: f64) {
        let above = Condition::Above(threshold).read(value);
        let below = Condition::Below(threshold).read(value);
        let breaches = |reading| matches!(reading, Reading::Breached(_));
        prop_assert!(!(breaches(above) && breaches(below)));
        prop_assert_eq!(above == Reading::Unknown, !value.is_finite());
        if value.to_bits() == threshold.to_bits() {
            prop_assert!(!breaches(above) && !breaches(below));
        }
    }

    #[test]
    fn a_delivery_ends_after_its_attempts_and_stays_so(attempts in prop::collection::vec(0..8_u8, 1..40)) {
        let mut state = DeliveryState::Waiting { attempt: 0, run_after: Timestamp::EPOCH };
        let mut tried = 0;
        for number in attempts {
            let attempt = match number {
                0 => Attempt::Arrived,
                1 => Attempt::FailedForGood,
                _ => Attempt::FailedForNow,
            };
            let after = delivery::next(state, attempt, |_| Duration::from_secs(1), Timestamp::EPOCH);
            if let DeliveryState::Waiting { .. } = state {
                tried += 1;
            } else {
                prop_assert_eq!(after, state);
            }
            prop_assert!(tried <= ATTEMPTS_MAX);
            let is_waiting = matches!(after, DeliveryState::Waiting { .. });
            prop_assert!(tried < ATTEMPTS_MAX || !is_waiting);
            state = after;
        }
    }

    #[test]
    fn any_text_makes_a_subject_a_name_or_a_refusal(text in ".{0,240}") {
        if let Ok(subject) = Subject::new(&text) {
            prop_assert!(subject.as_str().chars().count() <= 200);
        }
        prop_assert!(!rule::is_name(&text) || text.len() <= 63);
    }
}

#[test]
fn many_samples_at_one_instant_are_bounded_too() {
    let now = Monotonic::from_origin(Duration::ZERO);
    let mut window = Window::new(Duration::ZERO);

    for _ in 0..BUCKETS_MAX * 3 {
        window.add(1.0, now);
    }

    assert_eq!(window.buckets.len(), BUCKETS_MAX);
    assert_eq!(window.value(Aggregate::Average), Some(1.0));
}

fn fields() -> RuleFields {
    RuleFields {
        name: "a-1_b".into(),
        signal: "signal".into(),
        condition: Condition::Below(-1.5),
        aggregate: Aggregate::Max,
        window: rule::LONGEST,
        hold: rule::LONGEST,
        severity: Severity::Critical,
        channels: vec!["log".into(), "pager".into()],
    }
}

#[test]
fn a_rule_that_makes_no_sense_is_refused() {
    let second = Duration::from_secs(1);
    let check = |fields: RuleFields, bad: BadRule| assert_eq!(Rule::new(fields), Err(bad));

    assert!(Rule::new(fields()).is_ok());
    for name in ["", "1a", "A", "a b", "a.b", "한글", &"a".repeat(64)] {
        check(RuleFields { name: name.into(), ..fields() }, BadRule::Name);
        check(RuleFields { signal: name.into(), ..fields() }, BadRule::Signal);
        check(RuleFields { channels: vec![name.into()], ..fields() }, BadRule::Channels);
    }
    for threshold in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        check(RuleFields { condition: Condition::Above(threshold), ..fields() }, BadRule::Threshold);
    }
    check(RuleFields { window: rule::LONGEST + second, ..fields() }, BadRule::Window);
    check(RuleFields { hold: rule::LONGEST + second, ..fields() }, BadRule::Hold);
    check(RuleFields { channels: vec!["log".into(), "log".into()], ..fields() }, BadRule::Channels);
    let many = (0..=rule::CHANNELS_MAX).map(|number| format!("c{number}")).collect();
    check(RuleFields { channels: many, ..fields() }, BadRule::Channels);
}

#[test]
fn a_worse_severity_is_greater() {
    assert!(Severity::Info < Severity::Warning && Severity::Warning < Severity::Critical);
}

fn silence(id: i64, subject: Option<&str>, until: i64) -> Silence {
    Silence {
        id,
        rule: "slow".into(),
        subject: subject.map(|text| Subject::new(text).unwrap()),
        until: Timestamp::from_micros(until),
        reason: "maintenance".into(),
        by: "ann".into(),
        created_at: Timestamp::EPOCH,
        ended_at: None,
    }
}

#[test]
fn a_silence_covers_its_subject_until_its_end() {
    let silences = [silence(1, None, 10), silence(2, Some("pool/a"), 20)];
    let (a, b) = (Subject::new("pool/a").unwrap(), Subject::new("pool/b").unwrap());
    let found = |rule: &str, subject: &Subject, at: i64| {
        quietest(&silences, rule, subject, Timestamp::from_micros(at)).map(|silence| silence.id)
    };

    assert_eq!((found("slow", &a, 0), found("slow", &b, 0)), (Some(2), Some(1)));
    assert_eq!((found("slow", &a, 10), found("slow", &b, 10)), (Some(2), None));
    assert_eq!((found("slow", &a, 20), found("fast", &a, 0)), (None, None));
    let part = Subject::new("pool/a/b").unwrap();
    assert_eq!(
        (found("slow", &part, 10), found("slow", &Subject::new("pool/ab").unwrap(), 10)),
        (Some(2), None)
    );
    assert!(!part.covers(&a));
    let ended = Silence { ended_at: Some(Timestamp::EPOCH), ..silence(3, None, 10) };
    assert!(!ended.is_in_force(Timestamp::EPOCH));
}

#[test]
fn a_silence_needs_a_reason_and_an_end() {
    let request = SilenceRequest {
        rule: "slow".into(),
        subject: None,
        length: Duration::from_secs(60),
        reason: "x".into(),
        actor: Actor::system(),
    };
    let check = |request: SilenceRequest, bad: BadSilence| assert_eq!(request.check(), Err(bad));

    assert_eq!(request.check(), Ok(()));
    check(SilenceRequest { rule: "Slow".into(), ..request.clone() }, BadSilence::Rule);
    check(SilenceRequest { length: Duration::ZERO, ..request.clone() }, BadSilence::Length);
    check(SilenceRequest { length: Duration::MAX, ..request.clone() }, BadSilence::Length);
    for reason in ["", " \n", "a\0b", &"x".repeat(501)] {
        check(SilenceRequest { reason: reason.into(), ..request.clone() }, BadSilence::Reason);
    }
}

#[test]
fn the_waits_between_attempts_grow_from_a_second_to_ten_minutes() {
    let backoff = delivery::backoff().unwrap();

    assert_eq!(backoff.delay(1, 0.0), Duration::from_secs(1));
    assert_eq!(backoff.delay(ATTEMPTS_MAX, 0.0), Duration::from_secs(600));
}

#[test]
fn a_rule_is_made_of_fields_that_fit() {
    use crate::alert::{Aggregate, BadRule, Condition, Rule, RuleFields, Severity};
    use std::time::Duration;
    let fields = RuleFields {
        name: "database_slow".into(),
        signal: "database_seconds".into(),
        condition: Condition::Above(1.0),
        aggregate: Aggregate::Average,
        window: Duration::from_secs(60),
        hold: Duration::from_secs(60),
        severity: Severity::Warning,
        channels: vec!["log".into()],
    };
    assert!(Rule::new(fields.clone()).is_ok());
    assert_eq!(Rule::new(RuleFields { name: "Slow!".into(), ..fields }), Err(BadRule::Name));
}

#[test]
fn an_alert_fires_when_its_time_has_passed() {
    use crate::alert::{AlertState, Notice, Reading, next};
    use crate::time::Timestamp;
    use std::time::Duration;
    let (minute, noon) = (Duration::from_secs(60), Timestamp::EPOCH);
    let (pending, nothing) = next(AlertState::Inactive, Reading::Breached(9.0), minute, noon);
    let (firing, notice) = next(pending, Reading::Breached(9.0), minute, noon.plus(minute));
    assert_eq!((nothing, notice), (None, Some(Notice::Fired)));
    assert_eq!(firing.as_str(), "firing");
}

#[test]
fn a_subject_is_not_empty() {
    use crate::alert::Subject;
    assert_eq!(Subject::new("pool/etl").unwrap().as_str(), "pool/etl");
    assert!(Subject::new("").is_err());
}

#[test]
fn a_silence_has_a_reason() {
    use crate::alert::silence::{BadSilence, reason};
    assert_eq!(reason(" disk is being replaced "), Ok("disk is being replaced"));
    assert_eq!(reason("  "), Err(BadSilence::Reason));
}
