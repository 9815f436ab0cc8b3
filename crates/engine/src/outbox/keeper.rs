//! The keeper of the outbox: makes partitions ahead, forgets what is old, that of the inbox too, and notices when the
//! database has become that of another server. One relay does it, that which has slot 0; more than one do no harm.
//!
//! A round takes some forty statements. Where nobody writes events there is nothing to do between two rounds but to get
//! older, so there a single statement looks whether that is still so.

use crate::error::EngineError;
use crate::service::Service;
use std::time::Duration;
use tidemill_domain::outbox::EventId;
use tidemill_store::outbox::{Checked, Extended, Retained};
use tidemill_store::{Store, StoreError};

/// After so many looks that found nothing new there is a round all the same: what was kept has become older.
const LOOKS_PER_ROUND: u32 = 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperOptions {
    pub partition_rows: i64,
    /// Empty partitions that lie ahead.
    pub partitions_ahead: usize,
    /// How long events are kept that were published.
    pub keep_for: Duration,
    /// How long consumers remember which messages they have seen.
    pub keep_seen_for: Duration,
    /// Partitions, and portions of events, that go in one round.
    pub most_per_round: usize,
    /// Pause between two rounds, or looks whether one is due.
    pub pause: Duration,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            partition_rows: 1_000_000,
            partitions_ahead: 2,
            keep_for: Duration::from_secs(7 * 24 * 3600),
            keep_seen_for: Duration::from_secs(30 * 24 * 3600),
            most_per_round: 10,
            pause: Duration::from_secs(30),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Whether snapshots are from this server, and what was done about it.
    pub checked: Checked,
    pub extended: Extended,
    pub retained: Retained,
    /// Messages of the inbox that were.
    pub unseen: u64,
}

impl Kept {
    /// Whether there is more to do, for which this round was too short or somebody was in the way.
    fn is_short(&self) -> bool {
        self.extended.is_short || self.retained.is_short
    }
}

pub(super) async fn run(store: Store, options: KeeperOptions) {
    let mut rest = Rest::default();
    let mut service = Service::new("keeping the outbox", options.pause);
    while service.is_due().await {
        match last_event(&store).await {
            Ok(last) if rest.goes_on(last) => {}
            // The id of before the round: what is written meanwhile is for the next one.
            last => rest = round(&store, &options, last).await,
        }
        // The round has told of its own failure, with the code by which people look for help.
        service.rest();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Rest {
    /// The last event when a round had left nothing to do.
    since: Option<EventId>,
    looks: u32,
}

impl Rest {
    /// Whether there is still nothing to do, now that this is the last event.
    fn goes_on(&mut self, last: EventId) -> bool {
        self.looks += 1;
        self.since == Some(last) && self.looks < LOOKS_PER_ROUND
    }
}

async fn round(store: &Store, options: &KeeperOptions, last: Result<EventId, StoreError>) -> Rest {
    match keep(store, options).await {
        Ok(kept) => Rest { since: last.ok().filter(|_| !kept.is_short()), looks: 0 },
        Err(error) => {
            let (code, fix) = (error.code(), error.fix());
            tracing::warn!(%code, %error, %fix, "the outbox could not be kept ({code}); will try again");
            Rest::default()
        }
    }
}

async fn last_event(store: &Store) -> Result<EventId, StoreError> {
    let mut tx = store.alone_reading().await?;
    let last = tx.outbox().last_event_id().await?;
    tx.commit().await?;
    Ok(last)
}

/// One round. What can be done is done also when another part fails; the first failure is returned.
#[crate::boxed]
pub async fn keep(store: &Store, options: &KeeperOptions) -> Result<Kept, EngineError> {
    let checked = store.check_outbox().await;
    let extended = store.extend_outbox(options.partition_rows, options.partitions_ahead).await;
    let retained = store.retain_outbox(options.keep_for, options.most_per_round).await;
    let unseen = store.retain_inbox(options.keep_seen_for, options.most_per_round).await;
    let kept = Kept { checked: checked?, extended: extended?, retained: retained?, unseen: unseen? };
    if kept.checked.failed > 0 {
        tracing::warn!(
            failed = kept.checked.failed,
            "the outbox was restored into another server; {} events that were not read have failed",
            kept.checked.failed
        );
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_lasts_while_nobody_writes_and_not_for_ever() {
        let (known, next) = (EventId::new(7), EventId::new(8));
        let rest = Rest { since: Some(known), looks: 0 };

        assert!(!rest.clone().goes_on(next));
        assert!(!Rest::default().goes_on(known), "without a round, or after one that was too short");
        let mut long = rest;
        let looks = (0..100).take_while(|_| long.goes_on(known)).count();
        assert_eq!(looks, 9);
    }
}
