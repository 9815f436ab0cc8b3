//! A job that nobody needs any more is taken out of the farm. nexrender cannot stop what a node renders, so its place
//! stays taken until that ends by itself.

use super::Task;
use crate::render::orphan_job::{self, Dropped, Watching};
use std::time::Duration;
use tidemill_domain::render::lifecycle::Slot;
use tidemill_store::crash_point;
use tidemill_store::render::OrphanJob;

impl Task {
    /// Takes it out. Whatever is not done when the worker stops, others do: it is written down.
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
}
