//! Writers.

use super::{Builder, optional};
use crate::model::{ChunkFile, Names, ReadFile, WriteFile, WriteMode};
use tidemill_domain::item::{ItemError, Row};
use tidemill_engine::item::sql::{Mode, SqlWriter};
use tidemill_engine::item::{BoxWriter, CompositeWriter, CsvWriter, JsonLinesWriter};
use tidemill_engine::job::StepScope;
use tidemill_kafka::reader::record::COLUMNS;

/// Positions are saved under this name. It must never change, or steps could not be restarted by a later version.
const NAME: &str = "write";

/// Makes the writer for one run of the step.
pub(super) type MakeWriter =
    Box<dyn Fn(&StepScope, &Names) -> Result<BoxWriter<Row>, ItemError> + Send + Sync>;

impl Builder<'_> {
    pub(super) fn writer(&mut self, chunk: &ChunkFile) -> Option<MakeWriter> {
        let make: MakeWriter = match &chunk.write.value {
            WriteFile::Outbox(events) => {
                let events = self.events(events)?;
                Box::new(move |_: &StepScope, names: &Names| Ok(BoxWriter::new(events.writer(names)?)))
            }
            WriteFile::Sql { table, mode, columns, events } => {
                let events = optional(events.as_ref(), |events| self.events(events))?;
                let given = columns.iter().map(|column| column.value.clone()).collect();
                let columns = columns_of(given, chunk);
                if columns.is_empty() {
                    let fix = "add `columns: [...]` to the output, or `map` to the step";
                    self.refuse(chunk.write.place, "the columns to write are not known", fix);
                    return None;
                }
                let mode = match mode {
                    WriteMode::Copy => Mode::Copy,
                    WriteMode::Insert => Mode::Insert,
                    WriteMode::Upsert(key) => {
                        Mode::Upsert { key: key.iter().map(|column| column.value.clone()).collect() }
                    }
                };
                let table = table.value.clone();
                Box::new(move |scope: &StepScope, names: &Names| {
                    let rows = SqlWriter::rows(scope.store(), &table, &columns).mode(mode.clone());
                    Ok(match &events {
                        // Rows first: the number of an event is drawn when the row of its aggregate is locked.
                        Some(events) => {
                            BoxWriter::new(CompositeWriter::new().and(rows).and(events.writer(names)?))
                        }
                        None => BoxWriter::new(rows),
                    })
                })
            }
            WriteFile::Csv(file) => {
                let path = self.path(&file.path, Some(chunk))?;
                let (encoding, file) = (self.encoding(file.encoding.as_ref())?, file.clone());
                let columns = columns_of(file.columns.clone(), chunk);
                Box::new(move |scope: &StepScope, names: &Names| {
                    let mut writer = CsvWriter::rows(NAME, path.rendered(scope, names)?)
                        .delimiter(file.delimiter)
                        .encoding(encoding);
                    if let Some(roots) = &path.roots {
                        writer = writer.within(roots.clone());
                    }
                    if !file.has_headers {
                        writer = writer.no_headers();
                    } else if !columns.is_empty() {
                        writer = writer.columns(&columns);
                    }
                    Ok(BoxWriter::new(writer))
                })
            }
            WriteFile::JsonLines { path } => {
                let path = self.path(path, Some(chunk))?;
                Box::new(move |scope: &StepScope, names: &Names| {
                    let writer = JsonLinesWriter::rows(NAME, path.rendered(scope, names)?);
                    Ok(BoxWriter::new(match &path.roots {
                        Some(roots) => writer.within(roots.clone()),
                        None => writer,
                    }))
                })
            }
        };
        Some(make)
    }
}

/// Required columns in order, if the output goes by order and not by name.
pub(super) fn order(chunk: &ChunkFile) -> Option<Vec<String>> {
    match &chunk.write.value {
        WriteFile::Csv(file) => {
            Some(columns_of(file.columns.clone(), chunk)).filter(|columns| !columns.is_empty())
        }
        _ => None,
    }
}

/// The named columns, or those of the rows if they are known.
fn columns_of(given: Vec<String>, chunk: &ChunkFile) -> Vec<String> {
    if !given.is_empty() {
        return given;
    }
    if !chunk.map.is_empty() {
        return chunk.map.iter().map(|(column, _)| column.value.clone()).collect();
    }
    match &chunk.read.value {
        ReadFile::Csv(file) => file.columns.clone(),
        ReadFile::Kafka(_) => COLUMNS.map(str::to_owned).to_vec(),
        ReadFile::JsonLines { .. } | ReadFile::Sql { .. } => Vec::new(),
    }
}
