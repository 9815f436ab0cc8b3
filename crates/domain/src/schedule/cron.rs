//! Cron expressions, in local time.
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with the second first. If both day fields are
//! restricted, a day has to match only one of them, as in every cron. A field that begins with `*` is not restricted.
//!
//! A tick that clocks skip fires right after the gap; one that clocks repeat fires the first time. So each fires once.

mod parse;
#[cfg(test)]
mod tests;

pub use parse::BadCron;

use super::zone::Zone;
use crate::time::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, ToSpan};

/// The calendar repeats after 400 years, weekdays included: what does not match in them never does.
const CYCLE_YEARS: i16 = 400;

/// Most local times tried for one tick: more than a day of seconds, and no zone ever repeated more.
const TRIES_MAX: u32 = 100_000;

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
    /// Both day fields are restricted.
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

    /// The smallest member that is at least `from`.
    fn from(self, from: i8) -> Option<i8> {
        let rest = self.0.checked_shr(from.try_into().ok()?)?;
        if rest == 0 {
            return None;
        }
        i8::try_from(rest.trailing_zeros()).ok().map(|more| from + more)
    }
}

impl Cron {
    /// The first tick after this instant. None only beyond the end of the calendar.
    pub fn next_after(&self, after: Timestamp, zone: &Zone) -> Option<Timestamp> {
        // Local times up to that of `after` are past, including those in a gap.
        let mut from = zone.local(after)?.with().subsec_nanosecond(0).build().ok()?;
        for _ in 0..TRIES_MAX {
            from = from.checked_add(1.second()).ok()?;
            from = self.next_local(from)?;
            let at = zone.first_instant(from)?;
            // False in the second of two repeated hours.
            if at > after {
                return Some(at);
            }
        }
        None
    }

    /// False for the 30th of February.
    fn is_possible(&self) -> bool {
        let any = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
        self.next_local(any).is_some()
    }

    /// The first matching local time at or after `from`, which has no fraction.
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

    /// The first matching time of day at or after `from`.
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

// As written, with one space between fields.
crate::newtype::display!(Cron, cron => "{}", cron.text);

pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) fn weekday_name(day: Weekday) -> &'static str {
    WEEKDAYS[usize::try_from(day.to_sunday_zero_offset()).unwrap_or(0) % 7]
}
