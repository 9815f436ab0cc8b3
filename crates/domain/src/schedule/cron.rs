//! Cron expressions, in local time.
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with the second first. If both day fields are
//! restricted, a day has to match only one of them, as in every cron. A field that begins with `*` is not restricted.
//!
//! A tick that clocks skip fires right after the gap; one that clocks repeat fires the first time. So each fires once.

#[cfg(test)]
mod tests;

use super::zone::Zone;
use crate::time::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::{Span, ToSpan};
use std::str::FromStr;

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

/// Longest expression in characters: a list of all sixty minutes fits.
const CRON_CHARS_MAX: usize = 250;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadCron {
    #[error("the expression has {chars} characters; {CRON_CHARS_MAX} are allowed")]
    TooLong { chars: usize },
    #[error(
        "there are {count} fields; write five (minute hour day month weekday), or six with the second first"
    )]
    Fields { count: usize },
    #[error("unknown word {word:?}; use @hourly, @daily, @weekly, @monthly or @yearly")]
    UnknownWord { word: String },
    #[error("in the field for the {field}, {part:?}: {why}")]
    Part { field: &'static str, part: String, why: String },
    #[error("no date matches: the month has no such day")]
    Never,
}

struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
    first_name: u8,
    takes_last: bool,
}

const fn field(name: &'static str, min: u8, max: u8) -> Field {
    Field { name, min, max, names: &[], first_name: 0, takes_last: false }
}

const SECOND: Field = field("second", 0, 59);
const MINUTE: Field = field("minute", 0, 59);
const HOUR: Field = field("hour", 0, 23);
const DAY: Field = Field { takes_last: true, ..field("day of the month", 1, 31) };
const MONTH: Field = Field { names: &MONTHS, first_name: 1, ..field("month", 1, 12) };
const WEEKDAY: Field = Field { names: &WEEKDAYS, ..field("day of the week", 0, 7) };

impl FromStr for Cron {
    type Err = BadCron;

    fn from_str(text: &str) -> Result<Self, BadCron> {
        let chars = text.chars().count();
        if chars > CRON_CHARS_MAX {
            return Err(BadCron::TooLong { chars });
        }
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let text = words.join(" ");
        let expanded = expand(&text)?;
        let fields: Vec<&str> = expanded.split(' ').filter(|field| !field.is_empty()).collect();
        let (second, [minute, hour, day, month, weekday]) = match fields.as_slice() {
            [minute, hour, day, month, weekday] => ("0", [*minute, *hour, *day, *month, *weekday]),
            [second, minute, hour, day, month, weekday] => {
                (*second, [*minute, *hour, *day, *month, *weekday])
            }
            other => return Err(BadCron::Fields { count: other.len() }),
        };
        let (days, has_last_day) = DAY.read(day)?;
        let (mut weekdays, _) = WEEKDAY.read(weekday)?;
        // Sunday is 0 and 7.
        if weekdays.has(7) {
            weekdays.add(0);
        }
        let is_either = !day.starts_with('*') && !weekday.starts_with('*');
        let cron = Self {
            seconds: SECOND.read(second)?.0,
            minutes: MINUTE.read(minute)?.0,
            hours: HOUR.read(hour)?.0,
            days,
            has_last_day,
            months: MONTH.read(month)?.0,
            weekdays,
            day_rule: if is_either { DayRule::Either } else { DayRule::Both },
            text,
        };
        let any = DateTime::constant(2000, 1, 1, 0, 0, 0, 0);
        if cron.next_local(any).is_some() { Ok(cron) } else { Err(BadCron::Never) }
    }
}

fn expand(text: &str) -> Result<&str, BadCron> {
    match text {
        "@hourly" => Ok("0 * * * *"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@monthly" => Ok("0 0 1 * *"),
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        word if word.starts_with('@') => Err(BadCron::UnknownWord { word: short(word) }),
        fields => Ok(fields),
    }
}

impl Field {
    /// The numbers of a field, and whether it includes the last day (`L`).
    fn read(&self, text: &str) -> Result<(Set, bool), BadCron> {
        let (mut set, mut has_last) = (Set::default(), false);
        for part in text.split(',') {
            if self.takes_last && part.eq_ignore_ascii_case("L") {
                has_last = true;
                continue;
            }
            let (from, to, step) =
                self.range(part).map_err(|why| BadCron::Part { field: self.name, part: short(part), why })?;
            (from..=to).step_by(step.into()).for_each(|number| set.add(number));
        }
        Ok((set, has_last))
    }

    /// First, last and step of one part of a list.
    fn range(&self, part: &str) -> Result<(u8, u8, u8), String> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" => (self.min, self.max),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            None if step.is_some() => return Err("a step needs a range or * before it".to_owned()),
            None => {
                let number = self.number(range)?;
                (number, number)
            }
        };
        if from > to {
            return Err("the range goes backwards; write it as two".to_owned());
        }
        Ok((from, to, step.unwrap_or(1)))
    }

    fn step(&self, text: &str) -> Result<u8, String> {
        let step = digits(text).filter(|step| (1..=self.max).contains(step));
        step.ok_or_else(|| format!("the step is not a number from 1 to {}", self.max))
    }

    fn number(&self, text: &str) -> Result<u8, String> {
        let named =
            self.names.iter().zip(self.first_name..).find(|(name, _)| name.eq_ignore_ascii_case(text));
        if let Some((_, number)) = named {
            return Ok(number);
        }
        let number = digits(text).filter(|number| (self.min..=self.max).contains(number));
        number.ok_or_else(|| {
            let names = match self.names {
                [first, .., last] => format!(", or a name from {first} to {last}"),
                _ => String::new(),
            };
            format!("{:?} is not a number from {} to {}{names}", short(text), self.min, self.max)
        })
    }
}

/// One or two digits, without a sign.
fn digits(text: &str) -> Option<u8> {
    let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn short(text: &str) -> String {
    text.chars().take(24).collect()
}
