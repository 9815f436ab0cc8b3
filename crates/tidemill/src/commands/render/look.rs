//! What people see of renders: `render list`, `show` and `workers`.

use super::{render_id, submit, unknown};
use crate::context::Context;
use crate::output::{print_fields, write_stdout};
use crate::report::Failure;
use clap::Args;
use serde_json::{Value, json};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::lease::Lease;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{Phase, RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::{AttemptRecord, RenderFilter, RenderRecord, TransitionRecord, WorkerState};

/// Which renders to list.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only those in this status, such as failed
    #[arg(long, value_parser = status)]
    status: Option<Status>,
    /// Only those of this composition
    #[arg(long, value_name = "NAME")]
    composition: Option<String>,
    /// Only those of the worker of this name
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Only those of this day, such as 2026-11-15
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Only renders before this one, for the next page
    #[arg(long, value_name = "RENDER", value_parser = render_id)]
    before: Option<RenderId>,
    /// At most so many renders
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Which render, and what of it.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Its number
    #[arg(value_name = "RENDER", value_parser = render_id)]
    id: RenderId,
    /// Print what it shows (gfx_data) instead
    #[arg(long, conflicts_with = "job")]
    data: bool,
    /// Print the job that nexrender got last instead
    #[arg(long)]
    job: bool,
}

fn status(text: &str) -> Result<Status, String> {
    let words = || Status::ALL.map(Status::as_str).join(", ");
    text.parse().map_err(|_| format!("write one of {}", words()))
}

pub(super) async fn list(arguments: List, context: &Context) -> Result<Exit, Failure> {
    let filter = RenderFilter {
        status: arguments.status,
        composition: arguments.composition,
        worker: arguments.worker,
        date: arguments.date.as_deref().map(submit::date).transpose()?,
    };
    let mut tx = context.read().await?;
    let renders = tx.renders().list(&filter, arguments.before, arguments.limit).await?;
    context.list("tidemill.render/v1", "No such renders.", &renders).columns(&[
        ("render", |record| json!(record.id().get())),
        ("status", |record| json!(record.render.status.as_str())),
        ("phase", |record| json!(record.render.phase.as_str())),
        ("progress", |record| json!(record.render.progress.get())),
        ("composition", |record| json!(record.composition)),
        ("priority", |record| json!(record.priority)),
        ("worker", |record| json!(record.worker_name)),
        ("attempts", |record| json!(record.render.counts.attempts)),
        ("created_at", |record| json!(record.created_at.to_string())),
        ("error_code", |record| json!(record.render.reason.as_ref().map(|reason| reason.code.to_string()))),
        ("output", |record| json!(record.output_path)),
    ])?;
    if let Some(last) = renders.last().filter(|_| renders.len() == arguments.limit as usize) {
        context.note(&format!("there may be more: go on with --before {}", last.id()));
    }
    Ok(Exit::Ok)
}

pub(super) async fn show(arguments: &Show, context: &Context) -> Result<Exit, Failure> {
    let id = arguments.id;
    let mut tx = context.read().await?;
    let record = tx.renders().find(id).await?.ok_or_else(|| unknown(id))?;
    if arguments.data {
        let data = tx.renders().data(id).await?.ok_or_else(|| unknown(id))?;
        return write_stdout(format!("{data}\n"));
    }
    let attempts = tx.renders().attempts(id).await?;
    if arguments.job {
        let last = attempts.iter().rev().find(|attempt| attempt.document_sha256.is_some());
        let document = match last {
            Some(attempt) => tx.renders().document(id, attempt.epoch).await?,
            None => None,
        };
        let document = document.ok_or_else(|| {
            let fix = "wait until a worker has made one, or see `tidemill render plan`";
            Failure::new(Code::RenderNotFound, format!("no job was made of render {id} yet"), fix)
        })?;
        return write_stdout(format!("{document:#}\n"));
    }
    let transitions = tx.renders().transitions(id).await?;
    let mut fields = fields(&record);
    fields.push(("tried", attempts.iter().map(attempt).collect()));
    fields.push(("history", transitions.iter().map(transition).collect()));
    print_fields("tidemill.render_detail/v1", &fields, context.output())
}

fn fields(record: &RenderRecord) -> Vec<(&'static str, Value)> {
    let render = &record.render;
    let at = |at: Option<Timestamp>| json!(at.map(|at| at.to_string()));
    let until = match render.lease {
        Lease::Held { until, .. } => until,
        Lease::Free { .. } => None,
    };
    vec![
        ("render", json!(record.id().get())),
        ("status", json!(render.status.as_str())),
        ("phase", json!(render.phase.as_str())),
        ("progress", json!(render.progress.get())),
        ("composition", json!(record.composition)),
        ("cue_item", json!(record.cue_item)),
        ("priority", json!(record.priority)),
        ("deadline", at(render.deadline)),
        ("broadcast_date", json!(record.broadcast_date.map(|date| date.to_string()))),
        ("worker", json!(record.worker_name)),
        ("lease_until", at(until)),
        ("remote_job", json!(record.remote_job)),
        ("attempts", json!(render.counts.attempts)),
        ("recoveries", json!(render.counts.recoveries)),
        ("run_after", at(Some(render.run_after).filter(|_| render.status == Status::Pending))),
        ("cancel_requested_at", at(render.cancel_requested_at)),
        ("error_code", json!(render.reason.as_ref().map(|reason| reason.code.to_string()))),
        ("error", json!(render.reason.as_ref().map(|reason| &reason.message))),
        ("output", json!(record.output_path)),
        ("output_bytes", json!(record.output_bytes)),
        ("output_sha256", json!(record.output_sha256)),
        ("poster", json!(record.poster_path)),
        ("encrypted_with", json!(record.key_id)),
        ("created_at", at(Some(record.created_at))),
        ("started_at", at(record.started_at)),
        ("completed_at", at(record.completed_at)),
        ("ended_at", at(record.ended_at)),
        ("duration_seconds", json!(record.duration_seconds)),
    ]
}

fn attempt(record: &AttemptRecord) -> Value {
    json!({
        "epoch": record.epoch.get(),
        "worker": record.worker_name,
        "remote_job": record.remote_job,
        "started_at": record.started_at.to_string(),
        "ended_at": record.ended_at.map(|at| at.to_string()),
        "outcome": record.outcome.map(AttemptOutcome::as_str),
        "error_code": record.reason.as_ref().map(|reason| reason.code.to_string()),
        "error": record.reason.as_ref().map(|reason| &reason.message),
        "report": record.report,
    })
}

fn transition(record: &TransitionRecord) -> Value {
    json!({
        "at": record.at.to_string(),
        "from": record.from.map(Status::as_str),
        "to": record.to.as_str(),
        "phase": record.phase.map(Phase::as_str),
        "by": record.by,
        "error_code": record.code.map(|code| code.to_string()),
    })
}

pub(super) async fn workers(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
    context.list("tidemill.render_worker/v1", "No worker is running.", &workers).columns(&[
        ("worker", |worker| json!(worker.name)),
        ("process", |worker| json!(worker.process.to_string())),
        ("state", |worker| json!(WorkerState::as_str(worker.state))),
        ("in_flight", |worker| json!(worker.in_flight)),
        ("capacity", |worker| json!(worker.capacity)),
        ("seen_at", |worker| json!(worker.seen_at.to_string())),
    ])
}
