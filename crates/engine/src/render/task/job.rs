//! The job of a render at the farm: submitted once, and then asked about until it ends or nobody needs it.

use super::{Done, Noted, Task, unexpected};
use crate::render::orphan_job::{self, Dropped, Watching};
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::lifecycle::Slot;
use tidemill_domain::render::{Failure, Report, Trouble, Work};
use tidemill_store::crash_point;
use tidemill_store::render::OrphanJob;

impl Task {
    pub(super) async fn submit(&self) -> Result<Done, Trouble> {
        let document = match &self.document {
            Some(document) => document.clone(),
            None => self.kept_document().await?,
        };
        let job = self.worker.asking("submit", self.worker.farm.submit(self.uid(), &document)).await?;
        crash_point!("render_posted");
        let noted = Noted { remote_job: Some(job.id), ..Noted::default() };
        Ok(Done { work: Work::Submitted, noted })
    }

    /// The job as it was written down before.
    async fn kept_document(&self) -> Result<serde_json::Value, Trouble> {
        let uid = self.uid();
        let read =
            async { self.worker.store.read().await?.renders().document(uid.render(), uid.epoch()).await };
        let document = read.await.map_err(|error| unexpected(&error))?;
        document.ok_or_else(|| Trouble::new(Failure::Unexpected, "the job was not written down"))
    }

    pub(super) async fn look_at_job(&self) -> Result<Done, Trouble> {
        let name = self.remote_job();
        let job = self.worker.asking("look", self.worker.farm.look(&name)).await?;
        Ok(self.reported(job))
    }

    /// Asks again after a while. A farm that is only being started again costs the render nothing.
    pub(super) async fn poll(&self) -> Result<Done, Trouble> {
        let (options, name) = (&self.worker.options, self.remote_job());
        let mut silent_since = None;
        loop {
            tokio::time::sleep(options.farm_pause).await;
            match self.worker.asking("look", self.worker.farm.look(&name)).await {
                Ok(job) => return Ok(self.reported(job)),
                Err(trouble) if trouble.failure == Failure::NexrenderDown => {
                    let now = self.worker.now();
                    let since = *silent_since.get_or_insert(now);
                    if now.since(since) >= options.farm_grace {
                        return Err(trouble);
                    }
                    let id = self.held.id;
                    tracing::debug!(render.id = %id, "{} does not answer about render {id}: {}", self.worker.farm.name(), trouble.message);
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Takes a job that nobody needs any more out of the farm. nexrender cannot stop what a node renders, so its place
    /// stays taken until that ends by itself. What is not done when the worker stops, others do: it is written down.
    pub(super) async fn drop_job(&mut self, leftover: OrphanJob) {
        crash_point!("render_dropping");
        // The render is somebody else's from here on, or nobody's.
        self.worker.registry.remove(&self.held);
        let silent_for = self.record.changed_at.map(|at| self.at.since(at)).unwrap_or_default();
        let mut watching = Watching::new(self.worker.now(), Duration::ZERO, silent_for);
        let mut stop = self.worker.is_stopping.subscribe();
        let worker = self.worker.clone();
        loop {
            match orphan_job::drop_once(&worker, &leftover, &mut watching).await {
                Ok(Dropped::Gone) => break,
                Ok(Dropped::Running) => {}
                Ok(Dropped::FileLeft(trouble)) => {
                    // Nobody renders it, so nobody has to wait for the NAS. The next sweep has another look.
                    orphan_job::file_left(&leftover, &trouble);
                    break;
                }
                Err(trouble) => {
                    let id = leftover.render;
                    tracing::warn!(render.id = %id, "job {} of render {id} could not be taken out of nexrender yet: {}", leftover.remote_job, trouble.message);
                    if leftover.slot == Slot::Free {
                        self.free_place();
                    }
                }
            }
            tokio::select! {
                _told = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(worker.options.farm_pause) => {}
            }
            // Nobody else has to see to it meanwhile.
            orphan_job::keep(&worker, &leftover).await;
        }
        self.free_place();
    }

    fn reported(&self, job: Option<RemoteJob>) -> Done {
        // One of another queue that has this name is none of ours.
        let staged = self.record.staged_path.as_deref();
        let Some(job) = job.filter(|job| job.may_leave(staged)) else {
            return Work::Reported(Report::Lost).into();
        };
        let noted = Noted { remote_job: Some(job.id), mark: job.updated, ..Noted::default() };
        Done { work: Work::Reported(job.report), noted }
    }

    /// Says once of each job that the farm says something of it that nobody knows: it is asked every few seconds.
    pub(super) fn tell_unknown(&mut self, report: &Report) {
        let Report::Unknown { word } = report else { return };
        if self.words_told.is_new(&self.remote_job(), word) {
            let id = self.held.id;
            tracing::warn!(render.id = %id, "nexrender says {word:?} about render {id}, which nobody knows");
        }
    }
}

/// A farm may invent words without end.
const WORDS_MAX: usize = 100;

/// What was told of which job.
#[derive(Debug, Default)]
pub(super) struct WordsTold(BTreeSet<(String, String)>);

impl WordsTold {
    fn is_new(&mut self, job: &str, word: &str) -> bool {
        self.0.len() < WORDS_MAX && self.0.insert((job.to_owned(), word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_once_of_each_job_and_not_for_ever() {
        let mut told = WordsTold::default();

        assert!(told.is_new("rq-1-1", "dreaming"));
        assert!(!told.is_new("rq-1-1", "dreaming"));
        assert!(told.is_new("rq-1-1", "resting") && told.is_new("rq-1-2", "dreaming"));
        assert!(!told.is_new("rq-1-1", "dreaming"));
        let more = (0..1_000).filter(|number| told.is_new("rq-1-1", &number.to_string())).count();
        assert_eq!(more, WORDS_MAX - 3);
    }
}
