//! Jobs that call jobs: they must exist, not form a cycle, and get the right parameters.

use super::{Checker, Neighbours, all_steps};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::model::{At, JobCall, JobFile, Work};
use crate::template::Template;
use std::collections::BTreeSet;

/// Reports calls of jobs whose file has mistakes.
pub(crate) fn invalid_calls(file: &JobFile, invalid: &[String]) -> Vec<Diagnostic> {
    let mut checker = Checker::of(file);
    for call in calls(file).into_iter().filter(|call| invalid.contains(&call.job.value)) {
        let what = format!("the file of the job {:?} has mistakes", call.job.value);
        checker.wrong(&call.job, what, "correct the file of that job");
    }
    checker.problems
}

impl Checker<'_> {
    pub(super) fn calls(&mut self, neighbours: &Neighbours<'_>) {
        let jobs = &neighbours.files;
        for call in calls(self.file) {
            if call.job.value == self.file.name.value {
                let what = format!("the job {:?} would run itself, without end", call.job.value);
                self.wrong(&call.job, what, "name another job, or take the step out");
                continue;
            }
            let is_invalid = neighbours.invalid.contains(&call.job.value.as_str());
            let Some(called) = jobs.iter().find(|job| job.name.value == call.job.value) else {
                if !is_invalid {
                    self.unknown_job(call, jobs);
                }
                continue;
            };
            if let Some(circle) = self.circle(called, jobs) {
                let what = "jobs would run each other in a circle, without end";
                self.wrong(&call.job, what, "take one of the steps out").why = Some(circle);
            }
            match &call.parameters {
                _ if is_invalid => {}
                Some(given) => {
                    for (name, text) in given {
                        self.passed(name, text, called);
                    }
                    self.left_out(call, called, |name| given.contains_key(name));
                }
                None if self.gaps.has_unknown_parameters => {}
                None => self.passed_on(call, called),
            }
        }
    }

    fn unknown_job(&mut self, call: &JobCall, jobs: &[&JobFile]) {
        let others = jobs.iter().map(|job| job.name.value.as_str());
        let others: Vec<&str> = others.filter(|name| *name != self.file.name.value).collect();
        let fix = did_you_mean(&call.job.value, others.iter().copied(), || {
            format!("put a file with `job: {}` into the same folder", call.job.value)
        });
        let why = match others.as_slice() {
            [] => "no other file of this folder declares a job".to_owned(),
            _ => format!("the other files of this folder declare {}", others.join(", ")),
        };
        let what = format!("there is no job {:?}", call.job.value);
        self.wrong(&call.job, what, fix).why = Some(why);
    }

    /// The path of calls from a job back to this one.
    fn circle(&self, called: &JobFile, jobs: &[&JobFile]) -> Option<String> {
        let home = self.file.name.value.as_str();
        let mut seen = BTreeSet::new();
        let mut open = vec![vec![home, called.name.value.as_str()]];
        while let Some(way) = open.pop() {
            let name = *way.last()?;
            if !seen.insert(name) {
                continue;
            }
            let Some(job) = jobs.iter().find(|job| job.name.value == name) else { continue };
            for call in calls(job) {
                let mut longer = way.clone();
                longer.push(&call.job.value);
                if call.job.value == home {
                    return Some(longer.join(" runs "));
                }
                open.push(longer);
            }
        }
        None
    }

    fn passed(&mut self, name: &str, text: &At<String>, called: &JobFile) {
        let Some(wanted) = called.parameter(name) else {
            let known: Vec<&str> = called.parameters.iter().map(|p| p.value.spec.name.as_str()).collect();
            // A job that declares no parameters accepts any.
            if known.is_empty() {
                return;
            }
            let fix =
                did_you_mean(name, known.iter().copied(), || "take it out, or declare it there".to_owned());
            let what = format!("the job {:?} has no parameter {name:?}", called.name.value);
            self.wrong(text, what, fix).why = Some(format!("it has {}", known.join(", ")));
            return;
        };
        if !Template::parse(&text.value).is_ok_and(|template| template.names().is_empty()) {
            return;
        }
        let parameter = format!("the parameter {name:?} of the job {:?}", called.name.value);
        match wanted.spec.kind.read(&text.value) {
            Err(_) => {
                self.wrong(text, format!("{parameter} is {}", wanted.spec.kind), "correct the value");
            }
            Ok(value) => {
                if let Err(refusal) = wanted.spec.accepted.check(&value) {
                    self.wrong(text, format!("{parameter} {refusal}"), "correct the value");
                }
            }
        }
    }

    /// Reports required parameters that are missing in the call.
    fn left_out(&mut self, call: &JobCall, called: &JobFile, is_given: impl Fn(&str) -> bool) {
        let missing = called.parameters.iter().map(|parameter| &parameter.value.spec);
        let missing: Vec<&str> = missing
            .filter(|spec| spec.is_required && !is_given(&spec.name))
            .map(|spec| spec.name.as_str())
            .collect();
        if let Some(first) = missing.first() {
            let what =
                format!("the job {:?} needs {}, and does not get it", called.name.value, missing.join(", "));
            let fix = match call.parameters {
                Some(_) => format!("add {first} to the parameters of this step"),
                None => format!(
                    "add parameters: {{ {first}: \"…\" }} to this step, or declare {first} in this job"
                ),
            };
            self.wrong(&call.job, what, fix);
        }
    }

    /// A call without parameters passes on those of the same name.
    fn passed_on(&mut self, call: &JobCall, called: &JobFile) {
        let file = self.file;
        self.left_out(call, called, |name| file.parameter(name).is_some());
        for wanted in &called.parameters {
            let wanted = &wanted.value.spec;
            if let Some(own) = file.parameter(&wanted.name)
                && own.spec.kind != wanted.kind
            {
                let what = format!(
                    "the parameter {:?} is a {} here and a {} in the job {:?}",
                    wanted.name,
                    own.spec.kind.as_str(),
                    wanted.kind.as_str(),
                    called.name.value
                );
                self.wrong(&call.job, what, "give both the same type, or add parameters: to this step");
            }
        }
    }
}

fn calls(file: &JobFile) -> Vec<&JobCall> {
    let steps = all_steps(&file.steps).into_iter();
    steps.filter_map(|step| if let Work::Job(call) = &step.work { Some(call) } else { None }).collect()
}
