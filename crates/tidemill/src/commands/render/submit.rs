//! `render submit`: orders a render. Problems are reported before a worker sees it.

use super::Setup;
use super::file::read_data;
use crate::context::Context;
use crate::report::{Failure, Result};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use tidemill_domain::code::Exit;
use tidemill_domain::render::BroadcastDate;
use tidemill_domain::render::output::BadBroadcastDate;
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::Material;
use tidemill_store::render::{NewRender, Submitted};

#[derive(Args, Debug)]
pub(crate) struct Submit {
    /// JSON file with the data (gfx_data); - for standard input
    file: PathBuf,
    /// Composition, if the data does not name it
    #[arg(long, value_name = "NAME")]
    composition: Option<String>,
    /// Cue item; the same data for the same cue item is ordered only once
    #[arg(long, value_name = "ID")]
    cue_item: Option<String>,
    /// Higher priorities render first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// When the render goes on air, such as 2026-11-15T18:00:00Z
    #[arg(long, value_name = "TIME")]
    deadline: Option<Timestamp>,
    /// Broadcast date, such as 2026-11-15
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Check the order without placing it
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(arguments: Submit, context: &Context) -> Result<Exit> {
    let text = read_data(&arguments.file)?;
    let broadcast_date = arguments.date.as_deref().map(date).transpose()?;
    // The allow list can be checked only on a host that has it in its configuration.
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
        context.note("dry run: the order is valid, nothing was ordered");
        return Ok(Exit::Ok);
    }
    tx.commit().await?;
    let is_new = matches!(submitted, Submitted::New(_));
    let (render, composition) = (submitted.id().get(), material.profile.composition);
    let fields = json!({ "render": render, "composition": composition, "is_new": is_new });
    context.print_one("tidemill.render_submitted/v1", &fields)?;
    if !is_new {
        context.note("this render is already ordered and has not ended");
    }
    Ok(Exit::Ok)
}

pub(super) fn date(text: &str) -> Result<BroadcastDate> {
    text.parse()
        .map_err(|bad: BadBroadcastDate| Failure::new(bad.code(), bad.to_string(), "use the form 2026-11-15"))
}
