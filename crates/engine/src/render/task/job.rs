//! The job of a render at the farm: submitted once, and polled until it ends or is no longer needed.

use super::{ActResult, NewNotes, Task, unexpected};
use crate::render::orphan_job::{self, DropResult, JobWatch};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::clock::is_quiet;
use tidemill_domain::render::polling::{job_pause, leftover_pause};
use tidemill_domain::render::{Failure, Report, Trouble, Work};
use tidemill_store::crash_point;
use tidemill_store::render::OrphanJob;

impl Task {
    pub(super) async fn submit(&self) -> Result<ActResult, Trouble> {
        let document = match &self.document {
            Some(document) => document.clone(),
            None => {
                let (store, uid) = (&self.worker.store, self.uid());
                let read = async { store.read().await?.renders().document(uid.render(), uid.epoch()).await };
                let document = read.await.map_err(|error| unexpected(&error))?;
                document.ok_or_else(|| Trouble::new(Failure::Unexpected, "the job was not written down"))?
            }
        };
        let job = self.worker.asking("submit", self.worker.farm.submit(self.uid(), &document)).await?;
        crash_point!("render_posted");
        let noted = NewNotes { remote_job: Some(job.id), ..NewNotes::default() };
        Ok(ActResult { work: Work::Submitted, noted })
    }

    pub(super) async fn look_at_job(&self) -> Result<ActResult, Trouble> {
        let looked = self.look_twice().await.map(|job| self.reported(job));
        self.or_film(looked).await
    }

    /// The result, or that the whole film is in staging although the farm does not know the end of its job: it may have
    /// been away when the node reported that, and hears of it no more.
    async fn or_film(&self, looked: Result<ActResult, Trouble>) -> Result<ActResult, Trouble> {
        let is_end = matches!(&looked, Ok(ActResult { work: Work::Reported(report), .. }) if report.is_end());
        let film = if is_end { None } else { self.film().await };
        match film {
            None => looked,
            Some((sight, false)) => looked.map(|done| {
                let noted = NewNotes { bad_film: Some(sight), ..done.noted };
                ActResult { work: done.work, noted }
            }),
            Some((_, true)) => {
                let id = self.held.id;
                tracing::info!(render.id = %id, "the file of render {id} is there, although nexrender does not say so");
                Ok(Work::OutputFound.into())
            }
        }
    }

    /// The job, or none if the farm does not have it, and still not after a pause: one answer may come from a proxy, or
    /// from a farm that is just starting, and a second job would render the film twice.
    async fn look_twice(&self) -> Result<Option<RemoteJob>, Trouble> {
        let (worker, name) = (&self.worker, self.remote_job());
        match worker.asking("look", worker.farm.look(&name)).await? {
            Some(job) => Ok(Some(job)),
            None => {
                tokio::time::sleep(worker.options.farm_pause).await;
                worker.asking("look", worker.farm.look(&name)).await
            }
        }
    }

    /// Polls after a pause. A farm that is only restarting costs the render nothing. It may restart between two polls, so
    /// the film of a job that has been quiet for a while is looked for, too.
    pub(super) async fn poll(&self) -> Result<ActResult, Trouble> {
        let options = &self.worker.options;
        let is_quiet = self.record.seen().is_some_and(|seen| is_quiet(seen, self.at));
        let mut silent_since = None;
        loop {
            let age = self.polled_since.map(|since| self.worker.now().since(since)).unwrap_or_default();
            tokio::time::sleep(job_pause(age, options.farm_pause)).await;
            match self.look_twice().await {
                Ok(job) if is_quiet || silent_since.is_some() => {
                    return self.or_film(Ok(self.reported(job))).await;
                }
                Ok(job) => return Ok(self.reported(job)),
                Err(trouble) if trouble.failure.may_be_a_blip() => {
                    let now = self.worker.now();
                    let since = *silent_since.get_or_insert(now);
                    if now.since(since) >= options.farm_grace {
                        return self.or_film(Err(trouble)).await;
                    }
                    let id = self.held.id;
                    tracing::debug!(render.id = %id, "{} does not answer about render {id}: {}", self.worker.farm.name(), trouble.message);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Removes a job that is no longer needed. nexrender cannot stop a node, so the place stays taken until the job
    /// ends by itself. If the worker stops before, others finish this: it is recorded.
    pub(super) async fn drop_job(&mut self, leftover: OrphanJob) {
        crash_point!("render_dropping");
        // From here on the render is no longer ours.
        self.worker.registry.remove(&self.held);
        let silent_for = self.record.changed_at.map(|at| self.at.since(at)).unwrap_or_default();
        let mut watching = JobWatch::new(self.worker.now(), Duration::ZERO, silent_for);
        let mut stop = self.worker.is_stopping.subscribe();
        let worker = self.worker.clone();
        let mut failing_since = None;
        loop {
            let pause = match orphan_job::drop_once(&worker, &leftover, &mut watching).await {
                // A file that is left is not rendered, so nothing waits for the NAS. The next sweep tries again.
                Ok(DropResult::Gone | DropResult::FileLeft) => break,
                Ok(DropResult::Running) => {
                    failing_since = None;
                    worker.options.farm_pause
                }
                Err(trouble) => {
                    orphan_job::warn_of_trouble(&leftover, &trouble);
                    // Only the farm knows that a node is busy with it. Renders do not wait for what nobody says.
                    self.free_place();
                    let now = worker.now();
                    let failing_for = now.since(*failing_since.get_or_insert(now));
                    leftover_pause(failing_for, worker.options.farm_pause)
                }
            };
            // Reserved, so that no other worker does it too.
            orphan_job::keep(&worker, &leftover, pause).await;
            tokio::select! {
                _told = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.free_place();
    }

    fn reported(&self, job: Option<RemoteJob>) -> ActResult {
        // A job of another queue with this name is not ours.
        let staged = self.record.staged_path.as_deref();
        let Some(job) = job.filter(|job| job.may_leave(staged)) else {
            return Work::Reported(Report::Lost).into();
        };
        let noted = NewNotes { remote_job: Some(job.id), mark: job.updated, ..NewNotes::default() };
        ActResult { work: Work::Reported(job.report), noted }
    }

    /// Logs an unknown state once per job, because it is polled every few seconds.
    pub(super) fn log_unknown(&mut self, report: &Report) {
        let Report::Unknown { word } = report else { return };
        if self.logged_words.is_new(&self.remote_job(), word) {
            let id = self.held.id;
            tracing::warn!(render.id = %id, "nexrender says {word:?} about render {id}, which nobody knows");
        }
    }
}

/// A farm may return any number of unknown states.
const WORDS_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct LoggedWords(BTreeSet<(String, String)>);

impl LoggedWords {
    fn is_new(&mut self, job: &str, word: &str) -> bool {
        self.0.len() < WORDS_MAX && self.0.insert((job.to_owned(), word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_once_of_each_job_and_not_for_ever() {
        let mut told = LoggedWords::default();

        assert!(told.is_new("rq-1-1", "dreaming"));
        assert!(!told.is_new("rq-1-1", "dreaming"));
        assert!(told.is_new("rq-1-1", "resting") && told.is_new("rq-1-2", "dreaming"));
        assert!(!told.is_new("rq-1-1", "dreaming"));
        let more = (0..1_000).filter(|number| told.is_new("rq-1-1", &number.to_string())).count();
        assert_eq!(more, WORDS_MAX - 3);
    }
}
