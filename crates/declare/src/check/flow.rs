//! Names of job and steps, and transitions.

use super::{Checker, inner_flows};
use crate::diagnostic::{PROBLEMS_MAX, did_you_mean, excerpt};
use crate::model::{At, StepFile, Work};
use std::collections::BTreeMap;
use tidemill_domain::job::check_name;
use tidemill_domain::job::flow::{BadFlow, Flow, Target};

impl<'a> Checker<'a> {
    pub(super) fn names_and_flow(&mut self) {
        let file = self.file;
        self.name(&file.name, "a job");
        let mut seen = BTreeMap::new();
        self.flow(&file.steps, &mut seen);
        let all = super::all_steps(&file.steps);
        if self.gaps.steps.is_empty()
            && all.iter().all(|step| matches!(step.work, Work::Decide(_) | Work::Flow(_) | Work::Split(_)))
        {
            let what = "the job only decides, and has no step that does something";
            self.wrong(&file.name, what, "add a step with chunk, command, sql, spark, emr or job");
        }
    }

    fn name(&mut self, name: &At<String>, of: &str) {
        if let Err(bad) = check_name(&name.value) {
            let what = format!("{:?} cannot be the name of {of}", excerpt(&name.value));
            let fix = "use letters, digits and . _ - only, at most 100";
            self.wrong(name, what, fix).why = Some(bad.to_string());
        }
    }

    /// One list of steps. Names are unique in the whole job; transitions stay within the list.
    fn flow(&mut self, steps: &'a [StepFile], seen: &mut BTreeMap<&'a str, usize>) {
        let before = self.problems.len();
        for step in steps {
            if self.problems.len() > PROBLEMS_MAX {
                return;
            }
            self.name(&step.name, "a step");
            if let Some(line) = seen.insert(&step.name.value, step.name.place.line) {
                let what = format!("two steps are called {:?}", step.name.value);
                let why = format!("the other one stands in line {line}; a restart finds a step by its name");
                self.wrong(&step.name, what, "give one of them another name").why = Some(why);
            }
            self.transitions(step, steps);
        }
        if self.problems.len() == before && self.gaps.steps.is_empty() {
            self.way(steps);
        }
        for step in steps {
            for inner in inner_flows(step) {
                self.flow(inner, seen);
            }
        }
    }

    fn transitions(&mut self, step: &StepFile, steps: &[StepFile]) {
        if let Work::Decide(expression) = &step.work
            && step.on.is_empty()
        {
            let what = "a decision needs `on`";
            self.wrong(expression, what, "add on: { \"large\": to(STEP), \"*\": next } with what it can say");
        }
        for (_, target) in &step.on {
            let (Target::To(to) | Target::Stop(Some(to))) = &target.value else { continue };
            let mut known: Vec<&str> = steps.iter().map(|step| step.name.value.as_str()).collect();
            // A step that could not be parsed may be the target, above all if it has no name.
            let may_be = |name: &Option<String>| name.as_ref().is_none_or(|name| name == to);
            if known.contains(&to.as_str()) || self.gaps.steps.iter().any(may_be) {
                continue;
            }
            known.extend(self.gaps.steps.iter().flatten().map(String::as_str));
            known.dedup();
            let fix = did_you_mean(to, known.iter().copied(), || format!("name one of {}", known.join(", ")));
            let is_elsewhere = super::all_steps(&self.file.steps).iter().any(|step| step.name.value == *to);
            let what = match is_elsewhere {
                true => format!("the step {to:?} is in another flow, and a transition stays within its own"),
                false => format!("there is no step {to:?}"),
            };
            let chars = self.file.source.line(target.place.line).map_or(1, |line| {
                let rest = line.chars().skip(target.place.column.saturating_sub(1));
                rest.take_while(|c| !matches!(c, ',' | '}' | '#'))
                    .collect::<String>()
                    .trim_end()
                    .chars()
                    .count()
            });
            self.wrong_at(target.place, chars, what, fix);
        }
    }

    /// Checks that every step can be reached, and can reach an end.
    fn way(&mut self, steps: &[StepFile]) {
        let mut flow = Flow::of(steps.iter().map(|step| step.name.value.clone()));
        for step in steps {
            for (pattern, target) in &step.on {
                flow.on(&step.name.value, &pattern.value, target.value.clone());
            }
        }
        let (name, what, fix) = match flow.check() {
            Ok(()) => return,
            Err(BadFlow::Unreachable(name)) => {
                let what = format!("no way leads to the step {name:?}");
                let fix = format!("let a step before it go on with next or to({name}), or take it out");
                (name, what, fix)
            }
            Err(BadFlow::Endless(name)) => {
                let what = format!("no way leads from the step {name:?} to an end");
                (
                    name,
                    what,
                    "let a step of the circle go on with end, fail or stop for some exit code".to_owned(),
                )
            }
            Err(other) => {
                let name = steps.first().map(|step| step.name.value.clone()).unwrap_or_default();
                (name, other.to_string(), "correct the steps and their on".to_owned())
            }
        };
        if let Some(step) = steps.iter().find(|step| step.name.value == name) {
            self.wrong(&step.name, what, fix);
        }
    }
}
