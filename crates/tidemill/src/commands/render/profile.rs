//! `render profile`: where the template of a composition is, and what its file has to be.

use super::file::{FileFormat, read_table};
use crate::context::Context;
use crate::output::{Listing, write_stdout};
use crate::report::Failure;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use tidemill_declare::render::{read_profiles, write_profiles};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::render::Profile;

/// What is known of compositions
#[derive(Subcommand, Debug)]
pub(crate) enum ProfileCommand {
    /// Bring the profiles of a file; those of the same compositions are replaced
    Import {
        /// A CSV or YAML file; standard input if it is -
        file: PathBuf,
        /// How it is written, if its name does not tell
        #[arg(long)]
        format: Option<FileFormat>,
        /// Only tell what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Write profiles as a file
    Export {
        /// Only that of this composition
        #[arg(long, value_name = "NAME")]
        composition: Option<String>,
        /// How it is written
        #[arg(long, default_value = "csv")]
        format: FileFormat,
    },
    /// The profiles, by composition
    List,
    /// Forget a profile
    Delete {
        /// The composition
        composition: String,
    },
}

pub(super) async fn run(command: ProfileCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        ProfileCommand::Import { file, format, dry_run } => {
            let profiles = read_table(&file, format, Code::BadProfile, read_profiles)?;
            import(&profiles, dry_run, context).await
        }
        ProfileCommand::Export { composition, format } => {
            let mut profiles = stored(context).await?;
            profiles.retain(|profile| composition.as_ref().is_none_or(|name| *name == profile.composition));
            write_stdout(write_profiles(&profiles, format.into()))
        }
        ProfileCommand::List => list(context).await,
        ProfileCommand::Delete { composition } => delete(&composition, context).await,
    }
}

/// Brings all profiles, or none.
async fn import(profiles: &[Profile], is_dry: bool, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let columns = &["composition", "result"];
    let mut listing =
        Listing::new("tidemill.render_profile_import/v1", columns, "There was nothing to import.");
    for profile in profiles {
        let result = match tx.renders().profile(&profile.composition).await? {
            None => "added",
            Some(known) if known == *profile => "unchanged",
            Some(_) => "changed",
        };
        listing.push(vec![json!(profile.composition), json!(result)]);
    }
    tx.renders().save_profiles(profiles, &context.actor()).await?;
    if is_dry {
        tx.rollback().await?;
        context.note("a dry run: nothing was changed");
    } else {
        tx.commit().await?;
    }
    listing.print(context.output())
}

async fn stored(context: &Context) -> Result<Vec<Profile>, Failure> {
    let mut tx = context.read().await?;
    let profiles = tx.renders().profiles().await?;
    Ok(profiles)
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let profiles = stored(context).await?;
    let columns = "composition template width height rate duration extension output_module";
    let empty = "There are no profiles.";
    context.print_list::<Profile, _>("tidemill.render_profile/v1", empty, profiles, columns)
}

async fn delete(composition: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let was_there = tx.renders().delete_profile(composition, &context.actor()).await?;
    tx.commit().await?;
    if !was_there {
        let what = format!("there is no profile of the composition {composition:?}");
        return Err(Failure::new(Code::UnknownComposition, what, "see `tidemill render profile list`"));
    }
    context.note(&format!("the profile of {composition:?} is gone"));
    Ok(Exit::Ok)
}
