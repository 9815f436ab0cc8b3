//! Files that a step reads or writes, by format.

use super::At;
use tidemill_engine::item::{Compression, Encoding};

#[derive(Clone, PartialEq, Debug)]
pub struct DataFile {
    /// A template; when reading also a pattern such as `in/*.csv`.
    pub path: At<String>,
    /// None means by its name, and when reading also by its first bytes.
    pub compression: Option<Compression>,
    pub encoding: Encoding,
    pub format: FileFormat,
}

#[derive(Clone, PartialEq, Debug)]
pub enum FileFormat {
    Csv(CsvFormat),
    JsonLines,
    /// An array.
    Json,
}

#[derive(Clone, PartialEq, Debug)]
pub struct CsvFormat {
    pub delimiter: u8,
    pub has_headers: bool,
    /// The columns, if the file has no header; when writing, which columns in which order.
    pub columns: Vec<String>,
}

impl FileFormat {
    /// The key of a job file.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Csv(_) => "csv",
            Self::JsonLines => "jsonl",
            Self::Json => "json",
        }
    }

    /// The columns that the file names; empty if there are none.
    pub(crate) fn columns(&self) -> &[String] {
        match self {
            Self::Csv(csv) => &csv.columns,
            Self::JsonLines | Self::Json => &[],
        }
    }

    /// Whether it is written by the order of the columns, and not by their names.
    pub(crate) const fn is_ordered(&self) -> bool {
        matches!(self, Self::Csv(_))
    }
}
