//! Which parameters a job declares, how arguments are read, and whether the given parameters match.
//!
//! An argument is `name=value`, `name=value,type` or `name=value,type,identifying`. Spring Batch splits at every comma, so
//! its values cannot contain one. Here the last part is the type only if it is exactly a type (a word of ours or a Java
//! class), and the last two are type and identity only if they are exactly a type and `true` or `false`. Everything
//! before that is the value: `name=a,b` has the value `a,b`. If a value itself ends in such words, add the type:
//! `name=a,long,string` has the value `a,long`.
//!
//! Spring Batch only warns of an unknown name. Here it is refused: a misspelt name would be another instance.

use super::accepted::{Accepted, ValueRefusal};
use super::value::ParameterType;
use super::{JobParameter, JobParameters, ParameterError, check_limits};
use crate::error_chain::listed;
use crate::job::instance::RUN_ID;
use crate::nearest::nearest;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterSpec {
    pub name: String,
    pub kind: ParameterType,
    pub is_required: bool,
    /// The default, which an argument can override.
    pub is_identifying: bool,
    pub accepted: Accepted,
}

impl ParameterSpec {
    /// Required, identifying, with any value of its type.
    pub fn required(name: impl Into<String>, kind: ParameterType) -> Self {
        let accepted = Accepted::default();
        Self { name: name.into(), kind, is_required: true, is_identifying: true, accepted }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterProblem {
    #[error(transparent)]
    OutOfBounds(ParameterError),
    #[error("parameter {name:?} is missing")]
    Missing { name: String },
    #[error("parameter {name:?} must be {wanted}, not a {}", found.as_str())]
    WrongType { name: String, wanted: ParameterType, found: ParameterType },
    #[error("parameter {name:?} {refusal}")]
    NotAccepted { name: String, refusal: ValueRefusal },
    #[error("the job has no parameter {name:?}{}; it has {known}", suggestion(nearest.as_deref()))]
    Unknown { name: String, nearest: Option<String>, known: String },
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", listed(problems, "; "))]
pub struct ParametersInvalid {
    pub problems: Vec<ParameterProblem>,
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean {name:?}?)"))
}

/// Whether a job that declares `specs` accepts these parameters. Without specs it accepts all within the limits.
pub fn check(parameters: &JobParameters, specs: &[ParameterSpec]) -> Result<(), ParametersInvalid> {
    let mut problems = Vec::new();
    for spec in specs.iter().filter(|spec| spec.is_required && parameters.get(&spec.name).is_none()) {
        problems.push(ParameterProblem::Missing { name: spec.name.clone() });
    }
    for (name, parameter) in parameters.iter() {
        if let Err(error) = check_limits(name, &parameter.value) {
            problems.push(ParameterProblem::OutOfBounds(error));
            continue;
        }
        let found = parameter.value.kind();
        match specs.iter().find(|spec| spec.name == name) {
            Some(spec) if spec.kind != found => {
                let (name, wanted) = (name.to_owned(), spec.kind);
                problems.push(ParameterProblem::WrongType { name, wanted, found });
            }
            Some(spec) => {
                if let Err(refusal) = spec.accepted.check(&parameter.value) {
                    problems.push(ParameterProblem::NotAccepted { name: name.to_owned(), refusal });
                }
            }
            // Every job accepts `run.id`, the number of the instance.
            None if name == RUN_ID && found == ParameterType::Long => {}
            None if !specs.is_empty() => {
                let known: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
                let nearest = nearest(name, known.iter().copied()).map(str::to_owned);
                let (name, known) = (name.to_owned(), known.join(", "));
                problems.push(ParameterProblem::Unknown { name, nearest, known });
            }
            None => {}
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ParametersInvalid { problems }) }
}

/// Reads one argument. Missing parts come from the spec of that name; without a spec it is an identifying text.
///
/// ```
/// # use tidemill_domain::job::parameter::{JobParameter, parse_argument_for};
/// let (name, parameter) = parse_argument_for("run.id=7,long,false", &[]).unwrap();
/// assert_eq!((name.as_str(), parameter), ("run.id", JobParameter::non_identifying(7)));
/// assert_eq!(parse_argument_for("files=a,b", &[]).unwrap().1, JobParameter::identifying("a,b"));
/// ```
pub fn parse_argument_for(
    argument: &str,
    specs: &[ParameterSpec],
) -> Result<(String, JobParameter), ParameterError> {
    let (name, rest) = argument.split_once('=').ok_or(ParameterError::NoEqualsSign)?;
    let (text, kind, is_identifying) = split(rest);
    let spec = specs.iter().find(|spec| spec.name == name);
    let kind = kind.or(spec.map(|spec| spec.kind)).unwrap_or(ParameterType::Text);
    let is_identifying = is_identifying.or(spec.map(|spec| spec.is_identifying)).unwrap_or(true);
    let value =
        kind.read(text).map_err(|_| ParameterError::NotOfType { name: name.to_owned(), wanted: kind })?;
    check_limits(name, &value)?;
    Ok((name.to_owned(), JobParameter { value, is_identifying }))
}

/// Reads all arguments with [`parse_argument_for`]. A name may occur only once.
pub fn parse_arguments<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, ParameterError> {
    let mut parameters = JobParameters::new();
    for argument in arguments {
        let (name, parameter) = parse_argument_for(argument, specs)?;
        if parameters.get(&name).is_some() {
            return Err(ParameterError::Repeated { name });
        }
        parameters.insert(name, parameter)?;
    }
    Ok(parameters)
}

/// The value, and the type and identity at its end.
fn split(rest: &str) -> (&str, Option<ParameterType>, Option<bool>) {
    let with_type =
        |text: &str| text.rsplit_once(',').and_then(|(_, last)| last.parse::<ParameterType>().ok());
    let value_of = |text| str::rsplit_once(text, ',').map_or(text, |(value, _)| value);
    if let Some((before, last)) = rest.rsplit_once(',')
        && let Ok(is_identifying) = last.parse::<bool>()
        && let Some(kind) = with_type(before)
    {
        return (value_of(before), Some(kind), Some(is_identifying));
    }
    match with_type(rest) {
        Some(kind) => (value_of(rest), Some(kind), None),
        None => (rest, None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ParameterValue;
    use proptest::prelude::*;

    fn specs() -> [ParameterSpec; 2] {
        let spec = |name: &str, kind, is_required| ParameterSpec {
            name: name.into(),
            kind,
            is_required,
            is_identifying: true,
            accepted: Accepted::default(),
        };
        [spec("day", ParameterType::Date, true), spec("limit", ParameterType::Long, false)]
    }

    #[test]
    fn what_the_job_asks_for_is_accepted_with_or_without_the_optional() {
        let day = JobParameters::new().with("day", jiff::civil::date(2026, 1, 31));

        assert_eq!(check(&day, &specs()), Ok(()));
        assert_eq!(check(&day.with("limit", 5), &specs()), Ok(()));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let wrong = JobParameters::new().with("dya", "x").with("limit", "5").with("", 1);

        let refusal = check(&wrong, &specs()).unwrap_err();

        assert_eq!(
            refusal.to_string(),
            "parameter \"day\" is missing; a parameter has an empty name; \
             the job has no parameter \"dya\" (did you mean \"day\"?); it has day, limit; \
             parameter \"limit\" must be a long (a whole number of 64 bits), not a string"
        );
    }

    #[test]
    fn a_value_that_is_not_accepted_is_told_with_the_name_of_its_parameter() {
        let mut specs = specs();
        specs[1].accepted.one_of = vec!["5".into(), "10".into()];
        let day = JobParameters::new().with("day", jiff::civil::date(2026, 1, 31));

        assert_eq!(check(&day.clone().with("limit", 10), &specs), Ok(()));
        let refusal = check(&day.with("limit", 7), &specs).unwrap_err();
        assert_eq!(refusal.to_string(), "parameter \"limit\" must be one of 5, 10");
    }

    #[test]
    fn the_number_of_the_next_instance_is_never_a_stranger() {
        let day = JobParameters::new().with("day", jiff::civil::date(2026, 1, 31));

        assert_eq!(check(&day.clone().with(RUN_ID, 7), &specs()), Ok(()));
        assert!(check(&day.with(RUN_ID, "seven"), &specs()).is_err());
    }

    #[test]
    fn a_job_that_asks_for_nothing_accepts_anything_within_the_limits() {
        let odd = JobParameters::new().with("x", 1.5).with_non_identifying("y", "z");

        assert_eq!(check(&odd, &[]), Ok(()));
        assert!(check(&odd.clone().with("v", "x".repeat(2501)), &[]).is_err());
        assert!(check(&odd.with("n".repeat(101), 1), &[]).is_err());
    }

    proptest! {
        #[test]
        fn a_name_that_the_job_does_not_know_is_never_accepted(name in "[a-z]{1,6}", value: i64) {
            let specs = specs();
            prop_assume!(specs.iter().all(|spec| spec.name != name));
            let day = JobParameters::new().with("day", jiff::civil::date(2026, 1, 31));
            let parameters = day.with(name, value);
            prop_assert!(check(&parameters, &specs).is_err());
        }
    }

    fn parse_argument(argument: &str) -> Result<(String, JobParameter), ParameterError> {
        parse_argument_for(argument, &[])
    }

    fn reads(argument: &str, value: impl Into<ParameterValue>, is_identifying: bool) {
        let (name, parameter) = parse_argument(argument).unwrap();

        assert_eq!(name, "name", "{argument}");
        assert_eq!(parameter, JobParameter { value: value.into(), is_identifying }, "{argument}");
    }

    #[test]
    fn type_and_identity_are_read_from_the_end_and_only_if_they_are_exactly_that() {
        reads("name=value", "value", true);
        reads("name=", "", true);
        reads("name=a=b", "a=b", true);
        reads("name=a,b", "a,b", true);
        reads("name=a,b,", "a,b,", true);
        reads("name=long", "long", true);
        reads("name=true", "true", true);
        reads("name=a,true", "a,true", true);
        reads("name=a,Long", "a,Long", true);
        reads("name=a,string,True", "a,string,True", true);
        reads("name=a,b,string", "a,b", true);
        reads("name=a,long,string", "a,long", true);
        reads("name=a,long,true,string,true", "a,long,true", true);
        reads("name=a,string,false", "a", false);
        reads("name=,string", "", true);
        reads("name=-7,long", -7, true);
        reads("name=7,java.lang.Long,false", 7, false);
        reads("name=1e3,double", 1000.0, true);
        reads("name=2026-01-31,date", jiff::civil::date(2026, 1, 31), true);
        reads("name=23:59,time", jiff::civil::time(23, 59, 0, 0), true);
        reads("name=2026-01-31T23:59,datetime", jiff::civil::date(2026, 1, 31).at(23, 59, 0, 0), true);
    }

    #[test]
    fn an_argument_out_of_bounds_is_refused_with_its_name_and_without_its_value() {
        let refusal = |argument: &str| parse_argument(argument).unwrap_err();
        let named = |name: &str| name.to_owned();

        assert_eq!(refusal("name"), ParameterError::NoEqualsSign);
        assert_eq!(refusal("=value"), ParameterError::NameEmpty);
        assert_eq!(refusal("n=a\0"), ParameterError::Nul { name: named("n") });
        assert_eq!(refusal(&format!("{}=v", "n".repeat(101))), ParameterError::NameTooLong { chars: 101 });
        let long = format!("n={}", "가".repeat(2501));
        assert_eq!(refusal(&long), ParameterError::ValueTooLong { name: named("n"), chars: 2501 });
        assert!(parse_argument(&format!("{}={}", "가".repeat(100), "가".repeat(2500))).is_ok());
        let secret = refusal("n=s3cret,long");
        assert_eq!(secret, ParameterError::NotOfType { name: named("n"), wanted: ParameterType::Long });
        assert!(!secret.to_string().contains("s3cret"));
    }

    #[test]
    fn what_an_argument_does_not_say_is_taken_from_what_the_job_asks_for() {
        let specs = [ParameterSpec {
            name: "day".into(),
            kind: ParameterType::Date,
            is_required: true,
            is_identifying: false,
            accepted: Default::default(),
        }];

        let read = |argument| parse_argument_for(argument, &specs).map(|(_, parameter)| parameter);

        let day = jiff::civil::date(2026, 1, 31);
        assert_eq!(read("day=2026-01-31"), Ok(JobParameter::non_identifying(day)));
        assert_eq!(read("day=2026-01-31,date,true"), Ok(JobParameter::identifying(day)));
        assert_eq!(read("day=2026-01-31,string"), Ok(JobParameter::non_identifying("2026-01-31")));
        assert_eq!(read("other=2026-01-31"), Ok(JobParameter::identifying("2026-01-31")));
        assert!(read("day=tomorrow").is_err());
    }

    #[test]
    fn a_name_that_is_given_twice_is_refused() {
        let twice = parse_arguments(["a=1", "b=2", "a=3"], &[]);

        assert_eq!(twice, Err(ParameterError::Repeated { name: "a".into() }));
        assert_eq!(
            parse_arguments(["b=2", "a=1"], &[]),
            Ok(JobParameters::new().with("a", "1").with("b", "2"))
        );
    }

    proptest! {
        #[test]
        fn any_text_can_be_given_when_its_type_is_named(
            text in r"[a-z0-9,=]{0,12}(,(long|string|true|false|java\.lang\.Long)){0,3}",
            is_identifying: bool,
        ) {
            let (name, parameter) = parse_argument(&format!("n={text},string,{is_identifying}")).unwrap();
            prop_assert_eq!(name, "n");
            prop_assert_eq!(parameter, JobParameter { value: text.into(), is_identifying });
        }

        #[test]
        fn no_argument_is_too_strange_for_an_answer(argument in any::<String>()) {
            if let Ok((name, _)) = parse_argument(&argument) {
                prop_assert!(argument.starts_with(&name));
            }
        }
    }
}
