//! Statements on attached tables, on `tidemill_outbox_adopted` and on `tidemill_outbox_attempt`. SQLite has none.

mod attempt;
pub(crate) mod look;
mod text;

use crate::codec::DbTime;
use crate::outbox::attached::row::{AttachedRow, ClaimRow, ColumnRow, CountRow, FailedRow, FoundRow};
use sqlx::{AssertSqlSafe, PgConnection};
use std::time::Duration;
use tidemill_domain::outbox::attached::row::HEADERS_TEXT_BYTES_MAX;
use tidemill_domain::outbox::attached::{AttachedTable, Index, TableName};
use tidemill_domain::outbox::event::PAYLOAD_BYTES_MAX;

pub(crate) use attempt::{forget_attempts, forget_table, save_attempts, skip};

/// What holds until the transaction ends: the zone of columns that have none, how bytes are written, that nobody waits
/// long for a lock of those whose table it is, and how long a statement may take, if that is limited.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    time_zone: &str,
    within: Option<Duration>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select set_config('timezone', $1, true), set_config('bytea_output', 'hex', true),
                set_config('lock_timeout', '500ms', true),
                set_config('statement_timeout', coalesce($2, current_setting('statement_timeout')), true)",
    )
    .bind(time_zone)
    .bind(within.map(millis))
    .execute(connection)
    .await?;
    Ok(())
}

/// As settings have it; zero would mean no limit at all.
fn millis(within: Duration) -> String {
    within.as_millis().max(1).to_string()
}

/// What the payloads of a table are; none if it is not attached. Locked, so that it stays attached until the transaction ends.
pub(crate) async fn lock_attached(
    connection: &mut PgConnection,
    name: &TableName,
) -> Result<Option<PayloadKind>, sqlx::Error> {
    let found: Option<(Option<String>,)> = sqlx::query_as(
        "select format_type(a.atttypid, null) from tidemill_outbox_adopted t
         left join pg_attribute a
             on a.attrelid = to_regclass(format('%I.%I', t.schema_name, t.table_name)) and a.attname = 'payload'
         where t.schema_name = $1 and t.table_name = $2 for share of t",
    )
    .bind(name.schema())
    .bind(name.table())
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(type_name,)| match type_name.as_deref() {
        Some("bytea") => PayloadKind::Bytes,
        Some("json" | "jsonb") => PayloadKind::Json,
        _ => PayloadKind::Text,
    }))
}

/// What the payloads of a table are: each has its own way to tell how large they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PayloadKind {
    Text,
    Json,
    Bytes,
}

pub(crate) async fn list(connection: &mut PgConnection) -> Result<Vec<AttachedRow>, sqlx::Error> {
    sqlx::query_as(
        "select schema_name, table_name, topic, aggregate_type, event_type, time_zone, since, adopted_by
         from tidemill_outbox_adopted order by schema_name, table_name",
    )
    .fetch_all(connection)
    .await
}

/// Until the transaction ends nobody attaches a table or gives one up; whoever serves one is not kept from it.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("lock table tidemill_outbox_adopted in share row exclusive mode").execute(connection).await?;
    Ok(())
}

/// Adds a table, or replaces how it is served. True when it is new.
pub(crate) async fn save(
    connection: &mut PgConnection,
    table: &AttachedTable,
    now: DbTime,
    by: &str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "insert into tidemill_outbox_adopted
             (schema_name, table_name, topic, aggregate_type, event_type, time_zone, since, adopted_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (schema_name, table_name) do update
         set topic = excluded.topic, aggregate_type = excluded.aggregate_type, event_type = excluded.event_type,
             time_zone = excluded.time_zone
         returning xmax = 0",
    )
    .bind(table.name.schema())
    .bind(table.name.table())
    .bind(&table.topic)
    .bind(&table.aggregate_type)
    .bind(&table.event_type)
    .bind(&table.time_zone)
    .bind(now)
    .bind(by)
    .fetch_one(connection)
    .await
}

pub(crate) async fn delete(connection: &mut PgConnection, name: &TableName) -> Result<bool, sqlx::Error> {
    let done = sqlx::query("delete from tidemill_outbox_adopted where schema_name = $1 and table_name = $2")
        .bind(name.schema())
        .bind(name.table())
        .execute(connection)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// What a table is; none when there is none of this name.
pub(crate) async fn find(
    connection: &mut PgConnection,
    name: &TableName,
) -> Result<Option<FoundRow>, sqlx::Error> {
    sqlx::query_as(
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
         where n.nspname = $1 and c.relname = $2 and c.relkind in ('r', 'p', 'v', 'm', 'f')",
    )
    .bind(name.schema())
    .bind(name.table())
    .fetch_optional(connection)
    .await
}

pub(crate) async fn columns(
    connection: &mut PgConnection,
    name: &TableName,
) -> Result<Vec<ColumnRow>, sqlx::Error> {
    sqlx::query_as(
        "select a.attname::text as name, format_type(a.atttypid, null) as type_name, not a.attnotnull as is_nullable,
                case when a.atttypid = 'varchar'::regtype and a.atttypmod > 4 then a.atttypmod - 4 end as chars_max,
                (select array_agg(e.enumlabel::text order by e.enumsortorder)
                 from pg_enum e where e.enumtypid = a.atttypid) as labels
         from pg_attribute a
         join pg_class c on c.oid = a.attrelid
         join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = $2 and a.attnum > 0 and not a.attisdropped
         order by a.attnum",
    )
    .bind(name.schema())
    .bind(name.table())
    .fetch_all(connection)
    .await
}

/// The checks on the status alone, as the catalogue writes them.
pub(crate) async fn status_checks(
    connection: &mut PgConnection,
    name: &TableName,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select pg_get_expr(k.conbin, k.conrelid) from pg_constraint k
         join pg_class c on c.oid = k.conrelid
         join pg_namespace n on n.oid = c.relnamespace
         join pg_attribute a on a.attrelid = c.oid and a.attname = 'status'
         where n.nspname = $1 and c.relname = $2 and k.contype = 'c' and k.conkey = array[a.attnum]",
    )
    .bind(name.schema())
    .bind(name.table())
    .fetch_all(connection)
    .await
}

/// The statuses that a check does not allow. Type and check come from the catalogue.
pub(crate) async fn disallowed(
    connection: &mut PgConnection,
    type_name: &str,
    expression: &str,
    statuses: &[&str],
) -> Result<Vec<String>, sqlx::Error> {
    let text = text::disallowed(type_name, expression);
    sqlx::query_scalar(AssertSqlSafe(text)).bind(statuses).fetch_all(connection).await
}

pub(crate) async fn has(
    connection: &mut PgConnection,
    name: &TableName,
    status: &'static str,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::has(name, status))).fetch_one(connection).await
}

pub(crate) async fn is_time_zone(connection: &mut PgConnection, zone: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select from pg_timezone_names where name = $1)")
        .bind(zone)
        .fetch_one(connection)
        .await
}

/// Whether an index of ours is there and valid; one that was left half made is there and not valid.
pub(crate) async fn index_state(
    connection: &mut PgConnection,
    name: &TableName,
    index: Index,
) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar(
        "select i.indisvalid from pg_index i
         join pg_class c on c.oid = i.indexrelid
         join pg_namespace n on n.oid = c.relnamespace
         where n.nspname = $1 and c.relname = $2",
    )
    .bind(name.schema())
    .bind(name.index(index))
    .fetch_optional(connection)
    .await
}

/// The statement that makes an index, for people to see.
pub(crate) fn create_index_text(name: &TableName, index: Index) -> String {
    text::create_index(name, index)
}

/// Not in a transaction. It waits for all transactions that are at work, however long that takes.
pub(crate) async fn create_index(
    connection: &mut PgConnection,
    name: &TableName,
    index: Index,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text::create_index(name, index))).execute(connection).await?;
    Ok(())
}

/// Not in a transaction.
pub(crate) async fn drop_index(
    connection: &mut PgConnection,
    name: &TableName,
    index: Index,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text::drop_index(name, index))).execute(connection).await?;
    Ok(())
}

/// The slots of which not all could be recovered, because somebody has locked a row.
pub(crate) async fn recover(
    connection: &mut PgConnection,
    name: &TableName,
    slots: &[i32],
    now: DbTime,
) -> Result<Vec<i32>, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::recover(name))).bind(slots).bind(now).fetch_all(connection).await
}

/// How much is claimed at once, and of which aggregates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimLimits<'a> {
    pub(crate) per_slot: i64,
    pub(crate) rows: i64,
    pub(crate) bytes: i64,
    pub(crate) without: &'a [String],
}

/// The order of what is answered is not defined. Planned for its slots each time, as the table grows and shrinks.
pub(crate) async fn claim(
    connection: &mut PgConnection,
    (name, kind): (&TableName, PayloadKind),
    slots: &[i32],
    now: DbTime,
    limits: ClaimLimits<'_>,
) -> Result<Vec<ClaimRow>, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(text::claim(name, kind)))
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

/// How rows that are still SENDING are settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SettleAs {
    Published,
    Failed,
    PutBack,
}

/// The rows that were still SENDING and that nobody else has locked.
pub(crate) async fn settle(
    connection: &mut PgConnection,
    name: &TableName,
    settle: SettleAs,
    ids: &[i64],
    now: DbTime,
) -> Result<Vec<i64>, sqlx::Error> {
    let text = match settle {
        SettleAs::Published => text::publish(name),
        SettleAs::Failed => text::fail(name),
        SettleAs::PutBack => text::put_back(name),
    };
    sqlx::query_scalar(AssertSqlSafe(text)).bind(ids).bind(now).fetch_all(connection).await
}

/// Which of these rows are SENDING. Takes no lock, and waits for none.
pub(crate) async fn sending(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::sending(name))).bind(ids).fetch_all(connection).await
}

/// The rows that were still SENDING and that nobody else has locked.
pub(crate) async fn try_again(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
    at: &[DbTime],
    now: DbTime,
) -> Result<Vec<i64>, sqlx::Error> {
    let text = text::try_again(name);
    sqlx::query_scalar(AssertSqlSafe(text)).bind(ids).bind(now).bind(at).fetch_all(connection).await
}

/// Rows that have FAILED, locked, and whether they were skipped.
pub(crate) async fn lock_failed(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
) -> Result<Vec<(i64, bool)>, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(text::lock_failed(name)))
        .bind(ids)
        .bind(name.schema())
        .bind(name.table())
        .fetch_all(connection)
        .await
}

pub(crate) async fn replay(
    connection: &mut PgConnection,
    name: &TableName,
    ids: &[i64],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(text::replay(name))).bind(ids).bind(now).execute(connection).await?;
    Ok(())
}

pub(crate) async fn list_failed(
    connection: &mut PgConnection,
    name: &TableName,
    after: i64,
    limit: i64,
    with_skipped: bool,
) -> Result<Vec<FailedRow>, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(text::list_failed(name)))
        .bind(after)
        .bind(limit)
        .bind(name.schema())
        .bind(name.table())
        .bind(with_skipped)
        .fetch_all(connection)
        .await
}

/// How many rows of a status there are, counted up to a limit.
pub(crate) async fn count(
    connection: &mut PgConnection,
    name: &TableName,
    status: &'static str,
    limit: i64,
) -> Result<CountRow, sqlx::Error> {
    sqlx::query_as(AssertSqlSafe(text::count(name, status))).bind(limit).fetch_one(connection).await
}

/// How many rows have FAILED and were not skipped, counted up to a limit.
pub(crate) async fn count_parked(
    connection: &mut PgConnection,
    name: &TableName,
    limit: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::count_parked(name)))
        .bind(limit)
        .bind(name.schema())
        .bind(name.table())
        .fetch_one(connection)
        .await
}

/// Since when the row is due that has been so for longest; none when nothing is due.
pub(crate) async fn due_since(
    connection: &mut PgConnection,
    name: &TableName,
    now: DbTime,
) -> Result<Option<DbTime>, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(text::due_since(name)))
        .bind(now)
        .bind(name.schema())
        .bind(name.table())
        .fetch_one(connection)
        .await
}
