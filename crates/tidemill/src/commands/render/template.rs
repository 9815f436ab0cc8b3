//! `render template`: reads After Effects projects, drafts profiles and mappings, and checks mappings.

use super::mapping::{import, import_profiles};
use super::{read_bytes, read_table};
use crate::commands::init::write_new;
use crate::commands::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tidemill_declare::render::{
    Format, TEMPLATE_BYTES_MAX, read_mapping, read_template, write_mapping, write_profiles,
};
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::render::NodePath;
use tidemill_domain::render::template::Template;
use tidemill_domain::render::template::draft::{Draft, Wish, sample};

const SCRIPT: &str = include_str!("template/scan.jsx");

const OUTPUT_MODULE: &str = "H.264 - Match Render Settings - 15 Mbps";
const FILES: [&str; 3] = ["profiles.yaml", "mapping.csv", "data.json"];

#[derive(Subcommand, Debug)]
pub(crate) enum TemplateCommand {
    /// Draft profiles.yaml, mapping.csv and data.json from a project, or check a mapping
    Scan(Scan),
    /// Print a script for After Effects that reports a project
    Script,
}

#[derive(Args, Debug)]
pub(crate) struct Scan {
    /// Project as XML (.aepx), or the report of the script (.json); - for standard input
    file: PathBuf,
    /// Draft this composition; repeat for more. Default: those that no other one shows
    #[arg(long, value_name = "NAME")]
    composition: Vec<String>,
    /// Path of the project on render nodes. Default: its name in the template folder
    #[arg(long, value_name = "PATH")]
    template: Option<String>,
    /// Output module of After Effects
    #[arg(long, value_name = "NAME", default_value = OUTPUT_MODULE)]
    output_module: String,
    /// Folder for the drafts
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Replace existing drafts
    #[arg(long)]
    force: bool,
    /// Also import the drafts; refused if a composition is already known
    #[arg(long)]
    import: bool,
    /// Draft nothing, and list the rows of this mapping that fit no layer: a file, or a composition of the database
    #[arg(long, value_name = "FILE|COMPOSITION", conflicts_with_all = ["import", "force"])]
    check: Option<String>,
}

pub(super) async fn run(command: &TemplateCommand, context: &Context) -> Result<Exit> {
    match command {
        TemplateCommand::Script => write_stdout(SCRIPT),
        TemplateCommand::Scan(scan) => {
            let template = read(&scan.file)?;
            match &scan.check {
                Some(mapping) => check(&template, mapping, context).await,
                None => draft(&template, scan, context).await,
            }
        }
    }
}

fn read(file: &Path) -> Result<Template> {
    let bytes = read_bytes(file, TEMPLATE_BYTES_MAX)?.ok_or_else(|| {
        let what = format!("{} is larger than {} MB", file.display(), TEMPLATE_BYTES_MAX / 1_000_000);
        Failure::new(Code::BadTemplate, what, "use the report of `tidemill render template script`")
    })?;
    read_template(file, &bytes).map_err(|wrong| Failure::of_file(&wrong, Code::BadTemplate))
}

async fn draft(template: &Template, scan: &Scan, context: &Context) -> Result<Exit> {
    let names: Vec<&str> = template.compositions.iter().map(|one| one.name.as_str()).collect();
    if let Some(unknown) = scan.composition.iter().find(|name| !names.contains(&name.as_str())) {
        let what = format!("the project has no composition {unknown:?}");
        let fix = format!("{}use one of its {} compositions", did_you_mean(unknown, &names), names.len());
        return Err(Failure::new(Code::UnknownComposition, what, fix));
    }
    let path = path_on_nodes(template, scan, context)?;
    let Scan { composition, output_module, .. } = scan;
    let draft = template.draft(&Wish { compositions: composition, template: &path, output_module });
    let Some(first) = draft.mapping.first().map(|row| row.composition.as_str()) else {
        let fix = "give the layers of text and images names in After Effects, and scan the project again";
        let what = "no composition of the project can be drafted";
        return Err(Failure::new(Code::BadTemplate, what, fix).because(draft.notes.join("\n")));
    };
    for profile in &draft.profiles {
        let fix = "correct --template or --output-module";
        profile.check().map_err(|bad| Failure::new(bad.code(), bad.to_string(), fix))?;
    }
    if scan.import {
        refuse_known(&draft, context).await?;
    }
    let data = format!("{:#}\n", sample(first, &draft.mapping));
    let mapping = write_mapping(&draft.mapping, Format::Csv);
    let texts = [write_profiles(&draft.profiles, Format::Yaml), mapping, data];
    let files: Vec<(&str, &str)> = FILES.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let fix = "use another folder (--out DIR), or replace them with --force";
    write_new(&scan.out, &files, scan.force, fix)?;
    draft.notes.iter().for_each(|note| context.note(&format!("note: {note}")));
    files.iter().for_each(|(name, _)| context.note(&format!("wrote {}", scan.out.join(name).display())));
    let at = |name: &str| scan.out.join(name).display().to_string();
    if !scan.import {
        return context.done(&format!(
            "Correct the drafts. Next:\n  tidemill render profile import {}\n  tidemill render mapping import {}\n  \
             tidemill render plan {}",
            at(FILES[0]),
            at(FILES[1]),
            at(FILES[2])
        ));
    }
    import_profiles(&draft.profiles, false, context).await?;
    import(&draft.mapping, super::mapping::Import::default(), context).await?;
    context.done(&format!("Next:\n  tidemill render plan {0}\n  tidemill render submit {0}", at(FILES[2])))
}

/// The path of the project on nodes, as it is given or as the configuration says.
fn path_on_nodes(template: &Template, scan: &Scan, context: &Context) -> Result<String> {
    let fix = "add --template with the path of the project on render nodes, such as D:\\templates\\a.aep";
    let bad = |what: String| Failure::new(Code::BadPath, what, fix);
    let parse = |path: &str| NodePath::parse(path).map_err(|error| bad(error.to_string()));
    if let Some(path) = &scan.template {
        return Ok(parse(path)?.to_string());
    }
    let folders = context.settings().render.template_folders.as_deref().unwrap_or_default();
    let first = folders.split(';').map(str::trim).find(|folder| !folder.is_empty());
    match (first, &template.project) {
        (Some(folder), Some(name)) => {
            Ok(parse(folder)?.join(name).map_err(|error| bad(error.to_string()))?.to_string())
        }
        _ => Err(bad("nothing says where render nodes find the project".to_owned())),
    }
}

/// A draft is never better than what people have corrected.
async fn refuse_known(draft: &Draft, context: &Context) -> Result<()> {
    let mut tx = context.read().await?;
    let names: BTreeSet<&String> = draft.mapping.iter().map(|row| &row.composition).collect();
    for name in names {
        let has_profile = tx.renders().profile(name).await?.is_some();
        if has_profile || !tx.renders().field_mappings(Some(name)).await?.is_empty() {
            let what = format!("the composition {name:?} already has a profile or a mapping");
            let fix = "leave out --import, compare the drafts with `tidemill render mapping export`, and import them";
            return Err(Failure::new(Code::FileInTheWay, what, fix));
        }
    }
    Ok(())
}

/// Lists the rows that fit no layer, and fails if there are any.
async fn check(template: &Template, mapping: &str, context: &Context) -> Result<Exit> {
    let file = Path::new(mapping);
    let is_file = Format::of(file).is_some() || file.exists();
    let (rows, profiles) = if is_file {
        (read_table(file, None, Code::BadFieldMapping, read_mapping)?, Vec::new())
    } else {
        let mut tx = context.read().await?;
        (tx.renders().field_mappings(Some(mapping)).await?, tx.renders().profiles().await?)
    };
    if rows.is_empty() {
        let known = context.read().await?.renders().field_mappings(None).await?;
        let known: Vec<String> = known.into_iter().map(|row| row.composition).collect();
        let what = format!("there is no mapping of {mapping:?}");
        let fix = format!("{}see `tidemill render mapping list`", did_you_mean(mapping, &known));
        return Err(Failure::new(Code::UnknownComposition, what, fix));
    }
    let misfits = template.misfits(&rows, |name| {
        let profile = profiles.iter().find(|profile| profile.composition == name);
        profile.map_or(name, |profile| profile.in_template())
    });
    let columns = &["composition", "field_name", "layer_name", "problem", "suggestion"];
    let empty = "Every row of the mapping fits a layer.";
    let mut listing = Listing::new("tidemill.render_template_check/v1", columns, empty);
    for misfit in &misfits {
        let row = [&misfit.composition, &misfit.field_name, &misfit.layer_name, &misfit.problem];
        listing.push(row.map(|text| json!(text)).into_iter().chain([json!(misfit.suggestion)]).collect());
    }
    listing.print(context.output())?;
    Ok(if misfits.is_empty() { Exit::Ok } else { Exit::Failure })
}
