//! Cleans up after workers that disappeared: their renders go to others, their jobs and files are removed. Also removes
//! files of nodes that were too late.

use super::{WorkerContext, orphan_job, tell};
use crate::render::task::unexpected;
use crate::{Next, Service, metrics, transact};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::output::is_of_other_queue;
use tidemill_domain::render::{Status, Trouble, Uid};
use tidemill_store::StoreError;
use tidemill_store::render::{RENDER_LEFTOVER, Reaped, Worked};

const PER_TURN: u32 = 200;

/// How often old files are searched for.
const FILES_PAUSE: Duration = Duration::from_secs(24 * 3600);

const FILES_AGE: Duration = Duration::from_secs(24 * 3600);

/// Pause before the next search after a failure.
const FILES_PAUSE_FAILED: Duration = Duration::from_secs(600);

pub(super) async fn run(worker: Arc<WorkerContext>) {
    let mut service = Service::new("looking for renders of vanished workers", worker.options.reap_pause);
    while service.is_due().await {
        service.ended(reap(&worker).await);
    }
}

async fn reap(worker: &WorkerContext) -> Result<(), StoreError> {
    let reaped =
        transact(&worker.store, async |tx| tx.renders().reap_expired(PER_TURN, &worker.options.policy).await)
            .await?;
    worker.vitals().database = Some(worker.now());
    for Reaped { owner, decision, record } in reaped {
        let id = record.id();
        let owner = owner.map(|owner| owner.to_string()).unwrap_or_default();
        metrics::render_recoveries().increment(1);
        tracing::warn!(render.id = %id, process.id = owner, "the worker of render {id} has vanished");
        if let Some(licence) = &worker.options.licence {
            // The next worker requests its own units.
            licence.leave(Uid::new(id, record.render.lease.epoch())).await;
        }
        let is_waiting = record.render.status == Status::Pending;
        tell::decided(worker, None, &Worked { decision, record });
        if is_waiting {
            worker.look_again.notify_one();
        }
    }
    Ok(())
}

pub(super) async fn sweep_jobs(worker: Arc<WorkerContext>) {
    let mut service = Service::new("looking for jobs that nobody needs", worker.options.reap_pause)
        .wake_by(worker.store.wakeup(RENDER_LEFTOVER));
    while service.is_due().await {
        let swept = orphan_job::sweep(&worker).await;
        if let Ok(gone @ 1..) = swept {
            tracing::debug!(gone, "{gone} jobs were taken out of nexrender");
        }
        service.ended(swept.map(drop));
    }
}

pub(super) async fn sweep_files(worker: Arc<WorkerContext>) {
    let mut service = Service::new("removing old files", FILES_PAUSE);
    while service.is_due().await {
        let (parts, staged) = (worker.storage.sweep(FILES_AGE).await, sweep_staged(&worker).await);
        let is_done = parts.is_ok() && staged.is_ok();
        for (what, swept) in [("parts of files", parts), ("files of nodes that were too late", staged)] {
            match swept {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "{removed} old {what} were removed"),
                Err(trouble) => tracing::warn!("old {what} could not be removed: {}", trouble.message),
            }
        }
        service.ended(Ok::<_, StoreError>(if is_done { Next::Rest } else { Next::In(FILES_PAUSE_FAILED) }));
    }
}

/// Removes files of jobs that were superseded: a job that nexrender had forgotten ends unnoticed.
async fn sweep_staged(worker: &WorkerContext) -> Result<u64, Trouble> {
    let mut removed = 0;
    let read = async { worker.store.read().await?.renders().queue().await };
    let queue = read.await.map_err(|error| unexpected(&error))?;
    for (uid, file) in worker.storage.left(FILES_AGE).await? {
        let path = file.to_string();
        if is_of_other_queue(path.rsplit('/').next().unwrap_or_default(), &queue) {
            continue;
        }
        if is_superseded(worker, uid).await.map_err(|error| unexpected(&error))? {
            worker.storage.discard(&file).await?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Whether the render continues without this job. An unknown render may belong to another queue.
async fn is_superseded(worker: &WorkerContext, uid: Uid) -> Result<bool, StoreError> {
    let record = worker.store.read().await?.renders().find(uid.render()).await?;
    Ok(record.is_some_and(|record| !record.render.needs_file_of(uid.epoch())))
}
