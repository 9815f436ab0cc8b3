//! The slots of a relay: its share, and what silent relays have left.

use super::{EndReason, Member, warn};
use crate::outbox::relay::batch::Batch;
use crate::{metrics, transact};
use std::collections::BTreeSet;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::share::plan;
use tidemill_store::StoreError;
use tidemill_store::outbox::relay::View;

impl Member<'_> {
    pub(super) fn epoch(&self, slot: Slot) -> Epoch {
        self.epochs.get(&slot).copied().unwrap_or(Epoch::ZERO)
    }

    /// Retires silent relays. Returns whether there was one.
    pub(super) async fn retire(&mut self) -> bool {
        let retiring = transact(&self.relay.store, async |tx| tx.outbox().retire_relays().await);
        match self.in_time(retiring).await {
            Ok(retired) => {
                for id in &retired.relays {
                    metrics::outbox_relays_retired().increment(1);
                    tracing::warn!(relay.id = %id, "relay {id} was silent for too long; its slots are free");
                }
                for (id, error) in &retired.damaged {
                    // Once, not with every look.
                    if self.damaged.insert(*id) {
                        let (code, fix) = (error.code(), error.fix());
                        tracing::error!(relay.id = %id, "{code}: {error}; {fix}");
                    }
                }
                !retired.relays.is_empty()
            }
            Err(error) => {
                warn(&error, "silent relays could not be retired");
                false
            }
        }
    }

    /// Takes free slots up to its share, and releases those above it. Nothing is in flight; events read ahead for
    /// released slots are dropped.
    pub(super) async fn share(&mut self, view: &View, ahead: &mut Option<Batch>) -> Result<(), EndReason> {
        let mine: BTreeSet<Slot> = self.epochs.keys().copied().collect();
        let free: BTreeSet<Slot> = view.free.iter().copied().collect();
        let plan = plan(self.id, &view.live, &mine, &free);
        if !plan.release.is_empty() {
            if let Some(batch) = ahead {
                batch.forget(&plan.release);
            }
            if let Err(error) = self.leave(&plan.release).await? {
                warn(&error, "slots could not be left");
                *ahead = None;
                self.reload().await?;
            }
        }
        if !plan.take.is_empty()
            && let Err(error) = self.take(&plan.take).await?
        {
            warn(&error, "slots could not be taken");
            *ahead = None;
            self.reload().await?;
        }
        metrics::outbox_slots().set(self.epochs.len() as f64);
        Ok(())
    }

    async fn take(&mut self, slots: &[Slot]) -> Result<Result<(), StoreError>, EndReason> {
        let sent = self.now();
        let taking = self.in_time(async {
            let mut tx = self.relay.store.begin().await?;
            let (cursors, unit) = (self.cursors.clone(), self.relay.unit);
            let taken = tx.outbox().take_slots(self.fence(), cursors, slots, unit).await?;
            let Some(taken) = taken else { return Ok(None) };
            let slots: Vec<Slot> = taken.epochs.iter().map(|(slot, _)| *slot).collect();
            let blocked = tx.outbox().blocked(&slots).await?;
            tx.commit().await?;
            Ok(Some((taken, blocked)))
        });
        let taken = taking.await;
        Ok(self.acknowledged(sent, taken)?.map(|(taken, blocked)| {
            self.cursors = taken.cursors;
            self.epochs.extend(taken.epochs);
            self.blocked.extend(blocked.into_iter().map(|(_, aggregate)| aggregate));
            self.is_idle = false;
        }))
    }

    async fn leave(&mut self, slots: &[Slot]) -> Result<Result<(), StoreError>, EndReason> {
        let sent = self.now();
        let leaving = self.in_time(async {
            let mut tx = self.relay.store.begin().await?;
            let kept = tx.outbox().leave_slots(self.fence(), self.cursors.clone(), slots).await?;
            let Some(kept) = kept else { return Ok(None) };
            tx.commit().await?;
            Ok(Some(kept))
        });
        let kept = leaving.await;
        Ok(self.acknowledged(sent, kept)?.map(|kept| {
            self.cursors = kept;
            self.epochs.retain(|slot, _| !slots.contains(slot));
            self.blocked.retain(|aggregate| !slots.contains(&aggregate.slot()));
        }))
    }
}
