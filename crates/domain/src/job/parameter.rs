//! Parameters of a job: named, typed values. The identifying ones define the instance.
//!
//! [`parse_argument_for`] reads one, [`Accepted`] limits its values, and [`check`] compares all with the declared ones.

mod accepted;
mod java;
mod rule;
mod value;

pub use accepted::{Accepted, BadPattern, PATTERN_CHARS_MAX, Pattern, ValueRefusal, leaves_folder};
pub use rule::{
    ParameterProblem, ParameterSpec, ParametersInvalid, check, parse_argument_for, parse_arguments,
};
pub use value::{BadValue, ParameterType, ParameterValue};

use super::exit::utf16_order;
use crate::newtype::check_all;

/// In characters; the column is no longer.
pub const PARAMETER_NAME_CHARS_MAX: usize = 100;
pub const PARAMETER_VALUE_CHARS_MAX: usize = 2500;

#[derive(Clone, PartialEq, Debug)]
pub struct JobParameter {
    pub value: ParameterValue,
    pub is_identifying: bool,
}

impl JobParameter {
    pub fn identifying(value: impl Into<ParameterValue>) -> Self {
        Self { value: value.into(), is_identifying: true }
    }

    pub fn non_identifying(value: impl Into<ParameterValue>) -> Self {
        Self { value: value.into(), is_identifying: false }
    }
}

/// All parameters of an execution, in the order in which Java sorts names.
///
/// ```
/// # use tidemill_domain::job::JobParameters;
/// let identifying = JobParameters::new().with("run.id", 7).with("input", "a.csv");
/// let parameters = identifying.with_non_identifying("pace", 1.5);
/// let names: Vec<&str> = parameters.iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["input", "pace", "run.id"]);
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct JobParameters {
    // Sorted by name, each name once.
    parameters: Vec<(String, JobParameter)>,
}

/// The messages never contain a value: it may be a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    #[error("a parameter has an empty name")]
    NameEmpty,
    #[error("the name of a parameter has {chars} characters; {PARAMETER_NAME_CHARS_MAX} are allowed")]
    NameTooLong { chars: usize },
    #[error(
        "the value of parameter {name:?} has {chars} characters; {PARAMETER_VALUE_CHARS_MAX} are allowed"
    )]
    ValueTooLong { name: String, chars: usize },
    #[error("the name or value of parameter {name:?} contains the character NUL")]
    Nul { name: String },
    #[error("an argument is not of the form name=value")]
    NoEqualsSign,
    #[error("the value of parameter {name:?} is not {wanted}")]
    NotOfType { name: String, wanted: ParameterType },
    #[error("parameter {name:?} was given more than once")]
    Repeated { name: String },
}

impl JobParameters {
    pub const fn new() -> Self {
        Self { parameters: Vec::new() }
    }

    crate::setters! {
        /// Adds an identifying parameter, which replaces one of the same name. [`check`] tests limits before a launch.
        #[must_use]
        pub fn with(self, name: impl Into<String>, value: impl Into<ParameterValue>) {
            self.put(name.into(), JobParameter::identifying(value))
        }
        /// Like [`JobParameters::with`], for a parameter that is not identifying.
        #[must_use]
        pub fn with_non_identifying(self, name: impl Into<String>, value: impl Into<ParameterValue>) {
            self.put(name.into(), JobParameter::non_identifying(value))
        }
    }

    /// Adds a parameter within the limits, which replaces one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, parameter: JobParameter) -> Result<(), ParameterError> {
        let name = name.into();
        check_limits(&name, &parameter.value)?;
        self.put(name, parameter);
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&JobParameter> {
        self.position(name).ok().map(|index| &self.parameters[index].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &JobParameter)> {
        self.parameters.iter().map(|(name, parameter)| (name.as_str(), parameter))
    }

    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    pub fn has_identifying(&self) -> bool {
        self.parameters.iter().any(|(_, parameter)| parameter.is_identifying)
    }

    fn put(&mut self, name: String, parameter: JobParameter) {
        match self.position(&name) {
            Ok(index) => self.parameters[index].1 = parameter,
            Err(index) => self.parameters.insert(index, (name, parameter)),
        }
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.parameters.binary_search_by(|(other, _)| utf16_order(other, name))
    }
}

fn check_limits(name: &str, value: &ParameterValue) -> Result<(), ParameterError> {
    let text = value.stored_text();
    let (name_chars, chars) = (name.chars().count(), text.chars().count());
    let named = || name.to_owned();
    check_all([
        (!name.is_empty(), ParameterError::NameEmpty),
        (name_chars <= PARAMETER_NAME_CHARS_MAX, ParameterError::NameTooLong { chars: name_chars }),
        (!name.contains('\0') && !text.contains('\0'), ParameterError::Nul { name: named() }),
        (chars <= PARAMETER_VALUE_CHARS_MAX, ParameterError::ValueTooLong { name: named(), chars }),
    ])
}

#[cfg(test)]
mod tests;
