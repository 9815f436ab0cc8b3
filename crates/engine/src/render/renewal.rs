//! Leases are renewed by a task of its own, whatever renders do meanwhile. What cannot be renewed is told to its task at
//! once: it is lost, or nobody wants it any more.

use super::held::{Held, Told};
use super::site::Site;
use super::{RETRY_FIRST, RETRY_LONGEST, metrics, tell};
use crate::service::Service;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::lease::Fence;
use tidemill_domain::render::{Act, RenderId, Work};
use tidemill_store::StoreError;
use tidemill_store::render::{Notes, RENDER_CANCELLED, WorkerBeat, WorkerState};

/// A turn that takes longer has failed: there must be time for another one.
const TURN_MAX: Duration = Duration::from_secs(5);

/// Renews for as long as it is let.
pub(super) async fn run(site: Arc<Site>) {
    let mut service = Service::new("renewing the leases of renders", site.options.renew_pause)
        .limit(TURN_MAX.min(site.options.policy.lease_for / 3))
        .retry(RETRY_FIRST, RETRY_LONGEST)
        .wake_by(site.store.wakeup(RENDER_CANCELLED));
    while service.is_due().await {
        service.round(turn(&site)).await;
    }
}

async fn turn(site: &Site) -> Result<(), StoreError> {
    let all = site.registry.all();
    let asked: Vec<(RenderId, Fence)> = all.iter().map(|held| (held.id, held.fence)).collect();
    let (sent, policy) = (site.now(), &site.options.policy);
    let mut tx = site.store.begin_vital().await?;
    let renewed = if asked.is_empty() { Vec::new() } else { tx.renders().renew(&asked, policy).await? };
    tx.renders().beat_worker(beat(site)).await?;
    tx.commit().await?;
    for held in &all {
        if renewed.contains(&held.id) {
            held.renewed(sent);
        } else {
            ask(site, held).await?;
        }
    }
    let now = site.now();
    site.vitals.database_answered(now);
    site.vitals.leases_seen_to(now);
    Ok(())
}

/// Finds out why one was not renewed.
async fn ask(site: &Site, held: &Held) -> Result<(), StoreError> {
    let (sent, policy) = (site.now(), &site.options.policy);
    let mut tx = site.store.begin_vital().await?;
    let worked = tx.renders().work(held.id, held.fence, Work::Renew, Notes::default(), policy).await?;
    tx.commit().await?;
    let Some(worked) = worked else {
        held.tell(Told::Lost);
        return Ok(());
    };
    match worked.decision.act {
        // Its task has settled it a moment ago, or somebody else has it.
        Act::GiveUp => held.tell(Told::Lost),
        Act::Nothing if worked.record.render.status.is_active() => held.renewed(sent),
        act => {
            tell::decided(site, None, &worked);
            held.tell(Told::Do(act));
        }
    }
    Ok(())
}

fn beat(site: &Site) -> WorkerBeat<'_> {
    let state = if *site.is_stopping.borrow() {
        WorkerState::Draining
    } else if site.vitals.is_paused() {
        WorkerState::Paused
    } else {
        WorkerState::Working
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    metrics::in_hand(site.registry.len(), site.busy(), site.waiting_for_licence.load(Ordering::Relaxed));
    let took = site.took();
    WorkerBeat {
        process: site.options.process,
        name: &site.options.name,
        capacity: number(site.options.capacity.get()),
        in_flight: number(site.registry.len()),
        state,
        farm: took.farm,
        copy: took.copy,
    }
}
