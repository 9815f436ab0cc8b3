//! Whose fault a failure is: that of one render, or of a backend, without which no render can succeed.

use super::{ActResult, Task};
use tidemill_domain::render::failure::Backend;
use tidemill_domain::render::{Concern, Failure, Work};
use tidemill_store::render::Worked;

impl Task {
    /// Checks the backend that the result blames. If it is well, the fault is this render's, and others go on.
    pub(super) async fn blamed(&self, done: ActResult) -> ActResult {
        let worker = &self.worker;
        let checked = match done.work.blames() {
            Some(Backend::Farm) => worker.asking("check", worker.farm.check()).await,
            Some(Backend::Storage) => worker.storage.check().await,
            None => return done,
        };
        match checked {
            Ok(()) => ActResult { work: done.work.of_one_render(), ..done },
            Err(_) => done,
        }
    }

    /// Lets the next check that passes end the wait after the first failure: a farm that only restarts may be back before
    /// a check sees that it was away. Later failures wait, because they may be the render's own.
    pub(super) fn end_first_wait(&self, work: &Work, worked: &Worked) {
        let is_down = matches!(work, Work::Failed(trouble) if trouble.failure == Failure::NexrenderDown);
        if is_down && worked.record.render.counts.submit == 1 {
            self.worker.vitals().has_ended_waits = false;
            self.worker.check_again.notify_one();
        }
    }

    /// Claims nothing more if every other render would fail like this one.
    pub(super) fn pause(&self, worked: &Worked) {
        let patience = &self.worker.options.policy.patience;
        let stops = |concern: &Concern| matches!(concern, Concern::Failure(failure) if patience.stops_claims(*failure));
        if worked.decision.concerns.iter().any(stops)
            && let Some(reason) = &worked.record.render.reason
        {
            self.worker.pause(reason.code, &reason.message);
        }
    }
}
