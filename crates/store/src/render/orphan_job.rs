//! nexrender jobs that are no longer needed. A dropped job (`Act::DropJob`) is recorded in the same transaction, so
//! that another worker removes it if this one dies.

use crate::statement::{Total, statements, stored};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::lifecycle::{File, Slot};
use tidemill_domain::time::Timestamp;

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct OrphanJob in ("render_leftover", "render_id epoch") {
        pub render: RenderId = "render_id",
        /// The epoch that submitted it.
        pub epoch: Epoch,
        pub remote_job: String = "nexrender_job_id",
        /// Where the node leaves its file.
        pub staged_path: Option<String>,
        /// Whether its licence is free.
        pub slot: Slot,
        pub file: File,
        pub since: Timestamp,
    }
}

statements! {
    /// Keeps an existing row, but a file that was kept goes as soon as nobody needs it any more.
    fn render_leftover_insert(job: &OrphanJob, look_after: Timestamp) -> () {
        bind(
            job.render, job.epoch, &job.remote_job, &job.staged_path, job.slot.as_str(), job.file.as_str(), job.since,
            look_after,
        )
        "insert into render_leftover
             (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (render_id, epoch) do update set file = excluded.file where excluded.file = 'delete'"
    }

    /// At most `limit` jobs to remove from nexrender now, reserved for `pause`. A job that a worker has dropped itself
    /// is left to that worker for the length of a lease. Needs a transaction.
    pub fn Renders::take_leftovers(limit: u32, pause: Duration) at now -> Vec<OrphanJob> {
        bind(now, now.plus(pause), limit)
        "with due as materialized (
             select render_id, epoch
             from render_leftover
             where look_after <= $1
             order by look_after
             limit $3
             {for update skip locked}
         )
         update render_leftover set look_after = $2
         where (render_id, epoch) in (select render_id, epoch from due)
         returning render_id, epoch, nexrender_job_id, staged_path, slot, file, since"
    }

    /// Reserves a job for another `pause`. False if it is settled.
    pub fn Renders::keep_leftover(id: RenderId, epoch: Epoch, pause: Duration) at now -> bool {
        bind(id, epoch, now.plus(pause))
        "update render_leftover set look_after = $3 where render_id = $1 and epoch = $2"
    }

    /// The job is gone from nexrender, and its file too if it had to be. False if it was settled before.
    pub fn Renders::settle_leftover(id: RenderId, epoch: Epoch) -> bool {
        "delete from render_leftover where render_id = $1 and epoch = $2"
    }

    fn render_leftover_count() -> Total {
        "select count(*) from render_leftover"
    }
}
