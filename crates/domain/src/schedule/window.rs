//! Windows: when a schedule may fire.
//!
//! A window opens on days of the week at one local time and closes at another, on the next day if that is not later.
//! Ticks outside of all windows are dropped, or deferred until the next one opens; several deferred ticks fire once.

use super::cron::{WEEKDAYS, weekday_name};
use super::zone::Zone;
use crate::time::Timestamp;
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time, Weekday};
use std::fmt;
use std::str::FromStr;

/// Days of the week and times of day between which ticks may fire.
///
/// ```
/// # use tidemill_domain::schedule::Window;
/// let night: Window = "MON-FRI 22:00-06:00".parse().unwrap();
/// let saturday_morning = jiff::civil::date(2026, 11, 14).at(5, 59, 0, 0);
/// assert!(night.contains(saturday_morning));
/// assert_eq!(night.to_string(), "MON-FRI 22:00-06:00");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// Bit 0 is Sunday.
    days: u8,
    opens: Time,
    closes: Closes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Closes {
    SameDay(Time),
    Midnight,
    NextDay(Time),
}

crate::words! {
    #[derive(Default)]
    pub enum Outside {
        #[default]
        Drop = "drop",
        /// It fires when the next window opens.
        Defer = "defer",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is not a window such as 22:00-06:00 or MON-FRI 08:30-17:00: {why}")]
pub struct BadWindow {
    text: String,
    why: &'static str,
}

const ALL_DAYS: u8 = 0b111_1111;

impl Window {
    pub fn contains(&self, local: DateTime) -> bool {
        let opened = |date: Option<Date>| date.is_some_and(|date| self.opens_on(date.weekday()));
        let (today, yesterday) = (Some(local.date()), local.date().yesterday().ok());
        let time = local.time();
        match self.closes {
            Closes::SameDay(closes) => opened(today) && time >= self.opens && time < closes,
            Closes::Midnight => opened(today) && time >= self.opens,
            Closes::NextDay(closes) => {
                opened(today) && time >= self.opens || opened(yesterday) && time < closes
            }
        }
    }

    pub(super) fn next_opening(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        let first = zone.local(after)?.date().yesterday().ok()?;
        (0..10)
            .filter_map(|days: i64| first.checked_add(days.days()).ok())
            .filter(|date| self.opens_on(date.weekday()))
            .filter_map(|date| zone.first_instant(date.to_datetime(self.opens)))
            .find(|opening| *opening > after)
    }

    fn opens_on(&self, day: Weekday) -> bool {
        self.days >> day.to_sunday_zero_offset() & 1 == 1
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.days == 0b011_1110 {
            f.write_str("MON-FRI ")?;
        } else if self.days != ALL_DAYS {
            let days = Weekday::Sunday.cycle_forward().take(7).filter(|day| self.opens_on(*day));
            let names: Vec<&str> = days.map(weekday_name).collect();
            write!(f, "{} ", names.join(","))?;
        }
        write!(f, "{}-", self.opens.strftime("%H:%M"))?;
        match self.closes {
            Closes::SameDay(time) | Closes::NextDay(time) => write!(f, "{}", time.strftime("%H:%M")),
            Closes::Midnight => f.write_str("24:00"),
        }
    }
}

crate::newtype::serde_as_text!(Window);

impl FromStr for Window {
    type Err = BadWindow;

    fn from_str(text: &str) -> Result<Self, BadWindow> {
        let bad = |why| BadWindow { text: text.chars().take(64).collect(), why };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (days, times) = match words.as_slice() {
            [times] => (ALL_DAYS, *times),
            [days, times] => (days_of(days).map_err(bad)?, *times),
            _ => return Err(bad("write days, a space, and from-to; without days it is every day")),
        };
        let (opens, closes) = times.split_once('-').ok_or_else(|| bad("the times have no - between them"))?;
        let not_a_time = || bad("a time of day is HH:MM");
        let opens = time_of(opens).ok_or_else(not_a_time)?;
        let closes = match closes {
            "24:00" => Closes::Midnight,
            closes => match time_of(closes).ok_or_else(not_a_time)? {
                closes if closes > opens => Closes::SameDay(closes),
                closes if closes == opens => {
                    return Err(bad("it closes when it opens; for the whole day write 00:00-24:00"));
                }
                closes => Closes::NextDay(closes),
            },
        };
        Ok(Self { days, opens, closes })
    }
}

/// Days as `MON-FRI`, `MON,WED`, or a list of both. A range may pass the end of the week.
fn days_of(text: &str) -> Result<u8, &'static str> {
    let number = |name: &str| {
        WEEKDAYS
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))
            .ok_or("a day is SUN, MON, TUE, WED, THU, FRI or SAT")
    };
    let mut days = 0_u8;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (number(first)?, number(last)?);
        days |= 1 << day;
        while day != last {
            day = (day + 1) % 7;
            days |= 1 << day;
        }
    }
    Ok(days)
}

/// Exactly `HH:MM`.
fn time_of(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { digits.parse::<i8>().ok() } else { None }
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contains(window: &str, local: &str) -> bool {
        window.parse::<Window>().unwrap().contains(local.parse().unwrap())
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_opens() {
        let night = "FRI 22:00-06:00";

        assert!(!contains(night, "2026-11-13T21:59:59"), "before it opens on friday");
        assert!(contains(night, "2026-11-13T22:00:00"));
        assert!(contains(night, "2026-11-14T05:59:59"), "saturday morning");
        assert!(!contains(night, "2026-11-14T06:00:00"));
        assert!(!contains(night, "2026-11-13T05:00:00"), "friday morning belongs to thursday");
        assert!(contains("00:00-24:00", "2026-11-14T23:59:59"));
    }

    #[test]
    fn what_is_no_window_is_refused_with_the_reason() {
        for wrong in
            ["", "22:00", "22-23", "22:00-22:00", "24:00-01:00", "FUN 01:00-02:00", "MON 1:00-2:00", "A B C"]
        {
            assert!(wrong.parse::<Window>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_window_reads_back(days in 1..128_u8, opens in 0..1440_u32, closes in 1..1441_u32) {
            prop_assume!(opens != closes);
            let names: Vec<&str> = (0..7).filter(|day| days >> day & 1 == 1).map(|day| WEEKDAYS[day]).collect();
            let time = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
            let window: Window = format!("{} {}-{}", names.join(","), time(opens), time(closes)).parse().unwrap();

            prop_assert_eq!(window.days, days);
            prop_assert_eq!(window.to_string().parse::<Window>(), Ok(window));
        }

        #[test]
        fn a_window_is_open_right_after_it_opened(day in 0..7_usize, opens in 0..1440_u32, length in 1..1440_u32) {
            let time = |minutes: u32| format!("{:02}:{:02}", minutes % 1440 / 60, minutes % 60);
            let window: Window =
                format!("{} {}-{}", WEEKDAYS[day], time(opens), time(opens + length)).parse().unwrap();
            let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();

            let opening = window.next_opening(now, &Zone::UTC).unwrap();

            prop_assert!(opening > now);
            prop_assert!(window.contains(Zone::UTC.local(opening).unwrap()));
            let before = opening.minus(std::time::Duration::from_micros(1));
            prop_assert!(!window.contains(Zone::UTC.local(before).unwrap()));
        }
    }
}
