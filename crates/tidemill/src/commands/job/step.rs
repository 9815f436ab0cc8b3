//! The steps of an execution, as all commands show them.

use crate::output::Listing;
use serde_json::{Value, json};
use tidemill_store::job::StepRecord;

const COLUMNS: &[&str] = &[
    "step",
    "status",
    "read",
    "write",
    "filter",
    "read_skip",
    "process_skip",
    "write_skip",
    "commit",
    "rollback",
    "total_items",
    "delivery",
    "seconds",
];

/// The steps as a table.
pub(super) fn listing(steps: &[StepRecord]) -> Listing {
    let mut listing = Listing::new("tidemill.step/v1", COLUMNS, "No step has run.");
    for step in steps {
        let counters = &step.counters;
        listing.push(vec![
            json!(step.name),
            json!(step.status.as_str()),
            json!(counters.read),
            json!(counters.write),
            json!(counters.filter),
            json!(counters.read_skip),
            json!(counters.process_skip),
            json!(counters.write_skip),
            json!(counters.commit),
            json!(counters.rollback),
            json!(step.total_items),
            json!(step.delivery),
            json!(seconds(step)),
        ]);
    }
    listing
}

/// One step as a program reads it.
pub(super) fn object(step: &StepRecord) -> Value {
    let counters = &step.counters;
    json!({
        "id": step.id.get(),
        "name": step.name,
        "status": step.status.as_str(),
        "exit_code": step.exit.code,
        "exit_description": step.exit.description,
        "counters": {
            "read": counters.read,
            "write": counters.write,
            "filter": counters.filter,
            "read_skip": counters.read_skip,
            "process_skip": counters.process_skip,
            "write_skip": counters.write_skip,
            "commit": counters.commit,
            "rollback": counters.rollback,
        },
        "total_items": step.total_items,
        "delivery": step.delivery,
        "started_at": step.started_at.map(|at| at.to_string()),
        "ended_at": step.ended_at.map(|at| at.to_string()),
    })
}

/// How long a step took that has ended, to the tenth of a second.
fn seconds(step: &StepRecord) -> Option<f64> {
    let took = step.ended_at?.since(step.started_at?);
    Some((took.as_secs_f64() * 10.0).round() / 10.0)
}
