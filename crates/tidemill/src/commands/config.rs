//! `tidemill config`: every value, and where it comes from.

use crate::commands::prelude::*;
use serde_json::Value;

#[derive(Subcommand, Debug)]
pub(crate) enum Config {
    /// List every key with its value; secrets are masked
    Show {
        /// Also show where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// Check the configuration without opening the database
    Check,
}

pub(super) fn run(arguments: &Config, context: &Context) -> Result<Exit> {
    match arguments {
        Config::Show { origin } => show(*origin, context),
        Config::Check => {
            // Loading has checked everything but the URL, which only the store can judge.
            context.database_url()?;
            let files: Vec<_> = context.loaded.files.iter().map(|path| path.display().to_string()).collect();
            let read = if files.is_empty() { "no file".to_owned() } else { files.join(" ") };
            write_stdout(format!("The configuration is valid. Files read: {read}.\n"))
        }
    }
}

fn show(origin: bool, context: &Context) -> Result<Exit> {
    let columns: &[&str] = if origin { &["key", "value", "origin"] } else { &["key", "value"] };
    let mut listing = Listing::new("tidemill.config/v1", columns, "No keys.");
    let loaded = &context.loaded;
    let keys = loaded.values.iter().map(|value| match value.shown.as_str() {
        "" => (value, Value::Null),
        shown => (value, json!(shown)),
    });
    let of_sections = loaded.sections.iter().map(|value| (value, json!(value.shown)));
    for (value, shown) in keys.chain(of_sections) {
        let mut row = vec![json!(value.path), shown];
        if origin {
            row.push(json!(value.origin.to_string()));
        }
        listing.push(row);
    }
    listing.print(context.output())
}
