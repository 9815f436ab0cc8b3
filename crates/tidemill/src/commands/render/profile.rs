//! `render profile`: the template of a composition, and the requirements for its output file.

use super::file::{FileFormat, read_table};
use super::finish;
use crate::context::Context;
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, Result};
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use tidemill_declare::render::{read_profiles, write_profiles};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::render::Profile;

/// Profiles of compositions
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

pub(super) async fn run(command: ProfileCommand, context: &Context) -> Result<Exit> {
    match command {
        ProfileCommand::Import { file, format, dry_run } => {
            let profiles = read_table(&file, format, Code::BadProfile, read_profiles)?;
            import(&profiles, dry_run, context).await
        }
        ProfileCommand::Export { composition, format } => {
            let mut profiles = context.read().await?.renders().profiles().await?;
            profiles.retain(|profile| composition.as_ref().is_none_or(|name| *name == profile.composition));
            write_stdout(write_profiles(&profiles, format.into()))
        }
        ProfileCommand::List => list(context).await,
        ProfileCommand::Delete { composition } => delete(&composition, context).await,
    }
}

/// Imports all profiles or none.
async fn import(profiles: &[Profile], is_dry: bool, context: &Context) -> Result<Exit> {
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
    finish(tx, is_dry, context).await?;
    listing.print(context.output())
}

async fn list(context: &Context) -> Result<Exit> {
    let profiles = context.read().await?.renders().profiles().await?;
    let columns = "composition template width height rate duration? extension? output_module?";
    let empty = "No profiles.";
    context.print_list::<Profile, _>("tidemill.render_profile/v1", empty, profiles, columns)
}

async fn delete(composition: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    if !tx.renders().delete_profile(composition, &context.actor()).await? {
        let known: Vec<_> =
            tx.renders().profiles().await?.into_iter().map(|profile| profile.composition).collect();
        let what = format!("the composition {composition:?} has no profile");
        let fix = format!("{}see `tidemill render profile list`", did_you_mean(composition, &known));
        return Err(Failure::new(Code::UnknownComposition, what, fix));
    }
    tx.commit().await?;
    context.note(&format!("deleted the profile of {composition:?}"));
    Ok(Exit::Ok)
}
