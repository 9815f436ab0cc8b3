//! CSV as spreadsheets write it: with semicolons or tabs instead of commas, and columns in any order.

use super::record::{Cell, Column, Content, Record, cell, find, stranger};
use crate::model::Place;
use crate::{Diagnostic, Diagnostics, Source};
use serde_json::{Map, Value};
use tidemill_engine::render::sheet::rows;

const BYTES_MAX: usize = 10_000_000;

/// An invalid header is reported alone, because no row makes sense then.
pub(super) fn read(source: &Source, columns: &'static [Column]) -> Result<Vec<Record>, Diagnostics> {
    let text = source.text();
    let names = || columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",");
    let whole = |what: String, fix: String| Diagnostics::one(Diagnostic::of_file(source.path(), what, fix));
    if text.len() > BYTES_MAX {
        let what = format!("the file is larger than {} MB", BYTES_MAX / 1_000_000);
        return Err(whole(what, "divide it".to_owned()));
    }
    if text.trim().is_empty() {
        return Err(whole("the file is empty".to_owned(), format!("begin with the header {}", names())));
    }
    let (mut header, mut records, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows(text) {
        let row = row.map_err(|error| whole(error.to_string(), "correct the file".to_owned()))?;
        let (place, row) = (Place { line: row.line, column: 1 }, row.cells);
        let mut bad = |what: String, fix: &str| {
            problems.push(Diagnostic::at(source, place, usize::MAX, what, fix));
        };
        if header.is_empty() {
            header = row.iter().map(|name| name.trim().to_owned()).collect();
            for name in header.iter().filter(|name| find(columns, name).is_none()) {
                let (what, fix) = stranger(columns, name);
                bad(what, &fix);
            }
            if !problems.is_empty() {
                break;
            }
            continue;
        }
        if row.len() != header.len() {
            let what = format!("the row has {} cells, and the header has {}", row.len(), header.len());
            bad(what, "put a text that has a comma in it into quotes, or add what is missing");
            continue;
        }
        if row.iter().all(String::is_empty) {
            continue;
        }
        let filled = header.iter().zip(&row).filter(|(_, text)| !text.is_empty());
        let cells = filled.map(|(name, text)| Cell {
            name: name.clone(),
            place,
            chars: usize::MAX,
            content: Content::Text(text.clone()),
        });
        records.push(Record { place, cells: cells.collect() });
    }
    Diagnostics::of(problems).map_or(Ok(records), Err)
}

pub(super) fn write(objects: &[Map<String, Value>], columns: &'static [Column]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let written = (|| {
        writer.write_record(columns.iter().map(|column| column.name))?;
        for object in objects {
            let text = |column: &Column| {
                object.get(column.name).map(|value| cell(column.kind, value)).unwrap_or_default()
            };
            writer.write_record(columns.iter().map(text))?;
        }
        writer.flush()
    })();
    written.expect("nothing goes wrong with writing to memory");
    let bytes = writer.into_inner().expect("it was flushed");
    String::from_utf8(bytes).expect("only texts were written")
}
