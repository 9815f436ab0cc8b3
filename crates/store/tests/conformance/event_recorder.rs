//! What a PostgreSQL server tells a client besides its answers: the driver hands it on as events. Here that is the plan
//! of each statement that really runs (`auto_explain`).

use crate::Bench;
use serde_json::Value;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, Once};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Event, Metadata, Subscriber};

/// Collects the notices that arrive on the thread that listens.
#[derive(Clone, Default)]
pub(crate) struct EventRecorder(Arc<Mutex<Vec<String>>>);

/// Makes every thread hear notices, whether or not somebody collects them. Otherwise a thread that meets the first notice
/// while another one begins to listen may decide for all threads that nobody does. Call it before the first connection.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| tracing::subscriber::set_global_default(EventRecorder::default()).unwrap());
}

impl EventRecorder {
    pub(crate) fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The plans of all that is done with this database meanwhile.
pub(crate) async fn plans_of(bench: &Bench, act: impl AsyncFnOnce(&Bench)) -> Vec<String> {
    let explaining = explaining(bench).await;
    let told = EventRecorder::default();
    let listening = told.listen();
    act(&explaining).await;
    drop(listening);
    explaining.store.close().await;
    told.messages()
}

/// The same database, by connections that are told the plans of their statements.
pub(crate) async fn explaining(bench: &Bench) -> Bench {
    let mut tx = bench.begin().await;
    for setting in [
        "session_preload_libraries = auto_explain",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_format = json",
        "auto_explain.log_level = notice",
        "auto_explain.log_nested_statements = on",
    ] {
        let database = bench.scratch.url().rsplit('/').next().unwrap().split('?').next().unwrap();
        tx.execute_for_test(&format!("alter database {database} set {setting}")).await.unwrap();
    }
    tx.commit().await.unwrap();
    let store = bench.scratch.store(Some(bench.clock.clone())).await.unwrap();
    Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() }
}

/// Whether a plan, as JSON, has a sequential scan of one of these tables.
pub(crate) fn reads_a_whole_table(plan: &str, is_one: fn(&str) -> bool) -> bool {
    let Some(json) = plan.find('{').and_then(|at| serde_json::from_str(&plan[at..]).ok()) else {
        return false;
    };
    has_scan(&json, is_one)
}

fn has_scan(node: &Value, is_one: fn(&str) -> bool) -> bool {
    let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default();
    if is_one(text("Relation Name")) && text("Node Type") == "Seq Scan" {
        return true;
    }
    match node {
        Value::Object(fields) => fields.values().any(|field| has_scan(field, is_one)),
        Value::Array(items) => items.iter().any(|item| has_scan(item, is_one)),
        _ => false,
    }
}

impl Subscriber for EventRecorder {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::postgres::notice"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message(String);

impl Visit for Message {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = fmt::format(format_args!("{value:?}"));
        }
    }
}
