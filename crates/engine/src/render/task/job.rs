//! The job of a render at the farm: submitted once, and then asked about until it ends.

use super::{Done, Noted, Task, unexpected};
use std::collections::BTreeSet;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::{Failure, Report, Trouble, Work};
use tidemill_store::{StoreError, crash_point};

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
        let read = async {
            let mut tx = self.worker.store.read().await?;
            let document = tx.renders().document(uid.render(), uid.epoch()).await?;
            Ok::<_, StoreError>(document)
        };
        let document = read.await.map_err(|error| unexpected(&error))?;
        document.ok_or_else(|| Trouble::new(Failure::Unexpected, "the job was not written down"))
    }

    /// What became of the job of an earlier worker.
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
