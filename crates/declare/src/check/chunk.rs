//! Chunk steps: known columns, distinct files, distinct partitions, valid topics and events.

use super::Checker;
use super::reference::partition_names;
use crate::diagnostic::did_you_mean;
use crate::model::{
    At, ChunkFile, DataFile, FileFormat, KafkaFile, OutboxFile, PartitionBy, ReadFile, TableFile, WriteFile,
    WriteMode,
};
use crate::template::Template;
use std::collections::BTreeSet;
use std::path::{Component, Path};
use tidemill_domain::item::ColumnarKind;
use tidemill_domain::job::flow::matches;
use tidemill_domain::outbox::event::{check_headers, check_name, check_topic};
use tidemill_domain::outbox::{BadEvent, Headers};
use tidemill_kafka::From;

impl Checker<'_> {
    pub(super) fn chunk(&mut self, chunk: &ChunkFile) {
        self.data_files(chunk);
        self.lookups(chunk);
        if let ReadFile::Kafka(file) = &chunk.read.value {
            self.kafka(file, chunk);
        }
        chunk.endpoints().for_each(|endpoint| self.endpoint(endpoint));
        for write in chunk.write.value.all() {
            self.columns(chunk, write);
        }
        self.files(chunk);
        self.shares(chunk);
        chunk.events().for_each(|events| self.events(events));
    }

    /// The columns of lookups must exist, and must not hide those of the row.
    fn lookups(&mut self, chunk: &ChunkFile) {
        let mut taken = chunk.read.value.columns();
        for lookup in &chunk.process.lookups {
            for (column, _) in &lookup.columns {
                if taken.contains(&column.value) {
                    let what = format!("the row already has a column {:?}", column.value);
                    let fix = format!(
                        "name it differently: columns: {{ {}_{}: … }}",
                        lookup.name.value, column.value
                    );
                    self.wrong(column, what, fix);
                }
                taken.push(column.value.clone());
            }
            let known = lookup.read.value.columns();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            for of in lookup.key.iter().chain(lookup.columns.iter().map(|(_, of)| of)) {
                if !known.is_empty() && !known.contains(&of.value.as_str()) {
                    let fix =
                        did_you_mean(&of.value, known.iter().copied(), || "name one that is read".to_owned());
                    let what = format!("the lookup {:?} has no column {:?}", lookup.name.value, of.value);
                    self.wrong(of, what, fix).why = Some(format!("it has {}", known.join(", ")));
                }
            }
        }
    }

    fn columns(&mut self, chunk: &ChunkFile, write: &WriteFile) {
        let made = chunk.columns();
        let made: Vec<&str> = made.iter().map(String::as_str).collect();
        match write {
            WriteFile::Sql(file) => self.table_columns(file, &made),
            WriteFile::File(file) => {
                let columns = file.format.columns().into_iter();
                let named = columns.map(|value| At { value, place: file.path.place });
                let named: Vec<_> = named.collect();
                self.unknown_columns(&file.path, &named, &made);
                if file.format.is_ordered() && named.is_empty() && made.is_empty() {
                    let word = file.format.word();
                    let fix = format!("add columns: [id, name] to {word}, or process: {{ map: … }}");
                    self.wrong(&file.path, UNKNOWN_COLUMNS, fix);
                }
            }
            WriteFile::Statement(file) => {
                let Ok(template) = Template::parse_row_sql(&file.statement.value) else { return };
                let used = template.row_columns().map(str::to_owned).collect::<BTreeSet<_>>();
                let used = used.into_iter().map(|value| At { value, place: file.statement.place });
                self.unknown_columns(&file.statement, &used.collect::<Vec<_>>(), &made);
            }
            WriteFile::Kafka(file) => self.topic(&file.topic),
            WriteFile::Outbox(_) | WriteFile::Http(_) | WriteFile::All(_) | WriteFile::Choose(_) => {}
        }
    }

    fn table_columns(&mut self, file: &TableFile, made: &[&str]) {
        let TableFile { table, mode, columns, .. } = file;
        self.fixed(table, "a table");
        if let WriteMode::Delete(keys) = mode {
            self.unknown_columns(table, keys, made);
            return;
        }
        self.unknown_columns(table, columns, made);
        let named: Vec<&str> = columns.iter().map(|column| column.value.as_str()).collect();
        let written = if named.is_empty() { made } else { &named };
        if written.is_empty() {
            let fix = "add columns: [id, name] to sql, or process: { map: … }";
            self.wrong(table, UNKNOWN_COLUMNS, fix);
        } else if let WriteMode::Upsert(keys) = mode {
            self.upsert_keys(keys, written);
        }
    }

    fn unknown_columns(&mut self, at: &At<String>, columns: &[At<String>], made: &[&str]) {
        for (index, column) in columns.iter().enumerate() {
            if columns[..index].iter().any(|other| other.value == column.value) {
                let what = format!("the column {:?} is there twice", column.value);
                self.wrong(if column.place == at.place { at } else { column }, what, "take one of them out");
            }
            if made.is_empty() || made.contains(&column.value.as_str()) {
                continue;
            }
            let fix = did_you_mean(&column.value, made.iter().copied(), || {
                format!("add {} to map, or take it out of columns", column.value)
            });
            let what = format!("the column {:?} is written, and nothing makes it", column.value);
            let why = format!("an item has {}", made.join(", "));
            self.wrong(if column.place == at.place { at } else { column }, what, fix).why = Some(why);
        }
    }

    fn upsert_keys(&mut self, keys: &[At<String>], written: &[&str]) {
        for key in keys {
            if !written.contains(&key.value.as_str()) {
                let fix = did_you_mean(&key.value, written.iter().copied(), || {
                    "name columns that are written, or write this one too".to_owned()
                });
                let what = format!("the key {:?} is none of the columns that are written", key.value);
                self.wrong(key, what, fix).why = Some(format!("these are {}", written.join(", ")));
            }
        }
    }

    /// Refuses `${…}` in a name.
    fn fixed(&mut self, name: &At<String>, noun: &str) {
        if let Some(offset) = name.value.find("${") {
            let what = format!("the name of {noun} is fixed, and no value becomes a part of it");
            self.wrong_inside(name, offset, 2, what, "write the name itself");
        }
    }

    fn files(&mut self, chunk: &ChunkFile) {
        let written: Vec<&At<String>> = chunk.write.value.paths().collect();
        let reject = chunk.reject().filter(|reject| reject.value != "table");
        let source = chunk.reject_source();
        let mut pairs = Vec::new();
        let skipped = "the step puts what it skips into the file that it reads";
        if let Some(read) = chunk.read.value.path() {
            pairs.extend(written.iter().map(|path| (read, *path, "the step writes the file that it reads")));
            pairs.extend(reject.into_iter().chain(source).map(|reject| (read, reject, skipped)));
        }
        for (index, one) in written.iter().enumerate() {
            let others = &written[index + 1..];
            pairs.extend(others.iter().map(|other| (*one, *other, "two writers have the same file")));
            let what = "the step puts what it skips into the file that it writes";
            pairs.extend(reject.into_iter().chain(source).map(|reject| (*one, reject, what)));
        }
        let both = reject.zip(source);
        pairs.extend(both.map(|(one, other)| (one, other, "reject and reject_source are the same file")));
        for (one, other, what) in pairs {
            if is_same(&one.value, &other.value) {
                self.wrong(other, what, "give one of them another path");
            }
        }
    }

    /// Checks that each partition reads its own share and writes its own file.
    fn shares(&mut self, chunk: &ChunkFile) {
        let own = partition_names(chunk);
        let Some(partitions) = &chunk.partitions else { return };
        if let PartitionBy::Range { column, table, .. } = &partitions.value.by {
            self.fixed(column, "a column");
            self.fixed(table, "a table");
        }
        // A row group is chosen by the engine, and not by the path.
        let (to_read, to_write) = match &partitions.value.by {
            PartitionBy::RowGroup { pattern } => {
                self.row_groups(pattern, chunk);
                (&own[..1], &own[1..])
            }
            PartitionBy::File { .. } | PartitionBy::Range { .. } => (own, own),
        };
        let source = match &chunk.read.value {
            ReadFile::Sql { query, .. } => Some(query),
            ReadFile::Http(file) => Some(&file.endpoint.url),
            file => file.path(),
        };
        // Reported elsewhere: a topic cannot be divided.
        let Some(source) = source else { return };
        let names = |text: &At<String>| match Template::parse(&text.value) {
            Ok(template) => template.names().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            // Reported elsewhere.
            Err(_) => own.iter().map(|name| (*name).to_owned()).collect(),
        };
        let used = names(source);
        if to_read.iter().any(|name| !used.iter().any(|used| used == name)) {
            let what = "every partition would read the same items";
            let fix = match to_read {
                ["file"] => "write \"${file}\" as the path",
                _ => "limit the query to the range: where id between ${range.from} and ${range.to}",
            };
            self.wrong(source, what, fix).why = Some(format!("its text does not have {}", marked(to_read)));
        }
        for path in chunk.write.value.paths() {
            let used = names(path);
            if to_write.iter().all(|name| !used.iter().any(|used| used == name)) {
                let what = "all partitions would write the same file";
                let fix =
                    format!("write a path that has {} in it, or write to a table", marked(&to_write[..1]));
                self.wrong(path, what, fix);
            }
        }
    }

    fn row_groups(&mut self, pattern: &At<String>, chunk: &ChunkFile) {
        let kind = match &chunk.read.value {
            ReadFile::File(DataFile { format: FileFormat::Columnar(columnar), .. }) => Some(columnar.kind),
            _ => None,
        };
        if !matches!(kind, Some(ColumnarKind::Parquet | ColumnarKind::Arrow)) {
            let what = "only Parquet and Arrow files have row groups";
            self.wrong(pattern, what, "read parquet or arrow, or write partitions: { by: file, … }");
        }
    }

    fn kafka(&mut self, file: &KafkaFile, chunk: &ChunkFile) {
        self.topic(&file.topic);
        self.beginning(file);
        if !chunk.process.sort.is_empty() || !chunk.process.dedupe.is_empty() {
            let what = "a topic is read as it grows, and cannot be sorted";
            self.wrong(&file.topic, what, "load it into a table first, and sort that");
        }
        if let Some(partitions) = &chunk.partitions {
            let what = "a topic is read by one step, one partition after the other, and not divided";
            let fix = "take partitions out; threads: 4 processes several chunks at once";
            self.wrong_at(partitions.place, 1, what, fix);
        }
    }

    fn topic(&mut self, topic: &At<String>) {
        if !topic.value.contains("${")
            && let Err(bad) = check_topic(&topic.value)
        {
            self.wrong(topic, bad.to_string(), "write it as topic: orders");
        }
    }

    fn beginning(&mut self, file: &KafkaFile) {
        let Some(from) = &file.from else { return };
        if from.value.contains("${") {
            if file.is_every_run.is_none() {
                let what = "`from` has another value in each instance, and `every_run` is missing";
                let fix = "write every_run: true to begin there in every instance, or every_run: false to begin there \
                           once and go on where the instance before ended";
                self.wrong(from, what, fix);
            }
            return;
        }
        match from.value.parse::<From>() {
            Err(bad) => {
                let fix = "write from: earliest, from: latest, or from: 2026-11-15T00:00:00Z";
                self.wrong(from, bad.to_string(), fix);
            }
            Ok(From::Latest) if file.is_every_run == Some(true) => {
                let what = "every run would begin where it ends, and read nothing";
                let why = "a run ends where the topic ends when it begins".to_owned();
                self.wrong(from, what, "take every_run out: then only the first run reads nothing").why =
                    Some(why);
            }
            Ok(_) => {}
        }
    }

    fn events(&mut self, file: &OutboxFile) {
        self.plain("topic", &file.topic, check_topic, "orders");
        self.plain(
            "aggregate_type",
            &file.aggregate_type,
            |name| check_name("aggregate type", name),
            "order",
        );
        self.plain("event_type", &file.event_type, |name| check_name("event type", name), "order.loaded");
        let mut headers = Headers::new();
        for (name, _) in &file.headers {
            headers.insert(name.value.clone(), String::new());
            if let Err(bad) = check_headers(&headers) {
                self.wrong(name, bad.to_string(), "give it another name, or take it out");
                headers.remove(&name.value);
            }
        }
    }

    /// Checks a text that is the same for all items of a run.
    fn plain(
        &mut self,
        key: &str,
        text: &At<String>,
        check: impl FnOnce(&str) -> Result<(), BadEvent>,
        example: &str,
    ) {
        let is_expression =
            ["'", "\"", "row.", "parameters."].iter().any(|start| text.value.starts_with(start));
        if is_expression {
            let what = format!("{key} is a text that all events share, and here is an expression");
            let fix = format!("write {key}: {example}, with ${{name}} for a parameter");
            let why = "only aggregate_id, payload and headers are made of the item".to_owned();
            self.wrong(text, what, fix).why = Some(why);
        } else if !text.value.contains("${")
            && let Err(bad) = check(&text.value)
        {
            let fix = format!("write it as {key}: {example}");
            self.wrong(text, bad.to_string(), fix);
        }
    }
}

const UNKNOWN_COLUMNS: &str = "it is not known which columns are written";

fn marked(names: &[&str]) -> String {
    names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(" and ")
}

/// The first path may be a pattern, in which `*` stays within one part of the path.
fn is_same(one: &str, other: &str) -> bool {
    let parts = |path| -> Vec<String> {
        let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
        parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let (one, other) = (parts(one), parts(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| one == other || matches(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_what_they_lead_to() {
        for (one, other, expected) in [
            ("a.csv", "./a.csv", true),
            ("in/*.csv", "in/out.csv", true),
            ("in/*.csv", "in/deep/out.csv", false),
            ("in//a.csv", "in/a.csv", true),
            ("a.csv", "b.csv", false),
            ("${file}", "${file}", true),
            ("${file}", "${file}.out", false),
        ] {
            assert_eq!(is_same(one, other), expected, "{one} {other}");
        }
    }
}
