//! Files that a step reads or writes, by format.

use super::At;
use std::ops::Range;
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
    pub format: FileFormat,
}

#[derive(Clone, PartialEq, Debug)]
pub enum FileFormat {
    Csv(CsvFormat),
    FixedWidth(FixedFormat),
    JsonLines,
    /// An array.
    Json,
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

impl FileFormat {
    /// The key of a job file.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::FixedWidth(_) => "fixed_width",
            Self::JsonLines => "jsonl",
            Self::Json => "json",
        }
    }

    /// The columns that the file names; empty if there are none.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Self::Csv(csv) => csv.columns.clone(),
            Self::FixedWidth(fixed) => fixed.columns.iter().map(|column| column.name.value.clone()).collect(),
            Self::JsonLines | Self::Json => Vec::new(),
        }
    }

    /// Whether it is written by the order of the columns, and not by their names.
    pub(crate) const fn is_ordered(&self) -> bool {
        matches!(self, Self::Csv(_))
    }
}
