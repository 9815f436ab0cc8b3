//! `render mapping`: which layer of a template shows which field. `render profile`: the template of a composition, and the
//! requirements for its output file.

use super::{FileFormat, Setup, finish_import, read_table};
use crate::commands::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tidemill_declare::render::{read_mapping, read_profiles, write_mapping, write_profiles};
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::render::target::UnknownTarget;
use tidemill_domain::words::plural;

#[derive(Subcommand, Debug)]
pub(crate) enum MappingCommand {
    /// Import mappings from a file; existing mappings of the same fields are replaced
    Import {
        /// CSV or YAML file; - for standard input
        file: PathBuf,
        /// Format of the file. Default: by its name
        #[arg(long)]
        format: Option<FileFormat>,
        /// Delete mappings of the same compositions that are not in the file
        #[arg(long)]
        replace: bool,
        /// Show what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Print mappings in a format that can be imported
    Export {
        /// Only mappings of this composition
        #[arg(long, value_name = "NAME")]
        composition: Option<String>,
        /// Output format
        #[arg(long, default_value = "csv")]
        format: FileFormat,
    },
    /// List mappings by composition and field
    List {
        /// Only mappings of this composition
        composition: Option<String>,
    },
    /// Delete the mappings of a composition, or one of them
    Delete {
        /// Name of the composition
        composition: String,
        /// Only the mapping of this field
        #[arg(long, value_name = "FIELD")]
        field: Option<String>,
    },
}

pub(super) async fn run(command: MappingCommand, context: &Context) -> Result<Exit> {
    match command {
        MappingCommand::Import { file, format, replace, dry_run } => {
            let rows = read_table(&file, format, Code::BadFieldMapping, read_mapping)?;
            import(&rows, Import { replace, dry_run }, context).await
        }
        MappingCommand::Export { composition, format } => {
            let rows = context.read().await?.renders().field_mappings(composition.as_deref()).await?;
            write_stdout(write_mapping(&rows, format.into()))
        }
        MappingCommand::List { composition } => {
            let rows = context.read().await?.renders().field_mappings(composition.as_deref()).await?;
            let columns =
                "composition field_name kind layer_name layer_composition?? property? source? optional?";
            context.print_list::<MappingRow, _>("tidemill.render_mapping/v1", "No mappings.", rows, columns)
        }
        MappingCommand::Delete { composition, field } => {
            delete(&composition, field.as_deref(), context).await
        }
    }
}

#[derive(Default)]
pub(super) struct Import {
    replace: bool,
    dry_run: bool,
}

/// Imports all rows or none.
pub(super) async fn import(rows: &[MappingRow], how: Import, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let actor = context.actor();
    let compositions: BTreeSet<&str> = rows.iter().map(|row| row.composition.as_str()).collect();
    let columns = &["composition", "added", "changed", "unchanged", "removed"];
    let mut listing = Listing::new("tidemill.render_mapping_import/v1", columns, "Nothing to import.");
    for composition in compositions {
        let known = tx.renders().field_mappings(Some(composition)).await?.into_iter();
        let known: BTreeMap<_, _> = known.map(|row| (row.field_name.clone(), row)).collect();
        let new: Vec<&MappingRow> = rows.iter().filter(|row| row.composition == composition).collect();
        let count = |is_it: &dyn Fn(&MappingRow) -> bool| new.iter().filter(|row| is_it(row)).count();
        let gone: Vec<&String> = match how.replace {
            true => known.keys().filter(|field| new.iter().all(|row| row.field_name != **field)).collect(),
            false => Vec::new(),
        };
        listing.push(vec![
            json!(composition),
            json!(count(&|row| !known.contains_key(&row.field_name))),
            json!(count(&|row| known.get(&row.field_name).is_some_and(|old| old != row))),
            json!(count(&|row| known.get(&row.field_name) == Some(row))),
            json!(gone.len()),
        ]);
        for field in gone {
            tx.renders().delete_field_mappings(composition, Some(field), &actor).await?;
        }
    }
    tx.renders().save_field_mappings(rows, &actor).await?;
    finish_import(tx, how.dry_run, context).await?;
    listing.print(context.output())
}

async fn delete(composition: &str, field: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let count = tx.renders().delete_field_mappings(composition, field, &context.actor()).await?;
    if count == 0 {
        let known = tx.renders().field_mappings(None).await?.into_iter().map(|row| row.composition);
        return Err(has_none(composition, known.collect(), "such mapping", "mapping"));
    }
    tx.commit().await?;
    let mappings = plural(count, "mapping", "mappings");
    context.done(&format!("deleted {mappings} of the composition {composition:?}"))
}

#[derive(Subcommand, Debug)]
pub(crate) enum ProfileCommand {
    /// Import profiles from a file; existing profiles of the same compositions are replaced
    Import {
        /// CSV or YAML file; - for standard input
        file: PathBuf,
        /// Format of the file. Default: by its name
        #[arg(long)]
        format: Option<FileFormat>,
        /// Show what would change, without changing it
        #[arg(long)]
        dry_run: bool,
    },
    /// Print profiles in a format that can be imported
    Export {
        /// Only the profile of this composition
        #[arg(long, value_name = "NAME")]
        composition: Option<String>,
        /// Output format
        #[arg(long, default_value = "csv")]
        format: FileFormat,
    },
    /// List profiles by composition
    List,
    /// Delete a profile
    Delete {
        /// Name of the composition
        composition: String,
    },
}

pub(super) async fn run_profile(command: ProfileCommand, context: &Context) -> Result<Exit> {
    match command {
        ProfileCommand::Import { file, format, dry_run } => {
            let profiles = read_table(&file, format, Code::BadProfile, read_profiles)?;
            import_profiles(&profiles, dry_run, context).await
        }
        ProfileCommand::Export { composition, format } => {
            let mut profiles = context.read().await?.renders().profiles().await?;
            profiles.retain(|profile| composition.as_ref().is_none_or(|name| *name == profile.composition));
            write_stdout(write_profiles(&profiles, format.into()))
        }
        ProfileCommand::List => {
            let profiles = context.read().await?.renders().profiles().await?;
            let columns = "composition template width height rate duration? extension? output_module?";
            let (schema, empty) = ("tidemill.render_profile/v1", "No profiles.");
            context.print_list::<Profile, _>(schema, empty, profiles, columns)
        }
        ProfileCommand::Delete { composition } => delete_profile(&composition, context).await,
    }
}

/// Imports all profiles or none.
pub(super) async fn import_profiles(profiles: &[Profile], is_dry: bool, context: &Context) -> Result<Exit> {
    if let Some(targets) = Setup::targets_if_known(&context.settings().render)? {
        let checked = profiles.iter().try_for_each(|profile| targets.of(profile).map(drop));
        checked.map_err(|unknown| unknown_target(&unknown))?;
    }
    let mut tx = context.begin().await?;
    let columns = &["composition", "result"];
    let mut listing = Listing::new("tidemill.render_profile_import/v1", columns, "Nothing to import.");
    for profile in profiles {
        let result = match tx.renders().profile(&profile.composition).await? {
            None => "added",
            Some(known) if known == *profile => "unchanged",
            Some(_) => "changed",
        };
        listing.push(vec![json!(profile.composition), json!(result)]);
    }
    tx.renders().save_profiles(profiles, &context.actor()).await?;
    finish_import(tx, is_dry, context).await?;
    listing.print(context.output())
}

pub(super) fn unknown_target(unknown: &UnknownTarget) -> Failure {
    Failure::new(
        unknown.code(),
        unknown.to_string(),
        "correct the profile, or add the target to render.targets",
    )
}

async fn delete_profile(composition: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    if !tx.renders().delete_profile(composition, &context.actor()).await? {
        let known = tx.renders().profiles().await?.into_iter().map(|profile| profile.composition);
        return Err(has_none(composition, known.collect(), "profile", "profile"));
    }
    tx.commit().await?;
    context.done(&format!("deleted the profile of {composition:?}"))
}

fn has_none(composition: &str, known: Vec<String>, what: &str, noun: &str) -> Failure {
    let what = format!("the composition {composition:?} has no {what}");
    let fix = format!("{}see `tidemill render {noun} list`", did_you_mean(composition, &known));
    Failure::new(Code::UnknownComposition, what, fix)
}
