//! `render submit` orders a render. `render plan` only prints the job that nexrender would get. Both report all problems.

use super::mapping::unknown_target;
use super::{FileFormat, Setup, batch, read_data, read_table, render_id};
use crate::commands::finish;
use crate::commands::prelude::*;
use std::path::PathBuf;
use tidemill_declare::render::{read_mapping, read_profiles};
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::document::{Ingredients, build};
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::output::{BadBroadcastDate, title};
use tidemill_domain::render::{BroadcastDate, Profile, RenderId, Uid};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tidemill_engine::render::{BadMaterial, Material};
use tidemill_store::render::{NewRender, Submitted};

#[derive(Args, Debug)]
pub(crate) struct Submit {
    /// JSON file with the data (gfx_data); - for standard input
    #[arg(required_unless_present = "csv")]
    file: Option<PathBuf>,
    /// CSV file with a header, instead: each row becomes a render, all or none; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "cue_item"])]
    pub(super) csv: Option<PathBuf>,
    /// Field of a column with another name, such as "Player=Slot 1 - name"; "Notes=" leaves a column out
    #[arg(long, value_name = "COLUMN=FIELD", value_parser = batch::mapped, conflicts_with = "file")]
    pub(super) map: Vec<(String, String)>,
    /// Composition, if the data does not name it
    #[arg(long, value_name = "NAME")]
    pub(super) composition: Option<String>,
    /// Cue item; the same data for the same cue item is ordered only once
    #[arg(long, value_name = "ID")]
    cue_item: Option<String>,
    /// Higher priorities render first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(super) priority: i32,
    /// When the render goes on air, such as 2026-11-15T18:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(super) deadline: Option<Timestamp>,
    /// Broadcast date, such as 2026-11-15
    #[arg(long, value_name = "DATE")]
    pub(super) date: Option<String>,
    /// Check the order without placing it
    #[arg(long)]
    pub(super) dry_run: bool,
}

pub(super) async fn run(mut arguments: Submit, context: &Context) -> Result<Exit> {
    if let Some(table) = arguments.csv.take() {
        return batch::submit(table, arguments, context).await;
    }
    // Without a table the command line has a file.
    let text = read_data(&arguments.file.unwrap_or_default())?;
    let broadcast_date = arguments.date.as_deref().map(date).transpose()?;
    let allow = Setup::allow_if_known(&context.settings().render)?;
    let mut tx = context.begin().await?;
    let material = Material::read(&mut tx, &text, arguments.composition.as_deref()).await?;
    material.check(allow.as_ref())?;
    warn(&material.warnings(), context);
    let (data, composition) = (material.data, Some(material.profile.composition.clone()));
    let Submit { cue_item, priority, deadline, .. } = arguments;
    let order = NewRender { composition, data, cue_item, priority, deadline, broadcast_date };
    let submitted = tx.renders().submit(&order, &context.actor()).await?;
    finish(tx, arguments.dry_run).await?;
    if arguments.dry_run {
        return context.done("dry run: the order is valid, nothing was ordered");
    }
    let is_new = matches!(submitted, Submitted::New(_));
    let (render, composition) = (submitted.id().get(), material.profile.composition);
    let fields = json!({ "render": render, "composition": composition, "is_new": is_new });
    context.print_one("tidemill.render_submitted/v1", &fields)?;
    if !is_new {
        context.note("this render is already ordered and has not ended");
    }
    Ok(Exit::Ok)
}

pub(super) fn warn(warnings: &[String], context: &Context) {
    warnings.iter().for_each(|warning| context.note(&format!("warning: {warning}")));
}

pub(super) fn date(text: &str) -> Result<BroadcastDate> {
    text.parse()
        .map_err(|bad: BadBroadcastDate| Failure::new(bad.code(), bad.to_string(), "use the form 2026-11-15"))
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    /// JSON file with the data (gfx_data); - for standard input
    file: PathBuf,
    /// Composition, if the data does not name it
    #[arg(long, value_name = "NAME")]
    composition: Option<String>,
    /// Broadcast date, such as 2026-11-15. Default: today
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Id of the render in the job, which also decides the revision in the name of its file. Default: 1
    #[arg(long, value_name = "RENDER", value_parser = render_id)]
    id: Option<RenderId>,
    /// File of profiles, instead of those in the database
    #[arg(long, value_name = "FILE", requires = "mapping")]
    profiles: Option<PathBuf>,
    /// File of field mappings, instead of those in the database
    #[arg(long, value_name = "FILE", requires = "profiles")]
    mapping: Option<PathBuf>,
    /// Format of these files, if their names do not tell
    #[arg(long)]
    format: Option<FileFormat>,
}

pub(super) async fn plan(arguments: &Plan, context: &Context) -> Result<Exit> {
    let text = read_data(&arguments.file)?;
    let given_date = arguments.date.as_deref().map(date).transpose()?;
    let setup = Setup::read(&context.settings().render)?;
    let Planned { material, queue, revision } = planned(arguments, &text, context).await?;
    let uid = Uid::new(arguments.id.unwrap_or(RenderId::new(1)), Epoch::new(1));
    let extension = &material.profile.extension;
    let bad_place = |trouble: tidemill_domain::render::Trouble| {
        Failure::new(trouble.code, trouble.message, "correct render.paths or render.staging_folder")
    };
    let staged = setup.places.staged(uid, &queue, extension).map_err(bad_place)?;
    let document = build(Ingredients {
        uid,
        gfx: &material.gfx,
        mapping: &material.mapping,
        profile: &material.profile,
        staging: &staged.node,
        allow: &setup.allow,
        priority: 0,
        tags: setup.tags.as_deref(),
    })
    .map_err(BadMaterial::from)?;
    let today = || BroadcastDate::of(SystemClock::new().now(), &setup.zone);
    let date = given_date.or_else(today).ok_or_else(|| {
        Failure::new(Code::BadBroadcastDate, "today has no date in render.zone", "add --date")
    })?;
    let title = title(material.gfx.composition.clone(), Some(material.profile.composition.clone()));
    let output = setup.places.output(uid, revision, &title.unwrap_or_default(), extension, date);
    let chosen = setup.targets.of(&material.profile).map_err(|unknown| unknown_target(&unknown))?;
    let mut published: Vec<String> =
        chosen.stores.iter().map(|(_, folder)| format!("{folder}/{}", output.key)).collect();
    if chosen.is_on_nas {
        published.push(setup.places.published(&output).map_err(bad_place)?.to_string());
    }
    write_stdout(format!("{document:#}\n"))?;
    context.note(&format!("the node writes {}, which is {} on this host", staged.node, staged.local));
    context.note(&format!("it is published as {}", published.join(" and then as ")));
    warn(&material.warnings(), context);
    if let Err(failure) = setup.check_nodes() {
        context.note(&format!("a worker would not start: {}", failure.summary()));
    }
    Ok(Exit::Ok)
}

/// What a plan reads.
struct Planned {
    material: Material,
    /// The word of the queue, which is empty without a database.
    queue: String,
    /// Of the file.
    revision: u32,
}

async fn planned(arguments: &Plan, text: &str, context: &Context) -> Result<Planned> {
    let composition = arguments.composition.as_deref();
    if let (Some(profiles), Some(mapping)) = (&arguments.profiles, &arguments.mapping) {
        let profiles: Vec<Profile> = read_table(profiles, arguments.format, Code::BadProfile, read_profiles)?;
        let rows: Vec<MappingRow> =
            read_table(mapping, arguments.format, Code::BadFieldMapping, read_mapping)?;
        let material = Material::of_files(text, composition, &profiles, &rows)?;
        return Ok(Planned { material, queue: String::new(), revision: 1 });
    }
    let mut tx = context.read().await?;
    let material = Material::read(&mut tx, text, composition).await?;
    let record = match arguments.id {
        Some(id) => tx.renders().find(id).await?,
        None => None,
    };
    let revision = record.map_or(1, |record| record.output_revision);
    Ok(Planned { material, queue: tx.renders().queue().await?, revision })
}
