//! Lists failed events for people. Pages go from the oldest to the newest, each from the last id of the previous one.

use super::aggregate;
use crate::codec::{DbText, DbTime};
use crate::error::{Result, damaged};
use crate::outbox::event::{headers_column, payload_columns};
use crate::outbox::{FAILED_EVENT, counted};
use crate::statement::{Columns, One, Stored, statements, stored};
use crate::tx::Outbox;
use tidemill_domain::outbox::event::{BadEvent, Headers, headers_of};
use tidemill_domain::outbox::failed_event::{Edit, FailedEvent, FailedEventFacts, Original, StateWord};
use tidemill_domain::outbox::{Aggregate, Count, EventId, Payload, Seq, Slot};
use tidemill_domain::time::Timestamp;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FailedEventFilter {
    /// Empty matches any state.
    pub states: Vec<StateWord>,
    pub slot: Option<Slot>,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    /// The current topic.
    pub topic: Option<String>,
    pub event_type: Option<String>,
    pub error_contains: Option<String>,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FailedEventRecord in FAILED_EVENT |row| {
        pub id: EventId = "event_id",
        pub slot: Slot,
        pub seq: Seq,
        pub aggregate: Aggregate => aggregate(row)?,
        pub event_type: String,
        /// After redirection; `None` if the event itself is gone.
        pub topic: Option<String> => topic(row)?,
        pub failed_event: FailedEvent => Stored::from_columns(row)?,
        /// The first open event of its aggregate, when it is held.
        pub behind: Option<EventId>,
        pub error: Option<String>,
        pub since: Timestamp,
        pub updated_at: Timestamp,
        pub is_edited: bool,
        pub is_redirected: bool => row.get::<Option<String>>("own_topic")?.is_some(),
        pub original: Original => match row.get::<Option<DbText>>("event_topic")? {
            Some(_) => Original::Kept,
            None => Original::Gone,
        },
    }
}

fn topic(row: &Columns<'_>) -> Result<Option<String>, sqlx::Error> {
    let of_event: Option<DbText> = row.get("event_topic")?;
    Ok(row.get::<Option<String>>("own_topic")?.or(of_event.map(|topic| topic.text)))
}

/// What would be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub topic: String,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedEventDetail {
    pub record: FailedEventRecord,
    /// `None` if the event itself is gone; an error if it is invalid.
    pub content: Option<Result<Content, BadEvent>>,
}

impl FailedEventRecord {
    /// The facts that orders are judged by.
    pub fn facts(&self) -> FailedEventFacts {
        FailedEventFacts { failed_event: self.failed_event, behind: self.behind, original: self.original }
    }
}

impl FailedEventFilter {
    /// The same condition as in the listing statements.
    pub fn matches(&self, record: &FailedEventRecord) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let is_in_state = self.states.is_empty() || self.states.contains(&record.failed_event.state.word());
        let error = record.error.as_deref().unwrap_or_default();
        let has_error = self.error_contains.as_deref().is_none_or(|part| error.contains(part));
        is_in_state
            && has_error
            && is(self.slot.as_ref(), Some(&record.slot))
            && is(self.aggregate_type.as_deref(), Some(&record.aggregate.kind))
            && is(self.aggregate_id.as_deref(), Some(&record.aggregate.id))
            && is(self.topic.as_deref(), record.topic.as_deref())
            && is(self.event_type.as_deref(), Some(&record.event_type))
    }

    pub(crate) fn state_words(&self) -> Vec<&'static str> {
        let wanted = if self.states.is_empty() { &StateWord::ALL[..] } else { &self.states };
        wanted.iter().map(|state| state.as_str()).collect()
    }
}

crate::statement::row! {
    /// Without `created_at` the event itself is gone.
    pub(crate) struct ContentRow {
        created_at: Option<DbTime>,
        topic: Option<DbText>,
        payload: Option<DbText>,
        payload_bytes: Option<Vec<u8>>,
        headers: Option<DbText>,
    }
}

impl ContentRow {
    /// `None` if the event itself is gone; an inner error if it is invalid.
    pub(super) fn content(self, id: i64) -> Result<Option<Result<Content, BadEvent>>> {
        let (Some(created_at), Some(topic)) = (self.created_at, self.topic) else { return Ok(None) };
        let texts =
            [("topic", Some(&topic)), ("payload", self.payload.as_ref()), ("headers", self.headers.as_ref())];
        if let Some((what, _)) = texts.iter().find(|(_, text)| text.is_some_and(|text| text.is_garbled)) {
            return Ok(Some(Err(BadEvent::NotUtf8 { what })));
        }
        let headers = match self.headers.as_ref().map(|headers| headers_of(&headers.text)) {
            None => Headers::new(),
            Some(Ok(headers)) => headers,
            Some(Err(bad)) => return Ok(Some(Err(bad))),
        };
        let payload = match (self.payload, self.payload_bytes) {
            (Some(payload), None) => Payload::Json(payload.text),
            (None, Some(bytes)) => Payload::Bytes(bytes),
            (None, None) => Payload::Tombstone,
            (Some(_), Some(_)) => return Err(damaged("tidemill_outbox_exception", "payload_bytes", id)),
        };
        Ok(Some(Ok(Content { topic: topic.text, headers, payload, created_at: created_at.into() })))
    }
}

impl Outbox<'_> {
    /// Counted up to `count_max`.
    pub async fn count_failed_events(&mut self, filter: &FailedEventFilter, count_max: u32) -> Result<Count> {
        let count = self.failed_event_count(filter, i64::from(count_max) + 1).await?;
        Ok(counted(count, count_max))
    }

    #[crate::boxed]
    pub async fn failed_event(&mut self, id: EventId) -> Result<Option<FailedEventDetail>> {
        let Some(record) = self.failed_event_find(&[id.get()]).await?.pop() else { return Ok(None) };
        let content = match self.failed_event_content(id).await? {
            Some(row) => row.content(id.get())?,
            None => None,
        };
        Ok(Some(FailedEventDetail { record, content }))
    }
}

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

statements! {
    /// At most `limit` failed events after the event `after`.
    pub fn Outbox::failed_events(filter: &FailedEventFilter, after: EventId, limit: u32) -> Vec<FailedEventRecord> {
        bind(
            after, filter.state_words(), filter.slot, &filter.aggregate_type,
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
            filter.state_words(), filter.slot, &filter.aggregate_type,
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
        bind(ids)
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
            ids, edit.payload().is_some(), edit.payload().and_then(|payload| payload_columns(payload).0),
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
        "update tidemill_outbox_exception set topic = $2 where event_id {in $1}"
    }
}
