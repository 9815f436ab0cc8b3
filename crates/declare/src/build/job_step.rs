//! Job steps: run the job of another file.

use super::names::{ParameterNames, rendered};
use super::{Builder, DEPTH_MAX, optional};
use crate::model::JobCall;
use crate::template::Template;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::{JobParameter, JobParameters};
use tidemill_engine::job::{Step, StepScope};

impl Builder<'_> {
    pub(super) fn job_step(&mut self, name: &str, call: &JobCall) -> Option<Step> {
        let Some(inner) = self.building.jobs.iter().find(|file| file.name.value == call.job.value) else {
            let what = format!("there is no job {:?} in this folder", call.job.value);
            self.refuse(call.job.place, what, "name a job of another file of the same folder");
            return None;
        };
        if self.depth >= DEPTH_MAX {
            let what = format!("jobs run jobs more than {DEPTH_MAX} deep");
            self.refuse(call.job.place, what, "look whether a job runs itself");
            return None;
        }
        let mut builder =
            Builder { file: inner, building: self.building, depth: self.depth + 1, problems: Vec::new() };
        let job = builder.job();
        self.problems.append(&mut builder.problems);
        let given = optional(call.parameters.as_ref(), |texts| self.named_templates(texts))?;
        let specs = inner.specs();
        let declared = self.parameter_names();
        Some(Step::job(name, job?, move |scope| parameters(scope, &declared, given.as_deref(), &specs)))
    }
}

/// The given parameters, or those of the same name.
fn parameters(
    scope: &StepScope,
    declared: &ParameterNames,
    given: Option<&[(String, Template)]>,
    specs: &[ParameterSpec],
) -> Result<JobParameters, ItemError> {
    let fatal = |error: &dyn std::error::Error| ItemError::new(ErrorKind::FATAL, error.to_string());
    let mut parameters = JobParameters::new();
    let Some(given) = given else {
        // A job that declares no parameters accepts any.
        let is_taken = |name: &str| specs.is_empty() || specs.iter().any(|spec| spec.name == name);
        for (name, parameter) in scope.parameters().iter().filter(|(name, _)| is_taken(name)) {
            parameters.insert(name, parameter.clone()).map_err(|error| fatal(&error))?;
        }
        return Ok(parameters);
    };
    let names = declared.in_step(scope);
    for (name, template) in given {
        let text = rendered(template, &names)?;
        let spec = specs.iter().find(|spec| spec.name == *name);
        let value = match spec {
            Some(spec) => spec.kind.read(&text).map_err(|error| {
                ItemError::new(ErrorKind::FATAL, format!("the parameter {name:?} of the inner job: {error}"))
            })?,
            None => text.into(),
        };
        let is_identifying = spec.is_none_or(|spec| spec.is_identifying);
        parameters.insert(name, JobParameter { value, is_identifying }).map_err(|error| fatal(&error))?;
    }
    Ok(parameters)
}
