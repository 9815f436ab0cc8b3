//! The parameters that a job declares: their names and defaults.

use super::Checker;
use crate::model::At;
use tidemill_domain::job::parameter::{JobParameters, ParameterProblem, check};

impl Checker<'_> {
    pub(super) fn parameters(&mut self) {
        for declared in &self.file.parameters {
            let (spec, place) = (&declared.value.spec, declared.place);
            let name = At { value: spec.name.clone(), place };
            if !is_name(&spec.name) {
                let what = format!("{:?} cannot be the name of a parameter", spec.name);
                let fix = "use letters, digits, _, - and . only, so that ${…} can name it";
                self.wrong(&name, what, fix);
                continue;
            }
            let Some(default) = &declared.value.default else { continue };
            // A default of another type was told with its place when it was read.
            let Ok(value) = spec.kind.read(default) else { continue };
            let launch = JobParameters::new().with(spec.name.clone(), value);
            if let Err(refusal) = check(&launch, std::slice::from_ref(spec)) {
                let why =
                    refusal.problems.iter().map(ParameterProblem::to_string).collect::<Vec<_>>().join("; ");
                let what = format!("the default of {} is not accepted", spec.name);
                let is_bounded =
                    |problem: &ParameterProblem| matches!(problem, ParameterProblem::OutOfBounds(_));
                let fix = match refusal.problems.iter().any(is_bounded) {
                    true => "shorten the name or the default",
                    false => "correct the default, or what is accepted",
                };
                self.wrong(&name, what, fix).why = Some(why);
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= tidemill_domain::job::parameter::PARAMETER_NAME_CHARS_MAX
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
