//! Limits of parameters, and Java's texts.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Ordering;

fn value() -> impl Strategy<Value = ParameterValue> {
    let date = (-9999..=9999_i16, 1..=12_i8, 1..=28_i8)
        .prop_map(|(year, month, day)| jiff::civil::Date::new(year, month, day).unwrap());
    let time = (0..24_i8, 0..60_i8, 0..60_i8, prop_oneof![Just(0), 0..1_000_000_000_i32]).prop_map(
        |(hour, minute, second, nanos)| jiff::civil::Time::new(hour, minute, second, nanos).unwrap(),
    );
    prop_oneof![
        any::<String>().prop_map(ParameterValue::Text),
        any::<i64>().prop_map(ParameterValue::Long),
        any::<f64>().prop_map(ParameterValue::Double),
        date.clone().prop_map(ParameterValue::Date),
        time.clone().prop_map(ParameterValue::Time),
        (date, time).prop_map(|(date, time)| ParameterValue::DateTime(date.to_datetime(time))),
    ]
}

#[test]
fn a_type_is_known_by_our_word_and_by_javas_class() {
    for kind in ParameterType::ALL {
        assert_eq!(kind.as_str().parse(), Ok(kind));
        assert_eq!(kind.java_class().parse(), Ok(kind));
    }
    for wrong in ["", "String", "text", "java.util.Date", "java.lang.Integer"] {
        assert_eq!(wrong.parse::<ParameterType>(), Err(BadValue::UnknownType { word: wrong.into() }));
    }
}

#[test]
fn a_stored_text_that_does_not_fit_its_class_is_refused() {
    for (class, text) in [
        ("java.lang.Long", "9223372036854775808"),
        ("java.lang.Long", " 1"),
        ("java.lang.Double", "one"),
        ("java.time.LocalDate", "31.01.2026"),
        ("java.time.LocalTime", "noon"),
        ("java.time.LocalDateTime", "2026-01-31"),
    ] {
        let refusal = ParameterValue::from_stored(class, text).unwrap_err();
        assert!(matches!(refusal, BadValue::NotOfType { .. }), "{class} {text}");
    }
}

#[test]
fn the_last_parameter_of_a_name_counts() {
    let mut parameters = JobParameters::new().with("a", 1).with_non_identifying("a", 2);
    assert_eq!(parameters.get("a"), Some(&JobParameter::non_identifying(2)));
    assert!(!parameters.has_identifying());

    parameters.insert("a", JobParameter::identifying(3)).unwrap();

    assert_eq!(parameters.iter().count(), 1);
    assert!(parameters.has_identifying());
    assert_eq!(parameters.get("b"), None);
}

#[test]
fn what_is_out_of_bounds_is_not_inserted() {
    let mut parameters = JobParameters::new();

    for (name, text) in
        [("", "v"), ("a\0", "v"), ("a", "v\0"), (&*"a".repeat(101), "v"), ("a", &*"v".repeat(2501))]
    {
        assert!(parameters.insert(name, JobParameter::identifying(text)).is_err(), "{name:?}");
    }

    assert!(parameters.is_empty());
}

proptest! {
    #[test]
    fn a_stored_value_reads_back(value in value()) {
        let back = ParameterValue::from_stored(value.kind().java_class(), &value.stored_text()).unwrap();
        prop_assert_eq!(&back, &value);
        prop_assert_eq!(back.java_text(), value.java_text());
        let by_word = ParameterValue::from_stored(value.kind().as_str(), &value.to_string());
        prop_assert_eq!(by_word, Ok(value));
    }

    #[test]
    fn names_come_in_the_order_of_java_and_once(names in vec("[a-c\u{ff5e}\u{1f600}]{1,3}", 0..12)) {
        let parameters = names.iter().fold(JobParameters::new(), |all, name| all.with(name, 1));
        let sorted: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
        prop_assert!(sorted.windows(2).all(|pair| utf16_order(pair[0], pair[1]) == Ordering::Less));
        prop_assert!(names.iter().all(|name| parameters.get(name).is_some()));
    }
}

#[test]
fn texts_of_values_are_those_of_java() {
    use crate::job::ParameterValue;
    assert_eq!(ParameterValue::from(1e10).java_text(), "1.0E10");
    let noon = ParameterValue::from(jiff::civil::time(12, 0, 0, 0));
    assert_eq!((noon.java_text(), noon.stored_text()), ("12:00".into(), "12:00:00".into()));
}
