//! The steps of an execution, as all commands show them.

use crate::config::Output;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Result;
use serde_json::json;
use tidemill_api::execution::steps_to_show;
use tidemill_domain::code::Exit;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::ExecutionEnd;
use tidemill_store::job::StepRecord;
use tidemill_store::{Store, StoreError};

pub(super) async fn read(id: ExecutionId, store: &Store) -> Result<Vec<StepRecord>, StoreError> {
    let mut tx = store.read().await?;
    tx.jobs().steps(id).await
}

/// The step that failed first.
pub(super) fn failed(steps: &[StepRecord]) -> Option<&StepRecord> {
    steps.iter().find(|step| step.status.is_unsuccessful())
}

/// Why an execution did not complete: the error of the step that failed first, or its own.
pub(super) fn cause<'a>(end: &'a ExecutionEnd, steps: &'a [StepRecord]) -> &'a str {
    failed(steps).map_or(&end.exit.description, |step| &step.exit.description)
}

/// Prints the steps as a table or as CSV. A table leaves out completed partitions if there are many.
pub(super) fn print(steps: &[StepRecord], now: Timestamp, context: &Context) -> Result<Exit> {
    let output = context.output();
    let shown = if output == Output::Table { steps_to_show(steps) } else { steps.iter().collect() };
    let shown: Vec<(&StepRecord, Timestamp)> = shown.into_iter().map(|step| (step, now)).collect();
    listing(&shown).print(output)?;
    let left_out = steps.len() - shown.len();
    if left_out > 0 {
        context.note(&format!("{left_out} completed partitions are not shown; -o json shows all"));
    }
    Ok(Exit::Ok)
}

fn listing(steps: &[(&StepRecord, Timestamp)]) -> Listing {
    let listing = Listing::of("tidemill.step/v1", "No steps have run.", steps).columns(&[
        ("step", |(step, _)| json!(step.name)),
        ("status", |(step, _)| json!(step.status.as_str())),
        ("read", |(step, _)| json!(step.counters.read)),
        ("write", |(step, _)| json!(step.counters.write)),
        ("filter", |(step, _)| json!(step.counters.filter)),
        ("read_skip", |(step, _)| json!(step.counters.read_skip)),
        ("process_skip", |(step, _)| json!(step.counters.process_skip)),
        ("write_skip", |(step, _)| json!(step.counters.write_skip)),
        ("commit", |(step, _)| json!(step.counters.commit)),
        ("rollback", |(step, _)| json!(step.counters.rollback)),
        ("total_items", |(step, _)| json!(step.total_items)),
        ("delivery", |(step, _)| json!(step.delivery)),
        ("seconds", |(step, now)| json!(seconds(step, *now))),
    ]);
    listing.showing(
        "step status read write filter? read_skip? process_skip? write_skip? commit? rollback? total_items?? delivery?? seconds",
    )
}

/// The duration of a step, or how long it has been running, to a tenth of a second.
fn seconds(step: &StepRecord, now: Timestamp) -> Option<f64> {
    let end = step.ended_at.or_else(|| step.status.is_running().then_some(now))?;
    let took = end.since(step.started_at?);
    Some((took.as_secs_f64() * 10.0).round() / 10.0)
}
