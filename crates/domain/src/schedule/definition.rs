//! A schedule as text, and the plan that it parses to.

use super::policy::{MissedRuns, Overlap, unknown};
use super::{Cron, Outside, Template, Timetable, Window, Zone};
use crate::job::instance::{job_key, md5};
use crate::job::parameter::{ParameterSpec, check, parse_arguments};
use crate::job::{JobParameters, check_name};
use crate::newtype::check_all;
use crate::time::Timestamp;
use std::str::FromStr;
use std::time::Duration;

/// Default time after which a late tick counts as missed.
pub const GRACE: Duration = Duration::from_secs(60);

pub const WINDOWS_MAX: usize = 20;

pub const PARAMETERS_MAX: usize = 100;

pub const TEMPLATE_CHARS_MAX: usize = 2500;

/// Ticks this far apart differ in instant and date.
const FAR: Duration = Duration::from_secs(1_000 * 24 * 3600);

/// A schedule as programs, files and tables define it: text, which [`plan`](Self::plan) parses.
///
/// ```
/// use tidemill_domain::schedule::{MissedRuns, Schedule};
///
/// let nightly = Schedule::new("nightly", "load")
///     .cron("0 2 * * *")
///     .zone("Asia/Seoul")
///     .missed(MissedRuns::Latest)
///     .parameter("date", "${tick.date-1d}");
/// assert!(nightly.plan().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Schedule {
    pub name: String,
    pub job: String,
    pub cron: String,
    pub zone: String,
    /// When it may fire; empty means always.
    pub windows: Vec<String>,
    /// What happens to ticks outside of the windows: `drop` or `defer`.
    pub outside: String,
    /// What happens to missed ticks: `skip`, `latest` or `all N`.
    pub missed: String,
    /// What happens to a tick while an earlier one still runs: `allow`, `skip` or `wait`.
    pub overlap: String,
    /// How late a tick may be before it counts as missed.
    pub grace: Duration,
    /// Names and templates. A template's text may end in `,type` or `,type,identifying`, as on the command line.
    pub parameters: Vec<(String, String)>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{part}: {why}")]
pub struct BadSchedule {
    pub part: String,
    pub why: String,
}

impl BadSchedule {
    pub fn new(part: impl Into<String>, why: impl ToString) -> Self {
        Self { part: part.into(), why: why.to_string() }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub timetable: Timetable,
    pub missed: MissedRuns,
    pub overlap: Overlap,
    pub grace: Duration,
    parameters: Vec<(String, Template)>,
}

impl Schedule {
    /// A schedule of a job, in UTC and without parameters. It needs a [`cron`](Self::cron).
    pub fn new(name: impl Into<String>, job: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            job: job.into(),
            cron: String::new(),
            zone: Zone::UTC.to_string(),
            windows: Vec::new(),
            outside: Outside::default().to_string(),
            missed: MissedRuns::default().to_string(),
            overlap: Overlap::default().to_string(),
            grace: GRACE,
            parameters: Vec::new(),
        }
    }

    crate::setters! {
        /// Five fields, six with the second first, or a word such as `@daily`.
        pub fn cron(self, cron: impl Into<String>) { self.cron = cron.into() }
        /// The time zone, by its IANA name.
        pub fn zone(self, zone: impl Into<String>) { self.zone = zone.into() }
        /// Fires only within this window, such as `MON-FRI 22:00-06:00`. You can add several.
        pub fn window(self, window: impl Into<String>) { self.windows.push(window.into()) }
        pub fn outside(self, outside: Outside) { self.outside = outside.to_string() }
        pub fn missed(self, missed: MissedRuns) { self.missed = missed.to_string() }
        /// What happens to a tick while an earlier one still runs.
        pub fn overlap(self, overlap: Overlap) { self.overlap = overlap.to_string() }
        pub fn grace(self, grace: Duration) { self.grace = grace }
        /// A parameter of every launch. `${tick}`, `${tick.date}` and `${tick.date-1d}` are replaced.
        pub fn parameter(self, name: impl Into<String>, template: impl Into<String>) {
            self.parameters.push((name.into(), template.into()))
        }
    }

    pub fn plan(&self) -> Result<Plan, BadSchedule> {
        check_name(&self.name).map_err(|error| BadSchedule::new("name", error))?;
        check_name(&self.job).map_err(|error| BadSchedule::new("job", error))?;
        let cron: Cron = self.cron.parse().map_err(|error| BadSchedule::new("cron", error))?;
        let zone: Zone = self.zone.parse().map_err(|error| BadSchedule::new("zone", error))?;
        if self.windows.len() > WINDOWS_MAX {
            return Err(BadSchedule::new("windows", format!("at most {WINDOWS_MAX} are allowed")));
        }
        let mut windows = Vec::with_capacity(self.windows.len());
        for (index, window) in self.windows.iter().enumerate() {
            let part = format!("windows[{index}]");
            windows.push(window.parse::<Window>().map_err(|error| BadSchedule::new(part, error))?);
        }
        let outside = word("outside", &self.outside, "drop or defer")?;
        let timetable = Timetable { cron, zone, windows, outside };
        if timetable.next_after(Timestamp::EPOCH).is_none() {
            return Err(BadSchedule::new("windows", "no tick is inside any of them"));
        }
        Ok(Plan {
            timetable,
            missed: self.missed.parse().map_err(|error| BadSchedule::new("missed", error))?,
            overlap: word("overlap", &self.overlap, "allow, skip or wait")?,
            grace: self.grace,
            parameters: self.templates()?,
        })
    }

    fn templates(&self) -> Result<Vec<(String, Template)>, BadSchedule> {
        if self.parameters.len() > PARAMETERS_MAX {
            return Err(BadSchedule::new("parameters", format!("at most {PARAMETERS_MAX} are allowed")));
        }
        let mut templates: Vec<(String, Template)> = Vec::with_capacity(self.parameters.len());
        for (name, text) in &self.parameters {
            let part = || format!("parameters.{}", name.chars().take(40).collect::<String>());
            let is_repeated = templates.iter().any(|(known, _)| known == name);
            let is_name = !name.is_empty() && !name.contains('=') && !is_repeated;
            let has_nul = name.contains('\0') || text.contains('\0');
            let is_short = text.chars().count() <= TEMPLATE_CHARS_MAX;
            check_all([
                (is_name, BadSchedule::new(part(), "a name must not be empty, repeated, or contain =")),
                (!has_nul, BadSchedule::new(part(), "it contains the character NUL")),
                (is_short, BadSchedule::new(part(), format!("use at most {TEMPLATE_CHARS_MAX} characters"))),
            ])?;
            templates.push((name.clone(), text.parse().map_err(|error| BadSchedule::new(part(), error))?));
        }
        Ok(templates)
    }

    /// [`plan`](Self::plan), and checks that the job accepts the parameters.
    pub fn plan_for(&self, specs: &[ParameterSpec]) -> Result<Plan, BadSchedule> {
        let plan = self.plan()?;
        if let Some(tick) = plan.timetable.next_after(Timestamp::EPOCH) {
            let parameters =
                plan.parameters_at(tick, specs).map_err(|why| BadSchedule::new("parameters", why))?;
            check(&parameters, specs).map_err(|error| BadSchedule::new("parameters", error))?;
        }
        Ok(plan)
    }

    /// A short text that differs for different definitions.
    pub fn fingerprint(&self) -> String {
        let Self { name, job, cron, zone, windows, outside, missed, overlap, grace, parameters } = self;
        let seconds = grace.as_secs();
        let text =
            format!("{:?}", (name, job, cron, zone, windows, outside, missed, overlap, seconds, parameters));
        md5(&text)
    }
}

fn word<T: FromStr>(part: &str, text: &str, known: &'static str) -> Result<T, BadSchedule> {
    text.parse().map_err(|_| BadSchedule::new(part, unknown(text, known)))
}

impl Plan {
    /// Whether all ticks give the same job instance, so that only the first would run without a number.
    pub fn means_one_instance(&self, specs: &[ParameterSpec]) -> bool {
        let key_after = |after: Timestamp| {
            let tick = self.timetable.next_after(after)?;
            self.parameters_at(tick, specs).ok().map(|parameters| job_key(&parameters))
        };
        key_after(Timestamp::EPOCH) == key_after(Timestamp::EPOCH.plus(FAR))
    }

    /// The parameters of a launch at a tick; the error says what is wrong with them.
    pub fn parameters_at(&self, tick: Timestamp, specs: &[ParameterSpec]) -> Result<JobParameters, String> {
        let mut arguments = Vec::with_capacity(self.parameters.len());
        for (name, template) in &self.parameters {
            let text = template.at(tick, &self.timetable.zone);
            let text = text.ok_or_else(|| format!("parameter {name:?} is beyond the calendar"))?;
            arguments.push(format!("{name}={text}"));
        }
        parse_arguments(arguments.iter().map(String::as_str), specs).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::parameter::ParameterType;

    fn nightly() -> Schedule {
        Schedule::new("nightly", "load").cron("0 2 * * *").zone("Asia/Seoul")
    }

    fn part(schedule: &Schedule) -> String {
        schedule.plan().unwrap_err().part
    }

    #[test]
    fn ticks_are_told_apart_by_identifying_parameters_only() {
        let spec = |is_identifying| ParameterSpec {
            name: "day".into(),
            kind: ParameterType::Date,
            is_required: true,
            is_identifying,
            accepted: Default::default(),
        };
        let nightly = Schedule::new("nightly", "load").cron("0 2 * * *");
        let with_day = nightly.clone().parameter("day", "${tick.date}").plan().unwrap();

        assert!(nightly.plan().unwrap().means_one_instance(&[]));
        assert!(!with_day.means_one_instance(&[spec(true)]));
        assert!(with_day.means_one_instance(&[spec(false)]));
    }

    #[test]
    fn a_refusal_names_the_part() {
        assert_eq!(part(&Schedule { name: String::new(), ..nightly() }), "name");
        assert_eq!(part(&Schedule { job: "a\nb".into(), ..nightly() }), "job");
        assert_eq!(part(&nightly().cron("61 * * * *")), "cron");
        assert_eq!(part(&nightly().zone("Asia/Soul")), "zone");
        assert_eq!(part(&nightly().window("01:00-03:00").window("later")), "windows[1]");
        assert_eq!(part(&nightly().window("03:00-04:00")), "windows");
        assert_eq!(part(&Schedule { outside: "keep".into(), ..nightly() }), "outside");
        assert_eq!(part(&Schedule { missed: "all 0".into(), ..nightly() }), "missed");
        assert_eq!(part(&Schedule { overlap: "queue".into(), ..nightly() }), "overlap");
        assert_eq!(part(&nightly().parameter("day", "${tick.day}")), "parameters.day");
        assert_eq!(part(&nightly().parameter("day", "1").parameter("day", "2")), "parameters.day");
    }

    #[test]
    fn the_words_of_the_policies_read_back() {
        for missed in [MissedRuns::Skip, MissedRuns::Latest, MissedRuns::All { limit: 7 }] {
            assert_eq!(missed.to_string().parse(), Ok(missed));
        }
        for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Wait] {
            assert_eq!(overlap.to_string().parse(), Ok(overlap));
        }
        assert!("all 101".parse::<MissedRuns>().is_err());
        assert!("all +1".parse::<MissedRuns>().is_err());
    }

    #[test]
    fn the_parameters_of_a_tick_have_the_types_that_the_job_asks_for() {
        let spec = ParameterSpec {
            name: "day".into(),
            kind: ParameterType::Date,
            is_required: true,
            is_identifying: true,
            accepted: Default::default(),
        };
        let schedule = nightly().parameter("day", "${tick.date-1d}");

        let plan = schedule.plan_for(std::slice::from_ref(&spec)).unwrap();
        let tick = plan.timetable.next_after("2026-11-15T00:00:00Z".parse().unwrap()).unwrap();

        assert_eq!(tick.to_string(), "2026-11-15T17:00:00.000000Z");
        let parameters = plan.parameters_at(tick, std::slice::from_ref(&spec)).unwrap();
        assert_eq!(parameters, JobParameters::new().with("day", jiff::civil::date(2026, 11, 15)));
        let wrong = nightly().parameter("day", "soon").plan_for(std::slice::from_ref(&spec)).unwrap_err();
        assert_eq!(wrong.part, "parameters");
        assert!(nightly().plan_for(&[spec]).unwrap_err().why.contains("missing"));
    }

    #[test]
    fn another_definition_has_another_fingerprint() {
        let schedule = nightly().parameter("a", "b");
        let changed = [
            schedule.clone().cron("1 2 * * *"),
            schedule.clone().zone("UTC"),
            schedule.clone().window("00:00-24:00"),
            schedule.clone().missed(MissedRuns::Latest),
            schedule.clone().overlap(Overlap::Wait),
            schedule.clone().outside(Outside::Defer),
            schedule.clone().grace(Duration::from_secs(1)),
            schedule.clone().parameter("c", "d"),
            nightly().parameter("a", "c"),
        ];

        assert_eq!(schedule.fingerprint(), nightly().parameter("a", "b").fingerprint());
        assert!(changed.iter().all(|other| other.fingerprint() != schedule.fingerprint()));
    }
}
