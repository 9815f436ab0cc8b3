//! `render plan`: prints the job that nexrender would get, or all problems with it. Nothing is ordered.

use super::file::{FileFormat, read_data, read_table};
use super::{Setup, render_id, submit};
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::{Failure, Result};
use clap::Args;
use std::path::PathBuf;
use tidemill_declare::render::{read_mapping, read_profiles};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::document::{Ingredients, build};
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::{BroadcastDate, Profile, RenderId, Uid};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::render::{BadMaterial, Material};

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
    /// Id of the render in the job
    #[arg(long, value_name = "RENDER", value_parser = render_id, default_value = "1")]
    id: RenderId,
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

pub(super) async fn run(arguments: &Plan, context: &Context) -> Result<Exit> {
    let text = read_data(&arguments.file)?;
    let given_date = arguments.date.as_deref().map(submit::date).transpose()?;
    let setup = Setup::read(&context.settings().render)?;
    let material = material(arguments, &text, context).await?;
    let uid = Uid::new(arguments.id, Epoch::new(1));
    let extension = &material.profile.extension;
    let bad_place = |trouble: tidemill_domain::render::Trouble| {
        Failure::new(trouble.code, trouble.message, "correct render.paths or render.staging_folder")
    };
    let staged = setup.places.staged(uid, extension).map_err(bad_place)?;
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
    let output = setup.places.output(uid, &material.profile.composition, extension, date);
    let published = setup.places.published(&output).map_err(bad_place)?;
    write_stdout(format!("{document:#}\n"))?;
    context.note(&format!("the node writes {}, which is {} on this host", staged.node, staged.local));
    context.note(&format!("it is published as {published}"));
    if let Err(failure) = setup.check_nodes() {
        context.note(&format!("a worker would not start: {}", failure.summary()));
    }
    Ok(Exit::Ok)
}

async fn material(arguments: &Plan, text: &str, context: &Context) -> Result<Material> {
    let composition = arguments.composition.as_deref();
    if let (Some(profiles), Some(mapping)) = (&arguments.profiles, &arguments.mapping) {
        let profiles: Vec<Profile> = read_table(profiles, arguments.format, Code::BadProfile, read_profiles)?;
        let rows: Vec<MappingRow> =
            read_table(mapping, arguments.format, Code::BadFieldMapping, read_mapping)?;
        return Ok(Material::of_files(text, composition, &profiles, &rows)?);
    }
    let mut tx = context.read().await?;
    let material = Material::read(&mut tx, text, composition).await?;
    Ok(material)
}
