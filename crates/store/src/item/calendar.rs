//! Dates and times as the databases count them.
//!
//! Hand-written arithmetic, because it runs for every date of every row.

use jiff::civil::{Date, DateTime, Time};

const DAY_MICROS: i64 = 86_400_000_000;

/// PostgreSQL counts days from 2000-01-01.
pub(crate) const DAYS_TO_2000: i64 = 10_957;

pub(crate) const MICROS_TO_2000: i64 = DAYS_TO_2000 * DAY_MICROS;

/// Days since 1970-01-01; `None` if a [`Date`] cannot hold it.
pub(crate) fn date_of_days(days: i64) -> Option<Date> {
    // Eras of 400 years that begin in March, so that the leap day comes last.
    let shifted = days.checked_add(719_468)?;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

pub(crate) fn days_of_date(date: Date) -> i64 {
    let (year, month, day) = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// `None` if it is not within one day.
pub(crate) fn time_of_micros(micros: i64) -> Option<Time> {
    if !(0..DAY_MICROS).contains(&micros) {
        return None;
    }
    let seconds = micros / 1_000_000;
    let part = |value: i64| i8::try_from(value).ok();
    let nanos = i32::try_from(micros % 1_000_000 * 1_000).ok()?;
    Time::new(part(seconds / 3_600)?, part(seconds / 60 % 60)?, part(seconds % 60)?, nanos).ok()
}

/// `None` if there is a fraction of a microsecond.
pub(crate) fn micros_of_time(time: Time) -> Option<i64> {
    let nanos = i64::from(time.subsec_nanosecond());
    if nanos % 1_000 != 0 {
        return None;
    }
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    Some(seconds * 1_000_000 + nanos / 1_000)
}

/// Microseconds since 1970-01-01T00:00.
pub(crate) fn datetime_of_micros(micros: i64) -> Option<DateTime> {
    let date = date_of_days(micros.div_euclid(DAY_MICROS))?;
    let time = time_of_micros(micros.rem_euclid(DAY_MICROS))?;
    Some(DateTime::from_parts(date, time))
}

/// `None` if there is a fraction of a microsecond.
pub(crate) fn micros_of_datetime(datetime: DateTime) -> Option<i64> {
    Some(days_of_date(datetime.date()) * DAY_MICROS + micros_of_time(datetime.time())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use proptest::prelude::*;

    #[test]
    fn the_days_around_turns_are_the_right_ones() {
        for (days, day) in [
            (0, date(1970, 1, 1)),
            (-1, date(1969, 12, 31)),
            (DAYS_TO_2000, date(2000, 1, 1)),
            (DAYS_TO_2000 + 59, date(2000, 2, 29)),
            (-25_509, date(1900, 2, 28)),
            (-25_508, date(1900, 3, 1)),
        ] {
            assert_eq!(date_of_days(days), Some(day), "{days}");
            assert_eq!(days_of_date(day), days, "{day}");
        }
        assert_eq!(date_of_days(i64::MAX), None);
        assert_eq!(time_of_micros(DAY_MICROS), None);
        assert_eq!(time_of_micros(-1), None);
    }

    proptest! {
        #[test]
        fn days_agree_with_the_library_and_read_back(days in -4_371_587_i64..2_932_896) {
            let day = date_of_days(days).unwrap();
            let span = jiff::Span::new().days(days);
            prop_assert_eq!(date(1970, 1, 1).checked_add(span).unwrap(), day);
            prop_assert_eq!(days_of_date(day), days);
        }

        #[test]
        fn instants_read_back(micros in -377_705_000_000_000_000_i64..253_402_000_000_000_000) {
            let datetime = datetime_of_micros(micros).unwrap();
            prop_assert_eq!(micros_of_datetime(datetime), Some(micros));
        }

        #[test]
        fn no_number_panics(number: i64) {
            let _answer = (date_of_days(number), time_of_micros(number), datetime_of_micros(number));
        }
    }
}
