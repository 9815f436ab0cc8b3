//! Claiming renders: as many as the farm has free places, after a wake-up or a pause.

use super::{HeldRender, WorkerContext, tell};
use crate::render::task::Task;
use crate::{LeaseGuard, Next, Service, jittered, metrics, transact};
use std::sync::Arc;
use tidemill_domain::poll::PollResult;
use tidemill_domain::render::polling::Empty;
use tidemill_store::render::{ClaimRequest, RENDER_WAITING};
use tidemill_store::{StoreError, trace};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument, field};

/// Claims until told to stop, and starts a task for each render.
pub(super) async fn run(worker: &Arc<WorkerContext>, tasks: &mut JoinSet<()>, stop: watch::Receiver<bool>) {
    let mut service = Service::new("claiming renders", worker.options.polling.default)
        .wake_by(worker.store.wakeup(RENDER_WAITING))
        .until_stopped(stop);
    let mut empty = Empty::default();
    loop {
        tokio::select! {
            // First, so that nothing is claimed after a stop.
            biased;
            is_due = service.is_due() => if !is_due { return },
            () = worker.look_again.notified() => {}
        }
        while let Some(ended) = tasks.try_join_next() {
            warn_of_panic(ended);
        }
        let claimed = claim(worker, tasks).await;
        service.ended(claimed.map(|found| {
            let (pause, counted) = worker.options.polling.next(empty, found);
            empty = counted;
            Next::In(jittered(pause))
        }));
    }
}

async fn claim(worker: &Arc<WorkerContext>, tasks: &mut JoinSet<()>) -> Result<PollResult, StoreError> {
    let mut permits = worker.free_places();
    if worker.vitals().paused.is_some() || permits.is_empty() {
        // Counts as polled, so that an idle worker does not look stuck.
        worker.vitals().poll = Some(worker.now());
        return Ok(PollResult::Nothing);
    }
    let (options, sent) = (&worker.options, worker.now());
    let request = ClaimRequest {
        by: options.process,
        worker: &options.name,
        count: u32::try_from(permits.len()).unwrap_or(u32::MAX),
        policy: &options.policy,
        zone: &options.zone,
    };
    let claims = transact(&worker.store, async |tx| tx.renders().claim(request).await).await?;
    worker.vitals().database = Some(worker.now());
    worker.vitals().poll = Some(worker.now());
    for ended in &claims.ended {
        tell::decided(worker, None, ended);
    }
    let found = if claims.claimed.is_empty() { PollResult::Nothing } else { PollResult::Work };
    metrics::render_claims().increment(claims.claimed.len() as u64);
    for claimed in claims.claimed {
        let Some(permit) = permits.pop() else { break };
        let (id, act, phase) = (claimed.record.id(), claimed.act, claimed.record.render.phase);
        let guard = LeaseGuard::new(worker.clock.clone(), options.policy.lease_for, sent);
        let held = Arc::new(HeldRender::new(id, claimed.fence, phase, guard));
        worker.registry.add(held.clone());
        tracing::info!(render.id = %id, worker = options.name, lease.epoch = %claimed.fence.epoch, "worker {} has render {id}", options.name);
        let span = tracing::info_span!(
            target: trace::TARGET,
            "render",
            render.id = %id,
            worker = options.name,
            render.status = field::Empty,
            otel.status_code = field::Empty,
        );
        tasks.spawn(Task::new(worker.clone(), held, claimed, permit).run(act, span.clone()).instrument(span));
    }
    Ok(found)
}

/// A task that ended by itself has logged everything.
pub(super) fn warn_of_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "the task of a render has panicked; another worker takes it over");
    }
}
