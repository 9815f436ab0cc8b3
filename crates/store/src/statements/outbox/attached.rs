//! Statements on attached tables, on `tidemill_outbox_adopted` and on `tidemill_outbox_attempt`. PostgreSQL only.

pub(crate) mod text;

use crate::codec::DbTime;
use crate::outbox::attached::row::{AttemptRow, ClaimRow, ColumnRow, TableAccessRow};
use crate::outbox::attached::{AttachedRecord, FailedRecord};
use crate::statement::{One, column, postgres_statements};
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;
use tidemill_domain::outbox::attached::row::HEADERS_TEXT_BYTES_MAX;
use tidemill_domain::outbox::attached::{AttachedTable, Index, TableName};
use tidemill_domain::outbox::event::PAYLOAD_BYTES_MAX;
use tidemill_domain::time::Timestamp;

pub(crate) use text::create_index as create_index_text;

postgres_statements! {
    /// Settings until the transaction ends: time zone for columns without one, the format of bytes, a short wait for
    /// locks on foreign tables, and a statement timeout, if given. Only indexes are read, and in their order: a server
    /// without statistics would sort all open rows of a slot and compare them in pairs, which takes longer with each row
    /// until every claim runs into its timeout.
    fn prepare(time_zone: &str, within: Option<Duration>) -> () {
        bind(time_zone, within.map(millis))
        "select set_config('timezone', $1, true), set_config('bytea_output', 'hex', true),
                set_config('lock_timeout', '500ms', true),
                set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
                set_config('statement_timeout', coalesce($2, current_setting('statement_timeout')), true)"
    }

    /// The type of the payloads; `None` if it is not attached. Locked, so that it stays attached meanwhile.
    fn lock_attached(name: &TableName) -> Option<Option<String>> {
        bind(name.schema(), name.table())
        "select format_type(a.atttypid, null) from tidemill_outbox_adopted t
         left join pg_attribute a
             on a.attrelid = to_regclass(format('%I.%I', t.schema_name, t.table_name)) and a.attname = 'payload'
         where t.schema_name = $1 and t.table_name = $2 for share of t"
    }

    fn list() -> Vec<AttachedRecord> {
        bind()
        "select schema_name, table_name, topic, aggregate_type, event_type, time_zone, since, adopted_by
         from tidemill_outbox_adopted order by schema_name, table_name"
    }

    /// Blocks attaching and detaching until the transaction ends, but not serving.
    fn lock() -> () {
        bind()
        "lock table tidemill_outbox_adopted in share row exclusive mode"
    }

    /// Adds a table, or replaces how it is served. True if it is new.
    fn save(table: &AttachedTable, now: Timestamp, by: &str) -> One<bool> {
        bind(
            table.name.schema(), table.name.table(), &table.topic, &table.aggregate_type, &table.event_type,
            &table.time_zone, now, by,
        )
        "insert into tidemill_outbox_adopted
             (schema_name, table_name, topic, aggregate_type, event_type, time_zone, since, adopted_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (schema_name, table_name) do update
         set topic = excluded.topic, aggregate_type = excluded.aggregate_type, event_type = excluded.event_type,
             time_zone = excluded.time_zone
         returning xmax = 0"
    }

    fn delete(name: &TableName) -> bool {
        bind(name.schema(), name.table())
        "delete from tidemill_outbox_adopted where schema_name = $1 and table_name = $2"
    }

    /// `None` if there is no such table.
    fn find(name: &TableName) -> Option<TableAccessRow> {
        bind(name.schema(), name.table())
        "select c.relkind = 'r' as is_ordinary, current_user::text as user_name,
                has_schema_privilege(n.oid, 'usage') as may_enter,
                array(
                    select privilege
                    from unnest(array['select', 'update']) as needed (privilege)
                    where not has_table_privilege(c.oid, privilege)
                ) as lacking,
                exists (
                    select
                    from pg_index i
                    join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
                    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null
                      and i.indnkeyatts = 1 and a.attname = 'event_id'
                ) as has_unique_id
         from pg_class c
         join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f')"
    }

    fn columns(name: &TableName) -> Vec<ColumnRow> {
        bind(name.schema(), name.table())
        "select a.attname::text as name, format_type(a.atttypid, null) as type_name, not a.attnotnull as is_nullable,
                case when a.atttypid = 'varchar'::regtype and a.atttypmod > 4 then a.atttypmod - 4 end as chars_max,
                (select array_agg(e.enumlabel::text order by e.enumsortorder)
                 from pg_enum e where e.enumtypid = a.atttypid) as labels
         from pg_attribute a
         join pg_class c on c.oid = a.attrelid
         join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = $2 and a.attnum > 0 and not a.attisdropped
         order by a.attnum"
    }

    /// The check constraints on the status alone, as the catalogue prints them.
    fn status_checks(name: &TableName) -> Vec<String> {
        bind(name.schema(), name.table())
        "select pg_get_expr(k.conbin, k.conrelid) from pg_constraint k
         join pg_class c on c.oid = k.conrelid
         join pg_namespace n on n.oid = c.relnamespace
         join pg_attribute a on a.attrelid = c.oid and a.attname = 'status'
         where n.nspname = $1 and c.relname = $2 and k.contype = 'c' and k.conkey = array[a.attnum]"
    }

    /// The statuses that a check rejects. Type and check come from the catalogue.
    fn disallowed(type_name: &str, expression: &str, statuses: &[&str]) -> Vec<String> {
        bind(statuses)
        format!(
            "select word
             from (select word, word::{type_name} as status from unnest($1::text[]) as given (word)) as given
             where not coalesce(({expression}), true)"
        )
    }

    fn has(name: &TableName, status: &'static str) -> One<bool> {
        bind()
        format!(
            "select exists (select from {} where status = '{status}' and status <> 'PUBLISHED')",
            name.quoted()
        )
    }

    fn is_time_zone(zone: &str) -> One<bool> {
        bind(zone)
        "select exists (select from pg_timezone_names where name = $1)"
    }

    /// Whether our index exists, and is valid; a half-made one is invalid.
    fn index_state(name: &TableName, index: Index) -> Option<bool> {
        bind(name.schema(), name.index(index))
        "select i.indisvalid from pg_index i
         join pg_class c on c.oid = i.indexrelid
         join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = $2"
    }

    /// Returns the slots that were not recovered completely, because a row was locked.
    fn recover(name: &TableName, slots: &[i32], now: Timestamp) -> Vec<i32> {
        bind(slots, now)
        text::recover(name)
    }

    /// The rows that were still SENDING and not locked.
    fn settle(name: &TableName, status: &'static str, ids: &[i64], now: Timestamp) -> Vec<i64> {
        bind(ids, now)
        text::settle(name, status)
    }

    /// Which of these rows are SENDING. Takes no lock, and waits for none.
    fn sending(name: &TableName, ids: &[i64]) -> Vec<i64> {
        bind(ids)
        format!(
            "select t.event_id::bigint from {} t where t.event_id = any($1) and t.status = 'SENDING'",
            name.quoted()
        )
    }

    /// Like `settle`.
    fn try_again(name: &TableName, ids: &[i64], at: &[DbTime], now: Timestamp) -> Vec<i64> {
        bind(ids, now, at)
        text::try_again(name)
    }

    /// FAILED rows, locked, and whether they were skipped.
    fn lock_failed(name: &TableName, ids: &[i64]) -> Vec<(i64, bool)> {
        bind(ids, name.schema(), name.table())
        format!(
            "select t.event_id::bigint, {} as is_skipped from {} t
             where t.event_id = any($1) and t.status = 'FAILED' for update of t",
            text::is_skipped("t", "$2", "$3"),
            name.quoted()
        )
    }

    fn replay(name: &TableName, ids: &[i64], now: Timestamp) -> () {
        bind(ids, now)
        format!(
            "update {} t set status = 'PENDING', updated_at = $2, next_retry_at = $2
             where t.event_id = any($1) and t.status = 'FAILED'",
            name.quoted()
        )
    }

    fn list_failed(name: &TableName, after: i64, limit: i64, with_skipped: bool) -> Vec<FailedRecord> {
        bind(after, limit, name.schema(), name.table(), with_skipped)
        format!(
            "select t.event_id::bigint as event_id, t.aggregate_id::text as aggregate_id,
                    t.updated_at::timestamptz as updated_at, coalesce(a.attempts, 0) as attempts, a.error,
                    coalesce(a.state = 'skipped', false) as is_skipped
             from {} t
             left join tidemill_outbox_attempt a
                 on a.schema_name = $3 and a.table_name = $4 and a.event_id = t.event_id
             where t.event_id > $1 and t.status = 'FAILED' and t.status <> 'PUBLISHED'
               and ($5 or coalesce(a.state <> 'skipped', true))
             order by t.event_id limit $2",
            name.quoted()
        )
    }

    fn save_attempts(name: &TableName, rows: &[AttemptRow], now: Timestamp) -> () {
        bind(
            name.schema(), name.table(), column(rows, |row| row.event_id), column(rows, |row| row.state),
            column(rows, |row| row.attempts), column(rows, |row| row.error.as_deref()), now,
        )
        "insert into tidemill_outbox_attempt
             (schema_name, table_name, event_id, state, attempts, error, updated_at)
         select $1, $2, given.event_id, given.state, given.attempts, given.error, $7
         from unnest($3::bigint[], $4::text[], $5::bigint[], $6::text[]) as given (event_id, state, attempts, error)
         on conflict (schema_name, table_name, event_id) do update
         set state = excluded.state, attempts = excluded.attempts, error = coalesce(excluded.error, tidemill_outbox_attempt.error),
             updated_at = excluded.updated_at"
    }

    /// Skips FAILED rows; keeps their attempts.
    fn skip(name: &TableName, ids: &[i64], now: Timestamp) -> () {
        bind(name.schema(), name.table(), ids, now)
        "insert into tidemill_outbox_attempt (schema_name, table_name, event_id, state, attempts, updated_at)
         select $1, $2, given.event_id, 'skipped', 0, $4 from unnest($3::bigint[]) as given (event_id)
         on conflict (schema_name, table_name, event_id) do update
         set state = 'skipped', updated_at = excluded.updated_at"
    }

    fn forget_attempts(name: &TableName, ids: &[i64]) -> () {
        bind(name.schema(), name.table(), ids)
        "delete from tidemill_outbox_attempt
         where schema_name = $1 and table_name = $2 and event_id = any($3)"
    }

    /// Deletes all attempts at rows of a table.
    fn forget_table(name: &TableName) -> () {
        bind(name.schema(), name.table())
        "delete from tidemill_outbox_attempt where schema_name = $1 and table_name = $2"
    }
}

/// As settings have it; zero would mean no limit.
pub(crate) fn millis(within: Duration) -> String {
    within.as_millis().max(1).to_string()
}

/// Not in a transaction. Waits for all running transactions, however long that takes.
pub(crate) async fn create_index(
    connection: &mut PgConnection,
    name: &TableName,
    index: Index,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text::create_index(name, index))).execute(connection).await.map(drop)
}

/// Not in a transaction.
pub(crate) async fn drop_index(
    connection: &mut PgConnection,
    name: &TableName,
    index: Index,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text::drop_index(name, index))).execute(connection).await.map(drop)
}

/// Limits of a claim, and aggregates to leave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimLimits<'a> {
    pub(crate) per_slot: i64,
    pub(crate) rows: i64,
    pub(crate) bytes: i64,
    pub(crate) without: &'a [String],
}

/// In no defined order. Planned for its slots each time, as the table grows and shrinks.
pub(crate) async fn claim(
    connection: &mut PgConnection,
    (name, payload_type): (&TableName, Option<&str>),
    slots: &[i32],
    now: DbTime,
    limits: ClaimLimits<'_>,
) -> Result<Vec<ClaimRow>, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(text::claim(name, payload_type)))
        .bind(slots)
        .bind(now)
        .bind(limits.per_slot)
        .bind(limits.rows)
        .bind(limits.bytes)
        .bind(name.schema())
        .bind(name.table())
        .bind(limits.without)
        .bind(number(PAYLOAD_BYTES_MAX))
        .bind(number(HEADERS_TEXT_BYTES_MAX))
        .persistent(false)
        .fetch_all(connection)
        .await
}

fn number(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
