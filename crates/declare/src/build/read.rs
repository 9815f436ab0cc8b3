//! Readers.

use super::names::{hinted, rendered};
use super::path::FilePath;
use super::{Builder, optional};
use crate::model::{At, ChunkFile, Names, ReadFile};
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_engine::item::reader::FileReader;
use tidemill_engine::item::reader::file::Format;
use tidemill_engine::item::sql::{CursorReader, Database, KeysetReader};
use tidemill_engine::item::{BoxReader, CsvReader, Encoding, JsonLinesReader};
use tidemill_engine::job::StepScope;
use tidemill_kafka::{From, KafkaOptions, KafkaReader, PATIENCE};

/// Positions are saved under this name. It must never change, or steps could not be restarted by a later version.
const NAME: &str = "read";

/// Default number of rows per page of a query, or per fetch of a cursor.
const PAGE: usize = 1000;

/// Makes the reader for one run of the step.
pub(super) type MakeReader =
    Box<dyn Fn(&StepScope, &Names) -> Result<BoxReader<Row>, ItemError> + Send + Sync>;

impl Builder<'_> {
    pub(super) fn reader(&mut self, chunk: &ChunkFile) -> Option<MakeReader> {
        let make: MakeReader = match &chunk.read.value {
            ReadFile::Csv(file) => {
                let path = self.path(&file.path, Some(chunk))?;
                let (encoding, file) = (self.encoding(file.encoding.as_ref())?, file.clone());
                Box::new(move |scope: &StepScope, names: &Names| {
                    let reader: CsvReader<Row> = file_reader(&path, scope, names)?;
                    let reader = reader.delimiter(file.delimiter).encoding(encoding);
                    Ok(BoxReader::new(match (file.columns.is_empty(), file.has_headers) {
                        (true, true) => reader,
                        (true, false) => reader.no_headers(),
                        (false, false) => reader.columns(&file.columns),
                        (false, true) => reader.columns(&file.columns).has_headers(),
                    }))
                })
            }
            ReadFile::JsonLines { path } => {
                let path = self.path(path, Some(chunk))?;
                Box::new(move |scope: &StepScope, names: &Names| {
                    let reader: JsonLinesReader<Row> = file_reader(&path, scope, names)?;
                    Ok(BoxReader::new(reader))
                })
            }
            ReadFile::Sql { query, key, connection, page } => {
                let (query, connection) = (self.sql_template(query)?, self.connection(connection.as_ref())?);
                let key: Vec<String> = key.iter().map(|column| column.value.clone()).collect();
                let page = page.unwrap_or(PAGE);
                Box::new(move |scope: &StepScope, names: &Names| {
                    let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
                    let query = hinted(&query, scope)
                        .bind(names, &database)
                        .map_err(|error| ItemError::of(ErrorKind::FATAL, error))?;
                    Ok(if key.is_empty() {
                        let reader = CursorReader::new(NAME, database, query).fetch_size(page);
                        BoxReader::new(reader.count_total())
                    } else {
                        BoxReader::new(KeysetReader::new(NAME, database, query, &key, page).count_total())
                    })
                })
            }
            ReadFile::Kafka(file) => {
                let topic = self.template(&file.topic)?;
                let from = optional(file.from.as_ref(), |from| self.template(from))?;
                let (options, file) = (self.brokers(&file.topic)?.clone(), file.clone());
                let is_every_run = file.is_every_run.as_ref().is_some_and(|every_run| every_run.value);
                Box::new(move |scope: &StepScope, names: &Names| {
                    let mut reader = KafkaReader::rows(NAME, &options, rendered(&topic, names)?, file.format)
                        .isolation(file.isolation)
                        .patience(file.timeout.unwrap_or(PATIENCE));
                    if let Some(from) = &from {
                        let from: From = rendered(from, names)?.parse().map_err(ItemError::fatal)?;
                        reader = reader.from(from);
                    }
                    Ok(BoxReader::new(if is_every_run { reader } else { reader.continuing(scope) }))
                })
            }
        };
        Some(make)
    }

    fn brokers(&mut self, topic: &At<String>) -> Option<&KafkaOptions> {
        match self.building.kafka {
            Ok(options) => Some(options),
            Err(error) => {
                self.refuse(topic.place, error.to_string(), error.fix());
                None
            }
        }
    }

    pub(super) fn encoding(&mut self, name: Option<&At<String>>) -> Option<Encoding> {
        let Some(name) = name else { return Some(Encoding::Utf8) };
        let known = [Encoding::Utf8, Encoding::EucKr];
        let found = known.into_iter().find(|encoding| encoding.as_str().eq_ignore_ascii_case(&name.value));
        if found.is_none() {
            let what = format!("there is no encoding {:?}", name.value);
            self.refuse(name.place, what, "use utf-8 or euc-kr");
        }
        found
    }
}

fn file_reader<F: Format>(
    path: &FilePath,
    scope: &StepScope,
    names: &Names,
) -> Result<FileReader<F, Row>, ItemError> {
    let rendered = path.rendered(scope, names)?;
    let reader = match is_pattern(&rendered) {
        true => FileReader::rows_pattern(NAME, rendered),
        false => FileReader::rows(NAME, rendered),
    };
    let reader = reader.count_total();
    Ok(match &path.roots {
        Some(roots) => reader.within(roots.clone()),
        None => reader,
    })
}

/// A file that exists under this very name is not a pattern.
fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[']) && !std::path::Path::new(path).is_file()
}
