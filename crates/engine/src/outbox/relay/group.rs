//! The groups of a relay whose sink has transactions: the sink takes and releases them together with their slots.

use super::{EndReason, Member, warn};
use crate::outbox::NotTaken;
use std::collections::BTreeSet;
use tidemill_domain::outbox::{EventId, Group, Unit};

#[derive(Debug, Default)]
pub(super) struct Groups {
    held: BTreeSet<Group>,
    /// Events of receipts that the database may not know to be published.
    pub(super) doubted: Vec<EventId>,
}

impl Member<'_> {
    /// Lets the sink take the groups of this relay, and release others. Groups that it cannot take now are retried with
    /// the next look; until then none of their events are sent.
    pub(super) async fn hold_groups(&mut self) -> Result<(), EndReason> {
        if self.relay.unit == Unit::Slot {
            return Ok(());
        }
        let mine: BTreeSet<Group> = self.epochs.keys().map(|slot| Group::of(*slot)).collect();
        let left: Vec<Group> = self.groups.held.difference(&mine).copied().collect();
        if !left.is_empty() {
            self.relay.publisher.leave(&left);
            self.groups.held.retain(|group| mine.contains(group));
        }
        let wanted: Vec<Group> = mine.difference(&self.groups.held).copied().collect();
        if !wanted.is_empty() {
            self.take_groups(&wanted).await?;
        }
        self.clear_doubts().await;
        Ok(())
    }

    async fn take_groups(&mut self, wanted: &[Group]) -> Result<(), EndReason> {
        let asking = self.in_time(async {
            let mut tx = self.relay.store.read().await?;
            let server = tx.outbox().server().await?;
            tx.commit().await?;
            Ok(server)
        });
        // Identifies this database.
        let system = match asking.await {
            Ok(server) => server.and_then(|server| server.system_identifier),
            Err(error) => {
                warn(&error, "the relay could not ask which database this is");
                return Ok(());
            }
        };
        let taking = self.relay.publisher.take(wanted, system.as_deref(), &self.guard);
        let taken = self.while_alive(taking).await?;
        let mut why_not = None;
        for (group, taken) in wanted.iter().zip(taken) {
            match taken {
                Ok(events) => {
                    self.groups.held.insert(*group);
                    self.groups.doubted.extend(events);
                }
                Err(NotTaken::Unavailable { why }) => why_not = why_not.or(Some(why)),
                Err(NotTaken::Refused(refusal)) => {
                    self.refusal = Some(refusal);
                    return Err(EndReason::Refused);
                }
            }
        }
        if let Some(why) = why_not {
            self.relay.warn_of_sink("groups", &why);
        }
        Ok(())
    }

    /// Tells the sink which doubted events the database knows to be published. Until then receipts keep naming them.
    async fn clear_doubts(&mut self) {
        if self.groups.doubted.is_empty() {
            return;
        }
        let doubted = &self.groups.doubted;
        let asked = self.in_time(async {
            let mut tx = self.relay.store.read().await?;
            let unsettled = tx.outbox().unsettled(doubted, &self.cursors).await?;
            tx.commit().await?;
            Ok(unsettled)
        });
        match asked.await {
            Ok(unsettled) => {
                let settled = self.groups.doubted.drain(..).filter(|id| !unsettled.contains(id));
                self.relay.publisher.settled(&settled.collect::<Vec<_>>());
            }
            Err(error) => warn(&error, "the relay could not ask what was published"),
        }
    }

    pub(super) fn check_ousted(&self) -> Result<(), EndReason> {
        if self.relay.publisher.is_ousted() { Err(EndReason::Ousted) } else { Ok(()) }
    }
}
