//! Writers.

use super::outbox::Events;
use super::path::FilePath;
use super::{Builder, optional};
use crate::model::{ChunkFile, CsvFile, Names, ReadFile, WriteFile, WriteMode};
use tidemill_domain::item::{ItemError, Row};
use tidemill_engine::item::sql::{Mode, SqlWriter};
use tidemill_engine::item::{BoxWriter, CompositeWriter, CsvWriter, Encoding, JsonLinesWriter};
use tidemill_engine::job::StepScope;
use tidemill_kafka::reader::record::COLUMNS;

/// Positions are saved under this name. It must never change, or steps could not be restarted by a later version.
const NAME: &str = "write";

#[derive(Clone, Debug)]
pub(super) enum Writing {
    Sql { table: String, columns: Vec<String>, mode: Mode, events: Option<Events> },
    Outbox(Events),
    Csv { path: FilePath, file: CsvFile, columns: Vec<String>, encoding: Encoding },
    JsonLines { path: FilePath },
}

impl Builder<'_> {
    pub(super) fn writing(&mut self, chunk: &ChunkFile) -> Option<Writing> {
        Some(match &chunk.write.value {
            WriteFile::Outbox(events) => Writing::Outbox(self.events(events)?),
            WriteFile::Sql { table, mode, columns, events } => {
                let events = optional(events.as_ref(), |events| self.events(events))?;
                let given = columns.iter().map(|column| column.value.clone()).collect();
                let columns = columns_of(given, chunk);
                if columns.is_empty() {
                    let fix = "add `columns: [...]` to the output, or `map` to the step";
                    self.refuse(chunk.write.place, "nobody says which columns are written", fix);
                    return None;
                }
                Writing::Sql {
                    table: table.value.clone(),
                    columns,
                    events,
                    mode: match mode {
                        WriteMode::Copy => Mode::Copy,
                        WriteMode::Insert => Mode::Insert,
                        WriteMode::Upsert(key) => {
                            Mode::Upsert { key: key.iter().map(|column| column.value.clone()).collect() }
                        }
                    },
                }
            }
            WriteFile::Csv(file) => Writing::Csv {
                path: self.path(&file.path, Some(chunk))?,
                encoding: self.encoding(file.encoding.as_ref())?,
                columns: columns_of(file.columns.clone(), chunk),
                file: file.clone(),
            },
            WriteFile::JsonLines { path } => Writing::JsonLines { path: self.path(path, Some(chunk))? },
        })
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

impl Writing {
    /// Required columns in order, if the output goes by order and not by name.
    pub(super) fn order(&self) -> Option<&[String]> {
        match self {
            Self::Csv { columns, .. } if !columns.is_empty() => Some(columns),
            _ => None,
        }
    }

    pub(super) fn writer(&self, scope: &StepScope, names: &Names) -> Result<BoxWriter<Row>, ItemError> {
        Ok(match self {
            Self::Sql { table, columns, mode, events } => {
                let rows = SqlWriter::rows(scope.store(), table, columns).mode(mode.clone());
                match events {
                    // Rows first: the number of an event is drawn when the row of its aggregate is locked.
                    Some(events) => {
                        BoxWriter::new(CompositeWriter::new().and(rows).and(events.writer(names)?))
                    }
                    None => BoxWriter::new(rows),
                }
            }
            Self::Outbox(events) => BoxWriter::new(events.writer(names)?),
            Self::Csv { path, file, columns, encoding } => {
                let mut writer = CsvWriter::rows(NAME, path.rendered(scope, names)?)
                    .delimiter(file.delimiter)
                    .encoding(*encoding);
                if let Some(roots) = &path.roots {
                    writer = writer.within(roots.clone());
                }
                if !file.has_headers {
                    writer = writer.no_headers();
                } else if !columns.is_empty() {
                    writer = writer.columns(columns);
                }
                BoxWriter::new(writer)
            }
            Self::JsonLines { path } => {
                let writer = JsonLinesWriter::rows(NAME, path.rendered(scope, names)?);
                BoxWriter::new(match &path.roots {
                    Some(roots) => writer.within(roots.clone()),
                    None => writer,
                })
            }
        })
    }
}
