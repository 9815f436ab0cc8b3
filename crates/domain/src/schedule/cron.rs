//! Cron expressions: which minutes (or seconds) of the local time they name, and when the next of them comes.
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with the second in front. Where both day
//! fields are restricted, a day that matches either is enough, as in every cron since the first. A field that
//! begins with `*` is not restricted.
//!
//! A tick is a local time. One that the zone leaves out, because clocks are put forward, comes at the first instant
//! after the gap; one that the zone has twice comes at the first of the two. So each fires once.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::BadCron;

use super::zone::Zone;
use crate::time::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, ToSpan};

/// The calendar repeats itself after so many years, weekdays included: what does not come in them never comes.
const CYCLE_YEARS: i16 = 400;

/// Most local times that are looked at for one tick: more than a day of seconds, and no zone has ever repeated more.
const TRIES_MAX: u32 = 100_000;

/// A cron expression that was understood.
///
/// ```
/// # use tidemill_domain::schedule::{Cron, Zone};
/// let nights: Cron = "30 2 * * MON-FRI".parse().unwrap();
/// let seoul: Zone = "Asia/Seoul".parse().unwrap();
/// let sunday = "2026-11-15T12:00:00Z".parse().unwrap();
/// let next = nights.next_after(sunday, &seoul).unwrap();
/// assert_eq!(next.to_string(), "2026-11-15T17:30:00.000000Z");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cron {
    text: String,
    seconds: Set,
    minutes: Set,
    hours: Set,
    days: Set,
    has_last_day: bool,
    months: Set,
    weekdays: Set,
    day_rule: DayRule,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DayRule {
    Both,
    /// One of them: both are restricted.
    Either,
}

/// Numbers from 0 to 63.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Set(u64);

impl Set {
    const fn has(self, number: i8) -> bool {
        number >= 0 && number < 64 && self.0 >> number & 1 == 1
    }

    fn add(&mut self, number: u8) {
        self.0 |= 1 << (number & 63);
    }

    /// The smallest that is not smaller than `from`.
    fn from(self, from: i8) -> Option<i8> {
        let rest = self.0.checked_shr(from.try_into().ok()?)?;
        if rest == 0 {
            return None;
        }
        i8::try_from(rest.trailing_zeros()).ok().map(|more| from + more)
    }
}

impl Cron {
    /// The first tick after this instant, in this zone. None only beyond the end of the calendar.
    pub fn next_after(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        // Local times up to the one of `after` have come before it, or at it: those in a gap too.
        let mut from = zone.local(after)?.with().subsec_nanosecond(0).build().ok()?;
        for _ in 0..TRIES_MAX {
            from = from.checked_add(1.second()).ok()?;
            from = self.next_local(from)?;
            let at = zone.first_instant(from)?;
            // Not so in an hour that the zone has twice, the second time.
            if at > after {
                return Some(at);
            }
        }
        None
    }

    /// Whether it ever comes: there is no 30th of February.
    fn is_possible(&self) -> bool {
        let any = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
        self.next_local(any).is_some()
    }

    /// The first local time that matches and is not before `from`, which has no fraction.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let (mut date, mut time) = (from.date(), self.next_time(from.time()));
        let end = from.date().checked_add(Span::new().years(CYCLE_YEARS)).unwrap_or(Date::MAX);
        while date <= end {
            if !self.months.has(date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else {
                if let Some(time) = time
                    && self.matches_day(date)
                {
                    return Some(date.to_datetime(time));
                }
                date = date.tomorrow().ok()?;
            }
            time = self.next_time(Time::midnight());
        }
        None
    }

    fn matches_day(&self, date: Date) -> bool {
        let is_last = date.day() == date.days_in_month();
        let day = self.days.has(date.day()) || self.has_last_day && is_last;
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        let is_day = match self.day_rule {
            DayRule::Both => day && weekday,
            DayRule::Either => day || weekday,
        };
        self.months.has(date.month()) && is_day
    }

    /// The first time of day that matches and is not before `from`.
    fn next_time(&self, from: Time) -> Option<Time> {
        let mut hour = self.hours.from(from.hour())?;
        let (mut minute, mut second) = (0, 0);
        if hour == from.hour() {
            (minute, second) = (from.minute(), from.second());
        }
        loop {
            if let Some(found) = self.minutes.from(minute) {
                let second = if found == minute { second } else { 0 };
                if let Some(second) = self.seconds.from(second) {
                    return Time::new(hour, found, second, 0).ok();
                }
                if let Some(later) = self.minutes.from(found + 1) {
                    return Time::new(hour, later, self.seconds.from(0)?, 0).ok();
                }
            }
            hour = self.hours.from(hour + 1)?;
            (minute, second) = (0, 0);
        }
    }
}

// As it was written, with one space between fields.
crate::newtype::display!(Cron, cron => "{}", cron.text);

/// The three letters by which days of the week are named, Sunday first.
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) fn weekday_name(day: Weekday) -> &'static str {
    WEEKDAYS[usize::try_from(day.to_sunday_zero_offset()).unwrap_or(0) % 7]
}
