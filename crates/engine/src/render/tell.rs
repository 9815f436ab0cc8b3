//! Logs and metrics of renders, and what only a person can fix.

use super::WorkerContext;
use crate::metrics;
use tidemill_domain::render::{Concern, Render, RenderId, Status};
use tidemill_domain::words::plural;
use tidemill_store::render::Worked;

pub(super) fn decided(context: &WorkerContext, before: Option<&Render>, worked: &Worked) {
    let (record, decision) = (&worked.record, &worked.decision);
    let render = &record.render;
    for concern in &decision.concerns {
        concerned(render.id, *concern);
    }
    if decision.write.is_none() || before.map(|before| before.status) == Some(render.status) {
        return;
    }
    let (id, worker, status, phase) = (render.id, &context.options.name, render.status, render.phase);
    let from = before.map(|before| format!("{} → ", before.status)).unwrap_or_default();
    let progress = render.progress.get();
    let reason = render.reason.as_ref();
    let took = record.started_at.zip(record.ended_at).map(|(from, to)| to.since(from));
    match (status, reason) {
        (Status::Failed, reason) => {
            context.vitals().failed += 1;
            let (code, why) =
                reason.map(|reason| (reason.code.to_string(), reason.message.as_str())).unwrap_or_default();
            tracing::error!(render.id = %id, worker, code, "render {id} has failed while {}: {why} ({code})", phase.label());
        }
        (Status::Pending, _) if render.awaits_approval() => {
            tracing::info!(render.id = %id, worker, "render {id} waits for approval");
        }
        (Status::Pending, Some(reason)) => {
            let (code, why, attempts) = (reason.code, &reason.message, render.counts.attempts);
            tracing::warn!(render.id = %id, worker, %code, attempts, "render {id} is tried again after {}, it was attempt {attempts}: {why} ({code})", render.run_after);
        }
        (Status::Completed, _) => {
            let path = record.output_path.as_deref().unwrap_or_default();
            let seconds = took.map(|took| took.as_secs_f64());
            tracing::info!(render.id = %id, worker, path, seconds, "render {id} is completed: {path}");
        }
        _ => {
            tracing::info!(render.id = %id, worker, "render {id}: {from}{status} ({progress}%)");
        }
    }
    if let Some(reason) = reason.filter(|_| matches!(status, Status::Failed | Status::Pending)) {
        metrics::render_failures(&reason.code.to_string()).increment(1);
    }
    if status == Status::Completed {
        context.vitals().completed += 1;
    }
    if status.is_terminal() {
        metrics::render_ended(status.as_str()).increment(1);
        if let Some(took) = took {
            metrics::render_duration(status.as_str()).record(took);
        }
    }
}

/// For people who read logs. Alerts are based on the rows.
pub(super) fn concerned(id: RenderId, concern: Concern) {
    match concern {
        Concern::Failure(failure) => {
            metrics::render_concerns("failure").increment(1);
            tracing::error!(render.id = %id, "render {id}: {failure} needs an operator ({})", failure.code());
        }
        Concern::Recovered { recoveries } => {
            metrics::render_concerns("recovered").increment(1);
            tracing::error!(render.id = %id, recoveries, "the workers of render {id} disappeared {} in a row", plural(recoveries, "time", "times"));
        }
        Concern::Late { deadline } => {
            metrics::render_concerns("late").increment(1);
            tracing::error!(render.id = %id, "render {id} is tried again only when it should be on air, at {deadline}");
        }
    }
}
