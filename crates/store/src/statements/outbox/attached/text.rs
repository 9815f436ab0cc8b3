//! The texts of all statements on attached tables. All is bound but the table, a checked and quoted [`TableName`].
//!
//! Statuses are plain literals, so that they take the type of the column, text or enum; and each condition on them
//! excludes PUBLISHED, so that the indexes of open rows can be used.

use tidemill_domain::outbox::attached::{Index, TableName};

/// The slot of an aggregate, as in the index.
pub(crate) fn slot(row: &str) -> String {
    format!("get_byte(decode(md5({row}.aggregate_id::text), 'hex'), 0)")
}

/// Whether a row was skipped, of the table that these two parameters name.
pub(crate) fn is_skipped(row: &str, schema: &str, table: &str) -> String {
    format!(
        "exists (select from tidemill_outbox_attempt a
                 where a.schema_name = {schema} and a.table_name = {table} and a.event_id = {row}.event_id
                   and a.state = 'skipped')"
    )
}

/// Does not block writers.
pub(crate) fn create_index(name: &TableName, index: Index) -> String {
    let (table, called) = (name.quoted(), format!("\"{}\"", name.index(index)));
    let columns = match index {
        Index::Slot => "(get_byte(decode(md5(aggregate_id::text), 'hex'), 0)), event_id",
        Index::Aggregate => "aggregate_id, event_id",
    };
    format!("create index concurrently {called} on {table} ({columns}) where status <> 'PUBLISHED'")
}

pub(super) fn drop_index(name: &TableName, index: Index) -> String {
    format!("drop index concurrently if exists {}", name.index_quoted(index))
}

/// SENDING rows left in slots `$1` go back, at `$2`; returns the slots in which such a row is locked. Slot by slot,
/// then by an array of ids: otherwise a server without statistics would read the whole table.
pub(super) fn recover(name: &TableName) -> String {
    let (table, slot) = (name.quoted(), slot("e"));
    format!(
        "with left_over as materialized (
             select f.event_id, s.slot
             from unnest($1::integer[]) as s (slot)
             cross join lateral (
                 select e.event_id
                 from {table} e
                 where {slot} = s.slot and e.status = 'SENDING' and e.status <> 'PUBLISHED'
                 order by e.event_id
             ) as f
         ),
         locked as materialized (
             select e.event_id
             from {table} e
             where e.event_id = any(array(select event_id from left_over)) and e.status = 'SENDING'
             for update skip locked
         ),
         recovered as (
             update {table} t
             set status = 'PENDING', updated_at = $2
             from locked l
             where t.event_id = l.event_id
             returning t.event_id
         )
         select distinct slot from left_over where event_id not in (select event_id from recovered)"
    )
}

/// Whether rows are due in slots `$1`, at `$2` or now.
pub(crate) fn is_due(name: &TableName) -> String {
    let (table, slot) = (name.quoted(), slot("e"));
    format!(
        "select exists (
             select from unnest($1::integer[]) as s (slot)
             cross join lateral (
                 select
                 from {table} e
                 where {slot} = s.slot and e.status = 'PENDING' and e.status <> 'PUBLISHED'
                   and e.next_retry_at <= coalesce($2::timestamptz, clock_timestamp())
                 limit 1
             ) as f
         )"
    )
}

/// Claims due rows in slots `$1` at `$2`: at most `$3` rows of a slot, `$4` in all, and about `$5` bytes; `$6` and `$7`
/// are schema and table. Each slot is read in the order of its index until enough was found. A locked row is skipped,
/// and with it all later ones of its aggregate; these aggregates are returned as rows without an id. Aggregates in `$8`
/// are left out. A payload of more than `$9` bytes and headers of more than `$10` are not fetched, only their length,
/// so that no row is too large for the relay.
pub(super) fn claim(name: &TableName, payload_type: Option<&str>) -> String {
    let (table, slot, payload_bytes) = (name.quoted(), slot("e"), payload_bytes(payload_type));
    let skipped = is_skipped("b", "$6", "$7");
    format!(
        "with due as materialized (
             select f.event_id, f.aggregate_id
             from unnest($1::integer[]) as s (slot)
             cross join lateral (
                 select e.event_id, e.aggregate_id
                 from {table} e
                 where {slot} = s.slot
                   and e.status = 'PENDING' and e.status <> 'PUBLISHED'
                   and e.next_retry_at <= $2
                   and e.aggregate_id::text <> all($8)
                   and not exists (
                       select
                       from {table} b
                       where b.aggregate_id = e.aggregate_id and b.event_id < e.event_id and b.status <> 'PUBLISHED'
                         and (b.status = 'SENDING'
                              or (b.status = 'PENDING' and (b.next_retry_at <= $2) is not true)
                              or (b.status = 'FAILED' and not {skipped}))
                   )
                 order by e.event_id
                 limit $3
             ) as f
             order by f.event_id
             limit $4
         ),
         locked as materialized (
             select e.event_id, e.aggregate_id, e.updated_at, coalesce({payload_bytes}, 0)::bigint as payload_bytes,
                    coalesce(octet_length(e.headers::text), 0)::bigint as headers_bytes
             from {table} e
             where e.event_id = any(array(select event_id from due)) and e.status = 'PENDING' and e.next_retry_at <= $2
             for update skip locked
         ),
         passed_over as materialized (
             select d.aggregate_id, min(d.event_id) as event_id
             from due d
             where d.event_id not in (select event_id from locked)
             group by d.aggregate_id
         ),
         chosen as materialized (
             select l.event_id, l.updated_at, l.payload_bytes, l.headers_bytes,
                    sum(f.bytes) over (order by l.event_id) - f.bytes as bytes_before
             from locked l
             cross join lateral (
                 select case when l.payload_bytes <= $9 then l.payload_bytes else 0 end
                        + case when l.headers_bytes <= $10 then l.headers_bytes else 0 end as bytes
             ) as f
             left join passed_over p on p.aggregate_id = l.aggregate_id
             where p.event_id is null or l.event_id < p.event_id
         ),
         claimed as (
             update {table} t
             set status = 'SENDING', updated_at = $2
             from chosen c
             where t.event_id = c.event_id and c.bytes_before < $5
             returning t.event_id::bigint as event_id, t.aggregate_id::text as aggregate_id,
                       case when c.payload_bytes <= $9 then t.payload::text end as payload, c.payload_bytes,
                       pg_typeof(t.payload)::text as payload_type,
                       case when c.headers_bytes <= $10 then t.headers::text end as headers, c.headers_bytes,
                       c.updated_at::timestamptz as updated_at,
                       coalesce((select a.attempts from tidemill_outbox_attempt a
                                 where a.schema_name = $6 and a.table_name = $7 and a.event_id = t.event_id), 0) as attempts
         )
         select event_id, aggregate_id, payload, payload_bytes, payload_type, headers, headers_bytes, updated_at, attempts
         from claimed
         union all
         select null, p.aggregate_id::text, null, 0, '', null, 0, null, 0 from passed_over p"
    )
}

/// The size of a payload when it is fetched. Of texts and bytes it is stored beside the value. JSON has to be written
/// out, unless its stored form, at most eight times as large as its text, is far too large.
fn payload_bytes(payload_type: Option<&str>) -> &'static str {
    match payload_type {
        Some("bytea") => "octet_length(e.payload)",
        Some("json" | "jsonb") => {
            "case when pg_column_size(e.payload) > 8 * $9 then pg_column_size(e.payload) else octet_length(e.payload::text) end"
        }
        _ => "octet_length(e.payload::text)",
    }
}

/// Rows `$1` that are still SENDING, at `$2`. Here and below, locked rows are skipped.
pub(super) fn settle(name: &TableName, status: &'static str) -> String {
    let (table, locked) = (name.quoted(), lock_sending(&name.quoted()));
    format!(
        "with locked as materialized ({locked})
         update {table} t set status = '{status}', updated_at = $2
         where t.event_id = any(array(select event_id from locked))
         returning t.event_id::bigint"
    )
}

fn lock_sending(table: &str) -> String {
    format!(
        "select e.event_id from {table} e where e.event_id = any($1) and e.status = 'SENDING' for update skip locked"
    )
}

/// Rows `$1` that are still SENDING are retried at the instants `$3`.
pub(super) fn try_again(name: &TableName) -> String {
    let table = name.quoted();
    format!(
        "with locked as materialized ({})
         update {table} t set status = 'PENDING', updated_at = $2, next_retry_at = given.next_retry_at
         from unnest($1::bigint[], $3::timestamptz[]) as given (event_id, next_retry_at)
         where t.event_id = given.event_id and t.event_id = any(array(select event_id from locked))
         returning t.event_id::bigint",
        lock_sending(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_quoted_name_is_written_into_a_text() {
        let name = TableName::new("Sales", "Events$1").unwrap();
        for text in [
            claim(&name, Some("json")),
            recover(&name),
            settle(&name, "PUBLISHED"),
            settle(&name, "FAILED"),
            settle(&name, "PENDING"),
            try_again(&name),
        ] {
            assert!(text.contains("\"Sales\".\"Events$1\""), "{text}");
            assert_eq!(text.matches("Sales").count(), text.matches("\"Sales\".\"Events$1\"").count());
        }
        assert!(
            create_index(&name, Index::Slot)
                .starts_with("create index concurrently \"tidemill_Events$1_slot\" on")
        );
        assert_eq!(
            drop_index(&name, Index::Aggregate),
            "drop index concurrently if exists \"Sales\".\"tidemill_Events$1_aggregate\""
        );
    }
}
