//! Tidemill's own events: transitions of executions, pools and renders. They contain ids, states and instants, never
//! parameters, reasons or errors, which may be confidential.

use super::event::{BadEvent, NewEvent, Payload, check_topic};
use crate::code::Code;
use crate::job::{BatchStatus, ExecutionId, InstanceId};
use crate::pool::event::Record;
use crate::pool::state::Change;
use crate::pool::{Event, PoolName};
use crate::render::{LABEL_CHARS_MAX, RenderId, Status};
use crate::time::Timestamp;
use serde_json::{Value, json};

const TOPIC: &str = "tidemill.events";

/// Which events are published, and where. None by default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LifecycleEvents {
    topic: String,
    pub jobs: bool,
    pub pools: bool,
    renders: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExecutionChange<'a> {
    pub execution: ExecutionId,
    pub instance: InstanceId,
    pub job: &'a str,
    pub what: ExecutionTransition,
    pub status: BatchStatus,
    /// Such as `COMPLETED`, if it has ended.
    pub exit_code: Option<&'a str>,
    pub at: Timestamp,
}

crate::words! {
    pub enum ExecutionTransition {
        Launched = "launched",
        Started = "started",
        Stopping = "stopping",
        /// It ended by itself; the event is named after its status.
        Ended = "ended",
        Abandoned = "abandoned",
        /// An operator declared it over.
        Recovered = "recovered",
        Lost = "lost",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenderChange<'a> {
    pub render: RenderId,
    pub composition: Option<&'a str>,
    /// What the render is for.
    pub cue_item: Option<&'a str>,
    /// Its end, or pending when it begins to wait for approval.
    pub status: Status,
    pub code: Option<Code>,
    pub output: Option<&'a str>,
    /// URLs of the same file in object stores.
    pub objects: &'a [&'a str],
    pub at: Timestamp,
}

impl RenderChange<'_> {
    pub(crate) fn payload(&self) -> Value {
        // Rows written by SQL can be longer than an event allows.
        let short = |text: &str| text.chars().take(LABEL_CHARS_MAX).collect::<String>();
        let is_there = self.status == Status::Completed;
        json!({
            "render": self.render.get(),
            "composition": self.composition.map(short),
            "cue_item": self.cue_item.map(short),
            "status": self.status.as_str(),
            "error_code": self.code.map(|code| code.to_string()),
            "output": self.output.filter(|_| is_there),
            "objects": if is_there { self.objects } else { &[] },
            "at": self.at.to_string(),
        })
    }
}

impl Default for LifecycleEvents {
    fn default() -> Self {
        Self { topic: TOPIC.to_owned(), jobs: false, pools: false, renders: false }
    }
}

impl LifecycleEvents {
    pub fn new(topic: impl Into<String>) -> Result<Self, BadEvent> {
        let topic = topic.into();
        check_topic(&topic)?;
        Ok(Self { topic, ..Self::default() })
    }

    crate::setters! {
        #[must_use]
        pub fn of_jobs(self) { self.jobs = true }
        #[must_use]
        pub fn of_pools(self) { self.pools = true }
        #[must_use]
        pub fn of_renders(self) { self.renders = true }
    }

    /// None unless events of jobs are enabled.
    pub fn of_execution(&self, change: &ExecutionChange<'_>) -> Option<NewEvent> {
        if !self.jobs {
            return None;
        }
        let word = match change.what {
            ExecutionTransition::Ended => change.status.as_str().to_ascii_lowercase(),
            what => what.to_string(),
        };
        let payload = json!({
            "execution": change.execution.get(),
            "instance": change.instance.get(),
            "job": change.job,
            "status": change.status.as_str(),
            "exit_code": change.exit_code,
            "at": change.at.to_string(),
        });
        let id = change.execution.get().to_string();
        Some(self.event("job_execution", &id, &format!("job.execution.{word}"), &payload))
    }

    /// None unless events of pools are enabled, and for internal events.
    pub fn of_record(&self, pool: &PoolName, record: &Record) -> Option<NewEvent> {
        let (word, mut payload) = pool_event(&record.event)?;
        if !self.pools {
            return None;
        }
        payload["pool"] = json!(pool.as_str());
        payload["version"] = json!(record.version);
        payload["at"] = json!(record.at.to_string());
        if let Some(ticket) = record.event.ticket() {
            payload["ticket"] = json!(ticket.to_string());
        }
        if let Some(holder) = &record.holder {
            payload["holder"] = json!({
                "dag_id": holder.dag_id(),
                "run_id": holder.run_id(),
                "task": holder.task(),
                "map_index": holder.map_index(),
            });
        }
        Some(self.event("pool", pool.as_str(), &format!("pool.{word}"), &payload))
    }

    /// None unless events of pools are enabled.
    pub fn of_removal(&self, pool: &PoolName, at: Timestamp) -> Option<NewEvent> {
        let payload = json!({ "pool": pool.as_str(), "at": at.to_string() });
        self.pools.then(|| self.event("pool", pool.as_str(), "pool.removed", &payload))
    }

    /// None unless events of renders are enabled.
    pub fn of_render(&self, change: &RenderChange<'_>) -> Option<NewEvent> {
        if !self.renders {
            return None;
        }
        let payload = change.payload();
        let id = change.render.get().to_string();
        let word =
            if change.status == Status::Pending { "awaiting_approval" } else { change.status.as_str() };
        Some(self.event("render", &id, &format!("render.{word}"), &payload))
    }

    fn event(&self, kind: &str, id: &str, event_type: &str, payload: &Value) -> NewEvent {
        NewEvent::new(kind, id, event_type, &self.topic, Payload::Json(payload.to_string()))
            .expect("its words are our own, its id is a number or a name, and the topic was checked")
    }
}

/// Name and payload of a pool's event. Moves within the queue and between grant and claim are internal.
fn pool_event(event: &Event) -> Option<(&'static str, Value)> {
    Some(match event {
        Event::Configured { settings, .. } => {
            let word = if settings.paused.is_some() { "paused" } else { "configured" };
            let payload = json!({
                "max_units": settings.max_units,
                "threshold_percent": settings.threshold_percent,
            });
            (word, payload)
        }
        Event::Enqueued { ticket } => ("queued", json!({ "asked": ticket.asked, "least": ticket.least })),
        Event::Granted { parallel, .. } => ("granted", json!({ "parallel": parallel })),
        Event::Resized { parallel, .. } => ("resized", json!({ "parallel": parallel })),
        Event::Doubted { .. } => ("suspect", json!({})),
        Event::Confirmed { .. } => ("confirmed", json!({})),
        Event::Ended { end, .. } => {
            let word = match end.change() {
                Change::Lapse => "expired",
                Change::Cancel => "cancelled",
                _ => "released",
            };
            (word, json!({ "end": end.as_str() }))
        }
        Event::Snapshot { .. }
        | Event::Breaker { .. }
        | Event::Asked { .. }
        | Event::Estimated { .. }
        | Event::Claimed { .. }
        | Event::Unclaimed { .. }
        | Event::Reacquired { .. }
        | Event::Wanted { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{End, Settings, TicketId};
    use uuid::Uuid;

    const AT: Timestamp = Timestamp::from_micros(1_000_000);

    fn change(what: ExecutionTransition, status: BatchStatus) -> ExecutionChange<'static> {
        let (execution, instance) = (ExecutionId::new(7), InstanceId::new(3));
        ExecutionChange { execution, instance, job: "settle", what, status, exit_code: None, at: AT }
    }

    fn record(event: Event) -> Record {
        Record { version: 4, seq: 0, at: AT, holder: None, event, summary: None }
    }

    #[test]
    fn nothing_is_told_by_default() {
        let (lifecycle_events, pool) = (LifecycleEvents::default(), "ADW".parse().unwrap());
        let ended = change(ExecutionTransition::Ended, BatchStatus::Completed);
        let doubted = record(Event::Doubted { ticket: TicketId::new(Uuid::nil()) });

        assert_eq!(lifecycle_events.of_execution(&ended), None);
        assert_eq!(lifecycle_events.of_record(&pool, &doubted), None);
        assert_eq!(lifecycle_events.of_removal(&pool, AT), None);
    }

    #[test]
    fn a_render_is_told_of_with_its_file_only_when_there_is_one() {
        let told = |status, lifecycle_events: LifecycleEvents| {
            lifecycle_events.of_render(&RenderChange {
                render: RenderId::new(7),
                composition: Some("Chips"),
                cue_item: None,
                status,
                code: (status == Status::Failed).then_some(Code::OutputInvalid),
                output: Some("/nas/x.mp4"),
                objects: &["s3://films/x.mp4"],
                at: AT,
            })
        };
        let renders = LifecycleEvents::new("ops").unwrap().of_renders();

        assert_eq!(told(Status::Completed, LifecycleEvents::new("ops").unwrap().of_jobs().of_pools()), None);
        let completed = told(Status::Completed, renders.clone()).unwrap();
        let waits = told(Status::Pending, renders.clone()).unwrap();
        let failed = told(Status::Failed, renders).unwrap();

        let payload = |event: &NewEvent| match event.payload() {
            Payload::Json(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((completed.event_type(), completed.aggregate().id.as_str()), ("render.completed", "7"));
        assert!(payload(&completed).contains(r#""output":"/nas/x.mp4""#), "{completed:?}");
        assert_eq!(waits.event_type(), "render.awaiting_approval");
        assert!(payload(&completed).contains(r#""objects":["s3://films/x.mp4"]"#), "{completed:?}");
        assert!(payload(&failed).contains(r#""objects":[]"#), "{failed:?}");
        assert_eq!(failed.event_type(), "render.failed");
        assert!(payload(&failed).contains("TM1534") && !payload(&failed).contains("/nas"), "{failed:?}");
    }

    #[test]
    fn whatever_a_row_says_a_render_can_be_told_of() {
        let long = "\u{1}".repeat(2_000_000);
        let change = RenderChange {
            render: RenderId::new(7),
            composition: Some(&long),
            cue_item: Some(&long),
            status: Status::Cancelled,
            code: None,
            output: None,
            objects: &[],
            at: AT,
        };

        assert!(LifecycleEvents::new("ops").unwrap().of_renders().of_render(&change).is_some());
    }

    #[test]
    fn an_execution_that_ended_is_named_after_its_status() {
        let lifecycle_events = LifecycleEvents::new("ops").unwrap().of_jobs();
        for (status, word) in [(BatchStatus::Completed, "completed"), (BatchStatus::Failed, "failed")] {
            let event = lifecycle_events.of_execution(&change(ExecutionTransition::Ended, status)).unwrap();

            assert_eq!(event.event_type(), format!("job.execution.{word}"));
            assert_eq!((event.topic(), event.aggregate().to_string()), ("ops", "job_execution/7".to_owned()));
        }
        let lost =
            lifecycle_events.of_execution(&change(ExecutionTransition::Lost, BatchStatus::Failed)).unwrap();
        assert_eq!(lost.event_type(), "job.execution.lost");
    }

    #[test]
    fn what_happens_in_a_pool_is_told_in_the_words_of_the_guide() {
        let (lifecycle_events, pool) =
            (LifecycleEvents::default().of_pools(), "ADW".parse::<PoolName>().unwrap());
        let ticket = TicketId::new(Uuid::nil());
        let ended = |end| Event::Ended { ticket, end };
        let configured = Event::Configured { settings: Box::new(Settings::new(pool.clone(), 8)), by: None };
        let claimed = Event::Claimed { ticket, call: None };

        for (event, word) in [
            (ended(End::Released { failed: true }), "pool.released"),
            (ended(End::HeldTooLong), "pool.expired"),
            (ended(End::GaveUp), "pool.cancelled"),
            (Event::Doubted { ticket }, "pool.suspect"),
            (configured, "pool.configured"),
        ] {
            let told = lifecycle_events.of_record(&pool, &record(event)).unwrap();
            assert_eq!((told.event_type(), told.aggregate().id.as_str()), (word, "ADW"));
        }
        assert_eq!(lifecycle_events.of_record(&pool, &record(claimed)), None);
    }

    #[test]
    fn the_word_of_an_operator_stays_inside() {
        let lifecycle_events = LifecycleEvents::default().of_pools();
        let end = End::ByOperator { by: "kim".into(), reason: "password in the log".into() };
        let ended = record(Event::Ended { ticket: TicketId::new(Uuid::nil()), end });

        let told = lifecycle_events.of_record(&"ADW".parse().unwrap(), &ended).unwrap();

        let Payload::Json(text) = told.payload() else { panic!("it is JSON") };
        assert!(!text.contains("kim") && !text.contains("password"), "{text}");
    }

    #[test]
    fn only_what_was_asked_for_is_included() {
        use crate::outbox::LifecycleEvents;
        let lifecycle_events = LifecycleEvents::new("ops").unwrap().of_jobs();
        assert!(lifecycle_events.jobs && !lifecycle_events.pools);
        assert!(LifecycleEvents::new("no topic").is_err());
    }
}
