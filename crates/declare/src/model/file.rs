//! Files that a step reads or writes, by format.

use super::At;
use std::ops::Range;
use tidemill_domain::item::ColumnarFormat;
use tidemill_engine::item::{Align, Compression, Encoding};

#[derive(Clone, PartialEq, Debug)]
pub struct DataFile {
    /// A template; when reading also a pattern such as `in/*.csv`.
    pub path: At<String>,
    /// None means by its name, and when reading also by its first bytes.
    pub compression: Option<Compression>,
    pub encoding: Encoding,
    /// Lines before the header or the first record.
    pub skip_lines: u64,
    /// Counts the records first, for the progress bar.
    pub is_counted: bool,
    pub format: FileFormat,
}

#[derive(Clone, PartialEq, Debug)]
pub enum FileFormat {
    Csv(CsvFormat),
    FixedWidth(FixedFormat),
    JsonLines,
    /// An array.
    Json,
    Xml(XmlFormat),
    /// A sheet; only for reading.
    Excel(ExcelFormat),
    /// Parquet, Arrow or Avro.
    Columnar(ColumnarFormat),
}

#[derive(Clone, PartialEq, Debug)]
pub struct CsvFormat {
    pub delimiter: u8,
    /// None treats quotes as text.
    pub quote: Option<u8>,
    pub comment: Option<u8>,
    pub has_headers: bool,
    /// The columns, if the file has no header; when writing, which columns in which order.
    pub columns: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FixedFormat {
    pub columns: Vec<FixedColumn>,
    pub counts_bytes: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FixedColumn {
    pub name: At<String>,
    /// From 0, end excluded.
    pub range: Range<usize>,
    pub align: Align,
    pub pad: char,
}

#[derive(Clone, PartialEq, Debug)]
pub struct XmlFormat {
    /// The element of an item.
    pub record: At<String>,
    /// The element around all; when writing.
    pub root: Option<At<String>>,
    /// Columns that are attributes; when writing.
    pub attributes: Vec<String>,
    /// Which columns are read; empty means those that are there.
    pub columns: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ExcelFormat {
    /// None means the first.
    pub sheet: Option<At<String>>,
    /// From 1; none means the first row that is not empty.
    pub header_row: Option<u32>,
    pub columns: Vec<String>,
}

impl FileFormat {
    /// The key of a job file.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::FixedWidth(_) => "fixed_width",
            Self::JsonLines => "jsonl",
            Self::Json => "json",
            Self::Xml(_) => "xml",
            Self::Excel(_) => "excel",
            Self::Columnar(columnar) => columnar.kind.as_str(),
        }
    }

    /// The columns that the file names; empty if there are none.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Self::Csv(csv) => csv.columns.clone(),
            Self::FixedWidth(fixed) => fixed.columns.iter().map(|column| column.name.value.clone()).collect(),
            // Only one of them is there: attributes are written, columns are read.
            Self::Xml(xml) => [xml.columns.as_slice(), &xml.attributes].concat(),
            Self::Excel(excel) => excel.columns.clone(),
            Self::Columnar(columnar) => columnar.columns.iter().map(|(name, _)| name.clone()).collect(),
            Self::JsonLines | Self::Json => Vec::new(),
        }
    }

    /// Whether each item names its own columns, so that some may be missing.
    pub(crate) fn may_lack_columns(&self) -> bool {
        match self {
            Self::JsonLines | Self::Json => true,
            Self::Xml(xml) => xml.columns.is_empty(),
            Self::Csv(_) | Self::FixedWidth(_) | Self::Excel(_) | Self::Columnar(_) => false,
        }
    }

    /// Whether it is written by the order of the columns, and not by their names.
    pub(crate) const fn is_ordered(&self) -> bool {
        matches!(self, Self::Csv(_))
    }
}
