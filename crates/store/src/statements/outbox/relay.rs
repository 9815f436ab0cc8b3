//! Statements on `tidemill_outbox_relay` and `tidemill_outbox_slot`.
//!
//! Lock order: a relay's row, then slots, for taking slots and for ending a relay alike.

use crate::codec::{DbId, DbSpan, DbTime};
use crate::outbox::detail::{RelayDetailRow, RelayRow};
use crate::outbox::relay::{Joining, LookRow, Looking, RelayFence};
use crate::statement::{Bind as _, One, Rows, column, rows, statements};
use crate::tx::sqlite_now;
use serde_json::json;
use tidemill_domain::outbox::cursor::Resting;
use tidemill_domain::outbox::{Place, RelayId, Slot};
use tidemill_domain::time::Timestamp;

/// The positions of slots, as rows.
pub(crate) fn resting(slots: &[(Slot, Resting)]) -> Rows {
    rows(slots, |(slot, resting)| {
        let place = json!(resting.window).to_string();
        json!({ "slot": slot.get(), "place": place, "seq": resting.seq.get() })
    })
}

statements! {
    fn outbox_relay_insert(joining: &Joining<'_>, now: Timestamp, until: Timestamp) -> () {
        bind(
            joining.id, joining.process, &joining.identity.name,
            &joining.identity.host, joining.identity.pid, joining.sink,
            joining.instance.map(|instance| i64::from(instance.id())),
            joining.instance.map(|instance| i64::from(instance.total())), now, until,
        )
        "insert into tidemill_outbox_relay
             (id, process, name, host, pid, sink, instance, total, joined_at, until, renewed_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9)"
    }

    /// A crash of the server takes this back: see the fence of `outbox_relay_acknowledge`.
    fn outbox_relay_joined(id: RelayId) -> () {
        "insert into tidemill_outbox_joined (relay) values ($1)"
    }

    fn outbox_relay_list() -> Vec<RelayRow> {
        "select r.id, r.name, r.host, r.pid, r.sink, r.instance{::bigint} as instance, r.total{::bigint} as total,
                r.joined_at, r.until, count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null
         group by r.id
         order by r.joined_at, r.id"
    }

    /// With a valid lease, oldest first.
    fn outbox_relay_details(now: Timestamp) -> Vec<RelayDetailRow> {
        "select r.id, r.process, r.name, r.host, r.pid, r.sink, r.instance{::bigint} as instance, r.total{::bigint} as total,
                r.joined_at, r.until, r.published, r.polls, r.empty_polls, r.queries, count(s.slot) as slots
         from tidemill_outbox_relay r
         left join tidemill_outbox_slot s on s.owner = r.id
         where r.ended_at is null and r.until > $1
         group by r.id
         order by r.joined_at, r.id"
    }

    /// The cursors of each relay that has slots.
    fn outbox_cursors() -> Vec<(DbId, String)> {
        "select id, cursors from tidemill_outbox_relay where id in (select owner from tidemill_outbox_slot)"
    }

    fn outbox_slots() -> Vec<Place> {
        "select slot, epoch, owner, place, seq from tidemill_outbox_slot order by slot"
    }

    /// Renews and looks in one statement, so that an idle relay costs one query a second. Uncommitted events cannot
    /// have been read, so everything beyond the snapshot is new. It is found by the index of transactions, which is the
    /// only reason for its order (see `reading`); an order inside of `exists` would be ignored. It lists attached
    /// tables without touching them: that may take long, and the lease depends on this statement.
    fn outbox_look(looking: &Looking<'_>, cursors: Option<&str>, now: Option<Timestamp>) -> One<LookRow> {
        postgres {
            bind(
                looking.fence.id, now, looking.fence.lease, looking.from.xmax().to_string(),
                column(looking.from.running(), u64::to_string), looking.slots, looking.fence.acks, cursors,
                looking.fence.timeline, looking.fence.effort.polls, looking.fence.effort.empty_polls,
                looking.fence.effort.queries,
            )
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
                          and exists (select from tidemill_outbox_joined where relay = $1)
                      returning acks
                  ),
                  owned as (select owner, count(*) as slots from tidemill_outbox_slot where owner is not null group by owner)
             select (select acks from beat) as acks,
                    clock.now,
                    pg_current_snapshot()::text as snapshot,
                    substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) as timeline,
                    (select floor_id from tidemill_outbox) as floor_id,
                    (select coalesce(json_agg(json_build_object(
                         'id', r.id, 'name', r.name, 'host', r.host, 'pid', r.pid, 'sink', r.sink,
                         'instance', r.instance, 'total', r.total,
                         'joined_at', (extract(epoch from r.joined_at) * 1000000)::bigint,
                         'until', (extract(epoch from case when r.id = $1 then clock.now + $3 else r.until end) * 1000000)::bigint,
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
                         'schema_name', a.schema_name, 'table_name', a.table_name, 'topic', a.topic,
                         'aggregate_type', a.aggregate_type, 'event_type', a.event_type, 'time_zone', a.time_zone)
                         order by a.schema_name, a.table_name), '[]')::text
                     from tidemill_outbox_adopted a) as attached
             from clock"
        }
        sqlite |connection| {
            // The snapshot is the last id given out, which does not go back when events are deleted.
            let now = match now {
                Some(now) => DbTime(now),
                None => sqlite_now(&mut *connection).await?,
            };
            let until = DbTime(now.0.plus(looking.fence.lease));
            let effort = looking.fence.effort;
            let acks: Option<(i64,)> = sqlx::query_as(
                "update tidemill_outbox_relay
                 set until = $3, renewed_at = $2, acks = acks + ($5 is not null), cursors = coalesce($5, cursors),
                     polls = $6, empty_polls = $7, queries = $8
                 where id = $1 and ended_at is null and acks = $4 and until > $2 returning acks",
            )
            .bind(DbId::from(looking.fence.id))
            .bind(now)
            .bind(until)
            .bind(looking.fence.acks)
            .bind(cursors)
            .bind(effort.polls.bound())
            .bind(effort.empty_polls.bound())
            .bind(effort.queries.bound())
            .fetch_optional(&mut *connection)
            .await?;
            sqlx::query_as(
                "select $1 as acks,
                        $2 as now,
                        (select (coalesce(max(seq), 0) + 1) || ':' || (coalesce(max(seq), 0) + 1) || ':'
                         from sqlite_sequence where name = 'outbox_event') as snapshot,
                        null as timeline,
                        (select floor_id from tidemill_outbox) as floor_id,
                        (select json_group_array(json_object(
                             'id', r.id, 'name', r.name, 'host', r.host, 'pid', r.pid, 'sink', r.sink,
                             'instance', r.instance, 'total', r.total,
                             'joined_at', r.joined_at, 'until', r.until,
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
                        '[]' as attached",
            )
            .bind(acks.map(|(acks,)| acks))
            .bind(now)
            .bind(i64::try_from(looking.from.xmax()).unwrap_or(i64::MAX))
            .bind(looking.slots.bound())
            .fetch_one(connection)
            .await
        }
    }

    fn outbox_relay_position(id: RelayId) -> Option<(i64, String)> {
        "select acks, cursors from tidemill_outbox_relay where id = $1 and ended_at is null"
    }

    /// The fence: does nothing if the relay has ended, its row has changed, or the server has crashed since the relay
    /// joined. After a crash the server gives out numbers of transactions again that the relay's snapshots may have
    /// passed. A relay may still settle after its lease has passed if it was not retired, but that does not renew the
    /// lease. By the primary key, and in place.
    fn outbox_relay_acknowledge(
        fence: RelayFence<'_>, cursors: &str, published: i64, now: Option<Timestamp>,
    ) -> u64 {
        bind(
            fence.id, fence.acks, cursors, published, now, DbSpan(fence.lease), fence.timeline,
            fence.effort.polls, fence.effort.empty_polls, fence.effort.queries,
        )
        "update tidemill_outbox_relay
         set acks = acks + 1, published = published + $4, cursors = $3,
             polls = $8, empty_polls = $9, queries = $10,
             until = case when until > coalesce($5, {now}) then coalesce($5, {now}) + $6 else until end,
             renewed_at = case when until > coalesce($5, {now}) then coalesce($5, {now}) else renewed_at end
         where id = $1 and ended_at is null and acks = $2 and ($7{::text} is null or $7 = {timeline})
             and exists (select 1 from tidemill_outbox_joined where relay = $1)"
    }

    /// A relay that has not ended.
    fn outbox_relay_lock(id: RelayId) -> Option<(DbId, String)> {
        "select id, cursors from tidemill_outbox_relay where id = $1 and ended_at is null {for update}"
    }

    /// Relays whose lease has passed; skips locked ones.
    fn outbox_relay_lock_lapsed(now: Timestamp) -> Vec<(DbId, String)> {
        "select id, cursors from tidemill_outbox_relay where ended_at is null and until <= $1 order by id
         {for update skip locked}"
    }

    fn outbox_relay_end(id: RelayId, now: Timestamp) -> () {
        "update tidemill_outbox_relay set ended_at = $2, cursors = '[]' where id = $1"
    }

    /// Skips locked ones.
    fn outbox_slot_lock_free(wanted: &[Slot]) -> Vec<Place> {
        "select slot, epoch, owner, place, seq from tidemill_outbox_slot
         where slot {in $1} and owner is null order by slot {for update skip locked}"
    }

    fn outbox_slot_epochs(owner: RelayId) -> Vec<(i16, i64)> {
        "select slot, epoch from tidemill_outbox_slot where owner = $1"
    }

    /// The slots are locked and free.
    fn outbox_slot_take(owner: RelayId, slots: &[Slot], now: Timestamp) -> () {
        "update tidemill_outbox_slot set owner = $1, epoch = epoch + 1, since = $3
         where slot {in $2} and owner is null"
    }

    /// The owner's row is locked.
    fn outbox_slot_leave(owner: RelayId, left: &[(Slot, Resting)]) -> () {
        bind(owner, resting(left))
        "update tidemill_outbox_slot as s set owner = null, since = null, place = l.place, seq = l.seq
         from {rows l $2: slot smallint, place text, seq bigint}
         where s.slot = l.slot and s.owner = $1"
    }

    /// All slots of a relay that ends.
    fn outbox_slot_free(owner: RelayId) -> () {
        "update tidemill_outbox_slot set owner = null, since = null where owner = $1"
    }
}
