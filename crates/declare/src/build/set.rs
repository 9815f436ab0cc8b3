//! Values that a step sets for later steps, in the context of the job.

use crate::model::{StepFile, Work};
use tidemill_domain::job::{BatchStatus, Counters, ExitStatus};
use tidemill_engine::job::Step;
use tidemill_engine::job::listener::{StepListener, StepRun};

type Counter = fn(&Counters) -> u64;

/// The counters of a chunk step, by the words of a job file.
pub(crate) const COUNTERS: [(&str, Counter); 4] = [
    ("read", |counters| counters.read),
    ("written", |counters| counters.write),
    ("filtered", |counters| counters.filter),
    ("skipped", Counters::skips),
];

/// The step, which also sets the values of its file.
pub(super) fn setting(step: Step, file: &StepFile) -> Step {
    let names: Vec<String> = file.set_names().map(|name| name.value.clone()).collect();
    match file.work {
        _ if names.is_empty() => step,
        Work::Chunk(_) => {
            let counter = |word: &str| COUNTERS.iter().find(|(known, _)| *known == word).map(|(_, of)| *of);
            let values =
                file.set.iter().filter_map(|(name, word)| Some((name.value.clone(), counter(&word.value)?)));
            step.listener(SetCounters(values.collect()))
        }
        _ => step.promote(names),
    }
}

struct SetCounters(Vec<(String, Counter)>);

impl StepListener for SetCounters {
    fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
        if run.status == BatchStatus::Completed {
            let totals = run.totals();
            for (name, counter) in &self.0 {
                run.job_context.put(name, counter(&totals));
            }
        }
        None
    }
}
