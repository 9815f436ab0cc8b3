//! Parses a cron expression. Errors name the field and the part.

use super::{Cron, DayRule, Set, WEEKDAYS};
use std::str::FromStr;

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
        if cron.is_possible() { Ok(cron) } else { Err(BadCron::Never) }
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
