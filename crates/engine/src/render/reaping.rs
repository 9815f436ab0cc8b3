//! What vanished workers leave behind: their renders go to others, their jobs out of the farm, their parts off the NAS.

use super::site::Site;
use super::{leftover, metrics, tell};
use crate::clock::jittered;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::{Status, Uid};
use tidemill_store::StoreError;
use tidemill_store::render::{RENDER_LEFTOVER, Reaped, Worked};

/// Renders that are taken from vanished workers in one turn; more wait for the next.
const PER_TURN: u32 = 200;

/// How often parts are looked for that nobody writes any more.
const PARTS_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How old such a part is.
const PARTS_AGE: Duration = Duration::from_secs(24 * 3600);

/// Pause before parts are looked for again after that failed.
const PARTS_PAUSE_FAILED: Duration = Duration::from_secs(600);

/// Looks for renders whose worker has vanished, for as long as it is let.
pub(super) async fn run(site: Arc<Site>) {
    loop {
        if let Err(error) = reap(&site).await {
            tracing::warn!(%error, "looking for renders of vanished workers failed; will try again");
        }
        tokio::time::sleep(jittered(site.options.reap_pause)).await;
    }
}

async fn reap(site: &Site) -> Result<(), StoreError> {
    let mut tx = site.store.begin().await?;
    let reaped = tx.reap_renders(PER_TURN, &site.options.policy).await?;
    tx.commit().await?;
    site.vitals.database_answered(site.now());
    for Reaped { owner, decision, record } in reaped {
        let id = record.id();
        let owner = owner.map(|owner| owner.to_string()).unwrap_or_default();
        metrics::recovered();
        tracing::warn!(render.id = %id, process.id = owner, "the worker of render {id} has vanished");
        if let Some(licence) = &site.options.licence {
            // Whoever goes on with it asks for its own.
            licence.leave(Uid::new(id, record.render.lease.epoch())).await;
        }
        let is_waiting = record.render.status == Status::Pending;
        tell::decided(site, None, &Worked { decision, record });
        if is_waiting {
            site.look_again.notify_one();
        }
    }
    Ok(())
}

/// Takes jobs out of the farm that nobody needs, for as long as it is let.
pub(super) async fn sweep_jobs(site: Arc<Site>) {
    let mut left = site.store.wakeup(RENDER_LEFTOVER);
    loop {
        match leftover::sweep(&site).await {
            Ok(0) => {}
            Ok(gone) => tracing::debug!(gone, "{gone} jobs were taken out of nexrender"),
            Err(error) => {
                tracing::warn!(%error, "looking for jobs that nobody needs failed; will try again");
            }
        }
        left.wait(jittered(site.options.reap_pause)).await;
    }
}

/// Removes parts from the NAS that nobody writes any more, for as long as it is let.
pub(super) async fn sweep_parts(site: Arc<Site>) {
    loop {
        let pause = match site.shelf.sweep(PARTS_AGE).await {
            Ok(removed) => {
                if removed > 0 {
                    tracing::info!(removed, "{removed} old parts of files were removed from the NAS");
                }
                PARTS_PAUSE
            }
            Err(trouble) => {
                tracing::warn!("old parts of files could not be removed from the NAS: {}", trouble.message);
                PARTS_PAUSE_FAILED
            }
        };
        tokio::time::sleep(jittered(pause)).await;
    }
}
