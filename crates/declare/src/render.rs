//! Files of renders: field mappings and profiles of compositions as CSV or YAML, and projects of After Effects.

mod csv;
mod mapping;
mod profile;
mod record;
mod template;
mod yaml;

#[cfg(test)]
mod tests;

pub use mapping::{read_mapping, write_mapping};
pub use profile::{read_profiles, write_profiles};
pub use template::{TEMPLATE_BYTES_MAX, read_template};

use crate::model::Place;
use crate::{Diagnostic, Diagnostics, Source};
use record::{Column, Record};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Csv,
    Yaml,
}

impl Format {
    /// The format by the extension of a file.
    ///
    /// ```
    /// # use tidemill_declare::render::Format;
    /// assert_eq!(Format::of("mapping.CSV".as_ref()), Some(Format::Csv));
    /// assert_eq!(Format::of("mapping.xlsx".as_ref()), None);
    /// ```
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "csv" => Some(Self::Csv),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// Does not check single records.
fn records(
    path: &Path,
    bytes: &[u8],
    format: Format,
    columns: &'static [Column],
) -> Result<(Source, Vec<Record>), Diagnostics> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let what = "the file is not UTF-8";
        let fix = "save it as UTF-8; spreadsheets offer that as \"CSV UTF-8\"";
        let mut problem = Diagnostic::of_file(path, what, fix);
        problem.place = Some(Place { line, column: 1 });
        Diagnostics::one(problem)
    })?;
    let source = Source::new(path, text);
    let records = match format {
        Format::Csv => csv::read(&source, columns)?,
        Format::Yaml => yaml::read(&source)?,
    };
    Ok((source, records))
}

fn write<T: Serialize>(things: &[T], format: Format, columns: &'static [Column]) -> String {
    let object = |thing: &T| {
        let value = serde_json::to_value(thing).expect("it has only texts, numbers and lists of them");
        if let Value::Object(fields) = value { fields } else { Map::new() }
    };
    let objects: Vec<_> = things.iter().map(object).collect();
    match format {
        Format::Csv => csv::write(&objects, columns),
        Format::Yaml => yaml::write(&objects),
    }
}
