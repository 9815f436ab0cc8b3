//! Statements on the server that snapshots are from, and on repairs after a restore.

use super::relay::resting;
use crate::error::damaged;
use crate::outbox::place::PlaceRows;
use crate::outbox::restore::OutboxRow;
use crate::statement::{One, statements};
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::cursor::Resting;
use tidemill_domain::outbox::restore::ServerIdentity;
use tidemill_domain::time::Timestamp;

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
        postgres {
            "select from tidemill_outbox for update"
        }
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
        postgres {
            "update tidemill_outbox_relay set ended_at = $1 where ended_at is null"
        }
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
