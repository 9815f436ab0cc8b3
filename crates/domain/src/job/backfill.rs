//! A backfill: one instance for each date of a range, in order.

use super::parameter::{ParameterSpec, ParameterType};
use super::{JobParameter, ParameterValue};
use jiff::Span;
use jiff::civil::{Date, Time};
use std::str::FromStr;

pub const DATES_MAX: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backfill {
    pub from: Date,
    /// Included if a step leads to it.
    pub to: Date,
    pub every: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Days(u16),
    /// The 31st becomes the last day of a shorter month.
    Months(u16),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadBackfill {
    #[error("the last date {to} is before the first, {from}")]
    Backwards { from: Date, to: Date },
    #[error("there are more than {DATES_MAX} dates")]
    TooMany,
    #[error("invalid step {0:?}; write a number from 1 to 3660 followed by d, w or mo, such as 1d")]
    BadStep(String),
    #[error("the parameter {name:?} is a {}, which cannot be a date", found.as_str())]
    NotADate { name: String, found: ParameterType },
    #[error("the parameter {name:?} is not identifying, so all dates would be one instance")]
    NotIdentifying { name: String },
    #[error("the parameter {name:?} is set by the backfill and must not be given")]
    Given { name: String },
}

impl Backfill {
    pub fn dates(&self) -> Result<Vec<Date>, BadBackfill> {
        if self.to < self.from {
            return Err(BadBackfill::Backwards { from: self.from, to: self.to });
        }
        let mut dates = Vec::new();
        for number in 0_i64.. {
            // Counted from the first date, so that the 31st comes back after a shorter month.
            let span = match self.every {
                Step::Days(days) => Span::new().try_days(number * i64::from(days)),
                Step::Months(months) => Span::new().try_months(number * i64::from(months)),
            };
            let date = span.and_then(|span| self.from.checked_add(span));
            match date {
                Ok(date) if date <= self.to => dates.push(date),
                _ => break,
            }
            if dates.len() > DATES_MAX {
                return Err(BadBackfill::TooMany);
            }
        }
        Ok(dates)
    }
}

/// The parameter with this date, of the type that the job declares; a date if it declares none.
pub fn parameter(name: &str, date: Date, specs: &[ParameterSpec]) -> Result<JobParameter, BadBackfill> {
    let spec = specs.iter().find(|spec| spec.name == name);
    if spec.is_some_and(|spec| !spec.is_identifying) {
        return Err(BadBackfill::NotIdentifying { name: name.to_owned() });
    }
    let value: ParameterValue = match spec.map_or(ParameterType::Date, |spec| spec.kind) {
        ParameterType::Date => date.into(),
        ParameterType::Text => date.to_string().into(),
        ParameterType::DateTime => date.to_datetime(Time::midnight()).into(),
        found @ (ParameterType::Long | ParameterType::Double | ParameterType::Time) => {
            return Err(BadBackfill::NotADate { name: name.to_owned(), found });
        }
    };
    Ok(JobParameter::identifying(value))
}

impl FromStr for Step {
    type Err = BadBackfill;

    fn from_str(text: &str) -> Result<Self, BadBackfill> {
        let bad = || BadBackfill::BadStep(text.chars().take(24).collect());
        let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(end);
        let number: u16 = number.parse().map_err(|_| bad())?;
        if !(1..=3660).contains(&number) {
            return Err(bad());
        }
        match unit {
            "d" => Ok(Self::Days(number)),
            "w" => Ok(Self::Days(number.checked_mul(7).ok_or_else(bad)?)),
            "mo" => Ok(Self::Months(number)),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use proptest::prelude::*;

    #[test]
    fn months_keep_their_day_where_they_have_it() {
        let ends = Backfill { from: date(2026, 1, 31), to: date(2026, 4, 30), every: "1mo".parse().unwrap() };

        let expected = [date(2026, 1, 31), date(2026, 2, 28), date(2026, 3, 31), date(2026, 4, 30)];
        assert_eq!(ends.dates().unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (from, to) = (date(2026, 1, 2), date(2026, 1, 1));
        assert!(matches!(
            Backfill { from, to, every: Step::Days(1) }.dates(),
            Err(BadBackfill::Backwards { .. })
        ));
        let long = Backfill { from: date(1900, 1, 1), to: date(2026, 1, 1), every: Step::Days(1) };
        assert_eq!(long.dates(), Err(BadBackfill::TooMany));
        for wrong in ["", "d", "0d", "1h", "-1d", "1", "99999d", "3661d", "1 d"] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
        assert_eq!("2w".parse(), Ok(Step::Days(14)));
    }

    #[test]
    fn the_value_is_of_the_type_that_the_job_asks_for() {
        let day = date(2026, 1, 31);
        let spec = |kind, is_identifying| ParameterSpec {
            name: "day".into(),
            kind,
            is_required: true,
            is_identifying,
            accepted: Default::default(),
        };
        let value = |kind| parameter("day", day, &[spec(kind, true)]).map(|found| found.value.to_string());

        assert_eq!(parameter("day", day, &[]), Ok(JobParameter::identifying(day)));
        assert_eq!(value(ParameterType::Text).unwrap(), "2026-01-31");
        assert_eq!(value(ParameterType::DateTime).unwrap(), "2026-01-31T00:00:00");
        assert!(value(ParameterType::Long).is_err());
        assert!(matches!(
            parameter("day", day, &[spec(ParameterType::Date, false)]),
            Err(BadBackfill::NotIdentifying { .. })
        ));
    }

    proptest! {
        #[test]
        fn dates_grow_and_stay_in_the_range(start in 0..20_000_i32, length in 0..3000_i32, days in 1..400_u16) {
            let from = date(1980, 1, 1).checked_add(Span::new().days(start)).unwrap();
            let to = from.checked_add(Span::new().days(length)).unwrap();
            let dates = Backfill { from, to, every: Step::Days(days) }.dates().unwrap();
            prop_assert_eq!(dates.len(), usize::try_from(length).unwrap() / usize::from(days) + 1);
            prop_assert!(dates.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(dates[0] == from && dates[dates.len() - 1] <= to);
        }
    }

    #[test]
    fn weeks_stop_before_the_last_date() {
        use crate::job::backfill::{Backfill, Step};
        use jiff::civil::date;
        let weeks = Backfill { from: date(2026, 1, 1), to: date(2026, 1, 16), every: Step::Days(7) };
        assert_eq!(weeks.dates().unwrap(), [date(2026, 1, 1), date(2026, 1, 8), date(2026, 1, 15)]);
    }
}
