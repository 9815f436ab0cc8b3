//! The steps of an execution, as all commands show them.

use crate::output::Listing;
use serde_json::{Value, json};
use tidemill_domain::job::BatchStatus;
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

/// More partitions of an execution than this are not listed one by one for people, unless something is wrong with them.
const PARTITIONS_SHOWN: usize = 20;

/// Whether it is a partition of another step.
pub(super) fn is_partition(step: &StepRecord) -> bool {
    step.name.contains(':')
}

/// The steps that people want to see, and how many partitions are left out because they completed.
pub(super) fn for_people(steps: &[StepRecord]) -> (Vec<StepRecord>, usize) {
    let all = steps.iter().filter(|step| is_partition(step)).count();
    let is_shown = |step: &&StepRecord| {
        all <= PARTITIONS_SHOWN || !is_partition(step) || step.status != BatchStatus::Completed
    };
    let shown: Vec<StepRecord> = steps.iter().filter(is_shown).cloned().collect();
    let left_out = steps.len() - shown.len();
    (shown, left_out)
}

/// Says how many partitions were left out, if any were.
pub(super) fn left_out(count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} partitions that completed are not shown; -o json shows them all"))
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
        "process": step.process,
        "started_at": step.started_at.map(|at| at.to_string()),
        "ended_at": step.ended_at.map(|at| at.to_string()),
    })
}

/// How long a step took that has ended, to the tenth of a second.
fn seconds(step: &StepRecord) -> Option<f64> {
    let took = step.ended_at?.since(step.started_at?);
    Some((took.as_secs_f64() * 10.0).round() / 10.0)
}
