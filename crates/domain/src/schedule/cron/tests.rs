//! Cron expressions: valid ones, invalid ones, and that no tick is lost or invented.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use std::time::Duration;

fn cron(text: &str) -> Cron {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The next ticks, as local times with their offset.
fn ticks(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (cron, zone): (Cron, Zone) = (cron(text), zone.parse().unwrap());
    let following = |tick: &Timestamp| cron.next_after(*tick, &zone);
    let after: Timestamp = after.parse().unwrap();
    let ticks = std::iter::successors(Some(after), following).skip(1).take(count);
    ticks
        .map(|tick| {
            let at = jiff::Timestamp::from_microsecond(tick.as_micros()).unwrap();
            at.in_tz(zone.name()).unwrap().strftime("%m-%d %H:%M:%S %:z").to_string()
        })
        .collect()
}

#[test]
fn fields_lists_ranges_steps_names_and_words_are_understood() {
    let after = "2026-11-15T12:00:00Z"; // A Sunday.
    let check = |text: &str, expected: [&str; 2]| {
        let expected = expected.map(|tick| format!("{tick} +00:00"));
        assert_eq!(ticks(text, "UTC", after, 2), expected, "{text}");
    };

    check("0 2 * * *", ["11-16 02:00:00", "11-17 02:00:00"]);
    check("*/20 12 * * *", ["11-15 12:20:00", "11-15 12:40:00"]);
    check("5,10-11 0 1 * *", ["12-01 00:05:00", "12-01 00:10:00"]);
    check("0 0 * * mon-FRI", ["11-16 00:00:00", "11-17 00:00:00"]);
    check("0 0 * * 5-7", ["11-20 00:00:00", "11-21 00:00:00"]);
    check("0 0 * * 7", ["11-22 00:00:00", "11-29 00:00:00"]);
    check("0 0 1 JAN,jul *", ["01-01 00:00:00", "07-01 00:00:00"]);
    check("0 0 L * *", ["11-30 00:00:00", "12-31 00:00:00"]);
    check("0 0 15,l * *", ["11-30 00:00:00", "12-15 00:00:00"]);
    check("*/30 * * * * *", ["11-15 12:00:30", "11-15 12:01:00"]);
    check("59 59 23 * * *", ["11-15 23:59:59", "11-16 23:59:59"]);
    check("@hourly", ["11-15 13:00:00", "11-15 14:00:00"]);
    check("@daily", ["11-16 00:00:00", "11-17 00:00:00"]);
    check("@weekly", ["11-22 00:00:00", "11-29 00:00:00"]);
    check("@monthly", ["12-01 00:00:00", "01-01 00:00:00"]);
    check("@yearly", ["01-01 00:00:00", "01-01 00:00:00"]);
    check("0 0 29 2 *", ["02-29 00:00:00", "02-29 00:00:00"]);
}

#[test]
fn two_restricted_day_fields_match_either_and_one_that_begins_with_a_star_restricts_nothing() {
    let after = "2026-11-15T12:00:00Z";

    let either = ticks("0 0 20 * MON", "UTC", after, 3);
    let both = ticks("0 0 */10 * MON", "UTC", after, 1);

    assert_eq!(either, ["11-16 00:00:00 +00:00", "11-20 00:00:00 +00:00", "11-23 00:00:00 +00:00"]);
    assert_eq!(both, ["12-21 00:00:00 +00:00"], "a monday that is the 1st, 11th, 21st or 31st");
}

#[test]
fn what_is_not_understood_is_refused_with_what_and_where() {
    let check = |text: &str, told: &str| {
        let refusal = text.parse::<Cron>().unwrap_err().to_string();
        assert!(refusal.contains(told), "{text}: {refusal}");
    };

    check("", "there are 0 fields");
    check("* * * *", "there are 4 fields");
    check("* * * * * * *", "there are 7 fields");
    check(
        "1--100000000 * * * *",
        "in the field for the minute, \"1--100000000\": \"-100000000\" is not a number",
    );
    check("60 * * * *", "minute, \"60\": \"60\" is not a number from 0 to 59");
    check("* 24 * * *", "hour");
    check("* * 0 * *", "day of the month, \"0\"");
    check("* * * 13 *", "or a name from JAN to DEC");
    check("* * * * 8", "or a name from SUN to SAT");
    check("* * * L *", "month, \"L\"");
    check("5-1 * * * *", "goes backwards");
    check("*/0 * * * *", "the step is not a number from 1 to 59");
    check("*/99999999999 * * * *", "the step is not");
    check("5/10 * * * *", "a step needs a range");
    check("1,,2 * * * *", "\"\" is not a number");
    check("+1 * * * *", "\"+1\" is not a number");
    check("١ * * * *", "is not a number");
    check("@reboot", "unknown word \"@reboot\"");
    check(&"* ".repeat(200), "has 400 characters");
    for never in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB *"] {
        check(never, "no date matches");
    }
}

#[test]
fn a_tick_that_the_zone_leaves_out_comes_right_after_the_gap_and_once() {
    let berlin = |text, count| ticks(text, "Europe/Berlin", "2026-03-28T12:00:00Z", count);

    assert_eq!(berlin("30 2 * * *", 2), ["03-29 03:00:00 +02:00", "03-30 02:30:00 +02:00"]);
    assert_eq!(berlin("*/10 2 * * *", 2), ["03-29 03:00:00 +02:00", "03-30 02:00:00 +02:00"]);
    assert_eq!(
        berlin("0,30 2-3 * * *", 3),
        ["03-29 03:00:00 +02:00", "03-29 03:30:00 +02:00", "03-30 02:00:00 +02:00"]
    );
    assert_eq!(
        ticks("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2),
        ["03-08 03:00:00 -04:00", "03-09 02:30:00 -04:00"]
    );
    // A whole day was skipped there.
    assert_eq!(ticks("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", 1), ["12-31 00:00:00 +14:00"]);
}

#[test]
fn a_tick_that_the_zone_has_twice_comes_the_first_time_only() {
    let berlin = |text, after, count| ticks(text, "Europe/Berlin", after, count);

    assert_eq!(
        berlin("30 2 * * *", "2026-10-24T12:00:00Z", 2),
        ["10-25 02:30:00 +02:00", "10-26 02:30:00 +01:00"]
    );
    assert_eq!(
        berlin("*/30 * * * *", "2026-10-25T00:00:00Z", 2),
        ["10-25 02:30:00 +02:00", "10-25 03:00:00 +01:00"]
    );
    assert_eq!(
        berlin("*/30 * * * *", "2026-10-25T01:10:00Z", 1),
        ["10-25 03:00:00 +01:00"],
        "the second 02:10"
    );
    assert_eq!(
        ticks("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2),
        ["11-01 01:30:00 -04:00", "11-02 01:30:00 -05:00"]
    );
}

/// Whether a local time is a tick.
fn matches(cron: &Cron, local: DateTime) -> bool {
    cron.matches_day(local.date())
        && cron.hours.has(local.hour())
        && cron.minutes.has(local.minute())
        && cron.seconds.has(local.second())
}

/// All ticks of these minutes by walking through them: a local minute that is seen for the first time and matches,
/// and the minute after a gap if one in the gap would have matched.
fn walk(cron: &Cron, zone: &Zone, from: Timestamp, minutes: u32) -> Vec<Timestamp> {
    let minute = Duration::from_secs(60);
    let before = from.minus(Duration::from_secs(26 * 3600));
    let mut seen = BTreeSet::new();
    let mut last = zone.local(before).unwrap();
    seen.insert(last);
    let mut found = Vec::new();
    let mut at = before;
    for _ in 0..minutes + 26 * 60 {
        at = at.plus(minute);
        let local = zone.local(at).unwrap();
        let mut is_tick = seen.insert(local) && matches(cron, local);
        let mut skipped = last.checked_add(1.minute()).unwrap();
        while skipped < local {
            is_tick |= matches(cron, skipped);
            skipped = skipped.checked_add(1.minute()).unwrap();
        }
        last = local;
        if is_tick && at > from {
            found.push(at);
        }
    }
    found
}

fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => (min..=max).prop_map(|number| number.to_string()),
        1 => (min..=max, 1..20_u8).prop_map(move |(from, step)| format!("{from}-{max}/{}", step.min(max))),
        1 => (1..20_u8).prop_map(move |step| format!("*/{}", step.min(max))),
        1 => (min..=max, min..=max).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

fn expression() -> impl Strategy<Value = Cron> {
    let days = prop_oneof![field(1, 28), Just("L".to_owned())];
    (field(0, 59), field(0, 23), days, Just("*".to_owned()), field(0, 6)).prop_map(
        |(minute, hour, day, month, weekday)| cron(&format!("{minute} {hour} {day} {month} {weekday}")),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_ticks_are_those_that_a_walk_through_the_minutes_finds(
        cron in expression(),
        (name, change) in select(vec![
            ("Europe/Berlin", "2026-03-29T01:00:00Z"),
            ("Europe/Berlin", "2026-10-25T01:00:00Z"),
            ("America/New_York", "2026-03-08T07:00:00Z"),
            ("America/New_York", "2026-11-01T06:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:00:00Z"),
            ("Asia/Seoul", "2026-11-15T00:00:00Z"),
            ("UTC", "2026-12-31T00:00:00Z"),
        ]),
        minutes_before in 0..1500_u64,
    ) {
        let zone: Zone = name.parse().unwrap();
        let change: Timestamp = change.parse().unwrap();
        let from = change.minus(Duration::from_secs(60 * minutes_before));
        let end = from.plus(Duration::from_secs(60 * 2880));

        let following = |tick: &Timestamp| cron.next_after(*tick, &zone);
        let ticks = std::iter::successors(Some(from), following).skip(1).take_while(|tick| *tick <= end);
        let ticks: Vec<Timestamp> = ticks.collect();

        prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{cron} {ticks:?}");
        prop_assert_eq!(&ticks, &walk(&cron, &zone, from, 2880), "{} in {}", cron, name);
    }

    #[test]
    fn a_tick_comes_after_the_instant_that_is_asked_for(cron in expression(), micros in 0..4_000_000_000_000_000_i64) {
        let after = Timestamp::from_micros(micros);
        let next = cron.next_after(after, &Zone::UTC).unwrap();
        prop_assert!(next > after);
        prop_assert!(matches(&cron, Zone::UTC.local(next).unwrap()));
    }

    #[test]
    fn no_text_is_too_strange_for_an_answer(text in "[-*/,0-9A-Za-z@ L]{0,40}") {
        if let Ok(cron) = text.parse::<Cron>() {
            prop_assert_eq!(cron.to_string().parse::<Cron>(), Ok(cron));
        }
    }
}
