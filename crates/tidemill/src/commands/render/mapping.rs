//! `render mapping`: which layer of a template shows which field.

use super::file::{FileFormat, read_table};
use super::finish;
use crate::context::Context;
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, Result};
use clap::Subcommand;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tidemill_declare::render::{read_mapping, write_mapping};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::render::mapping::MappingRow;
use tidemill_domain::words::plural;

/// Field mappings: which layer shows which field
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
        MappingCommand::List { composition } => list(composition.as_deref(), context).await,
        MappingCommand::Delete { composition, field } => {
            delete(&composition, field.as_deref(), context).await
        }
    }
}

struct Import {
    replace: bool,
    dry_run: bool,
}

/// Imports all rows or none.
async fn import(rows: &[MappingRow], how: Import, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let actor = context.actor();
    let compositions: BTreeSet<&str> = rows.iter().map(|row| row.composition.as_str()).collect();
    let columns = &["composition", "added", "changed", "unchanged", "removed"];
    let mut listing = Listing::new("tidemill.render_mapping_import/v1", columns, "Nothing to import.");
    for composition in compositions {
        let known: BTreeMap<String, MappingRow> = tx
            .renders()
            .field_mappings(Some(composition))
            .await?
            .into_iter()
            .map(|row| (row.field_name.clone(), row))
            .collect();
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
    finish(tx, how.dry_run, context).await?;
    listing.print(context.output())
}

async fn list(composition: Option<&str>, context: &Context) -> Result<Exit> {
    let rows = context.read().await?.renders().field_mappings(composition).await?;
    let columns = "composition field_name kind layer_name layer_composition?? property? source? optional?";
    context.print_list::<MappingRow, _>("tidemill.render_mapping/v1", "No mappings.", rows, columns)
}

async fn delete(composition: &str, field: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let count = tx.renders().delete_field_mappings(composition, field, &context.actor()).await?;
    if count == 0 {
        let known: Vec<_> =
            tx.renders().field_mappings(None).await?.into_iter().map(|row| row.composition).collect();
        let what = format!("the composition {composition:?} has no such mapping");
        let fix = format!("{}see `tidemill render mapping list`", did_you_mean(composition, &known));
        return Err(Failure::new(Code::UnknownComposition, what, fix));
    }
    tx.commit().await?;
    let mappings = plural(count, "mapping", "mappings");
    context.note(&format!("deleted {mappings} of the composition {composition:?}"));
    Ok(Exit::Ok)
}
