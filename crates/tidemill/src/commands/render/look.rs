//! `render list`, `show` and `workers`.

use super::{render_id, submit, unknown};
use crate::commands::prelude::*;
use tidemill_api::render::{Render, RenderDetail, RenderWorker};
use tidemill_domain::render::{RenderId, Status};
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::RenderFilter;

/// Conditions that are left out match every render.
#[derive(Args, Debug)]
pub(super) struct Filter {
    /// Only renders in this status, such as failed
    #[arg(long, value_parser = status, help_heading = "Filters")]
    status: Option<Status>,
    /// Only renders of this composition
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    composition: Option<String>,
    /// Only renders of this worker
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    worker: Option<String>,
    /// Only renders of this broadcast date, such as 2026-11-15
    #[arg(long, value_name = "DATE", help_heading = "Filters")]
    date: Option<String>,
    /// Only renders of this batch
    #[arg(long, value_name = "BATCH", value_parser = render_id, help_heading = "Filters")]
    pub(super) batch: Option<RenderId>,
    /// Only renders that are past their deadline and have not ended
    #[arg(long, help_heading = "Filters")]
    pub(super) late: bool,
}

impl Filter {
    /// The flags, by their names.
    pub(super) const FLAGS: [&'static str; 6] = ["status", "composition", "worker", "date", "batch", "late"];

    pub(super) fn read(&self) -> Result<RenderFilter> {
        Ok(RenderFilter {
            status: self.status,
            composition: self.composition.clone(),
            worker: self.worker.clone(),
            date: self.date.as_deref().map(submit::date).transpose()?,
            batch: self.batch,
            ..RenderFilter::default()
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    /// Only renders with a lower id, for the next page
    #[arg(long, value_name = "RENDER", value_parser = render_id)]
    before: Option<RenderId>,
    /// Maximum number of renders
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    /// Id of the render
    #[arg(value_name = "RENDER", value_parser = render_id)]
    id: RenderId,
    /// Print the data (gfx_data) instead
    #[arg(long, conflicts_with = "job")]
    data: bool,
    /// Print the last job sent to nexrender instead
    #[arg(long)]
    job: bool,
}

fn status(text: &str) -> Result<Status, String> {
    text.parse().map_err(|_| format!("use one of {}", Status::ALL.map(Status::as_str).join(", ")))
}

pub(super) async fn list(arguments: List, context: &Context) -> Result<Exit> {
    let List { filter: given, before, limit } = arguments;
    let mut filter = given.read()?;
    let mut tx = context.read().await?;
    filter.late_at = if given.late { Some(tx.now().await?) } else { None };
    let renders = tx.renders().list(&filter, before, limit + 1).await?;
    let columns = "id status phase? approval?? progress? composition priority?? worker? attempts?? created_at error_code output_path??";
    let (schema, empty) = ("tidemill.render/v1", "No renders match.");
    context.print_page::<Render, _>(schema, empty, &renders, columns, limit, "--before")
}

pub(super) async fn show(arguments: &Show, context: &Context) -> Result<Exit> {
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
            let fix = "wait until a worker claims it, or use `tidemill render plan`";
            Failure::new(Code::RenderNotFound, format!("render {id} has no nexrender job yet"), fix)
        })?;
        return write_stdout(format!("{document:#}\n"));
    }
    let transitions = tx.renders().transitions(id).await?;
    let detail = RenderDetail::new(&record, &attempts, &transitions);
    context.print_one("tidemill.render_detail/v1", &detail)
}

pub(super) async fn workers(context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
    let columns = "name process?? state in_flight capacity seen_at";
    let empty = "No worker is running.";
    context.print_list::<RenderWorker, _>("tidemill.render_worker/v1", empty, &workers, columns)
}
