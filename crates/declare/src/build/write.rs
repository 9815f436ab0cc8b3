//! Writers: one target, several, or one that is chosen for each row.

use super::endpoint::{Make, text};
use super::file::order;
use super::names::rendered;
use super::{Builder, Built};
use crate::expression::{Expression, Scope};
use crate::model::{
    At, BranchFile, ChunkFile, KafkaWriteFile, Names, Place, TableFile, WriteFile, WriteMode,
};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row, Value};
use tidemill_engine::item::sql::{Mode, SqlWriter};
use tidemill_engine::item::{BoxWriter, ClassifierWriter, CompositeWriter, MappedWriter, StatementWriter};
use tidemill_kafka::reader::PATIENCE;
use tidemill_kafka::{Format, KafkaMessage, KafkaWriter};

/// The position is saved under this name; of several writers, each has its number behind it: `write.2`. It must never
/// change, or steps could not be restarted by a later version.
const WRITE: &str = "write";

type MakeWriter = Make<BoxWriter<Row>>;

impl Builder<'_> {
    pub(super) fn writer(&self, chunk: &ChunkFile) -> Built<MakeWriter> {
        self.writer_of(&chunk.write, chunk, WRITE.to_owned())
    }

    fn writer_of(&self, file: &At<WriteFile>, chunk: &ChunkFile, name: String) -> Built<MakeWriter> {
        Ok(match &file.value {
            WriteFile::Outbox(events) => {
                let events = self.events(events)?;
                Box::new(move |_, names| Ok(BoxWriter::new(events.writer(names)?)))
            }
            WriteFile::Statement(file) => self.statement(file)?,
            WriteFile::Sql(table) => self.table(table, chunk, file.place)?,
            WriteFile::Http(file) => self.http_writer(name, file, chunk)?,
            WriteFile::Kafka(file) => self.kafka_writer(file)?,
            // The rows of a step that writes one file have its columns already.
            WriteFile::File(file) if name == WRITE => self.file_writer(name, file, chunk)?,
            WriteFile::File(file) => projected(self.file_writer(name, file, chunk)?, order(file, chunk)),
            WriteFile::All(files) => {
                let parts = self.parts(files.iter(), chunk, &name)?;
                Box::new(move |scope, names| {
                    let mut writer = CompositeWriter::new();
                    for part in &parts {
                        writer = writer.and(part(scope, names)?);
                    }
                    Ok(BoxWriter::new(writer))
                })
            }
            WriteFile::Choose(branches) => self.chooser(branches, chunk, &name)?,
        })
    }

    fn parts<'f>(
        &self,
        files: impl Iterator<Item = &'f At<WriteFile>>,
        chunk: &ChunkFile,
        name: &str,
    ) -> Built<Vec<MakeWriter>> {
        (1..)
            .zip(files)
            .map(|(number, file)| self.writer_of(file, chunk, format!("{name}.{number}")))
            .collect()
    }

    fn chooser(&self, branches: &[BranchFile], chunk: &ChunkFile, name: &str) -> Built<MakeWriter> {
        let parts = self.parts(branches.iter().map(|branch| &branch.to), chunk, name)?;
        let conditions =
            branches.iter().map(|branch| branch.when.as_ref().map(|when| self.expression(when)).transpose());
        let conditions = conditions.collect::<Built<Arc<[Option<Arc<Expression>>]>>>()?;
        Ok(Box::new(move |scope, names| {
            let (conditions, parameters) = (conditions.clone(), names.clone());
            let mut writer = ClassifierWriter::fallible(move |row: &Row| {
                let scope = Scope { row: Some(row), parameters: &parameters, others: &Names::new() };
                for (number, condition) in conditions.iter().enumerate() {
                    if condition.as_ref().map_or(Ok(true), |condition| condition.is_true(&scope))? {
                        return Ok(number);
                    }
                }
                let text = "no branch of choose takes this row; add { else: … }, or leave it out by filter";
                Err(ItemError::new(ErrorKind::WRITE, text))
            });
            for (number, part) in parts.iter().enumerate() {
                writer = writer.on(number, part(scope, names)?);
            }
            Ok(BoxWriter::new(writer))
        }))
    }

    fn table(&self, file: &TableFile, chunk: &ChunkFile, place: Place) -> Built<MakeWriter> {
        let events = file.events.as_ref().map(|events| self.events(events)).transpose()?;
        let connection = self.connection(file.connection.as_ref())?;
        let (mode, columns) = match &file.mode {
            WriteMode::Copy => (Mode::Copy, named(&file.columns)),
            WriteMode::Insert => (Mode::Insert, named(&file.columns)),
            WriteMode::Upsert(key) => (Mode::Upsert { key: named(key) }, named(&file.columns)),
            WriteMode::Delete(key) => (Mode::Delete, named(key)),
        };
        let columns = if columns.is_empty() { chunk.columns() } else { columns };
        if columns.is_empty() {
            let fix = "add `columns: [...]` to the output, or `map` to the step";
            return Err(self.refusal(place, "the columns to write are not known", fix));
        }
        let table = file.table.value.clone();
        Ok(Box::new(move |scope, names| {
            if let Some(database) = connection.clone() {
                return Ok(BoxWriter::new(StatementWriter::table(database, &table, &columns, &mode)?));
            }
            let rows = SqlWriter::rows(scope.store(), &table, &columns).mode(mode.clone());
            Ok(match &events {
                // Rows first: the number of an event is drawn when the row of its aggregate is locked.
                Some(events) => BoxWriter::new(CompositeWriter::new().and(rows).and(events.writer(names)?)),
                None => BoxWriter::new(rows),
            })
        }))
    }

    fn kafka_writer(&self, file: &KafkaWriteFile) -> Built<MakeWriter> {
        let (options, topic) = (self.kafka_options(file.topic.place)?, self.template(&file.topic)?);
        let (format, patience) = (file.format, file.timeout.unwrap_or(PATIENCE));
        let key = file.key.as_ref().map(|text| self.expression(text)).transpose()?;
        let payload = file.payload.as_ref().map(|text| self.expression(text)).transpose()?;
        let headers =
            file.headers.iter().map(|(name, text)| Ok((name.value.clone(), self.expression(text)?)));
        let headers = headers.collect::<Built<Arc<[_]>>>()?;
        Ok(Box::new(move |_, names| {
            let (key, payload, headers, parameters) =
                (key.clone(), payload.clone(), headers.clone(), names.clone());
            let writer = KafkaWriter::new(&options, rendered(&topic, names)?, move |row: &Row| {
                let scope = Scope { row: Some(row), parameters: &parameters, others: &Names::new() };
                let mut message = KafkaMessage {
                    key: key
                        .as_ref()
                        .map_or(Ok(None), |key| key.value(&scope).map(|key| bytes(key, Format::Text)))?,
                    payload: match &payload {
                        Some(payload) => bytes(payload.value(&scope)?, format),
                        None => Some(row.to_json().to_string().into_bytes()),
                    },
                    headers: Vec::new(),
                };
                // Headers without a value are left out.
                for (name, value) in headers.iter() {
                    message.headers.extend(text(value.value(&scope)?).map(|value| (name.clone(), value)));
                }
                Ok(message)
            });
            Ok(BoxWriter::new(writer.patience(patience)))
        }))
    }
}

fn named(columns: &[At<String>]) -> Vec<String> {
    columns.iter().map(|column| column.value.clone()).collect()
}

/// A value as a key or a payload; none for null. Bytes are what they are.
fn bytes(value: Value, format: Format) -> Option<Vec<u8>> {
    match (value, format) {
        (Value::Null, _) => None,
        (Value::Bytes(bytes), _) => Some(bytes),
        (value, Format::Json) => Some(value.to_json().to_string().into_bytes()),
        (value, Format::Text | Format::Bytes) => text(value).map(String::into_bytes),
    }
}

/// A writer that goes by the order of columns gets its own ones in its own order.
fn projected(make: MakeWriter, columns: Option<Vec<String>>) -> MakeWriter {
    let Some(columns) = columns.map(Arc::<[String]>::from) else { return make };
    Box::new(move |scope, names| {
        let columns = columns.clone();
        Ok(BoxWriter::new(MappedWriter::new(make(scope, names)?, move |row: &Row| {
            let values = columns.iter().map(|column| row.value(column).cloned());
            Ok(Row::new(columns.clone(), values.collect::<Result<_, _>>()?))
        })))
    })
}
