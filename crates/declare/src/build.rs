//! Builds the job that a file declares. Problems are found by [`check`](crate::check); here only what cannot be built.
//!
//! Paths are relative to the working folder of the program.

use crate::check::{all_steps, check_given};
use crate::expression::Scope;
use crate::model::{At, JobFile, Names, ParameterFile, Place, StepFile, Work};
use crate::{Diagnostic, Diagnostics};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tidemill_domain::item::Value;
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::job::{Counters, JobParameter};
use tidemill_engine::job::{Decision, Job, StepFlow};
use tidemill_kafka::{KafkaError, KafkaOptions};
use tidemill_store::item::Database;

mod assert;
mod chunk;
mod command;
mod endpoint;
mod file;
mod http;
mod lookup;
mod names;
mod path;
mod process;
mod set;
mod sort;
mod statement;
mod write;

pub use path::Reach;
pub(crate) use set::COUNTERS;

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
    Builder { file, building: *building, depth: 0 }.job()
}

type Built<T> = Result<T, Diagnostics>;

#[derive(Clone, Copy)]
struct Builder<'a> {
    file: &'a JobFile,
    building: Building<'a>,
    depth: usize,
}

impl Builder<'_> {
    fn job(&self) -> Built<Job> {
        let file = self.file;
        let mut job = Job::of(file.name.value.clone(), self.flow(&file.steps)?)
            .on_crash(file.on_crash)
            .fingerprint(self.fingerprint());
        for At { value: ParameterFile { spec, default, .. }, place } in &file.parameters {
            // A parameter that a text needs is required, however the job is launched.
            let is_needed = check_given(file, |given| given != spec.name).is_err();
            let is_required = spec.is_required || is_needed && default.is_none();
            job = job.parameter(ParameterSpec { is_required, ..spec.clone() });
            if let Some(text) = default {
                let value = spec.kind.read(text).map_err(|error| {
                    let what = format!("the default of the parameter {:?} does not fit: {error}", spec.name);
                    self.refusal(*place, what, "correct the default")
                })?;
                let default = JobParameter { value, is_identifying: spec.is_identifying };
                job = job.default_parameter(&spec.name, default);
            }
        }
        for (on, to) in &file.notify {
            job = job.notify(*on, &to.value);
        }
        if !file.is_restartable {
            job = job.not_restartable();
        }
        job.check().map_err(|error| self.refusal(file.name.place, error.to_string(), error.fix()))?;
        Ok(job)
    }

    /// Reports the problems of all steps.
    fn flow(&self, steps: &[StepFile]) -> Built<StepFlow> {
        let (mut flow, mut problems) = (StepFlow::new(), Vec::new());
        for step in steps {
            match self.node(flow.clone(), step) {
                Ok(longer) => flow = longer,
                Err(found) => problems.push(found),
            }
            for (pattern, target) in &step.on {
                flow = flow.on(&step.name.value, &pattern.value, target.value.clone());
            }
        }
        Diagnostics::join(problems).map_or(Ok(flow), Err)
    }

    fn node(&self, flow: StepFlow, file: &StepFile) -> Built<StepFlow> {
        let name = file.name.value.as_str();
        let set = file.set.iter().map(|(name, _)| name.value.clone()).collect();
        let mut step = match &file.work {
            Work::Decide(text) => return self.decision(flow, name, text),
            Work::Flow(steps) => return Ok(flow.flow(name, self.flow(steps)?)),
            Work::Split(flows) => {
                let (built, failed): (Vec<_>, Vec<_>) =
                    flows.iter().map(|steps| self.flow(steps)).partition(Result::is_ok);
                let problems = Diagnostics::join(failed.into_iter().filter_map(Result::err));
                return problems.map_or_else(|| Ok(flow.split(name, built.into_iter().flatten())), Err);
            }
            Work::Chunk(chunk) => self.chunk(name, chunk, file.allow_start_if_complete)?,
            Work::Job(call) => self.job_step(name, call)?,
            Work::Command(command) => self.command(name, command, set)?,
            Work::Sql(statements) => self.sql(name, statements, &file.set)?,
            Work::Assert(all) => self.assertions(name, all)?,
            Work::Spark(app) => self.spark(name, app, set)?,
            Work::Emr(app) => self.emr(name, app)?,
        };
        step = set::setting(step, file);
        if file.allow_start_if_complete {
            step = step.allow_start_if_complete();
        }
        if let Some(limit) = file.start_limit {
            step = step.start_limit(limit);
        }
        if let Some(pool) = &file.pool {
            step = step.pool(pool.value.clone());
        }
        Ok(flow.step(step))
    }

    /// Its text is matched like an exit code. The expression sees `parameters`, `context` (of the job) and `last` (the
    /// previous step; null at the beginning).
    fn decision(&self, flow: StepFlow, name: &str, text: &At<String>) -> Built<StepFlow> {
        let (expression, declared) = (self.expression(text)?, self.parameter_names());
        Ok(flow.decision(name, move |decision: &Decision<'_>| {
            let parameters = declared.values(decision.parameters);
            let context = decision.job_context.iter().map(|(key, value)| (key.to_owned(), value.clone()));
            let context = Value::Json(serde_json::Value::Object(context.collect()));
            let others = Names::from([("context".to_owned(), context), ("last".to_owned(), last(decision))]);
            expression.answer(&Scope { row: None, parameters: &parameters, others: &others })
        }))
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

    fn refusal(&self, place: Place, what: impl Into<String>, fix: impl Into<String>) -> Diagnostics {
        Diagnostics::one(Diagnostic::at(&self.file.source, place, 1, what, fix))
    }
}

/// Counters of a flow or a split are null and not 0, so that an expression that relies on them fails.
fn last(decision: &Decision<'_>) -> Value {
    let Some((status, exit)) = decision.last else { return Value::Null };
    let counters = decision.counters;
    Value::Json(json!({
        "status": status.as_str(),
        "exit_code": exit.code,
        "read": counters.map(|counters| counters.read),
        "written": counters.map(|counters| counters.write),
        "filtered": counters.map(|counters| counters.filter),
        "skipped": counters.map(Counters::skips),
    }))
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
