//! Files that a step reads or writes: CSV, fixed-width columns, JSON lines, JSON arrays, XML and Excel; `columnar` has others.

mod columnar;

use super::fields::shown;
use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Key, Node};
use crate::model::{At, CsvFormat, DataFile, ExcelFormat, FileFormat, FixedColumn, FixedFormat, XmlFormat};
use std::ops::Range;
use tidemill_engine::item::{Align, Compression, Encoding};

tables! {
    CSV = "csv" ["path" "delimiter" "quote" "comment" "skip_lines" "header" "columns" "encoding" "compression"
        "count"]
        "csv: { path: \"in.csv\" }";
    CSV_TO_WRITE = "csv" ["path" "delimiter" "quote" "header" "columns" "encoding" "compression"]
        "csv: { path: \"out.csv\" }";
    FIXED = "fixed_width" ["path" "columns" "unit" "skip_lines" "encoding" "compression" "count"]
        "fixed_width: { path: \"in.txt\", columns: { id: 1-6, name: 7-26 } }";
    FIXED_TO_WRITE = "fixed_width" ["path" "columns" "unit" "encoding" "compression"]
        "fixed_width: { path: \"out.txt\", columns: { id: 1-6, name: 7-26 } }";
    COLUMN = "a column" ["at" "align" "pad"]
        "{ at: 1-6, align: right, pad: \"0\" }";
    JSON_LINES = "jsonl" ["path" "compression" "count"]
        "jsonl: { path: \"in.jsonl\" }";
    JSON_LINES_TO_WRITE = "jsonl" ["path" "compression"]
        "jsonl: { path: \"out.jsonl\" }";
    JSON = "json" ["path" "compression" "count"]
        "json: { path: \"in.json\" }";
    JSON_TO_WRITE = "json" ["path" "compression"]
        "json: { path: \"out.json\" }";
    EXCEL = "excel" ["path" "sheet" "header_row" "columns"]
        "excel: { path: \"in.xlsx\", sheet: Payments }";
    XML = "xml" ["path" "record" "columns" "encoding" "compression" "count"]
        "xml: { path: \"in.xml\", record: transaction }";
    XML_TO_WRITE = "xml" ["path" "record" "root" "attributes" "encoding" "compression"]
        "xml: { path: \"out.xml\", record: transaction, root: transactions }";
}

const ENCODINGS: [(&str, Encoding); 3] =
    [("utf-8", Encoding::Utf8), ("euc-kr", Encoding::EucKr), ("cp949", Encoding::EucKr)];

const LINES_MAX: u64 = 1_000_000;

/// The last position of a column; a record has at most 1 MiB.
const POSITION_MAX: usize = 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Read,
    Write,
}

impl Reader<'_> {
    pub(super) fn file(&mut self, kind: &str, node: &Node, way: Way) -> Option<DataFile> {
        let table = match (kind, way) {
            ("csv", Way::Read) => CSV,
            ("csv", Way::Write) => CSV_TO_WRITE,
            ("fixed_width", Way::Read) => FIXED,
            ("fixed_width", Way::Write) => FIXED_TO_WRITE,
            ("json", Way::Read) => JSON,
            ("json", Way::Write) => JSON_TO_WRITE,
            ("excel", _) => EXCEL,
            ("xml", Way::Read) => XML,
            ("xml", Way::Write) => XML_TO_WRITE,
            _ => match (kind.parse(), way) {
                (Ok(kind), _) => return self.columnar(kind, node, way),
                (Err(_), Way::Read) => JSON_LINES,
                (Err(_), Way::Write) => JSON_LINES_TO_WRITE,
            },
        };
        let fields = self.file_table(node, table)?;
        let path = self.required_text(&fields, "path");
        let compression = fields.get("compression").map_or(Some(None), |node| {
            let words = Compression::ALL.map(|compression| (compression.as_str(), compression));
            self.word(node, "compression", &words).map(Some)
        });
        let encoding = fields.get("encoding").map_or(Some(Encoding::Utf8), |node| self.encoding(node));
        let skip_lines = self.number_of(&fields, "skip_lines", 0..=LINES_MAX).unwrap_or(0);
        let is_counted = self.truth_of(&fields, "count", Truth::No);
        let format = match kind {
            "csv" => FileFormat::Csv(self.csv(&fields, way)?),
            "fixed_width" => FileFormat::FixedWidth(self.fixed_width(&fields)?),
            "json" => FileFormat::Json,
            "xml" => FileFormat::Xml(self.xml(&fields)?),
            "excel" => FileFormat::Excel(self.excel(&fields)?),
            _ => FileFormat::JsonLines,
        };
        let (path, compression, encoding) = (path?, compression?, encoding?);
        Some(DataFile { path, compression, encoding, skip_lines, is_counted, format })
    }

    /// Explains the table to authors who write only the path.
    pub(super) fn file_table<'n>(&mut self, node: &'n Node, table: Table) -> Option<Fields<'n>> {
        if let Content::Scalar(text) = &node.content {
            let what = format!("{} is a table of keys, and here is a text", table.what);
            let path = crate::diagnostic::excerpt(text);
            self.wrong(node, what, format!("write it as {}: {{ path: {path:?} }}", table.what));
            return None;
        }
        self.table(node, table.what, table)
    }

    fn csv(&mut self, fields: &Fields<'_>, way: Way) -> Option<CsvFormat> {
        let delimiter = fields.get("delimiter").map_or(Some(b','), |node| self.delimiter(node));
        let quote = fields.get("quote").map_or(Some(Some(b'"')), |node| self.quote(node, way));
        let comment = fields.get("comment").map_or(Some(None), |node| self.comment(node));
        let has_headers = self.truth_of(fields, "header", Truth::Yes);
        let columns = self.names_of(fields, "columns");
        let (delimiter, quote, comment) = (delimiter?, quote?, comment?);
        Some(CsvFormat { delimiter, quote, comment, has_headers, columns: columns? })
    }

    fn names_of(&mut self, fields: &Fields<'_>, key: &str) -> Option<Vec<String>> {
        let Some(node) = fields.get(key) else { return Some(Vec::new()) };
        Some(self.texts(node, key)?.into_iter().map(|column| column.value).collect())
    }

    fn excel(&mut self, fields: &Fields<'_>) -> Option<ExcelFormat> {
        let sheet = self.text_of(fields, "sheet");
        let header_row = self.number_of(fields, "header_row", 1..=LINES_MAX);
        Some(ExcelFormat { sheet, header_row, columns: self.names_of(fields, "columns")? })
    }

    fn xml(&mut self, fields: &Fields<'_>) -> Option<XmlFormat> {
        let record = self.required_text(fields, "record");
        let root = self.text_of(fields, "root");
        let (attributes, columns) = (self.names_of(fields, "attributes"), self.names_of(fields, "columns"));
        Some(XmlFormat { record: record?, root, attributes: attributes?, columns: columns? })
    }

    fn delimiter(&mut self, node: &Node) -> Option<u8> {
        let found = match &node.content {
            Content::Scalar(text) if text == "tab" => Some(b'\t'),
            _ => character(node).filter(|byte| *byte != b'"'),
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

    /// Without quotes a writer could not write a field that has a delimiter.
    fn quote(&mut self, node: &Node, way: Way) -> Option<Option<u8>> {
        match &node.content {
            Content::Scalar(text) if text == "none" && way == Way::Read => return Some(None),
            _ => {}
        }
        let found = character(node);
        if found.is_none() {
            let what = format!("quote is one character of ASCII, and here is {}", shown(node));
            let none = if way == Way::Read { " or quote: none" } else { "" };
            self.wrong(node, what, format!("write quote: \"'\"{none}"));
        }
        found.map(Some)
    }

    fn comment(&mut self, node: &Node) -> Option<Option<u8>> {
        let found = character(node);
        if found.is_none() {
            let what = format!("comment is one character of ASCII, and here is {}", shown(node));
            self.wrong(node, what, "write comment: \"#\"");
        }
        found.map(Some)
    }

    fn fixed_width(&mut self, fields: &Fields<'_>) -> Option<FixedFormat> {
        let units = [("characters", false), ("bytes", true)];
        let counts_bytes = fields.get("unit").map_or(Some(false), |node| self.word(node, "unit", &units));
        let node = self.required(fields, "columns")?;
        let example = "columns: { id: 1-6, name: 7-26 }";
        let entries = self.named(node, "columns is a table of names and positions", example)?;
        if entries.is_empty() {
            self.wrong(node, "columns has no column", format!("write it as {example}"));
            return None;
        }
        let columns = all(entries.iter().map(|(name, node)| self.fixed_column(name, node)));
        Some(FixedFormat { columns: columns?, counts_bytes: counts_bytes? })
    }

    fn fixed_column(&mut self, key: &Key, node: &Node) -> Option<FixedColumn> {
        let name = At { value: key.name.clone(), place: key.place };
        let Content::Map(_) = &node.content else {
            return Some(FixedColumn { name, range: self.positions(node)?, align: Align::Left, pad: ' ' });
        };
        let fields = self.table(node, "a column", COLUMN)?;
        let range = self.required(&fields, "at").and_then(|node| self.positions(node));
        let sides = [("left", Align::Left), ("right", Align::Right)];
        let align = fields.get("align").map_or(Some(Align::Left), |node| self.word(node, "align", &sides));
        let pad = fields.get("pad").map_or(Some(' '), |node| {
            let found = character(node).map(char::from);
            if found.is_none() {
                let what = format!("pad is one character of ASCII, and here is {}", shown(node));
                self.wrong(node, what, "write pad: \"0\"");
            }
            found
        });
        Some(FixedColumn { name, range: range?, align: align?, pad: pad? })
    }

    /// Positions count from 1, and the last one belongs to the column.
    fn positions(&mut self, node: &Node) -> Option<Range<usize>> {
        let read = |text: &str| -> Option<Range<usize>> {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            ((1..=last).contains(&first) && last <= POSITION_MAX).then(|| first - 1..last)
        };
        let found = if let Content::Scalar(text) = &node.content { read(text) } else { None };
        if found.is_none() {
            let what = format!("a column has its first and its last position, and here is {}", shown(node));
            self.wrong(node, what, "write positions from 1 on, such as 7-26");
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

/// One character of ASCII that does not end a line.
fn character(node: &Node) -> Option<u8> {
    let Content::Scalar(text) = &node.content else { return None };
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Some(*byte),
        _ => None,
    }
}
