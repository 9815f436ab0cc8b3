//! Files that a step reads or writes: CSV, JSON lines and JSON arrays.

use super::fields::shown;
use super::{Fields, Reader, Table, Truth, tables};
use crate::document::{Content, Node};
use crate::model::{CsvFormat, DataFile, FileFormat};
use tidemill_engine::item::{Compression, Encoding};

tables! {
    CSV = "csv" ["path" "delimiter" "header" "columns" "encoding" "compression"]
        "csv: { path: \"in.csv\" }";
    JSON_LINES = "jsonl" ["path" "compression"]
        "jsonl: { path: \"in.jsonl\" }";
    JSON = "json" ["path" "compression"]
        "json: { path: \"in.json\" }";
}

const ENCODINGS: [(&str, Encoding); 3] =
    [("utf-8", Encoding::Utf8), ("euc-kr", Encoding::EucKr), ("cp949", Encoding::EucKr)];

impl Reader<'_> {
    pub(super) fn file(&mut self, kind: &str, node: &Node) -> Option<DataFile> {
        let table = match kind {
            "csv" => CSV,
            "json" => JSON,
            _ => JSON_LINES,
        };
        let fields = self.file_table(node, table)?;
        let path = self.required_text(&fields, "path");
        let compression = fields.get("compression").map_or(Some(None), |node| {
            let words = Compression::ALL.map(|compression| (compression.as_str(), compression));
            self.word(node, "compression", &words).map(Some)
        });
        let encoding = fields.get("encoding").map_or(Some(Encoding::Utf8), |node| self.encoding(node));
        let format = match kind {
            "csv" => FileFormat::Csv(self.csv(&fields)?),
            "json" => FileFormat::Json,
            _ => FileFormat::JsonLines,
        };
        Some(DataFile { path: path?, compression: compression?, encoding: encoding?, format })
    }

    /// Explains the table to authors who write only the path.
    fn file_table<'n>(&mut self, node: &'n Node, table: Table) -> Option<Fields<'n>> {
        if let Content::Scalar(text) = &node.content {
            let what = format!("{} is a table of keys, and here is a text", table.what);
            let path = crate::diagnostic::excerpt(text);
            self.wrong(node, what, format!("write it as {}: {{ path: {path:?} }}", table.what));
            return None;
        }
        self.table(node, table.what, table)
    }

    fn csv(&mut self, fields: &Fields<'_>) -> Option<CsvFormat> {
        let delimiter = fields.get("delimiter").map_or(Some(b','), |node| self.delimiter(node));
        let has_headers = self.truth_of(fields, "header", Truth::Yes);
        let columns = self.column_names(fields);
        Some(CsvFormat { delimiter: delimiter?, has_headers, columns: columns? })
    }

    fn column_names(&mut self, fields: &Fields<'_>) -> Option<Vec<String>> {
        let Some(node) = fields.get("columns") else { return Some(Vec::new()) };
        Some(self.texts(node, "columns")?.into_iter().map(|column| column.value).collect())
    }

    fn delimiter(&mut self, node: &Node) -> Option<u8> {
        let found = match &node.content {
            Content::Scalar(text) if text == "tab" => Some(b'\t'),
            Content::Scalar(text) => match text.as_bytes() {
                [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
                _ => None,
            },
            _ => None,
        };
        if found.is_none() {
            let what = format!(
                "delimiter is one character of ASCII other than a quote, and here is {}",
                shown(node)
            );
            self.wrong(node, what, "write delimiter: \";\" or delimiter: tab");
        }
        found
    }

    fn encoding(&mut self, node: &Node) -> Option<Encoding> {
        if let Content::Scalar(text) = &node.content
            && let Some((_, meant)) = ENCODINGS.iter().find(|(word, _)| *word == text.to_lowercase())
        {
            return Some(*meant);
        }
        self.word(node, "encoding", &ENCODINGS)
    }
}
