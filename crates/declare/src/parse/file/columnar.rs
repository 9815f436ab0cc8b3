//! Parquet, Arrow and Avro files: their columns with types.

use super::Way;
use crate::document::{Content, Key, Node};
use crate::model::{DataFile, FileFormat};
use crate::parse::{Reader, Table, all, tables};
use tidemill_domain::item::{ColumnarFormat, ColumnarKind, FieldType};
use tidemill_engine::item::Encoding;

/// Most rows of a row group, which is kept in memory.
const GROUP_ROWS_MAX: u64 = 10_000_000;

tables! {
    PARQUET = "parquet" ["path" "columns"]
        "parquet: { path: \"in.parquet\" }";
    PARQUET_TO_WRITE = "parquet" ["path" "columns" "compression" "group_rows"]
        "parquet: { path: \"out.parquet\", columns: { id: long, amount: \"decimal(18,2)\" } }";
    ARROW = "arrow" ["path" "columns"]
        "arrow: { path: \"in.arrow\" }";
    ARROW_TO_WRITE = "arrow" ["path" "columns" "compression" "group_rows"]
        "arrow: { path: \"out.arrow\", columns: { id: long, amount: \"decimal(18,2)\" } }";
    AVRO = "avro" ["path" "columns"]
        "avro: { path: \"in.avro\" }";
    AVRO_TO_WRITE = "avro" ["path" "columns" "compression"]
        "avro: { path: \"out.avro\", columns: { id: long, amount: \"decimal(18,2)\" } }";
}

const EXAMPLE: &str = "columns: { id: long, amount: \"decimal(18,2)\" }";

type Column = (String, Option<FieldType>);

impl Reader<'_> {
    pub(super) fn columnar(&mut self, kind: ColumnarKind, node: &Node, way: Way) -> Option<DataFile> {
        let table: Table = match (kind, way) {
            (ColumnarKind::Parquet, Way::Read) => PARQUET,
            (ColumnarKind::Parquet, Way::Write) => PARQUET_TO_WRITE,
            (ColumnarKind::Arrow, Way::Read) => ARROW,
            (ColumnarKind::Arrow, Way::Write) => ARROW_TO_WRITE,
            (ColumnarKind::Avro, Way::Read) => AVRO,
            (ColumnarKind::Avro, Way::Write) => AVRO_TO_WRITE,
        };
        let fields = self.file_table(node, table)?;
        let path = self.required_text(&fields, "path");
        let columns = match (way, fields.get("columns")) {
            (Way::Read, None) => Some(Vec::new()),
            (Way::Read, Some(node)) if !matches!(node.content, Content::Map(_)) => {
                let names = self.texts(node, "columns")?;
                Some(names.into_iter().map(|name| (name.value, None)).collect())
            }
            _ => self.required(&fields, "columns").and_then(|node| self.typed_columns(kind, node)),
        };
        let words: Vec<_> = kind.codecs().iter().map(|codec| (codec.as_str(), *codec)).collect();
        let codec = fields
            .get("compression")
            .map_or(Some(None), |node| self.word(node, "compression", &words).map(Some));
        let group_rows = self.number_of(&fields, "group_rows", 1..=GROUP_ROWS_MAX);
        let format =
            FileFormat::Columnar(ColumnarFormat { kind, columns: columns?, codec: codec?, group_rows });
        let (compression, encoding) = (None, Encoding::Utf8);
        Some(DataFile { path: path?, compression, encoding, skip_lines: 0, is_counted: false, format })
    }

    fn typed_columns(&mut self, kind: ColumnarKind, node: &Node) -> Option<Vec<Column>> {
        let entries = self.named(node, "columns is a table of names and types", EXAMPLE)?;
        if entries.is_empty() {
            self.wrong(node, "columns has no column", format!("write it as {EXAMPLE}"));
            return None;
        }
        all(entries.iter().map(|(name, node)| self.typed_column(kind, name, node)))
    }

    fn typed_column(&mut self, kind: ColumnarKind, key: &Key, node: &Node) -> Option<Column> {
        let text = self.text(node, "the type of a column")?;
        if !kind.accepts(&key.name) {
            let what = format!("{:?} cannot be the name of a field of Avro", key.name);
            let fix = "choose a name of letters, digits and _ that does not begin with a digit";
            self.wrong_key(key, what, None, fix);
        }
        match text.value.parse() {
            Ok(kind) => Some((key.name.clone(), Some(kind))),
            Err(bad) => {
                let fix =
                    "choose one of them; inside { } a type with a comma needs quotes: \"decimal(18,2)\"";
                self.wrong(node, bad.to_string(), fix);
                None
            }
        }
    }
}
