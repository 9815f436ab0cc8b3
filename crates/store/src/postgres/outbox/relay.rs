//! Statements on `tidemill_outbox_relay` and `tidemill_outbox_slot`.
//!
//! Whoever takes slots locks free ones and then its own row; whoever ends a relay locks that relay's row and then the
//! slots that it has. So nobody waits for a slot while somebody else waits for it.

use super::numbers;
use crate::codec::{DbId, DbTime};
use crate::outbox::relay::{Looking, RelayFence};
use crate::row::outbox::relay::{EffortColumns, FreeSlotRow, JoinRow, LeftRow, LookRow, RelayRow};
use sqlx::PgConnection;
use tidemill_domain::outbox::Slot;

pub(crate) async fn insert(connection: &mut PgConnection, row: &JoinRow<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_outbox_relay
             (id, process, name, host, pid, sink, instance, total, joined_at, until, renewed_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9)",
    )
    .bind(row.id)
    .bind(row.process)
    .bind(row.name)
    .bind(row.host)
    .bind(row.pid)
    .bind(row.sink)
    .bind(row.instance)
    .bind(row.total)
    .bind(row.joined_at)
    .bind(row.until)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn list(connection: &mut PgConnection) -> Result<Vec<RelayRow>, sqlx::Error> {
    sqlx::query_as(
        "select r.id, r.name, r.host, r.pid, r.sink, r.instance::bigint as instance, r.total::bigint as total,
                r.joined_at, r.until, count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null
         group by r.id
         order by r.joined_at, r.id",
    )
    .fetch_all(connection)
    .await
}

/// Renews and looks in one statement, so that an idle relay costs one query a second. What is not visible cannot have
/// been read, so whatever is found beyond the mark is new. It is found by the index of transactions, for which alone it is
/// sorted (see `reading`); an order inside of `exists` would be ignored. Of adopted tables it says which there are, and
/// touches none of them: how long that takes is not ours to say, and the lease rests on this statement.
pub(crate) async fn look(
    connection: &mut PgConnection,
    looking: &Looking<'_>,
    cursors: Option<&str>,
    now: Option<DbTime>,
) -> Result<LookRow, sqlx::Error> {
    let effort = EffortColumns::from(looking.fence.effort);
    let running: Vec<String> = looking.from.running().iter().map(u64::to_string).collect();
    sqlx::query_as(
        "with clock as (select coalesce($2, clock_timestamp()) as now),
              beat as (
                  update tidemill_outbox_relay
                  set until = coalesce($2, clock_timestamp()) + $3,
                      renewed_at = coalesce($2, clock_timestamp()),
                      acks = acks + ($8::text is not null)::int,
                      cursors = coalesce($8, cursors),
                      polls = $10, empty_polls = $11, queries = $12
                  where id = $1 and ended_at is null and acks = $7 and until > coalesce($2, clock_timestamp())
                      and ($9::text is null or $9 = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))
                  returning acks
              ),
              owned as (select owner, count(*) as slots from tidemill_outbox_slot where owner is not null group by owner)
         select (select acks from beat) as acks,
                clock.now,
                pg_current_snapshot()::text as mark,
                substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline,
                (select floor_id from tidemill_outbox) as floor_id,
                (select coalesce(json_agg(json_build_object(
                     'id', r.id, 'name', r.name, 'host', r.host, 'pid', r.pid, 'sink', r.sink,
                     'instance', r.instance, 'total', r.total,
                     'joined_micros', (extract(epoch from r.joined_at) * 1000000)::bigint,
                     'until_micros', (extract(epoch from case when r.id = $1 then clock.now + $3 else r.until end) * 1000000)::bigint,
                     'slots', coalesce(o.slots, 0)) order by r.joined_at, r.id), '[]')::text
                 from tidemill_outbox_relay r
                 left join owned o on o.owner = r.id
                 where r.ended_at is null) as relays,
                (select coalesce(json_agg(slot order by slot), '[]')::text
                 from tidemill_outbox_slot where owner is null) as free,
                ((select id
                  from outbox_event
                  where xid >= $4::text::xid8 and slot = any($6)
                      and id > (select floor_id from tidemill_outbox)
                  order by xid, id
                  limit 1) is not null
                 or exists (
                     select
                     from unnest($5::text[]) as r (running)
                     cross join lateral (
                         select id
                         from outbox_event
                         where xid >= r.running::xid8 and xid <= r.running::xid8 and slot = any($6)
                             and id > (select floor_id from tidemill_outbox)
                         order by xid, id
                         limit 1) as l)) as has_events,
                exists (select from tidemill_outbox_exception
                        where state = 'waiting' and next_attempt_at <= clock.now and slot = any($6)) as is_due,
                (select coalesce(json_agg(json_build_object(
                     'schema', a.schema_name, 'table', a.table_name, 'topic', a.topic,
                     'aggregate_type', a.aggregate_type, 'event_type', a.event_type, 'time_zone', a.time_zone)
                     order by a.schema_name, a.table_name), '[]')::text
                 from tidemill_outbox_adopted a) as adopted
         from clock",
    )
    .bind(DbId::from(looking.fence.id))
    .bind(now)
    .bind(looking.fence.lease)
    .bind(looking.from.xmax().to_string())
    .bind(running)
    .bind(numbers(looking.slots))
    .bind(looking.fence.acks)
    .bind(cursors)
    .bind(looking.fence.timeline)
    .bind(effort.polls)
    .bind(effort.empty_polls)
    .bind(effort.queries)
    .fetch_one(connection)
    .await
}

pub(crate) async fn position(
    connection: &mut PgConnection,
    id: DbId,
) -> Result<Option<(i64, String)>, sqlx::Error> {
    sqlx::query_as("select acks, cursors from tidemill_outbox_relay where id = $1 and ended_at is null")
        .bind(id)
        .fetch_optional(connection)
        .await
}

/// The fence: nothing happens to a relay that has ended, or whose row is not the one it knows. What nobody else has taken
/// over may still be settled when the lease has passed, but that does not bring the lease back. By the primary key, and in
/// place.
pub(crate) async fn acknowledge(
    connection: &mut PgConnection,
    fence: RelayFence<'_>,
    cursors: &str,
    published: i64,
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    let effort = EffortColumns::from(fence.effort);
    let done = sqlx::query(
        "update tidemill_outbox_relay
         set acks = acks + 1, published = published + $4, cursors = $3,
             polls = $8, empty_polls = $9, queries = $10,
             until = case when until > coalesce($5, clock_timestamp())
                          then coalesce($5, clock_timestamp()) + $6
                          else until end,
             renewed_at = case when until > coalesce($5, clock_timestamp())
                               then coalesce($5, clock_timestamp())
                               else renewed_at end
         where id = $1 and ended_at is null and acks = $2
             and ($7::text is null or $7 = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))",
    )
    .bind(DbId::from(fence.id))
    .bind(fence.acks)
    .bind(cursors)
    .bind(published)
    .bind(now)
    .bind(fence.lease)
    .bind(fence.timeline)
    .bind(effort.polls)
    .bind(effort.empty_polls)
    .bind(effort.queries)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Locks the row of a relay that has not ended.
pub(crate) async fn lock_one(
    connection: &mut PgConnection,
    id: DbId,
) -> Result<Option<(DbId, String)>, sqlx::Error> {
    sqlx::query_as(
        "select id, cursors
         from tidemill_outbox_relay
         where id = $1 and ended_at is null
         for update",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Locks those whose lease has passed, except who is in somebody's hands.
pub(crate) async fn lock_lapsed(
    connection: &mut PgConnection,
    now: DbTime,
) -> Result<Vec<(DbId, String)>, sqlx::Error> {
    sqlx::query_as(
        "select id, cursors
         from tidemill_outbox_relay
         where ended_at is null and until <= $1
         order by id
         for update skip locked",
    )
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn end(connection: &mut PgConnection, id: DbId, now: DbTime) -> Result<(), sqlx::Error> {
    sqlx::query("update tidemill_outbox_relay set ended_at = $2, cursors = '[]' where id = $1")
        .bind(id)
        .bind(now)
        .execute(connection)
        .await?;
    Ok(())
}

/// Locks the free ones of these, except who is in somebody's hands.
pub(crate) async fn slot_lock_free(
    connection: &mut PgConnection,
    wanted: &[Slot],
) -> Result<Vec<FreeSlotRow>, sqlx::Error> {
    sqlx::query_as(
        "select slot, epoch, place, seq
         from tidemill_outbox_slot
         where slot = any($1) and owner is null
         order by slot
         for update skip locked",
    )
    .bind(numbers(wanted))
    .fetch_all(connection)
    .await
}

pub(crate) async fn slot_epochs(
    connection: &mut PgConnection,
    owner: DbId,
) -> Result<Vec<(i16, i64)>, sqlx::Error> {
    sqlx::query_as("select slot, epoch from tidemill_outbox_slot where owner = $1")
        .bind(owner)
        .fetch_all(connection)
        .await
}

/// The slots are locked and free.
pub(crate) async fn slot_take(
    connection: &mut PgConnection,
    owner: DbId,
    slots: &[Slot],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_slot
         set owner = $1, epoch = epoch + 1, since = $3
         where slot = any($2) and owner is null",
    )
    .bind(owner)
    .bind(numbers(slots))
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// The row of the owner is locked.
pub(crate) async fn slot_leave(
    connection: &mut PgConnection,
    owner: DbId,
    left: &[LeftRow],
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_slot s
         set owner = null, since = null, place = l.place, seq = l.seq
         from unnest($2::smallint[], $3::text[], $4::bigint[]) as l (slot, place, seq)
         where s.slot = l.slot and s.owner = $1",
    )
    .bind(owner)
    .bind(left.iter().map(|row| row.slot).collect::<Vec<_>>())
    .bind(left.iter().map(|row| row.place.as_str()).collect::<Vec<_>>())
    .bind(left.iter().map(|row| row.seq).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// What is left of a relay that ends.
pub(crate) async fn slot_free(connection: &mut PgConnection, owner: DbId) -> Result<(), sqlx::Error> {
    sqlx::query("update tidemill_outbox_slot set owner = null, since = null where owner = $1")
        .bind(owner)
        .execute(connection)
        .await?;
    Ok(())
}
