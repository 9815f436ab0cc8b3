//! The outbox's snapshots belong to one server. After a restore into another server they mean nothing: then all unread
//! events become failed events, in order, and slots start again at a snapshot of this server.

use super::place::PlaceRows;
use crate::error::{Result, damaged};
use crate::outbox::{EVENTS, OBJECT};
use crate::statement::{One, statements, stored};
use crate::statements::outbox::relay::resting;
use crate::store::Store;
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::outbox::cursor::Resting;
use tidemill_domain::outbox::restore::{KnownServer, RestoreState, ServerIdentity, check};
use tidemill_domain::outbox::{EventId, Place, Seq, Slot, Snapshot, Window};
use tidemill_domain::time::Timestamp;

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
        // Snapshots before the server: otherwise a relay that advances meanwhile would look like a restore.
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

statements! {
    /// `None` on SQLite, whose snapshots stay valid wherever the file is. The system identifier may be hidden from the database user; check that first, because a refused statement would
    /// end the transaction.
    pub fn Outbox::server() -> Option<ServerIdentity> {
        postgres |connection| {
            let may_ask: bool = sqlx::query_scalar("select has_function_privilege('pg_control_system()', 'execute')")
                .fetch_one(&mut *connection)
                .await?;
            let system_identifier = match may_ask {
                true => {
                    sqlx::query_scalar("select system_identifier::text from pg_control_system()")
                        .fetch_one(&mut *connection)
                        .await?
                }
                false => None,
            };
            let (timeline, snapshot): (String, String) =
                sqlx::query_as("select left(pg_walfile_name(pg_current_wal_lsn()), 8), pg_current_snapshot()::text")
                    .fetch_one(connection)
                    .await?;
            let bad = |_| sqlx::Error::Decode(Box::new(damaged("pg_current_snapshot", "snapshot", &snapshot)));
            Ok(Some(ServerIdentity { system_identifier, timeline, snapshot: snapshot.parse().map_err(bad)? }))
        }
        sqlite { nothing }
    }

    fn outbox_row() -> One<OutboxRow> {
        "select system_identifier, timeline, floor_id from tidemill_outbox"
    }

    fn outbox_lock() -> () {
        postgres { "select from tidemill_outbox for update" }
        // The one writer excludes all others.
        sqlite { nothing }
    }

    /// Waits for writers of events and slots, and blocks others until the transaction ends.
    fn outbox_lock_writers() -> () {
        postgres |connection| {
            sqlx::raw_sql(
                "set local lock_timeout = '5s';
                 lock table outbox_event, tidemill_outbox_relay, tidemill_outbox_slot, tidemill_outbox_exception
                 in share row exclusive mode",
            )
            .execute(connection)
            .await
            .map(drop)
        }
        // The one writer excludes all others.
        sqlite { nothing }
    }

    fn outbox_record_server(server: &ServerIdentity, now: Timestamp) -> () {
        postgres {
            bind(&server.system_identifier, &server.timeline, now)
            "update tidemill_outbox
             set system_identifier = coalesce($1, system_identifier), timeline = $2, updated_at = $3"
        }
        sqlite { nothing }
    }

    fn outbox_retire_all(now: Timestamp) -> u64 {
        postgres { "update tidemill_outbox_relay set ended_at = $1 where ended_at is null" }
        sqlite { nothing }
    }

    /// Turns every unread event into a failed event: unread by the snapshots of the server that it was written on, or
    /// written here, after all that was ever read. By id; the first of its aggregate is due now. Returns the last
    /// sequence number and the count per slot.
    fn outbox_except_unread(places: &PlaceRows, now: Timestamp) -> Vec<(i16, i64, i64)> {
        postgres {
            bind(&places.json, places.floor, now)
            "with place as materialized (
                 select slot, seen::pg_snapshot as seen, paged::pg_snapshot as paged, last, high, seq
                 from json_to_recordset($1::text::json)
                     as given (slot smallint, seen text, paged text, last bigint, high bigint, seq bigint)
             ),
             unread as (
                 select e.id, e.slot, e.aggregate_type, e.aggregate_id, e.event_type,
                        p.seq + row_number() over (partition by e.slot order by e.id) as seq,
                        row_number() over (partition by e.slot, e.aggregate_type, e.aggregate_id order by e.id) as turn
                 from outbox_event e
                 join place p on p.slot = e.slot
                 where e.id > $2
                   and (
                       e.id > p.high
                       or not coalesce(
                           pg_visible_in_snapshot(e.xid, p.seen)
                           or (e.id <= p.last and pg_visible_in_snapshot(e.xid, p.paged)),
                           false
                       )
                   )
                   and not exists (select from tidemill_outbox_exception x where x.event_id = e.id)
             ),
             judged as (
                 select u.*,
                        u.turn = 1 and not exists (
                            select
                            from tidemill_outbox_exception x
                            where x.slot = u.slot
                              and x.aggregate_type = u.aggregate_type
                              and x.aggregate_id = u.aggregate_id
                              and x.state <> 'skipped'
                        ) as is_head
                 from unread u
             ),
             failed as (
                 insert into tidemill_outbox_exception (
                     event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, next_attempt_at, since, updated_at
                 )
                 select id, slot, seq, aggregate_type, aggregate_id, event_type,
                        case when is_head then 'waiting' else 'held' end, case when is_head then $3::timestamptz end, $3, $3
                 from judged
                 returning slot, seq
             )
             select slot, max(seq), count(*) from failed
             group by slot"
        }
        sqlite { nothing }
    }

    /// From here on, all existing events count as read or failed.
    fn outbox_raise_floor(now: Timestamp) -> One<i64> {
        postgres {
            "update tidemill_outbox
             set floor_id = greatest(floor_id, (select max(id) from outbox_event)), updated_at = $1
             returning floor_id"
        }
        sqlite { nothing }
    }

    /// Raises the sequence above this id, if the restore has left it behind. Writers are locked out.
    fn outbox_raise_numbers(floor: i64) -> () {
        postgres {
            "select setval(own.sequence, $1)
             from (select pg_get_serial_sequence('outbox_event', 'id')::regclass as sequence) as own
             where coalesce(pg_sequence_last_value(own.sequence), 0) < $1"
        }
        sqlite { nothing }
    }

    /// Frees slots at these positions.
    fn outbox_rest(slots: &[(Slot, Resting)]) -> () {
        postgres {
            bind(resting(slots))
            "update tidemill_outbox_slot as s
             set owner = null, since = null, place = given.place, seq = given.seq
             from {rows given $1: slot smallint, place text, seq bigint}
             where s.slot = given.slot"
        }
        sqlite { nothing }
    }
}
