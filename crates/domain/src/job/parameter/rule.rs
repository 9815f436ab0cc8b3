//! Which parameters a job declares, and whether the given ones match.
//!
//! Spring Batch only warns of an unknown name. Here it is refused: a misspelt name would be another instance.

use super::accepted::{Accepted, ValueRefusal};
use super::value::ParameterType;
use super::{JobParameters, ParameterError, check_limits};
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
