//! Renews the leases of all renders, independently of their tasks. A lost or cancelled render is reported to its task
//! at once.

use super::{HeldRender, Instruction, RETRY_FIRST, RETRY_LONGEST, WorkerContext, tell};
use crate::{Service, metrics};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::lease::Fence;
use tidemill_domain::render::{Act, RenderId, Work};
use tidemill_store::StoreError;
use tidemill_store::render::{Notes, RENDER_CANCELLED, WorkerBeat, WorkerState};

/// A longer turn has failed: there must be time for another one.
const TURN_MAX: Duration = Duration::from_secs(5);

pub(super) async fn run(worker: Arc<WorkerContext>) {
    let mut service = Service::new("renewing the leases of renders", worker.options.renew_pause)
        .limit(TURN_MAX.min(worker.options.policy.lease_for / 3))
        .retry(RETRY_FIRST, RETRY_LONGEST)
        .wake_by(worker.store.wakeup(RENDER_CANCELLED));
    while service.is_due().await {
        service.round(turn(&worker)).await;
    }
}

async fn turn(worker: &WorkerContext) -> Result<(), StoreError> {
    let all = worker.registry.all();
    let asked: Vec<(RenderId, Fence)> = all.iter().map(|held| (held.id, held.fence)).collect();
    let (sent, policy) = (worker.now(), &worker.options.policy);
    if !asked.is_empty() {
        // By itself, so that a slow database delays the leases by nothing else.
        let mut tx = worker.store.begin_vital().await?;
        let renewed = tx.renders().renew(&asked, policy).await?;
        tx.commit().await?;
        let (known, unknown): (Vec<_>, Vec<_>) = all.iter().partition(|held| renewed.contains(&held.id));
        known.iter().for_each(|held| held.guard.renew(sent));
        for held in unknown {
            ask(worker, held).await?;
        }
        note_answer(worker);
    }
    let mut tx = worker.store.begin_vital().await?;
    tx.renders().beat_worker(beat(worker)).await?;
    tx.commit().await?;
    note_answer(worker);
    Ok(())
}

fn note_answer(worker: &WorkerContext) {
    let (now, mut vitals) = (worker.now(), worker.vitals());
    (vitals.database, vitals.lease_loop) = (Some(now), Some(now));
}

async fn ask(worker: &WorkerContext, held: &HeldRender) -> Result<(), StoreError> {
    let (sent, policy) = (worker.now(), &worker.options.policy);
    let mut tx = worker.store.begin_vital().await?;
    let worked = tx.renders().work(held.id, held.fence, Work::Renew, Notes::default(), policy).await?;
    tx.commit().await?;
    let Some(worked) = worked else {
        held.tell(Instruction::Lost);
        return Ok(());
    };
    match worked.decision.act {
        // Its task has just settled it, or another worker has it.
        Act::GiveUp => held.tell(Instruction::Lost),
        Act::Nothing if worked.record.render.status.is_active() => held.guard.renew(sent),
        act => {
            tell::decided(worker, None, &worked);
            held.tell(Instruction::Do(act));
        }
    }
    Ok(())
}

fn beat(worker: &WorkerContext) -> WorkerBeat<'_> {
    let state = if *worker.is_stopping.borrow() {
        WorkerState::Draining
    } else if worker.vitals().paused.is_some() {
        WorkerState::Paused
    } else {
        WorkerState::Working
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let busy = worker.busy();
    metrics::render_in_hand().set(worker.registry.len() as f64);
    metrics::render_busy_places().set(busy as f64);
    metrics::render_waiting_for_licence().set(worker.waiting_for_licence.load(Ordering::Relaxed) as f64);
    let vitals = worker.vitals();
    WorkerBeat {
        process: worker.options.process,
        name: &worker.options.name,
        capacity: number(worker.options.capacity.get()),
        // A render whose file is being published holds no place; a cancelled job that a node still renders does.
        in_flight: number(busy),
        state,
        farm: vitals.farm_took,
        copy: vitals.copy_took,
    }
}
