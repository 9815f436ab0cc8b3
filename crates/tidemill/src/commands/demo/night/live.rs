//! A night on the pools that the dashboard shows: a tenth of the batches, in a tenth of the connections, 720 times as fast.
//! Batches wait in the queue until it is their turn.

use super::workload::{self, Batch};
use super::{DATABASES, unexpected};
use crate::report::Failure;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Answer, Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_engine::pool::{Ask, AskPart, PoolError, Pools};
use tidemill_store::Store;
use tokio::task::JoinSet;

const SHARE: u32 = 10;
const BATCHES: usize = 120;
const SPEED: u32 = 720;

/// How long a batch stays for an answer before it asks again.
const WAIT: Duration = Duration::from_secs(5);

pub(in crate::commands::demo) async fn create_pools(store: &Store) -> Result<(), Failure> {
    for (name, id, max_units, threshold_percent) in DATABASES {
        let mut settings = Settings::new(name.parse().map_err(unexpected)?, max_units / SHARE);
        settings.external_id = Some(id);
        settings.threshold_percent = threshold_percent;
        let mut tx = store.begin().await?;
        tx.pools().create(&settings, &Actor::system()).await?;
        tx.commit().await?;
    }
    Ok(())
}

/// Plays one night; each is another one.
pub(in crate::commands::demo) async fn play(pools: &Pools, round: u32) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for batch in workload::night(round.into()).into_iter().take(BATCHES) {
        let pool: PoolName = batch.database.parse().map_err(unexpected)?;
        let holder = Holder::run(&batch.dag_id, &format!("night-{round}")).map_err(unexpected)?;
        running.spawn(run(pools.clone(), pool, holder, batch));
    }
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(ended) => ended.map_err(unexpected)?,
            Err(error) => return Err(unexpected(error)),
        }
    }
    Ok(())
}

/// A batch: it comes, waits, works and gives back.
async fn run(pools: Pools, pool: PoolName, holder: Holder, batch: Batch) -> Result<(), PoolError> {
    tokio::time::sleep(batch.arrives / SPEED).await;
    let part = AskPart::new(pool.clone(), Some(batch.parallel));
    let ask = Ask { table: batch.table.clone(), ..Ask::new(holder.clone(), part) };
    let granted = loop {
        match pools.acquire(&ask, WAIT).await? {
            Answer::Admitted { parts, .. } => break parts.first().and_then(|part| part.ticket.granted),
            Answer::Waits(_) => {}
            other => {
                tracing::warn!(?other, "{} is not admitted", batch.dag_id);
                return Ok(());
            }
        }
    };
    tokio::time::sleep(batch.takes(granted.unwrap_or(NonZeroU32::MIN)) / SPEED).await;
    let end = End::Released { failed: false };
    pools.release(Release { pool, by: ReleaseBy::Holder(holder), epoch: None, end, call: None }).await?;
    Ok(())
}
