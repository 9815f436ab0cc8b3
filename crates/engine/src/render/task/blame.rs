//! Whose fault a failure is: that of one render, or of a backend, without which no render can succeed.

use super::{ActResult, Task};
use tidemill_domain::render::Concern;
use tidemill_domain::render::failure::Backend;
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
