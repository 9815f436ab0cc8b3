//! Statements on `tidemill_outbox_exception`, many rows at a time.
//!
//! Lock order: row of the relay, then failed events of slots by slot number.

use crate::outbox::failed_event::due::DueRow;
use crate::outbox::failed_event::{AggregateRow, KnownFailedEvent, NewFailedEvent};
use crate::statement::{Rows, column, rows, statements};
use crate::statements::outbox::reading::Most;
use serde_json::json;
use tidemill_domain::outbox::failed_event::{FailedEvent, FailedEventState};
use tidemill_domain::outbox::{Aggregate, Slot};
use tidemill_domain::time::Timestamp;

/// Our key among the advisory locks: "exce".
const LOCK: i32 = 0x6578_6365;

/// Applies if the revision is still `seen`. Without an error the last one stays.
pub(crate) struct FailedEventChange {
    pub(crate) event_id: i64,
    pub(crate) seen: i64,
    pub(crate) after: FailedEvent,
    pub(crate) error: Option<String>,
}

/// In microseconds.
fn next_attempt_at(state: FailedEventState) -> Option<i64> {
    match state {
        FailedEventState::Waiting { next_attempt_at } => Some(next_attempt_at.as_micros()),
        FailedEventState::Held | FailedEventState::Parked | FailedEventState::Skipped => None,
    }
}

statements! {
    /// Locks the failed events of slots until the end of the transaction. Row locks would not do: an operator may make
    /// an event the first of its aggregate while a relay is adding another. Advisory locks, not rows of
    /// `tidemill_outbox_slot`, so that relays can take and leave slots meanwhile.
    fn failed_event_lock(slots: &[i16]) -> () {
        postgres {
            bind(LOCK, column(slots, |slot| i32::from(*slot)))
            "select pg_advisory_xact_lock($1, ordered.slot)
             from (select distinct asked.slot from unnest($2::integer[]) as asked (slot) order by asked.slot) ordered"
        }
        // The one writer excludes all others.
        sqlite { nothing }
    }

    fn failed_event_slots(ids: &[i64]) -> Vec<i16> {
        "select distinct slot from tidemill_outbox_exception where event_id {in $1}"
    }

    fn failed_event_known(ids: &[i64]) -> Vec<i64> {
        "select event_id from tidemill_outbox_exception where event_id {in $1}"
    }

    /// Which of these have an open failed event. Needs `tidemill_outbox_exception_aggregate`.
    fn failed_event_open(keys: &[(Slot, &Aggregate)]) -> Vec<AggregateRow> {
        bind(aggregates(keys))
        "select asked.slot, asked.aggregate_type, asked.aggregate_id
         from {rows asked $1: slot smallint, aggregate_type text, aggregate_id text}
         where exists (
             select 1 from tidemill_outbox_exception x
             where x.slot = asked.slot
               and x.aggregate_type = asked.aggregate_type
               and x.aggregate_id = asked.aggregate_id
               and x.state <> 'skipped'
         )"
    }

    /// Each with its state, and its error as it is stored.
    fn failed_event_insert(
        events: &[(&NewFailedEvent, FailedEventState, Option<String>)], now: Timestamp,
    ) -> () {
        bind(
            rows(events, |(new, state, error)| json!({
                "event_id": new.event_id.get(), "slot": new.slot.get(), "seq": new.seq.get(),
                "aggregate_type": new.aggregate.kind, "aggregate_id": new.aggregate.id, "event_type": new.event_type,
                "state": state.word().as_str(), "attempts": new.attempts,
                "next_attempt_at": next_attempt_at(*state), "error": error,
            })),
            now,
        )
        "insert into tidemill_outbox_exception
             (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts, next_attempt_at, error,
              since, updated_at)
         select event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts,
                {instant next_attempt_at}, error, $2, $2
         from {rows new $1: event_id bigint, slot smallint, seq bigint, aggregate_type text, aggregate_id text,
              event_type text, state text, attempts bigint, next_attempt_at bigint, error text}
         where true
         on conflict (event_id) do nothing"
    }

    /// Aggregates with a waiting or parked failed event. Needs `tidemill_outbox_exception_state`: many may be held.
    fn failed_event_blocked(slots: &[i16]) -> Vec<AggregateRow> {
        "select slot, aggregate_type, aggregate_id from tidemill_outbox_exception
         where state in ('waiting', 'parked') and slot {in $1}"
    }

    /// Due events, the longest overdue first, each with those after it. Every aggregate gets the same share of the
    /// limit. Needs `tidemill_outbox_exception_due` and `tidemill_outbox_exception_aggregate`.
    fn failed_event_due(slots: &[i16], now: Timestamp, heads_max: u32, most: Most) -> Vec<DueRow> {
        bind(slots, now, heads_max, most.events, most.bytes)
        postgres {
            "with head as materialized (
                 select event_id, slot, aggregate_type, aggregate_id, seq, next_attempt_at
                 from tidemill_outbox_exception
                 where state = 'waiting'
                   and next_attempt_at <= $2
                   and slot = any($1)
                 order by next_attempt_at, event_id
                 limit $3
             ),
             found as (
                 select x.event_id, head.event_id as head, x.slot, x.seq, x.aggregate_type, x.aggregate_id, x.event_type,
                        x.revision, x.attempts, e.created_at, coalesce(x.topic, e.topic) as topic,
                        x.topic is not null as is_redirected,
                        case when x.is_edited then x.payload else e.payload end as payload,
                        case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                        case when x.is_edited then x.headers else e.headers end as headers,
                        row_number() over (order by head.next_attempt_at, head.event_id, x.seq) as turn
                 from head
                 cross join lateral (
                     select held.*
                     from tidemill_outbox_exception held
                     where held.slot = head.slot
                       and held.aggregate_type = head.aggregate_type
                       and held.aggregate_id = head.aggregate_id
                       and held.state <> 'skipped'
                       and held.seq >= head.seq
                     order by held.seq
                     limit (select greatest($4 / greatest(count(*), 1), 1) from head)
                 ) x
                 left join outbox_event e on e.id = x.event_id
             ),
             sized as (
                 select found.*,
                        sum(coalesce(octet_length(payload), octet_length(payload_bytes), 0)
                            + coalesce(octet_length(headers), 0))
                            over (order by turn rows between unbounded preceding and 1 preceding) as bytes_before
                 from found
             )
             select event_id, head, slot, seq, aggregate_type, aggregate_id, event_type, revision, attempts, created_at, topic,
                    is_redirected, payload, payload_bytes, headers
             from sized where coalesce(bytes_before, 0) <= $5 order by turn"
        }
        sqlite {
            "with head as materialized (
                 select event_id, slot, aggregate_type, aggregate_id, seq, next_attempt_at
                 from tidemill_outbox_exception
                 where state = 'waiting'
                   and next_attempt_at <= $2
                   and slot in (select value from json_each($1))
                 order by next_attempt_at, event_id
                 limit $3
             ),
             share as materialized (
                 select head.*, (
                     select over.seq
                     from tidemill_outbox_exception over
                     where over.slot = head.slot
                       and over.aggregate_type = head.aggregate_type
                       and over.aggregate_id = head.aggregate_id
                       and over.state <> 'skipped'
                       and over.seq >= head.seq
                     order by over.seq
                     limit 1 offset max($4 / (select max(count(*), 1) from head), 1)
                 ) as over_seq
                 from head
             ),
             found as materialized (
                 select x.event_id, share.event_id as head,
                        row_number() over (order by share.next_attempt_at, share.event_id, x.seq) as turn,
                        case when x.is_edited
                             then coalesce(octet_length(x.payload), octet_length(x.payload_bytes), 0)
                                  + coalesce(octet_length(x.headers), 0)
                             else coalesce(octet_length(e.payload), octet_length(e.payload_bytes), 0)
                                  + coalesce(octet_length(e.headers), 0) end as bytes
                 from share
                 join tidemill_outbox_exception x
                     on x.slot = share.slot
                    and x.aggregate_type = share.aggregate_type
                    and x.aggregate_id = share.aggregate_id
                    and x.state <> 'skipped'
                    and x.seq >= share.seq
                    and x.seq < coalesce(share.over_seq, 9223372036854775807)
                 left join outbox_event e on e.id = x.event_id
             ),
             sized as materialized (
                 select event_id, head, turn,
                        sum(bytes) over (order by turn rows between unbounded preceding and 1 preceding) as bytes_before
                 from found
             )
             select x.event_id, sized.head, x.slot, x.seq, x.aggregate_type, x.aggregate_id, x.event_type, x.revision,
                    x.attempts, e.created_at, coalesce(x.topic, e.topic) as topic,
                    x.topic is not null as is_redirected,
                    case when x.is_edited then x.payload else e.payload end as payload,
                    case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                    case when x.is_edited then x.headers else e.headers end as headers
             from sized
             join tidemill_outbox_exception x on x.event_id = sized.event_id
             left join outbox_event e on e.id = x.event_id
             where coalesce(sized.bytes_before, 0) <= $5 order by sized.turn"
        }
    }

    fn failed_events_known(ids: &[i64]) -> Vec<KnownFailedEvent> {
        "select event_id, slot, aggregate_type, aggregate_id, state, revision, attempts, next_attempt_at
         from tidemill_outbox_exception where event_id {in $1} order by slot, seq"
    }

    /// Only if the revision is unchanged.
    fn failed_event_delete(events: &[(i64, i64)]) -> u64 {
        bind(rows(events, |(id, revision)| json!({ "event_id": id, "revision": revision })))
        "delete from tidemill_outbox_exception
         where (event_id, revision) in (
             select event_id, revision from {rows asked $1: event_id bigint, revision bigint}
         )"
    }

    /// Only if the revision is unchanged.
    fn failed_event_save(changes: &[FailedEventChange], now: Timestamp) -> u64 {
        bind(
            rows(changes, |FailedEventChange { event_id, seen, after, error }| json!({
                "event_id": event_id, "seen": seen, "state": after.state.word().as_str(),
                "next_attempt_at": next_attempt_at(after.state), "attempts": after.attempts,
                "revision": after.revision, "error": error,
            })),
            now,
        )
        "update tidemill_outbox_exception as x
         set state = new.state, next_attempt_at = {instant new.next_attempt_at}, attempts = new.attempts,
             revision = new.revision, error = coalesce(new.error, x.error), updated_at = $2
         from {rows new $1: event_id bigint, seen bigint, state text, next_attempt_at bigint, attempts bigint,
              revision bigint, error text}
         where x.event_id = new.event_id and x.revision = new.seen"
    }

    /// Makes the first open failed event of each aggregate due, if it is held. The revision stays. Needs
    /// `tidemill_outbox_exception_aggregate`.
    fn failed_event_promote(keys: &[(Slot, &Aggregate)], now: Timestamp) -> () {
        bind(aggregates(keys), now)
        "update tidemill_outbox_exception as x set state = 'waiting', next_attempt_at = $2, updated_at = $2
         from (
             select (
                 select open.event_id
                 from tidemill_outbox_exception open
                 where open.slot = asked.slot
                   and open.aggregate_type = asked.aggregate_type
                   and open.aggregate_id = asked.aggregate_id
                   and open.state <> 'skipped'
                 order by open.seq
                 limit 1
             ) as event_id
             from {rows asked $1: slot smallint, aggregate_type text, aggregate_id text}
         ) as head
         where x.event_id = head.event_id and x.state = 'held'"
    }
}

fn aggregates(keys: &[(Slot, &Aggregate)]) -> Rows {
    rows(
        keys,
        |(slot, key)| json!({ "slot": slot.get(), "aggregate_type": key.kind, "aggregate_id": key.id }),
    )
}
