//! The outbox's snapshots belong to one server. After a restore into another server they mean nothing: then all unread
//! events become failed events, in order, and slots start again at a snapshot of this server.

use super::place::PlaceRows;
use crate::error::Result;
use crate::outbox::{EVENTS, OBJECT};
use crate::statement::stored;
use crate::store::Store;
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::outbox::cursor::Resting;
use tidemill_domain::outbox::restore::{KnownServer, RestoreState, ServerIdentity, check};
use tidemill_domain::outbox::{EventId, Place, Seq, Snapshot, Window};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checked {
    pub state: RestoreState,
    pub failed: u64,
}

stored! {
    /// The recorded server, and the id below which snapshots mean nothing.
    pub(crate) struct OutboxRow in ("tidemill_outbox", "floor_id") |row| {
        server: KnownServer => KnownServer {
            system_identifier: row.get("system_identifier")?,
            timeline: row.get("timeline")?,
        },
        pub(super) floor: EventId = "floor_id",
    }
}

impl Store {
    /// Compares the outbox's snapshots with the server, and repairs them after a restore. Call it before reading the
    /// outbox over a new connection; it costs a few short statements.
    #[crate::boxed]
    pub async fn check_outbox(&self) -> Result<Checked> {
        let mut tx = self.begin().await?;
        let state = tx.outbox().restore_state().await?;
        if state == RestoreState::Same {
            tx.rollback().await?;
            return Ok(Checked { state, failed: 0 });
        }
        let checked = tx.outbox().reconcile().await?;
        tx.commit().await?;
        Ok(checked)
    }
}

impl Outbox<'_> {
    /// Whether the outbox's snapshots are from this server.
    #[crate::boxed]
    pub async fn restore_state(&mut self) -> Result<RestoreState> {
        // Read the snapshots before the server: in the other order, a relay that advances meanwhile would look like a
        // restore.
        let places = self.places().await?;
        let known = self.outbox_row().await?.server;
        Ok(match self.server().await? {
            Some(server) => check(&known, &server, newest(&places)),
            None => RestoreState::Same,
        })
    }

    /// Records which server this is. If it differs from that of the snapshots, ends all relays, turns all unread events
    /// into failed events, and restarts all slots. Waits at most five seconds for transactions that write events
    /// ([`StoreError::Busy`] then).
    #[crate::boxed]
    pub async fn reconcile(&mut self) -> Result<Checked> {
        self.outbox_lock().await?;
        let state = self.restore_state().await?;
        let Some(server) = self.server().await? else {
            return Ok(Checked { state, failed: 0 });
        };
        let failed = match state {
            RestoreState::Same => return Ok(Checked { state, failed: 0 }),
            RestoreState::First => 0,
            RestoreState::NewTimeline => {
                self.audit().record(&entry("outbox.new_timeline", &server)).await?;
                0
            }
            RestoreState::Restored => {
                let failed = self.begin_anew().await?;
                let why = format!("{failed} events were not read before and have failed");
                self.audit().record(&entry("outbox.restored", &server).because(&why)).await?;
                self.wake(EVENTS);
                failed
            }
        };
        let now = self.now().await?;
        self.outbox_record_server(&server, now).await?;
        Ok(Checked { state, failed })
    }

    async fn begin_anew(&mut self) -> Result<u64> {
        self.outbox_lock_writers().await?;
        let now = self.now().await?;
        let places = self.places().await?;
        let floor = self.floor().await?;
        self.outbox_retire_all(now).await?;
        let unread = self.outbox_except_unread(&PlaceRows::new(&places, floor), now).await?;
        let floor = EventId::new(self.outbox_raise_floor(now).await?);
        // Nothing up to the floor is ever read.
        self.outbox_raise_numbers(floor.get()).await?;
        // Writers of events are locked out, so this snapshot shows all events.
        let Some(server) = self.server().await? else { return Ok(0) };
        let last: BTreeMap<i16, i64> = unread.iter().map(|(slot, seq, _)| (*slot, *seq)).collect();
        let restarted = |place: &Place| {
            let high = place.window.high.max(floor);
            let window = Window { high, ..Window::at(server.snapshot.clone()) };
            let seq = last.get(&i16::from(place.slot.get())).map_or(place.seq, |seq| Seq::new(*seq));
            (place.slot, Resting { window, seq })
        };
        self.outbox_rest(&places.iter().map(restarted).collect::<Vec<_>>()).await?;
        Ok(unread.iter().map(|(.., count)| u64::try_from(*count).unwrap_or(0)).sum())
    }
}

fn newest(places: &[Place]) -> Option<&Snapshot> {
    let snapshots = places.iter().map(|place| place.window.to.as_ref().unwrap_or(&place.window.from));
    snapshots.max_by_key(|snapshot| snapshot.xmax())
}

fn entry(action: &str, server: &ServerIdentity) -> AuditEntry {
    let system = server.system_identifier.as_deref().unwrap_or("unknown");
    AuditEntry {
        to: Some(format!("{system}/{}", server.timeline)),
        ..AuditEntry::new(Actor::system(), action, OBJECT)
    }
}
