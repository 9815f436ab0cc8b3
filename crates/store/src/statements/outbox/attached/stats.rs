//! Metrics of attached tables. Slot by slot, as with `recover` in `text`.

use super::text::{is_skipped, slot};
use crate::codec::DbTime;
use crate::outbox::attached::row::CountRow;
use crate::statement::{One, postgres_statements};
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::time::Timestamp;

postgres_statements! {
    /// The number of rows in a status, up to a limit, and the instant of the oldest.
    fn count(name: &TableName, status: &'static str, limit: i64) -> One<CountRow> {
        bind(limit)
        format!(
            "select count(*), min(updated_at)::timestamptz
             from (
                 select f.updated_at
                 from generate_series(0, 255) as s (slot)
                 cross join lateral (
                     select e.updated_at
                     from {table} e
                     where {slot} = s.slot and e.status = '{status}' and e.status <> 'PUBLISHED'
                     limit $1
                 ) as f
                 limit $1
             ) as counted",
            table = name.quoted(),
            slot = slot("e"),
        )
    }

    /// FAILED rows that were not skipped, counted up to a limit.
    fn count_parked(name: &TableName, limit: i64) -> One<i64> {
        bind(limit, name.schema(), name.table())
        format!(
            "select count(*)
             from (
                 select f.event_id
                 from generate_series(0, 255) as s (slot)
                 cross join lateral (
                     select e.event_id
                     from {table} e
                     where {slot} = s.slot and e.status = 'FAILED' and e.status <> 'PUBLISHED'
                       and not {skipped}
                     limit $1
                 ) as f
                 limit $1
             ) as parked",
            table = name.quoted(),
            slot = slot("e"),
            skipped = is_skipped("e", "$2", "$3"),
        )
    }

    /// Since when the longest-waiting row is due, of the first of each slot; `None` if nothing is due. SENDING rows
    /// count: their relay may be gone. Rows blocked by a FAILED one, or waiting for a retry, do not: no relay may take
    /// them. By `next_retry_at`, because `updated_at` changes with every claim.
    fn due_since(name: &TableName, now: Timestamp) -> One<Option<DbTime>> {
        bind(now, name.schema(), name.table())
        format!(
            "select min(longest.next_retry_at)::timestamptz from generate_series(0, 255) as s (slot)
             cross join lateral (
                 select e.next_retry_at
                 from {table} e
                 where {slot} = s.slot and e.status in ('PENDING', 'SENDING') and e.status <> 'PUBLISHED'
                   and e.next_retry_at <= $1
                   and not exists (
                       select
                       from {table} b
                       where b.aggregate_id = e.aggregate_id and b.event_id < e.event_id and b.status <> 'PUBLISHED'
                         and ((b.status = 'PENDING' and (b.next_retry_at <= $1) is not true)
                              or (b.status = 'FAILED' and not {skipped}))
                   )
                 order by e.event_id
                 limit 1
             ) as longest",
            table = name.quoted(),
            slot = slot("e"),
            skipped = is_skipped("b", "$2", "$3"),
        )
    }
}
