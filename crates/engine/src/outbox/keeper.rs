//! Maintenance of the outbox: creates partitions ahead, deletes old events and inbox entries, and notices when the
//! database was restored into another server. The relay that has slot 0 does it; more than one do no harm.
//!
//! A round takes about forty statements. While no events are written, a single statement checks whether a round is
//! needed.

use crate::{EngineError, Service};
use std::time::Duration;
use tidemill_domain::outbox::EventId;
use tidemill_domain::words::plural;
use tidemill_store::outbox::{Checked, Extended, Retained};
use tidemill_store::{Store, StoreError};

/// After this many checks that found nothing new there is a round anyway, because events have aged.
const LOOKS_PER_ROUND: u32 = 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeeperOptions {
    pub partition_rows: i64,
    /// Number of empty partitions ahead.
    pub partitions_ahead: usize,
    /// Retention of published events.
    pub keep_for: Duration,
    /// Retention of the inbox, by which consumers recognize repeated messages.
    pub keep_seen_for: Duration,
    /// Partitions, and portions of events, deleted in one round.
    pub most_per_round: usize,
    /// Pause between two rounds or checks.
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
    /// Deleted inbox entries.
    pub unseen: u64,
}

impl Kept {
    /// Whether more is left to do.
    fn is_short(&self) -> bool {
        self.extended.is_short || self.retained.is_short
    }
}

pub(super) async fn run(store: Store, options: KeeperOptions) {
    let mut rest = Rest::default();
    let mut service = Service::new("keeping the outbox", options.pause);
    while service.is_due().await {
        let last = last_event(&store).await;
        if !last.as_ref().is_ok_and(|last| rest.goes_on(*last)) {
            rest = match keep(&store, &options).await {
                // The id from before the round: later events are for the next one.
                Ok(kept) => Rest { since: last.ok().filter(|_| !kept.is_short()), looks: 0 },
                Err(error) => {
                    let (code, fix) = (error.code(), error.fix());
                    tracing::warn!(%code, %error, %fix, "the outbox could not be kept ({code}); will try again");
                    Rest::default()
                }
            };
        }
        // The failure of a round was logged above, with the error code.
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
    fn goes_on(&mut self, last: EventId) -> bool {
        self.looks += 1;
        self.since == Some(last) && self.looks < LOOKS_PER_ROUND
    }
}

async fn last_event(store: &Store) -> Result<EventId, StoreError> {
    let mut tx = store.alone_reading().await?;
    let last = tx.outbox().last_event_id().await?;
    tx.commit().await?;
    Ok(last)
}

/// One round. All parts are tried even if one fails; the first error is returned.
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
            "the outbox was restored into another server; {} not read before and failed",
            plural(kept.checked.failed, "event was", "events were")
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
