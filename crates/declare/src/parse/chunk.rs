//! Chunk steps.

use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Node};
use crate::model::{At, ChunkFile, PartitionBy, PartitionsFile, ProcessFile, RetryFile, SkipFile};
use std::time::Duration;
use tidemill_domain::item::ErrorKind;
use tidemill_engine::job::chunk_step;

/// Items of a chunk are kept in memory until it commits.
const CHUNK_MAX: u64 = 1_000_000;

/// The limit of the engine.
const THREADS_MAX: u64 = chunk_step::THREADS_MAX as u64;

/// More than any host has CPUs.
const CONCURRENCY_MAX: u64 = 256;

const PARTITIONS_MAX: u64 = 10_000;

/// Longest pause before the first retry; later ones grow from there.
const BACKOFF_MAX: Duration = Duration::from_secs(3_600);

tables! {
    PARTITIONS = "partitions" ["by" "pattern" "column" "table" "count" "connection" "concurrency" "local"]
        "partitions: { by: file, pattern: \"in/*.csv\" }";
    SKIP = "skip" ["limit" "on" "reject" "reject_source"]
        "skip: { limit: 10, on: [parse, process], reject: \"rejects.csv\" }";
    RETRY = "retry" ["limit" "on" "backoff"]
        "retry: { limit: 3, on: [transient], backoff: 1s }";
    // Used only for missing keys; the step knows all keys.
    CHUNK = "a chunk step" []
        "read: { csv: { path: \"in.csv\" } } and write: { sql: { table: t } }";
}

const RANGE_EXAMPLE: &str = "partitions: { by: range, table: orders, column: id, count: 8 }";

/// The kinds of errors of the readers, expressions and writers of a job file.
const KINDS: [ErrorKind; 8] = [
    ErrorKind::PARSE,
    ErrorKind::VALIDATION,
    ErrorKind::READ,
    ErrorKind::PROCESS,
    ErrorKind::WRITE,
    ErrorKind::CONSTRAINT,
    ErrorKind::TRANSIENT,
    ErrorKind::FATAL,
];

impl Reader<'_> {
    pub(super) fn chunk(&mut self, fields: &Fields<'_>, size: &Node) -> Option<ChunkFile> {
        let fields = &Fields { table: CHUNK, ..*fields };
        let size = self.number(size, "chunk", 1..=CHUNK_MAX);
        let partitions = fields.get("partitions").map_or(Some(None), |node| self.partitions(node).map(Some));
        let threads = self.number_of(fields, "threads", 1..=THREADS_MAX);
        let read = self.required(fields, "read").and_then(|node| self.read(node));
        let process = fields.get("process").map_or(Some(ProcessFile::default()), |node| self.process(node));
        let write = self.required(fields, "write").and_then(|node| self.write(node));
        let skip = fields.get("skip").and_then(|node| self.skip(node));
        let retry = fields.get("retry").and_then(|node| self.retry(node));
        // A wrong number or policy does not keep the rest from being checked.
        Some(ChunkFile {
            size: size.unwrap_or(1),
            partitions: partitions?,
            threads: threads.unwrap_or(1),
            read: read?,
            process: process?,
            write: write?,
            skip,
            retry,
        })
    }

    fn partitions(&mut self, node: &Node) -> Option<At<PartitionsFile>> {
        let fields = self.table(node, "partitions", PARTITIONS)?;
        let by = self.required(&fields, "by");
        let by = by.and_then(|node| {
            self.word(node, "by", &[("file", "file"), ("row_group", "row_group"), ("range", "range")])
        });
        let concurrency = self.number_of(&fields, "concurrency", 1..=CONCURRENCY_MAX);
        let is_local = self.truth_of(&fields, "local", Truth::No);
        let by = match by? {
            "file" => {
                self.refuse_of_other(&fields, "file", &["column", "table", "count", "connection"]);
                PartitionBy::File { pattern: self.required_text(&fields, "pattern")? }
            }
            "row_group" => {
                self.refuse_of_other(&fields, "row_group", &["column", "table", "count", "connection"]);
                let example = "partitions: { by: row_group, pattern: \"in/*.parquet\" }";
                let fields = Fields { table: Table { example, ..PARTITIONS }, ..fields };
                PartitionBy::RowGroup { pattern: self.required_text(&fields, "pattern")? }
            }
            _ => {
                self.refuse_of_other(&fields, "range", &["pattern"]);
                let fields = Fields { table: Table { example: RANGE_EXAMPLE, ..PARTITIONS }, ..fields };
                let column = self.required_text(&fields, "column");
                let table = self.range_table(&fields);
                let count = self.required(&fields, "count").and_then(|node| self.range_count(node));
                let connection = self.text_of(&fields, "connection");
                PartitionBy::Range { column: column?, table: table?, count: count?, connection }
            }
        };
        Some(At { value: PartitionsFile { by, concurrency, is_local }, place: node.place })
    }

    /// A number, or `pool` for as many as a pool grants.
    fn range_count(&mut self, node: &Node) -> Option<Option<usize>> {
        if matches!(&node.content, Content::Scalar(text) if text == "pool") {
            return Some(None);
        }
        self.number(node, "count", 1..=PARTITIONS_MAX).map(Some)
    }

    fn range_table(&mut self, fields: &Fields<'_>) -> Option<At<String>> {
        if fields.get("table").is_none() {
            let what = "partitions by range need the table whose column is divided, and here is none";
            self.wrong_at(fields.place, what, "add table: with the table that the query reads");
        }
        self.text_of(fields, "table")
    }

    fn refuse_of_other(&mut self, fields: &Fields<'_>, by: &str, others: &[&str]) {
        for key in others.iter().filter_map(|name| fields.key(name)) {
            let what = format!("partitions by {by} have no {}", key.name);
            self.wrong_key(key, what, None, format!("take {} out", key.name));
        }
    }

    fn skip(&mut self, node: &Node) -> Option<SkipFile> {
        let fields = self.table(node, "skip", SKIP)?;
        let limit = self.required(&fields, "limit");
        let limit = limit.and_then(|node| self.number(node, "limit", 1..=1_000_000_000));
        let on = fields.get("on").map_or(Some(Vec::new()), |node| self.kinds(node, "skipped"));
        let (reject, reject_source) =
            (self.text_of(&fields, "reject"), self.text_of(&fields, "reject_source"));
        Some(SkipFile { limit: limit?, on: on?, reject, reject_source })
    }

    fn retry(&mut self, node: &Node) -> Option<RetryFile> {
        let fields = self.table(node, "retry", RETRY)?;
        let limit = self.required(&fields, "limit").and_then(|node| self.attempts(node));
        let on = fields.get("on").map_or(Some(Vec::new()), |node| self.kinds(node, "tried again"));
        let bounds = Duration::from_millis(1)..=BACKOFF_MAX;
        let backoff = fields.get("backoff").and_then(|node| self.duration(node, "backoff", bounds));
        Some(RetryFile { limit: limit?, on: on?, backoff })
    }

    fn attempts(&mut self, node: &Node) -> Option<u32> {
        if matches!(&node.content, Content::Scalar(text) if text == "1") {
            let what = "limit counts all attempts, so 1 means that nothing is tried again";
            self.wrong(node, what, "write limit: 2 or more, or take retry out");
            return None;
        }
        self.number(node, "limit", 2..=1000)
    }

    fn kinds(&mut self, node: &Node, verb: &str) -> Option<Vec<ErrorKind>> {
        let items = self.items(node, "on")?;
        if items.is_empty() {
            let all = KINDS.iter().map(ErrorKind::as_str).collect::<Vec<_>>().join(", ");
            let fix = format!("name some of {all}, or take on out for all");
            self.wrong(node, "on names no kind of error", fix);
            return None;
        }
        let words: Vec<(&str, ErrorKind)> = KINDS.iter().map(|kind| (kind.as_str(), kind.clone())).collect();
        all(items.iter().map(|item| {
            let kind = self.word(item, "a kind of error", &words)?;
            if kind == ErrorKind::FATAL {
                let fix = "take fatal out; take on out for all kinds but this";
                self.wrong(item, format!("a fatal error is never {verb}"), fix);
                return None;
            }
            Some(kind)
        }))
    }
}
