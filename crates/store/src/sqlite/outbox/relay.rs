//! Statements on `tidemill_outbox_relay` and `tidemill_outbox_slot`.

use super::numbers;
use crate::codec::{DbId, DbTime};
use crate::outbox::relay::{Looking, RelayFence};
use crate::row::outbox::relay::{EffortColumns, FreeSlotRow, JoinRow, LeftRow, LookRow, RelayRow};
use crate::sqlite::clock;
use sqlx::SqliteConnection;
use tidemill_domain::outbox::Slot;
use tidemill_domain::time::Timestamp;

pub(crate) async fn insert(connection: &mut SqliteConnection, row: &JoinRow<'_>) -> Result<(), sqlx::Error> {
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

pub(crate) async fn list(connection: &mut SqliteConnection) -> Result<Vec<RelayRow>, sqlx::Error> {
    sqlx::query_as(
        "select r.id, r.name, r.host, r.pid, r.sink, r.instance, r.total, r.joined_at, r.until,
                count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null
         group by r.id
         order by r.joined_at, r.id",
    )
    .fetch_all(connection)
    .await
}

/// The mark is how far ids were given out: that does not go back when events are removed.
pub(crate) async fn look(
    connection: &mut SqliteConnection,
    looking: &Looking<'_>,
    cursors: Option<&str>,
    now: Option<DbTime>,
) -> Result<LookRow, sqlx::Error> {
    let now = match now {
        Some(now) => now,
        None => clock::now(&mut *connection).await?,
    };
    let until = DbTime(Timestamp::from(now).plus(looking.fence.lease));
    let effort = EffortColumns::from(looking.fence.effort);
    let acks: Option<(i64,)> = sqlx::query_as(
        "update tidemill_outbox_relay
         set until = $3, renewed_at = $2, acks = acks + ($5 is not null), cursors = coalesce($5, cursors),
             polls = $6, empty_polls = $7, queries = $8
         where id = $1 and ended_at is null and acks = $4 and until > $2
         returning acks",
    )
    .bind(DbId::from(looking.fence.id))
    .bind(now)
    .bind(until)
    .bind(looking.fence.acks)
    .bind(cursors)
    .bind(effort.polls)
    .bind(effort.empty_polls)
    .bind(effort.queries)
    .fetch_optional(&mut *connection)
    .await?;
    sqlx::query_as(
        "select $1 as acks,
                $2 as now,
                (select (coalesce(max(seq), 0) + 1) || ':' || (coalesce(max(seq), 0) + 1) || ':'
                 from sqlite_sequence where name = 'outbox_event') as mark,
                null as timeline,
                (select floor_id from tidemill_outbox) as floor_id,
                (select json_group_array(json_object(
                     'id', r.id, 'name', r.name, 'host', r.host, 'pid', r.pid, 'sink', r.sink,
                     'instance', r.instance, 'total', r.total,
                     'joined_micros', r.joined_at, 'until_micros', r.until,
                     'slots', (select count(*) from tidemill_outbox_slot s where s.owner = r.id)))
                 from tidemill_outbox_relay r
                 where r.ended_at is null) as relays,
                (select json_group_array(slot) from tidemill_outbox_slot where owner is null) as free,
                -- Whoever has no slot would read everything and find nothing.
                case when json_array_length($4) = 0 then 0 else
                    exists (select 1 from outbox_event
                            where id >= $3 and id > (select floor_id from tidemill_outbox) and (slot is null or slot in (select value from json_each($4))))
                end as has_events,
                exists (select 1 from tidemill_outbox_exception
                        where state = 'waiting' and next_attempt_at <= $2
                            and slot in (select value from json_each($4))) as is_due,
                '[]' as adopted",
    )
    .bind(acks.map(|(acks,)| acks))
    .bind(now)
    .bind(i64::try_from(looking.from.xmax()).unwrap_or(i64::MAX))
    .bind(numbers(looking.slots))
    .fetch_one(connection)
    .await
}

pub(crate) async fn position(
    connection: &mut SqliteConnection,
    id: DbId,
) -> Result<Option<(i64, String)>, sqlx::Error> {
    sqlx::query_as("select acks, cursors from tidemill_outbox_relay where id = $1 and ended_at is null")
        .bind(id)
        .fetch_optional(connection)
        .await
}

/// The fence: nothing happens to a relay that has ended, or whose row is not the one it knows. What nobody else has taken
/// over may still be settled when the lease has passed, but that does not bring the lease back.
pub(crate) async fn acknowledge(
    connection: &mut SqliteConnection,
    fence: RelayFence<'_>,
    cursors: &str,
    published: i64,
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    let now = match now {
        Some(now) => now,
        None => clock::now(&mut *connection).await?,
    };
    let effort = EffortColumns::from(fence.effort);
    let done = sqlx::query(
        "update tidemill_outbox_relay
         set acks = acks + 1, published = published + $4, cursors = $3,
             polls = $7, empty_polls = $8, queries = $9,
             until = case when until > $6 then $5 else until end,
             renewed_at = case when until > $6 then $6 else renewed_at end
         where id = $1 and ended_at is null and acks = $2",
    )
    .bind(DbId::from(fence.id))
    .bind(fence.acks)
    .bind(cursors)
    .bind(published)
    .bind(DbTime(Timestamp::from(now).plus(fence.lease)))
    .bind(now)
    .bind(effort.polls)
    .bind(effort.empty_polls)
    .bind(effort.queries)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn lock_one(
    connection: &mut SqliteConnection,
    id: DbId,
) -> Result<Option<(DbId, String)>, sqlx::Error> {
    sqlx::query_as("select id, cursors from tidemill_outbox_relay where id = $1 and ended_at is null")
        .bind(id)
        .fetch_optional(connection)
        .await
}

pub(crate) async fn lock_lapsed(
    connection: &mut SqliteConnection,
    now: DbTime,
) -> Result<Vec<(DbId, String)>, sqlx::Error> {
    sqlx::query_as(
        "select id, cursors
         from tidemill_outbox_relay
         where ended_at is null and until <= $1
         order by id",
    )
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn end(connection: &mut SqliteConnection, id: DbId, now: DbTime) -> Result<(), sqlx::Error> {
    sqlx::query("update tidemill_outbox_relay set ended_at = $2, cursors = '[]' where id = $1")
        .bind(id)
        .bind(now)
        .execute(connection)
        .await?;
    Ok(())
}

pub(crate) async fn slot_lock_free(
    connection: &mut SqliteConnection,
    wanted: &[Slot],
) -> Result<Vec<FreeSlotRow>, sqlx::Error> {
    sqlx::query_as(
        "select slot, epoch, place, seq
         from tidemill_outbox_slot
         where slot in (select value from json_each($1)) and owner is null
         order by slot",
    )
    .bind(numbers(wanted))
    .fetch_all(connection)
    .await
}

pub(crate) async fn slot_epochs(
    connection: &mut SqliteConnection,
    owner: DbId,
) -> Result<Vec<(i16, i64)>, sqlx::Error> {
    sqlx::query_as("select slot, epoch from tidemill_outbox_slot where owner = $1")
        .bind(owner)
        .fetch_all(connection)
        .await
}

pub(crate) async fn slot_take(
    connection: &mut SqliteConnection,
    owner: DbId,
    slots: &[Slot],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_slot
         set owner = $1, epoch = epoch + 1, since = $3
         where slot in (select value from json_each($2)) and owner is null",
    )
    .bind(owner)
    .bind(numbers(slots))
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn slot_leave(
    connection: &mut SqliteConnection,
    owner: DbId,
    left: &[LeftRow],
) -> Result<(), sqlx::Error> {
    let left = serde_json::to_string(left).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    sqlx::query(
        "update tidemill_outbox_slot
         set owner = null, since = null, place = l.value ->> 'place', seq = l.value ->> 'seq'
         from json_each($2) as l
         where tidemill_outbox_slot.slot = l.value ->> 'slot' and owner = $1",
    )
    .bind(owner)
    .bind(left)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn slot_free(connection: &mut SqliteConnection, owner: DbId) -> Result<(), sqlx::Error> {
    sqlx::query("update tidemill_outbox_slot set owner = null, since = null where owner = $1")
        .bind(owner)
        .execute(connection)
        .await?;
    Ok(())
}
