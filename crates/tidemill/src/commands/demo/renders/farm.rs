//! The renderer of the demo: takes jobs as nexrender does, needs a while for each, and leaves a real film. Some of its jobs
//! it spoils, and says that they are finished all the same, as nexrender does.

use super::CLIP;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::remote::Report;
use tidemill_domain::render::{Failure, Phase, Trouble, Uid};
use tidemill_engine::render::{Asking, Farm};

/// Steps of a render, and how long each takes: for those who want to see what comes of it, and for those who want to look.
const STEPS: u32 = 10;
const STEP_QUICK: Duration = Duration::from_millis(150);
const STEP_SLOW: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct DemoFarm {
    jobs: Arc<Mutex<Jobs>>,
    step: Duration,
    /// What becomes of the job with this number, from 1 on.
    outcome: fn(usize) -> JobOutcome,
}

/// What becomes of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobOutcome {
    Good,
    /// A film that is cut off, and said to be finished.
    Spoilt,
    /// The node says that it could not.
    Failed,
}

#[derive(Debug, Default)]
struct Jobs {
    by_name: HashMap<String, RemoteJob>,
    submitted: usize,
}

impl DemoFarm {
    pub(super) fn with_one_spoilt() -> Self {
        let outcome = |number| if number == 1 { JobOutcome::Spoilt } else { JobOutcome::Good };
        Self { jobs: Arc::default(), step: STEP_QUICK, outcome }
    }

    /// One that takes its time, and of every five jobs spoils one and fails at another.
    pub(super) fn slow() -> Self {
        let outcome = |number| match number % 5 {
            1 => JobOutcome::Spoilt,
            3 => JobOutcome::Failed,
            _ => JobOutcome::Good,
        };
        Self { jobs: Arc::default(), step: STEP_SLOW, outcome }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn submitted(&self) -> usize {
        self.jobs().submitted
    }

    pub(super) fn is_rendering(&self) -> bool {
        let is_it = |job: &RemoteJob| matches!(job.report, Report::At { phase: Phase::Rendering, .. });
        self.jobs().by_name.values().any(is_it)
    }

    fn report(&self, name: &str, report: Report) {
        if let Some(job) = self.jobs().by_name.get_mut(name) {
            job.updated = Some(format!("{report:?}"));
            job.report = report;
        }
    }

    fn take(&self, name: &str, document: &Value) -> Result<RemoteJob, Trouble> {
        let refused = |why: &str| Trouble::new(Failure::Rejected, why);
        let output = document["actions"]["postrender"][0]["output"].as_str();
        let output =
            PathBuf::from(output.ok_or_else(|| refused("the job does not say where its file goes"))?);
        let mut jobs = self.jobs();
        if let Some(known) = jobs.by_name.get(name) {
            return Ok(known.clone());
        }
        jobs.submitted += 1;
        let outcome = (self.outcome)(jobs.submitted);
        let job = RemoteJob { id: name.to_owned(), report: waiting(), updated: None, output: None };
        jobs.by_name.insert(name.to_owned(), job.clone());
        tokio::spawn(render(self.clone(), name.to_owned(), output, outcome));
        Ok(job)
    }
}

fn waiting() -> Report {
    Report::At { phase: Phase::WaitingForNode, percent: None }
}

/// Renders, whether or not anybody asks.
async fn render(farm: DemoFarm, name: String, output: PathBuf, outcome: JobOutcome) {
    for step in 0..STEPS {
        let percent = f64::from(step) * 100.0 / f64::from(STEPS);
        farm.report(&name, Report::At { phase: Phase::Rendering, percent: Some(percent) });
        tokio::time::sleep(farm.step).await;
    }
    let failed = |message: String| Report::Failed { failure: Failure::RenderFailed, message };
    let written = |film: &[u8]| match std::fs::write(&output, film) {
        Ok(()) => Report::Finished,
        Err(error) => failed(error.to_string()),
    };
    let report = match outcome {
        JobOutcome::Good => written(CLIP),
        JobOutcome::Spoilt => written(&CLIP[..CLIP.len() * 3 / 4]),
        JobOutcome::Failed => {
            failed("aerender ended with 14: After Effects error: could not allocate a frame".to_owned())
        }
    };
    farm.report(&name, report);
}

impl Farm for DemoFarm {
    fn name(&self) -> String {
        "the renderer of the demo".to_owned()
    }

    fn check(&self) -> Asking<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn look<'a>(&'a self, job: &'a str) -> Asking<'a, Option<RemoteJob>> {
        Box::pin(async move { Ok(self.jobs().by_name.get(job).cloned()) })
    }

    fn submit<'a>(&'a self, uid: Uid, document: &'a Value) -> Asking<'a, RemoteJob> {
        Box::pin(async move { self.take(&uid.to_string(), document) })
    }

    fn remove<'a>(&'a self, job: &'a str) -> Asking<'a, ()> {
        Box::pin(async move {
            self.jobs().by_name.remove(job);
            Ok(())
        })
    }
}
