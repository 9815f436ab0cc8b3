//! Field mappings as files.

use super::{Format, record, records, write};
use crate::render::record::{Column, Kind, needed, optional, parsed};
use crate::{Diagnostic, Diagnostics};
use std::path::Path;
use tidemill_domain::render::field::Field;
use tidemill_domain::render::mapping::{self, MappingRow};

/// `composition_id` is the name in the original tables.
static COLUMNS: [Column; 9] = [
    Column { other_name: Some("composition_id"), ..needed("composition", Kind::Text) },
    needed("field_name", parsed::<Field>()),
    needed("layer_name", Kind::Text),
    optional("layer_composition", Kind::Text),
    optional("property", Kind::Text),
    optional("kind", Kind::Word(mapping::Kind::NAMES)),
    optional("source", Kind::Text),
    optional("optional", Kind::Truth),
    optional("unused", Kind::Word(mapping::Unused::NAMES)),
];

/// ```
/// # use tidemill_declare::render::{Format, read_mapping};
/// let file = "composition,field_name,layer_name\nMain,Slot 1 - name,Name 1\nMain,Slot x,\n";
/// let wrong = read_mapping("m.csv".as_ref(), file.as_bytes(), Format::Csv).unwrap_err();
/// assert_eq!(wrong.problems().len(), 2);
/// assert!(wrong.problems()[0].headline().starts_with("m.csv:3:1: field_name: "));
/// ```
pub fn read_mapping(path: &Path, bytes: &[u8], format: Format) -> Result<Vec<MappingRow>, Diagnostics> {
    let (source, records) = records(path, bytes, format, &COLUMNS)?;
    let (mut rows, mut origins, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for found in &records {
        if let Some(row) = record::read::<MappingRow>(found, &COLUMNS, &source, &mut problems) {
            rows.push(row);
            origins.push(found);
        }
    }
    if let Err(bad) = mapping::read(&rows) {
        for (number, why) in bad.problems {
            let place = number.checked_sub(1).and_then(|index| origins.get(index)).map(|found| found.place);
            let fix = "correct the line; `tidemill explain TM1504` tells what a mapping may have";
            problems.push(Diagnostic::at(&source, place.unwrap_or_default(), usize::MAX, why, fix));
        }
    }
    Diagnostics::of(problems).map_or(Ok(rows), Err)
}

pub fn write_mapping(rows: &[MappingRow], format: Format) -> String {
    write(rows, format, &COLUMNS)
}
