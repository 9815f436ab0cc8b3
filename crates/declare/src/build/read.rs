//! Readers.

use super::names::{hinted, rendered};
use super::path::FilePath;
use super::{Builder, optional};
use crate::model::{At, ChunkFile, CsvFile, KafkaFile, Names, ReadFile};
use crate::template::Template;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_engine::item::sql::{CursorReader, Database, KeysetReader};
use tidemill_engine::item::{BoxReader, CsvReader, Encoding, JsonLinesReader};
use tidemill_engine::job::StepScope;
use tidemill_kafka::{From, KafkaOptions, KafkaReader, PATIENCE};

/// Positions are saved under this name. It must never change, or steps could not be restarted by a later version.
const NAME: &str = "read";

/// Default number of rows per page of a query, or per fetch of a cursor.
const PAGE: usize = 1000;

#[derive(Clone, Debug)]
pub(super) enum Reading {
    Csv { path: FilePath, file: CsvFile, encoding: Encoding },
    JsonLines { path: FilePath },
    Sql { query: Template, key: Vec<String>, connection: Option<Database>, page: usize },
    Kafka { topic: Template, from: Option<Template>, file: Box<KafkaFile>, options: Box<KafkaOptions> },
}

impl Builder<'_> {
    pub(super) fn reading(&mut self, chunk: &ChunkFile) -> Option<Reading> {
        Some(match &chunk.read.value {
            ReadFile::Csv(file) => Reading::Csv {
                path: self.path(&file.path, Some(chunk))?,
                encoding: self.encoding(file.encoding.as_ref())?,
                file: file.clone(),
            },
            ReadFile::JsonLines { path } => Reading::JsonLines { path: self.path(path, Some(chunk))? },
            ReadFile::Sql { query, key, connection, page } => Reading::Sql {
                query: self.sql_template(query)?,
                key: key.iter().map(|column| column.value.clone()).collect(),
                connection: self.connection(connection.as_ref())?,
                page: page.unwrap_or(PAGE),
            },
            ReadFile::Kafka(file) => Reading::Kafka {
                topic: self.template(&file.topic)?,
                from: optional(file.from.as_ref(), |from| self.template(from))?,
                file: Box::new(file.clone()),
                options: Box::new(self.brokers(&file.topic)?.clone()),
            },
        })
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

impl Reading {
    pub(super) fn reader(&self, scope: &StepScope, names: &Names) -> Result<BoxReader<Row>, ItemError> {
        Ok(match self {
            Self::Csv { path: template, file, encoding } => {
                let path = template.rendered(scope, names)?;
                let mut reader = match is_pattern(&path) {
                    true => CsvReader::rows_pattern(NAME, path),
                    false => CsvReader::rows(NAME, path),
                };
                if let Some(roots) = &template.roots {
                    reader = reader.within(roots.clone());
                }
                reader = reader.delimiter(file.delimiter).encoding(*encoding).count_total();
                match (file.columns.is_empty(), file.has_headers) {
                    (true, true) => {}
                    (true, false) => reader = reader.no_headers(),
                    (false, false) => reader = reader.columns(&file.columns),
                    (false, true) => reader = reader.columns(&file.columns).has_headers(),
                }
                BoxReader::new(reader)
            }
            Self::JsonLines { path: template } => {
                let path = template.rendered(scope, names)?;
                let mut reader = match is_pattern(&path) {
                    true => JsonLinesReader::rows_pattern(NAME, path),
                    false => JsonLinesReader::rows(NAME, path),
                };
                if let Some(roots) = &template.roots {
                    reader = reader.within(roots.clone());
                }
                BoxReader::new(reader.count_total())
            }
            Self::Sql { query, key, connection, page } => {
                let database = connection.clone().unwrap_or_else(|| Database::of(scope.store()));
                let query = hinted(query, scope)
                    .bind(names, &database)
                    .map_err(|error| ItemError::of(ErrorKind::FATAL, error))?;
                match key.is_empty() {
                    true => {
                        let reader = CursorReader::new(NAME, database, query).fetch_size(*page);
                        BoxReader::new(reader.count_total())
                    }
                    false => {
                        BoxReader::new(KeysetReader::new(NAME, database, query, key, *page).count_total())
                    }
                }
            }
            Self::Kafka { topic, from, file, options } => {
                let mut reader = KafkaReader::rows(NAME, options, rendered(topic, names)?, file.format)
                    .isolation(file.isolation)
                    .patience(file.timeout.unwrap_or(PATIENCE));
                if let Some(from) = from {
                    let from: From = rendered(from, names)?.parse().map_err(ItemError::fatal)?;
                    reader = reader.from(from);
                }
                if !file.is_every_run.as_ref().is_some_and(|every_run| every_run.value) {
                    reader = reader.continuing(scope);
                }
                BoxReader::new(reader)
            }
        })
    }
}

/// A file that exists under this very name is not a pattern.
fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[']) && !std::path::Path::new(path).is_file()
}
