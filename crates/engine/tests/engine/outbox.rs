//! The outbox: where records go, and whether they have arrived.

mod attached;
mod down;
mod idle;
mod keeper;
mod latency;
mod relay;
mod retry;
mod sink;
mod site;
mod stdout;
mod verify;

use std::sync::Arc;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Record, Seq};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::outbox::SinkOptions;

/// An event of an aggregate.
fn record(id: i64, aggregate: &str) -> Record {
    let aggregate = Aggregate { kind: "order".into(), id: aggregate.into() };
    Record {
        id: EventId::new(id),
        table: None,
        slot: aggregate.slot(),
        epoch: Epoch::new(1),
        seq: Seq::new(id),
        aggregate,
        event_type: "order.paid".into(),
        topic: "orders".into(),
        is_redirected: false,
        headers: [("trace".to_owned(), "abc".to_owned())].into(),
        payload: Payload::Json("{\n \"amount\": 5 }".into()),
        created_at: Timestamp::EPOCH,
    }
}

fn options() -> SinkOptions {
    let clock = FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap());
    SinkOptions { clock: Arc::new(clock), ..SinkOptions::default() }
}
