//! Statements on `tidemill_outbox_exception` for operators.

use crate::outbox::failed_event::list::ContentRow;
use crate::outbox::failed_event::{FailedEventFilter, FailedEventRecord};
use crate::statement::{One, list, statements};
use crate::statements::outbox::event::{headers_column, payload_columns};
use tidemill_domain::outbox::failed_event::Edit;
use tidemill_domain::outbox::{EventId, Slot};

/// Without content; the rest of the statement says which.
macro_rules! failed_events {
    ($rest:literal) => {
        concat!(
            "select x.event_id, x.slot, x.seq, x.aggregate_type, x.aggregate_id, x.event_type, x.state, x.revision,
                    x.attempts, x.next_attempt_at, x.error, x.since, x.updated_at, x.is_edited,
                    x.topic as own_topic, e.topic as event_topic,
                    case when x.state = 'held' then (
                        select open.event_id
                        from tidemill_outbox_exception open
                        where open.slot = x.slot
                          and open.aggregate_type = x.aggregate_type
                          and open.aggregate_id = x.aggregate_id
                          and open.state <> 'skipped'
                        order by open.seq
                        limit 1
                    ) end as behind
             from tidemill_outbox_exception x
             left join outbox_event e on e.id = x.event_id ",
            $rest
        )
    };
}

fn number(slot: Slot) -> i16 {
    slot.get().into()
}

statements! {
    /// At most `limit` failed events after the event `after`.
    pub fn Outbox::failed_events(filter: &FailedEventFilter, after: EventId, limit: u32) -> Vec<FailedEventRecord> {
        bind(
            after, list(&filter.state_words()), filter.slot.map(number), &filter.aggregate_type,
            &filter.aggregate_id, &filter.topic, &filter.event_type, &filter.error_contains, limit,
        )
        failed_events!(
            "where x.event_id > $1
               and x.state {in $2}
               and ($3{::smallint} is null or x.slot = $3)
               and ($4{::text} is null or x.aggregate_type = $4)
               and ($5{::text} is null or x.aggregate_id = $5)
               and ($6{::text} is null or coalesce(x.topic, e.topic) = $6)
               and ($7{::text} is null or x.event_type = $7)
               and ($8{::text} is null or {position}(x.error, $8) > 0)
             order by x.event_id limit $9"
        )
    }

    /// Counted up to `limit`, state by state, so that the index can be read in its order.
    fn failed_event_count(filter: &FailedEventFilter, limit: i64) -> One<i64> {
        bind(
            list(&filter.state_words()), filter.slot.map(number), &filter.aggregate_type,
            &filter.aggregate_id, &filter.topic, &filter.event_type, &filter.error_contains, limit,
        )
        postgres {
            "select count(*)
             from (
                 select 1
                 from unnest($1::text[]) as wanted (state)
                 cross join lateral (
                     select x.event_id
                     from tidemill_outbox_exception x
                     left join outbox_event e on e.id = x.event_id
                     where x.state = wanted.state
                       and ($2::smallint is null or x.slot = $2)
                       and ($3::text is null or x.aggregate_type = $3)
                       and ($4::text is null or x.aggregate_id = $4)
                       and ($5::text is null or coalesce(x.topic, e.topic) = $5)
                       and ($6::text is null or x.event_type = $6)
                       and ($7::text is null or strpos(x.error, $7) > 0)
                     order by x.event_id
                     limit $8
                 ) as found
                 limit $8
             ) as counted"
        }
        sqlite {
            "select count(*)
             from (
                 select 1
                 from tidemill_outbox_exception x
                 left join outbox_event e on e.id = x.event_id
                 where x.state in (select value from json_each($1))
                   and ($2 is null or x.slot = $2)
                   and ($3 is null or x.aggregate_type = $3)
                   and ($4 is null or x.aggregate_id = $4)
                   and ($5 is null or coalesce(x.topic, e.topic) = $5)
                   and ($6 is null or x.event_type = $6)
                   and ($7 is null or instr(x.error, $7) > 0)
                 limit $8
             ) as counted"
        }
    }

    fn failed_event_find(ids: &[i64]) -> Vec<FailedEventRecord> {
        bind(list(ids))
        failed_events!("where x.event_id {in $1}")
    }

    /// What would be published.
    fn failed_event_content(id: EventId) -> Option<ContentRow> {
        "select e.created_at, coalesce(x.topic, e.topic) as topic,
                case when x.is_edited then x.payload else e.payload end as payload,
                case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                case when x.is_edited then x.headers else e.headers end as headers
         from tidemill_outbox_exception x
         left join outbox_event e on e.id = x.event_id
         where x.event_id = $1"
    }

    /// Overrides the content. Parts that are not replaced are copied from the current content.
    fn failed_event_edit(ids: &[i64], edit: &Edit) -> () {
        bind(
            list(ids), edit.payload().is_some(), edit.payload().and_then(|payload| payload_columns(payload).0),
            edit.payload().and_then(|payload| payload_columns(payload).1), edit.headers().is_some(),
            edit.headers().and_then(headers_column),
        )
        "update tidemill_outbox_exception as x
         set is_edited = true,
             payload = case when $2 then $3 when x.is_edited then x.payload else e.payload end,
             payload_bytes = case when $2 then $4 when x.is_edited then x.payload_bytes else e.payload_bytes end,
             headers = case when $5 then $6 when x.is_edited then x.headers else e.headers end
         from outbox_event e where e.id = x.event_id and x.event_id {in $1}"
    }

    fn failed_event_redirect(ids: &[i64], topic: &str) -> () {
        bind(list(ids), topic)
        "update tidemill_outbox_exception set topic = $2 where event_id {in $1}"
    }
}
