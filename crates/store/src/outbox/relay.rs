//! Relays: joining, renewing the lease, taking and leaving slots, and acknowledgements.
//!
//! The row of a relay is both its lease and its position: everything it settles updates that row, which fails once the
//! relay was retired. So there is one fence for all its slots.

use super::attached::row::named;
use super::detail::RelayRow;
use super::{SLOTS, own_slot};
use crate::codec::DbTime;
use crate::crash_point;
use crate::error::{Result, StoreError, damaged};
use crate::tx::Outbox;
use std::collections::BTreeSet;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::attached::AttachedTable;
use tidemill_domain::outbox::cursor::{self, Cursor, Resting};
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::snapshot::Snapshot;
use tidemill_domain::outbox::{
    Effort, EventId, Instance, JoinRefusal, LiveRelay, Place, RelayId, Slot, Unit, admit,
};
use tidemill_domain::process::{Identity, ProcessId};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Debug)]
pub struct Joining<'a> {
    /// Must be new.
    pub id: RelayId,
    pub process: ProcessId,
    pub identity: &'a Identity,
    /// A sink with transactions says so by its name.
    pub sink: &'a str,
    /// Its fixed share, if it has one.
    pub instance: Option<Instance>,
    pub lease: Duration,
}

/// What a relay sees in one look.
#[derive(Clone, Debug)]
pub struct View {
    /// Its own acknowledgements so far.
    pub acks: i64,
    pub snapshot: Snapshot,
    /// The server's history; `None` on SQLite.
    pub timeline: Option<String>,
    /// After a restore: events up to here are not read by snapshots.
    pub floor: EventId,
    /// Relays with a valid lease, itself included.
    pub live: Vec<LiveRelay>,
    /// Whether another relay's lease has passed, so that it has to be retired.
    pub has_lapsed: bool,
    pub free: Vec<Slot>,
    /// In the slots it asked for.
    pub has_events: bool,
    /// Whether a failed event of these slots is due.
    pub is_due: bool,
    /// Whether rows are due there is a separate question.
    pub attached: Vec<AttachedTable>,
}

/// The relay's row as the relay knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayFence<'a> {
    pub id: RelayId,
    /// Acknowledgements written; another number means that the row has changed.
    pub acks: i64,
    /// The lease's duration from the next acknowledgement on.
    pub lease: Duration,
    /// The server history of its snapshots, if known. After a fail-over, numbers may belong to other transactions.
    pub timeline: Option<&'a str>,
    /// Its statements since it joined. Saved with every write.
    pub effort: Effort,
}

#[derive(Clone, Debug)]
pub struct Looking<'a> {
    pub fence: RelayFence<'a>,
    /// The snapshot up to which its slots were read.
    pub from: &'a Snapshot,
    pub slots: &'a [Slot],
    /// Positions to save, if any; this counts as an acknowledgement.
    pub cursors: Option<&'a [Cursor]>,
}

#[derive(Clone, Debug)]
pub struct ClaimedSlots {
    /// All cursors, the new slots included.
    pub cursors: Vec<Cursor>,
    pub epochs: Vec<(Slot, Epoch)>,
}

/// Relays that were silent for too long.
#[derive(Debug, Default)]
pub struct Retired {
    pub relays: Vec<RelayId>,
    /// Relays that could not be ended, and why.
    pub damaged: Vec<(RelayId, StoreError)>,
}

impl Outbox<'_> {
    /// Adds a relay that fits the others. Commit either way: it also shortens leases after the clock has gone back.
    #[crate::boxed]
    pub async fn join(&mut self, joining: &Joining<'_>) -> Result<Result<(), JoinRefusal>> {
        // One at a time, so that two newcomers see each other.
        self.outbox_lock().await?;
        // The only relay may have died before the clock went back, and then no other process shortens its lease.
        self.leases().shorten_leases().await?;
        let now = self.now().await?;
        let live = self.live_relays_at(now).await?;
        if let Err(refusal) = admit(joining.instance, transactional_id(joining.sink), &live) {
            return Ok(Err(refusal));
        }
        self.outbox_relay_insert(joining, now, now.plus(joining.lease)).await?;
        self.outbox_relay_joined(joining.id).await?;
        self.wake(SLOTS);
        Ok(Ok(()))
    }

    /// Oldest first.
    pub async fn live_relays(&mut self) -> Result<Vec<LiveRelay>> {
        let now = self.now().await?;
        self.live_relays_at(now).await
    }

    async fn live_relays_at(&mut self, now: Timestamp) -> Result<Vec<LiveRelay>> {
        live(self.outbox_relay_list().await?, now)
    }

    /// Renews the lease and looks for work; `None` if the relay has ended, its row has changed, or the server has crashed.
    #[crate::boxed]
    pub async fn look_around(&mut self, looking: &Looking<'_>) -> Result<Option<View>> {
        let now = self.fake_now();
        let cursors = looking.cursors.map(cursors_text).transpose()?;
        let row = self.outbox_look(looking, cursors.as_deref(), now).await?;
        let Some(acks) = row.acks else { return Ok(None) };
        let now = Timestamp::from(row.now);
        let snapshot = row.snapshot.parse().map_err(|_| damaged("outbox_event", "xid", &row.snapshot))?;
        let relays: Vec<RelayRow> = serde_json::from_str(&row.relays)
            .map_err(|_| damaged("tidemill_outbox_relay", "name", "of a look"))?;
        let free: Vec<i16> = serde_json::from_str(&row.free)
            .map_err(|_| damaged("tidemill_outbox_slot", "slot", "of a look"))?;
        let has_lapsed = relays.iter().any(|relay| !relay.is_live(now));
        Ok(Some(View {
            acks,
            snapshot,
            timeline: row.timeline,
            floor: EventId::new(row.floor_id),
            live: live(relays, now)?,
            has_lapsed,
            free: free.into_iter().map(own_slot).collect::<Result<_, _>>()?,
            has_events: row.has_events,
            is_due: row.is_due,
            attached: named(&row.attached)?,
        }))
    }

    /// Its acknowledgements, the positions of its slots, and their epochs. `None` if it has ended.
    #[crate::boxed]
    pub async fn relay_position(
        &mut self,
        id: RelayId,
    ) -> Result<Option<(i64, Vec<Cursor>, Vec<(Slot, Epoch)>)>> {
        let Some(row) = self.outbox_relay_position(id).await? else { return Ok(None) };
        let epochs = self.outbox_slot_epochs(id).await?;
        let epochs = epochs
            .into_iter()
            .map(|(slot, epoch)| Ok((own_slot(slot)?, Epoch::new(epoch))))
            .collect::<Result<Vec<_>>>()?;
        Ok(Some((row.0, cursors_of(&row.1, id)?, epochs)))
    }

    /// [`relay_position`](Self::relay_position) with a lock: waits for a change that is under way.
    pub async fn lock_relay_position(
        &mut self,
        id: RelayId,
    ) -> Result<Option<(i64, Vec<Cursor>, Vec<(Slot, Epoch)>)>> {
        match self.outbox_relay_lock(id).await? {
            Some(_) => self.relay_position(id).await,
            None => Ok(None),
        }
    }

    /// Takes free slots of these, in whole units; `None` if the relay has ended: roll back.
    pub async fn take_slots(
        &mut self,
        fence: RelayFence<'_>,
        cursors: Vec<Cursor>,
        wanted: &[Slot],
        unit: Unit,
    ) -> Result<Option<ClaimedSlots>> {
        // Everyone locks relays before slots. PostgreSQL keeps the lock of a slot that turns out to be taken, so
        // waiting for our own row afterwards could deadlock with a process that retires both.
        if self.outbox_relay_lock(fence.id).await?.is_none() {
            return Ok(None);
        }
        let rows = self.outbox_slot_lock_free(wanted).await?;
        let locked: BTreeSet<Slot> = rows.iter().map(|place| place.slot).collect();
        // Other relays may have taken a part of a unit.
        let whole = unit.whole(&locked);
        let mut resting = Vec::with_capacity(rows.len());
        let mut epochs = Vec::with_capacity(rows.len());
        for Place { slot, epoch, window, seq, .. } in rows {
            if !whole.contains(&slot) {
                continue;
            }
            resting.push((slot, Resting { window, seq }));
            epochs.push((slot, epoch.next()));
        }
        let cursors = cursor::with_taken(cursors, resting);
        if !self.acknowledge(fence, &cursors, 0).await? {
            return Ok(None);
        }
        let slots: Vec<Slot> = epochs.iter().map(|(slot, _)| *slot).collect();
        let now = self.now().await?;
        self.outbox_slot_take(fence.id, &slots, now).await?;
        crash_point!("outbox_slots_taken");
        Ok(Some(ClaimedSlots { cursors, epochs }))
    }

    /// Leaves slots at their position; `None` if the relay has ended: roll back.
    pub async fn leave_slots(
        &mut self,
        fence: RelayFence<'_>,
        cursors: Vec<Cursor>,
        leaving: &[Slot],
    ) -> Result<Option<Vec<Cursor>>> {
        let (kept, left) = cursor::without(cursors, leaving);
        if !self.acknowledge(fence, &kept, 0).await? {
            return Ok(None);
        }
        self.outbox_slot_leave(fence.id, &left).await?;
        self.wake(SLOTS);
        crash_point!("outbox_slots_left");
        Ok(Some(kept))
    }

    /// Saves how far the relay's slots are published, which also renews its lease. False if it has ended or its row has
    /// changed: then nothing was written.
    pub async fn acknowledge(
        &mut self,
        fence: RelayFence<'_>,
        cursors: &[Cursor],
        published: u64,
    ) -> Result<bool> {
        let now = self.fake_now();
        let published = i64::try_from(published).unwrap_or(i64::MAX);
        let done = self.outbox_relay_acknowledge(fence, &cursors_text(cursors)?, published, now).await?;
        Ok(done == 1)
    }

    /// Ends a relay and frees its slots at their position. False if it had ended already.
    pub async fn leave(&mut self, id: RelayId) -> Result<bool> {
        let now = self.now().await?;
        let Some((_, cursors)) = self.outbox_relay_lock(id).await? else { return Ok(false) };
        self.end_relay(id, cursors_of(&cursors, id)?, now).await?;
        Ok(true)
    }

    /// Ends relays whose lease has passed, and frees their slots. Damaged rows are left to an operator.
    #[crate::boxed]
    pub async fn retire_relays(&mut self) -> Result<Retired> {
        let now = self.now().await?;
        let rows = self.outbox_relay_lock_lapsed(now).await?;
        let mut retired = Retired::default();
        for (id, cursors) in rows {
            let id = RelayId::from(id);
            match cursors_of(&cursors, id) {
                Ok(cursors) => {
                    self.end_relay(id, cursors, now).await?;
                    retired.relays.push(id);
                }
                Err(error) => retired.damaged.push((id, error)),
            }
        }
        Ok(retired)
    }

    /// Its row is locked, so it cannot acknowledge meanwhile.
    pub(crate) async fn end_relay(
        &mut self,
        id: RelayId,
        cursors: Vec<Cursor>,
        now: Timestamp,
    ) -> Result<()> {
        let slots: Vec<Slot> = cursors.iter().flat_map(|cursor| cursor.slots.keys().copied()).collect();
        let (_, left) = cursor::without(cursors, &slots);
        self.outbox_slot_leave(id, &left).await?;
        self.outbox_slot_free(id).await?;
        self.outbox_relay_end(id, now).await?;
        self.wake(SLOTS);
        crash_point!("outbox_relay_ended");
        Ok(())
    }
}

crate::statement::row! {
    /// One row, so lists are JSON.
    pub(crate) struct LookRow {
        acks: Option<i64>,
        now: DbTime,
        snapshot: String,
        timeline: Option<String>,
        floor_id: i64,
        relays: String,
        free: String,
        has_events: bool,
        is_due: bool,
        attached: String,
    }
}

fn live(rows: Vec<RelayRow>, now: Timestamp) -> Result<Vec<LiveRelay>> {
    rows.into_iter().filter(|row| row.is_live(now)).map(LiveRelay::try_from).collect()
}

pub(super) fn cursors_of(text: &str, relay: RelayId) -> Result<Vec<Cursor>> {
    serde_json::from_str(text).map_err(|_| StoreError::DamagedRelay { relay })
}

fn cursors_text(cursors: &[Cursor]) -> Result<String> {
    serde_json::to_string(cursors).map_err(|_| damaged("tidemill_outbox_relay", "cursors", "to be written"))
}
