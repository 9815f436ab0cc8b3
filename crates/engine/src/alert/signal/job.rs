//! Signals of jobs and schedules. The subject is `job/NAME`, `job/NAME/instance/ID` or `schedule/NAME`. All are read
//! from the database, so any process can evaluate them.

use super::{Observation, Observing, Signal, number};
use crate::EngineError;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::code::Code;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::usual::times_usual;
use tidemill_store::job::FailedJob;
use tidemill_store::{Store, Tx};

tidemill_domain::words! {
    pub enum JobSignal {
        /// Instances of a job that have failed and have not completed since.
        Failures = "job_failures",
        /// Duration of a running execution, divided by the usual duration of its job.
        RunningRatio = "job_running_ratio",
        /// How long ago the next tick was due.
        ScheduleLateSeconds = "schedule_late_seconds",
        /// Ticks that were missed or refused.
        ScheduleMissedTicks = "schedule_missed_ticks",
    }
}

/// Older failures do not alert: nobody will restart them.
const FAILED_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// An automatic restart holds the alert back for this long. After that, no server has the job.
const RESTART_WITHIN: Duration = Duration::from_secs(300);

/// A missed tick alerts at least this long, even if a later one has fired.
const MISSED_WITHIN: Duration = Duration::from_secs(3600);

/// Failed jobs, running executions and schedules that are read at most.
const ROWS_MAX: u32 = 1_000;

/// Earlier runs of a job that show what is usual.
const RUNS_MAX: u32 = 50;

impl Signal for JobSignal {
    fn name(&self) -> &'static str {
        self.as_str()
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let mut tx = store.read().await?;
            match self {
                Self::Failures => failures(&mut tx).await,
                Self::RunningRatio => running(&mut tx).await,
                Self::ScheduleLateSeconds => late(&mut tx).await,
                Self::ScheduleMissedTicks => missed(&mut tx).await,
            }
        })
    }
}

/// None if the name is too long for a subject.
fn observation(subject: &str, value: f64, detail: String) -> Option<Observation> {
    let subject = Subject::new(subject).ok()?;
    Some(Observation { subject, value, detail: Some(detail) })
}

async fn failures(tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
    let found = tx.jobs().failed_jobs(FAILED_WITHIN, RESTART_WITHIN, ROWS_MAX).await?;
    let seen = found.iter().filter_map(|failed| {
        // While restarts run for all of them, a firing alert stays and no other one fires.
        let value = if failed.restarting < failed.instances { number(failed.instances) } else { f64::NAN };
        observation(&format!("job/{}", failed.job), value, describe(failed))
    });
    Ok(seen.collect())
}

/// Without the message, which may contain data of items: the page of the execution shows it.
fn describe(failed: &FailedJob) -> String {
    let FailedJob { execution, step, message, .. } = failed;
    let is_code = |word: &&str| word.len() == 6 && word.starts_with("TM");
    let mut words = message.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_code);
    let code = words.find_map(|word| word.parse().ok()).unwrap_or(Code::ExecutionFailed);
    let step = step.as_ref().map(|step| format!(" in step {step}")).unwrap_or_default();
    format!("execution {execution} failed{step} ({code})")
}

async fn running(tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
    let running = tx.jobs().oldest_started(ROWS_MAX).await?;
    let mut jobs: Vec<&str> = running.iter().map(|execution| execution.job.as_str()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let earlier = tx.jobs().recent_runs(&jobs, RUNS_MAX).await?;
    let now = tx.now().await?;
    let seen = running.iter().filter_map(|execution| {
        let so_far = now.since(execution.started_at?);
        let completed =
            earlier.get(&execution.job)?.iter().filter(|run| run.status == BatchStatus::Completed);
        let times = times_usual(so_far, completed.filter_map(|run| run.length()))?;
        let (id, seconds) = (execution.id, so_far.as_secs());
        let detail = format!("execution {id} has been running for {seconds} seconds");
        observation(&format!("job/{}/instance/{}", execution.job, execution.instance), times, detail)
    });
    Ok(seen.collect())
}

async fn late(tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
    let next = tx.schedules().next_ticks(ROWS_MAX).await?;
    let now = tx.now().await?;
    let seen = next.iter().filter_map(|next| {
        let due = next.next_at?;
        let waits =
            if next.is_waiting { "; the tick waits for an earlier execution, or for room" } else { "" };
        let detail = format!("job {} was due at {due}{waits}", next.job);
        observation(&format!("schedule/{}", next.schedule), now.since(due).as_secs_f64(), detail)
    });
    Ok(seen.collect())
}

async fn missed(tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
    let missed = tx.schedules().unlaunched_ticks(MISSED_WITHIN, ROWS_MAX).await?;
    let seen = missed.iter().filter_map(|ticks| {
        let reason = ticks.reason.as_deref().unwrap_or_default();
        let detail = format!("tick {} was {}: {reason}", ticks.tick, ticks.outcome);
        observation(&format!("schedule/{}", ticks.schedule), number(ticks.count), detail)
    });
    Ok(seen.collect())
}
