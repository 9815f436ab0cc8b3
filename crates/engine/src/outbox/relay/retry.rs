//! Retries of refused events, and of those held after them.

use super::{EndReason, Member, warn};
use crate::outbox::Outcome;
use crate::{jitter_unit, metrics};
use tidemill_domain::outbox::failed_event::after_refusal;
use tidemill_domain::outbox::{EventId, Record, Slot};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::failed_event::{Due, DueEvent, Settled, SettledAs};
use tidemill_store::{StoreError, crash_point};
use tokio::sync::watch;

const HEADS_MAX: u32 = 100;

/// After this many rounds, new events have their turn again.
const ROUNDS_MAX: u32 = 20;

impl Member<'_> {
    /// Publishes due events. If the sink is down, that counts as no attempt.
    pub(super) async fn publish_due(&mut self, stop: &watch::Receiver<bool>) -> Result<(), EndReason> {
        for _ in 0..ROUNDS_MAX {
            if *stop.borrow() {
                return Ok(());
            }
            let (due, now) = match self.due().await {
                Ok(found) => found,
                Err(error) => {
                    warn(&error, "events that are due could not be read");
                    return Ok(());
                }
            };
            if due.events.is_empty() && due.unpublishable.is_empty() {
                return Ok(());
            }
            let records: Vec<_> = due.events.iter().map(|event| self.record_again(event)).collect();
            let outcomes = self.while_alive(self.send(&self.relay.publisher, &records)).await?;
            crash_point!("outbox_tried_again");
            let mut settled = due.unpublishable;
            let mut is_sink_down = false;
            for (event, outcome) in due.events.iter().zip(outcomes) {
                let what = match outcome {
                    Outcome::Delivered => SettledAs::Delivered,
                    Outcome::Refused { why, is_permanent } => {
                        metrics::outbox_refused().increment(1);
                        let retry = &self.relay.options.retry;
                        let state = after_refusal(event.attempts, is_permanent, retry, now, jitter_unit());
                        SettledAs::Refused { state, error: why }
                    }
                    Outcome::Held => continue,
                    Outcome::Unavailable { why } => {
                        if !is_sink_down {
                            metrics::outbox_sink_failures().increment(1);
                            self.relay.warn_of_sink("events", &why);
                        }
                        is_sink_down = true;
                        continue;
                    }
                };
                settled.push(Settled { event_id: event.id, revision: event.revision, what });
            }
            self.settle_due(&settled).await?;
            self.check_ousted()?;
            if is_sink_down {
                return if self.relay.publisher.is_gone() { Err(EndReason::SinkGone) } else { Ok(()) };
            }
        }
        // There is more.
        self.look_at = self.now();
        Ok(())
    }

    async fn due(&self) -> Result<(Due, Timestamp), StoreError> {
        let slots: Vec<Slot> = self.epochs.keys().copied().collect();
        self.counters.queried(4);
        self.in_time(async {
            let mut tx = self.relay.store.read().await?;
            let now = tx.now().await?;
            let due = tx.outbox().due(&slots, now, HEADS_MAX, self.relay.options.batch.get()).await?;
            tx.commit().await?;
            Ok((due, now))
        })
        .await
    }

    /// Under the fence.
    async fn settle_due(&mut self, settled: &[Settled]) -> Result<(), EndReason> {
        let is_delivered = |one: &&Settled| one.what == SettledAs::Delivered;
        let events: Vec<EventId> = settled.iter().filter(is_delivered).map(|one| one.event_id).collect();
        let delivered = events.len();
        self.counters.queried(10);
        let settling = self.change(delivered, async |tx| {
            let now = tx.now().await?;
            tx.outbox().settle(settled, now).await
        });
        match settling.await? {
            Ok(settling) => {
                metrics::outbox_published().increment(delivered as u64);
                self.relay.publisher.settled(&events);
                for (_, aggregate) in settling.unblocked {
                    self.blocked.remove(&aggregate);
                }
                Ok(())
            }
            Err(error) => {
                warn(&error, "events that were tried again could not be settled");
                self.groups.doubted.extend(events);
                // Reloading tells whether it was committed.
                self.reload().await
            }
        }
    }

    fn record_again(&self, event: &DueEvent) -> Record {
        Record {
            id: event.id,
            table: None,
            slot: event.slot,
            epoch: self.epoch(event.slot),
            seq: event.seq,
            aggregate: event.aggregate.clone(),
            event_type: event.event_type.clone(),
            topic: event.topic.clone(),
            is_redirected: event.is_redirected,
            headers: event.headers.clone(),
            payload: event.payload.clone(),
            created_at: event.created_at,
        }
    }
}
