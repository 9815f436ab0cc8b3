//! Chunk steps: known columns, distinct files, distinct partitions.

use super::reference::partition_names;
use super::{Checker, plain_path};
use crate::diagnostic::did_you_mean;
use crate::model::{At, ChunkFile, CsvFile, PartitionBy, ReadFile, WriteFile, WriteMode};
use crate::template::Template;
use tidemill_domain::job::flow::matches;
use tidemill_kafka::reader::record::COLUMNS;

/// The connection of the table that gives the ranges.
pub(super) fn range_connection(chunk: &ChunkFile) -> Option<&At<String>> {
    match &chunk.partitions.as_ref()?.value.by {
        PartitionBy::Range { connection, .. } => connection.as_ref(),
        PartitionBy::File { .. } => None,
    }
}

impl Checker<'_> {
    pub(super) fn chunk(&mut self, chunk: &ChunkFile) {
        if let ReadFile::Csv(csv) = &chunk.read.value
            && !csv.has_headers
            && csv.columns.is_empty()
        {
            let what = "a file without a header needs the names of its columns";
            self.wrong(&csv.path, what, "add columns: [first, second]");
        }
        if let ReadFile::Kafka(file) = &chunk.read.value {
            self.kafka(file, chunk);
        }
        self.columns(chunk);
        self.files(chunk);
        self.shares(chunk);
        if let Some(events) = chunk.events() {
            self.events(events);
        }
    }

    /// Checks that the written columns are known.
    fn columns(&mut self, chunk: &ChunkFile) {
        let mapped: Vec<&str> = chunk.map.iter().map(|(column, _)| column.value.as_str()).collect();
        let read: Vec<&str> = match &chunk.read.value {
            ReadFile::Csv(csv) => csv.columns.iter().map(String::as_str).collect(),
            ReadFile::Kafka(_) => COLUMNS.to_vec(),
            ReadFile::JsonLines { .. } | ReadFile::Sql { .. } => Vec::new(),
        };
        let made = if mapped.is_empty() { read } else { mapped };
        match &chunk.write.value {
            WriteFile::Sql { table, mode, columns, .. } => {
                self.fixed(table, "a table");
                let named: Vec<&str> = columns.iter().map(|column| column.value.as_str()).collect();
                self.unknown_columns(table, columns, &made);
                let written = if named.is_empty() { &made } else { &named };
                if written.is_empty() {
                    let fix = "add columns: [id, name] to sql, or process: { map: … }";
                    self.wrong(table, UNKNOWN_COLUMNS, fix);
                }
                if let WriteMode::Upsert(keys) = mode
                    && !written.is_empty()
                {
                    self.upsert_keys(keys, written);
                }
            }
            WriteFile::Csv(csv) => {
                let named: Vec<At<String>> = csv
                    .columns
                    .iter()
                    .map(|name| At { value: name.clone(), place: csv.path.place })
                    .collect();
                self.unknown_columns(&csv.path, &named, &made);
                if csv.columns.is_empty() && made.is_empty() {
                    let fix = "add columns: [id, name] to csv, or process: { map: … }";
                    self.wrong(&csv.path, UNKNOWN_COLUMNS, fix);
                }
            }
            WriteFile::JsonLines { .. } | WriteFile::Outbox(_) => {}
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
        let read = match &chunk.read.value {
            ReadFile::Csv(CsvFile { path, .. }) | ReadFile::JsonLines { path } => Some(path),
            ReadFile::Sql { .. } | ReadFile::Kafka(_) => None,
        };
        let written = match &chunk.write.value {
            WriteFile::Csv(CsvFile { path, .. }) | WriteFile::JsonLines { path } => Some(path),
            WriteFile::Sql { .. } | WriteFile::Outbox(_) => None,
        };
        let reject = chunk.skip.as_ref().and_then(|skip| skip.reject.as_ref());
        let reject = reject.filter(|reject| reject.value != "table");
        for (one, other, what) in [
            (read, written, "the step writes the file that it reads"),
            (read, reject, "the step puts what it skips into the file that it reads"),
            (written, reject, "the step puts what it skips into the file that it writes"),
        ] {
            if let (Some(one), Some(other)) = (one, other)
                && is_same(&one.value, &other.value)
            {
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
        let source = match &chunk.read.value {
            ReadFile::Csv(CsvFile { path, .. }) | ReadFile::JsonLines { path } => path,
            ReadFile::Sql { query, .. } => query,
            // Reported elsewhere: a topic cannot be divided.
            ReadFile::Kafka(_) => return,
        };
        let names = |text: &At<String>| match Template::parse(&text.value) {
            Ok(template) => template.names().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            // Reported elsewhere.
            Err(_) => own.iter().map(|name| (*name).to_owned()).collect(),
        };
        let used = names(source);
        if own.iter().any(|name| !used.iter().any(|used| used == name)) {
            let what = "every partition would read the same items";
            let fix = match own {
                ["file"] => "write \"${file}\" as the path".to_owned(),
                _ => {
                    "limit the query to the range: where id between ${range.from} and ${range.to}".to_owned()
                }
            };
            self.wrong(source, what, fix).why = Some(format!("its text does not have {}", marked(own)));
        }
        if let WriteFile::Csv(CsvFile { path, .. }) | WriteFile::JsonLines { path } = &chunk.write.value {
            let used = names(path);
            if own.iter().all(|name| !used.iter().any(|used| used == name)) {
                let what = "all partitions would write the same file";
                let fix = format!("write a path that has {} in it, or write to a table", marked(&own[..1]));
                self.wrong(path, what, fix);
            }
        }
    }
}

const UNKNOWN_COLUMNS: &str = "it is not known which columns are written";

fn marked(names: &[&str]) -> String {
    names.iter().map(|name| format!("${{{name}}}")).collect::<Vec<_>>().join(" and ")
}

/// The first path may be a pattern.
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (plain_path(one), plain_path(other));
    let parts = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (parts(&one), parts(&other));
    // In a pattern `*` stays within one part of the path.
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
