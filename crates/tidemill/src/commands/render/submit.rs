//! `render submit`: orders a render. What can be seen to be wrong with it is told before it waits for a worker.

use super::Setup;
use super::file::read_data;
use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use tidemill_domain::code::Exit;
use tidemill_domain::render::BroadcastDate;
use tidemill_domain::render::output::BadBroadcastDate;
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::Material;
use tidemill_store::render::{NewRender, Submitted};

/// The order
#[derive(Args, Debug)]
pub(crate) struct Submit {
    /// A file with what is shown (gfx_data, as JSON); standard input if it is -
    file: PathBuf,
    /// The composition, if the data does not name it
    #[arg(long, value_name = "NAME")]
    composition: Option<String>,
    /// What it is ordered for; the same data for the same thing is not ordered twice
    #[arg(long, value_name = "ID")]
    cue_item: Option<String>,
    /// The higher, the sooner
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// When it is on air, such as 2026-11-15T18:00:00Z
    #[arg(long, value_name = "TIME")]
    deadline: Option<Timestamp>,
    /// The day of the broadcast, such as 2026-11-15
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Only tell what is wrong with it
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(arguments: Submit, context: &Context) -> Result<Exit, Failure> {
    let text = read_data(&arguments.file)?;
    let broadcast_date = arguments.date.as_deref().map(date).transpose()?;
    // Whoever orders need not know how renders are made; but if this host knows, it is the better judge.
    let settings = &context.settings().render;
    let allow = settings.template_folders.is_some().then(|| Setup::allow(settings)).transpose()?;
    let mut tx = context.begin().await?;
    let material = Material::read(&mut tx, &text, arguments.composition.as_deref()).await?;
    material.check(allow.as_ref())?;
    let order = NewRender {
        composition: Some(material.profile.composition.clone()),
        data: material.data,
        cue_item: arguments.cue_item,
        priority: arguments.priority,
        deadline: arguments.deadline,
        broadcast_date,
    };
    let submitted = tx.renders().submit(&order, &context.actor()).await?;
    if arguments.dry_run {
        tx.rollback().await?;
        context.note("a dry run: nothing was ordered, and nothing is wrong with it");
        return Ok(Exit::Ok);
    }
    tx.commit().await?;
    let is_new = matches!(submitted, Submitted::New(_));
    let fields = [
        ("render", json!(submitted.id().get())),
        ("composition", json!(material.profile.composition)),
        ("is_new", json!(is_new)),
    ];
    print_fields("tidemill.render_submitted/v1", &fields, context.output())?;
    if !is_new {
        context.note("the same was ordered before and has not ended, so nothing was added");
    }
    Ok(Exit::Ok)
}

pub(super) fn date(text: &str) -> Result<BroadcastDate, Failure> {
    text.parse().map_err(|bad: BadBroadcastDate| {
        Failure::new(bad.code(), bad.to_string(), "write year, month and day with dashes")
    })
}
