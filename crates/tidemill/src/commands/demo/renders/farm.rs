//! The renderer of the demo: takes jobs as nexrender does, needs a while for each, and leaves a real film. One of its
//! jobs it spoils, and says that it is finished all the same, as nexrender does.

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

/// Steps of a render, and how long each takes.
const STEPS: u32 = 10;
const STEP: Duration = Duration::from_millis(150);

/// A renderer within this process.
#[derive(Clone, Debug, Default)]
pub(super) struct DemoFarm {
    jobs: Arc<Mutex<Jobs>>,
}

#[derive(Debug, Default)]
struct Jobs {
    by_name: HashMap<String, RemoteJob>,
    submitted: usize,
}

impl DemoFarm {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many jobs it ever got.
    pub(super) fn submitted(&self) -> usize {
        self.jobs().submitted
    }

    /// Whether it is at work on something.
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
        let is_spoilt = jobs.submitted == 1;
        let job = RemoteJob { id: name.to_owned(), report: waiting(), updated: None };
        jobs.by_name.insert(name.to_owned(), job.clone());
        tokio::spawn(render(self.clone(), name.to_owned(), output, is_spoilt));
        Ok(job)
    }
}

fn waiting() -> Report {
    Report::At { phase: Phase::WaitingForNode, percent: None }
}

/// Renders, whether or not anybody asks.
async fn render(farm: DemoFarm, name: String, output: PathBuf, is_spoilt: bool) {
    for step in 0..STEPS {
        let percent = f64::from(step) * 100.0 / f64::from(STEPS);
        farm.report(&name, Report::At { phase: Phase::Rendering, percent: Some(percent) });
        tokio::time::sleep(STEP).await;
    }
    let film = if is_spoilt { &CLIP[..CLIP.len() * 3 / 4] } else { CLIP };
    let report = match std::fs::write(&output, film) {
        Ok(()) => Report::Finished,
        Err(error) => Report::Failed { failure: Failure::RenderFailed, message: error.to_string() },
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
