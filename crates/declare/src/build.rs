//! Builds the job that a file declares. Problems are found by [`check`](crate::check); here only what cannot be built.
//!
//! Paths are relative to the working folder of the program.

use crate::check::{all_steps, check_given};
use crate::model::{At, JobFile, Place, StepFile, Work};
use crate::parse::all;
use crate::{Diagnostic, Diagnostics};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tidemill_domain::job::JobParameter;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_engine::job::{Job, Step, StepFlow};
use tidemill_kafka::{KafkaError, KafkaOptions};
use tidemill_store::item::Database;

mod chunk;
mod command;
mod decision;
mod job_step;
mod names;
mod outbox;
mod path;
mod process;
mod read;
mod write;

pub use path::Reach;

/// Longest chain of jobs that run jobs.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Building<'a> {
    pub connections: &'a BTreeMap<String, Database>,
    pub kafka: Result<&'a KafkaOptions, &'a KafkaError>,
    pub jobs: &'a [JobFile],
    pub reach: &'a Reach,
}

pub fn job(file: &JobFile, building: &Building<'_>) -> Result<Job, Diagnostics> {
    let mut builder = Builder { file, building: *building, depth: 0, problems: Vec::new() };
    let job = builder.job();
    match (job, Diagnostics::of(builder.problems)) {
        (Some(job), None) => Ok(job),
        (_, Some(problems)) => Err(problems),
        (None, None) => Err(Diagnostics::one(Diagnostic::of_file(
            &file.path,
            "the job cannot be built",
            "run `tidemill job check` on it",
        ))),
    }
}

struct Builder<'a> {
    file: &'a JobFile,
    building: Building<'a>,
    depth: usize,
    problems: Vec<Diagnostic>,
}

impl Builder<'_> {
    fn job(&mut self) -> Option<Job> {
        let flow = self.flow(&self.file.steps)?;
        let mut job = Job::of(self.file.name.value.clone(), flow)
            .on_crash(self.file.on_crash)
            .fingerprint(self.fingerprint());
        for At { value: parameter, place } in &self.file.parameters {
            // A parameter that a text needs is required, however the job is launched.
            let name = &parameter.spec.name;
            let is_needed = check_given(self.file, |given| given != name).is_err();
            let is_required = parameter.spec.is_required || is_needed && parameter.default.is_none();
            job = job.parameter(ParameterSpec { is_required, ..parameter.spec.clone() });
            if let Some(text) = &parameter.default {
                job =
                    job.default_parameter(&parameter.spec.name, self.default(&parameter.spec, text, *place)?);
            }
        }
        if !self.file.is_restartable {
            job = job.not_restartable();
        }
        if let Err(error) = job.check() {
            self.refuse(self.file.name.place, error.to_string(), error.fix());
            return None;
        }
        Some(job)
    }

    fn default(&mut self, spec: &ParameterSpec, text: &str, place: Place) -> Option<JobParameter> {
        match spec.kind.read(text) {
            Ok(value) => Some(JobParameter { value, is_identifying: spec.is_identifying }),
            Err(error) => {
                let what = format!("the default of the parameter {:?} does not fit: {error}", spec.name);
                self.refuse(place, what, "correct the default");
                None
            }
        }
    }

    fn flow(&mut self, steps: &[StepFile]) -> Option<StepFlow> {
        let mut flow = StepFlow::new();
        let mut is_whole = true;
        for step in steps {
            match self.node(flow.clone(), step) {
                Some(longer) => flow = longer,
                None => is_whole = false,
            }
            for (pattern, target) in &step.on {
                flow = flow.on(&step.name.value, &pattern.value, target.value.clone());
            }
        }
        is_whole.then_some(flow)
    }

    fn node(&mut self, flow: StepFlow, file: &StepFile) -> Option<StepFlow> {
        let name = file.name.value.as_str();
        Some(match &file.work {
            Work::Decide(text) => {
                let decide = decision::decision(self.expression(text)?, self.parameter_names());
                flow.decision(name, decide)
            }
            Work::Flow(steps) => flow.flow(name, self.flow(steps)?),
            Work::Split(flows) => flow.split(name, all(flows.iter().map(|steps| self.flow(steps)))?),
            work => {
                let mut step = self.step(file, work)?;
                if file.allow_start_if_complete {
                    step = step.allow_start_if_complete();
                }
                if let Some(limit) = file.start_limit {
                    step = step.start_limit(limit);
                }
                if let Some(pool) = &file.pool {
                    step = step.pool(pool.value.clone());
                }
                flow.step(step)
            }
        })
    }

    fn step(&mut self, file: &StepFile, work: &Work) -> Option<Step> {
        let name = file.name.value.as_str();
        match work {
            Work::Chunk(chunk) => self.chunk(name, chunk, file.allow_start_if_complete),
            Work::Job(call) => self.job_step(name, call),
            Work::Command(command) => self.command(name, command),
            Work::Sql(statements) => self.sql(name, statements),
            Work::Spark(app) => self.spark(name, app),
            Work::Flow(_) | Work::Split(_) | Work::Decide(_) => None,
        }
    }

    /// Includes the files of all jobs that it runs: changing one of them changes this job.
    fn fingerprint(&self) -> String {
        let mut files: BTreeMap<&str, &str> = BTreeMap::new();
        collect(self.file, self.building.jobs, &mut files);
        if files.len() <= 1 {
            return self.file.fingerprint.clone();
        }
        let all: Vec<String> =
            files.iter().map(|(job, fingerprint)| format!("{job} {fingerprint}\n")).collect();
        Sha256::digest(all.concat()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parameter_names(&self) -> names::ParameterNames {
        names::ParameterNames::of(
            self.file.parameters.iter().map(|parameter| parameter.value.spec.name.clone()),
        )
    }

    fn refuse(&mut self, place: Place, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Diagnostic::at(&self.file.source, place, 1, what, fix));
    }
}

/// An outer none means that the value cannot be built, as everywhere here.
fn optional<T, U>(value: Option<T>, make: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    value.map_or(Some(None), |value| make(value).map(Some))
}

/// Fingerprints of a file and of those whose jobs it runs, by job. Each once, so that a cycle ends.
fn collect<'f>(file: &'f JobFile, jobs: &'f [JobFile], found: &mut BTreeMap<&'f str, &'f str>) {
    if found.insert(&file.name.value, &file.fingerprint).is_some() {
        return;
    }
    for step in all_steps(&file.steps) {
        if let Work::Job(call) = &step.work
            && let Some(inner) = jobs.iter().find(|inner| inner.name.value == call.job.value)
        {
            collect(inner, jobs, found);
        }
    }
}
