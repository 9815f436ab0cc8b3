//! The steps of an execution, as all commands show them.

use crate::config::Output;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use serde_json::{Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::job::BatchStatus;
use tidemill_store::job::StepRecord;

pub(super) fn listing(steps: &[StepRecord]) -> Listing {
    Listing::of("tidemill.step/v1", "No step has run.", steps).columns(&[
        ("step", |step| json!(step.name)),
        ("status", |step| json!(step.status.as_str())),
        ("read", |step| json!(step.counters.read)),
        ("write", |step| json!(step.counters.write)),
        ("filter", |step| json!(step.counters.filter)),
        ("read_skip", |step| json!(step.counters.read_skip)),
        ("process_skip", |step| json!(step.counters.process_skip)),
        ("write_skip", |step| json!(step.counters.write_skip)),
        ("commit", |step| json!(step.counters.commit)),
        ("rollback", |step| json!(step.counters.rollback)),
        ("total_items", |step| json!(step.total_items)),
        ("delivery", |step| json!(step.delivery)),
        ("seconds", |step| json!(seconds(step))),
    ])
}

/// More partitions of an execution than this are not listed one by one for people, unless something is wrong with them.
const PARTITIONS_SHOWN: usize = 20;

pub(super) fn is_partition(step: &StepRecord) -> bool {
    step.name.contains(':')
}

/// Prints the steps that people want to see, and notes how many partitions are left out because they completed.
pub(super) fn print_for_people(steps: &[StepRecord], context: &Context) -> Result<Exit, Failure> {
    let all = steps.iter().filter(|step| is_partition(step)).count();
    let is_shown = |step: &&StepRecord| {
        all <= PARTITIONS_SHOWN || !is_partition(step) || step.status != BatchStatus::Completed
    };
    let shown: Vec<StepRecord> = steps.iter().filter(is_shown).cloned().collect();
    listing(&shown).print(Output::Table)?;
    let left_out = steps.len() - shown.len();
    if left_out > 0 {
        context.note(&format!("{left_out} partitions that completed are not shown; -o json shows them all"));
    }
    Ok(Exit::Ok)
}

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
