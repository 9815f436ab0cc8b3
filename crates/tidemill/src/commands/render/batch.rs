//! `render submit --csv` orders a render for each row of a table, all or none. `render batch` shows how far a batch is.

use super::submit::{Submit, date};
use super::{Setup, read_bytes, render_id};
use crate::commands::prelude::*;
use crate::config::Output;
use std::path::{Path, PathBuf};
use tidemill_api::render::batch::{OrderedBatch, RenderBatch, SheetRender};
use tidemill_domain::render::RenderId;
use tidemill_domain::render::sheet::{BYTES_MAX, BadSheet, SheetOrder, SheetProblem};
use tidemill_domain::words::plural;
use tidemill_engine::render::sheet::order;
use tidemill_engine::render::{Sheet, SheetError};
use tidemill_store::Tx;
use tidemill_store::render::{BatchRecord, PlannedRender};

#[derive(Args, Debug)]
pub(crate) struct Batch {
    /// Id of the batch
    #[arg(value_name = "BATCH", value_parser = render_id)]
    id: RenderId,
}

pub(super) async fn submit(file: PathBuf, arguments: Submit, context: &Context) -> Result<Exit> {
    let text = read_text(&file)?;
    let Submit { composition, priority, deadline, date: day, map, dry_run, .. } = arguments;
    let broadcast_date = day.as_deref().map(date).transpose()?;
    let defaults = SheetOrder { composition, priority, deadline, broadcast_date, ..SheetOrder::default() };
    let sheet = Sheet { text: &text, map: &map.into_iter().collect(), defaults };
    let allow = Setup::allow_if_known(&context.settings().render)?;
    let mut tx = context.begin().await?;
    let mut rows = sheet.plan(&mut tx, allow.as_ref()).await?;
    if dry_run {
        tx.rollback().await?;
        print(None, &rows, context)?;
        let problems: Vec<SheetProblem> = rows.into_iter().flat_map(|row| row.problems).collect();
        if !problems.is_empty() {
            return Err(BadSheet { problems }.into());
        }
        context.note("dry run: the orders are valid, nothing was ordered");
        return Ok(Exit::Ok);
    }
    let batch = order(&mut tx, &mut rows, &context.actor()).await?;
    tx.commit().await?;
    print(batch, &rows, context)?;
    context.note(&match batch {
        Some(batch) => format!("batch {batch}: see `tidemill render batch {batch}`"),
        None => "all of these renders are already ordered and have not ended".to_owned(),
    });
    Ok(Exit::Ok)
}

fn print(batch: Option<RenderId>, rows: &[PlannedRender], context: &Context) -> Result<Exit> {
    for row in rows {
        row.warnings
            .iter()
            .for_each(|warning| context.note(&format!("warning: line {}: {warning}", row.line)));
    }
    match context.output() {
        Output::Json | Output::Jsonl => {
            context.print_one("tidemill.render_batch_submitted/v1", &OrderedBatch::new(batch, rows))
        }
        Output::Table | Output::Csv => {
            let (schema, columns) =
                ("tidemill.render_batch_row/v1", "line composition cue_item? id is_new?? problems?");
            context.print_list::<SheetRender, _>(schema, "No rows.", rows, columns)
        }
    }
}

/// The table; reading stops at the size limit.
fn read_text(file: &Path) -> Result<String> {
    let bad = |what: String, fix: &str| Failure::new(Code::BadRenderSheet, what, fix);
    let bytes = read_bytes(file, BYTES_MAX)?.ok_or_else(|| {
        let what = format!("{} is larger than {} MB", file.display(), BYTES_MAX / 1_000_000);
        bad(what, "split it into several files")
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let fix = "save it as UTF-8; spreadsheets offer that as \"CSV UTF-8\"";
        bad(format!("{} is not UTF-8", file.display()), fix).because(error.utf8_error())
    })
}

pub(super) async fn show(arguments: &Batch, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let batch = find(&mut tx, arguments.id).await?;
    context.print_one("tidemill.render_batch/v1", &RenderBatch::from(&batch))
}

pub(super) async fn find(tx: &mut Tx, id: RenderId) -> Result<BatchRecord> {
    tx.renders().batch(id).await?.ok_or_else(|| {
        let fix = "use the number that `tidemill render submit --csv` printed";
        Failure::new(Code::RenderNotFound, format!("there is no batch {id}"), fix)
    })
}

/// The text before and behind the `=`.
pub(super) fn mapped(text: &str) -> Result<(String, String), String> {
    let (column, target) =
        text.split_once('=').ok_or("use COLUMN=FIELD, such as \"Player=Slot 1 - name\"")?;
    Ok((column.trim().to_owned(), target.trim().to_owned()))
}

impl From<SheetError> for Failure {
    fn from(error: SheetError) -> Self {
        match error {
            SheetError::Sheet(bad) => bad.into(),
            SheetError::Store(error) => error.into(),
        }
    }
}

impl From<BadSheet> for Failure {
    fn from(bad: BadSheet) -> Self {
        let what = format!("the table has {}", plural(bad.problems.len(), "problem", "problems"));
        let problems: Vec<String> = bad.problems.iter().map(ToString::to_string).collect();
        Self::new(bad.code(), what, bad.fix()).because(problems.join("\n"))
    }
}
