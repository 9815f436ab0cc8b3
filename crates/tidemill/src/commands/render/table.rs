//! Files of mappings and profiles: which format, where they come from, and what is said about faults in them.

use super::data::read_bytes;
use crate::report::Failure;
use clap::ValueEnum;
use std::path::Path;
use tidemill_declare::Diagnostics;
use tidemill_declare::render::Format;
use tidemill_domain::code::Code;

/// More than any file of these has.
const BYTES_MAX: usize = 20_000_000;

/// How a file is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header
    Csv,
    /// A list of tables
    Yaml,
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Yaml => Self::Yaml,
        }
    }
}

/// Reads a file, in the format that its name tells unless another is given.
pub(super) fn read<T>(
    file: &Path,
    format: Option<FileFormat>,
    code: Code,
    read: impl Fn(&Path, &[u8], Format) -> Result<Vec<T>, Diagnostics>,
) -> Result<Vec<T>, Failure> {
    let format = format.map(Format::from).or_else(|| Format::of(file)).ok_or_else(|| {
        let what = format!("nobody can tell whether {} is CSV or YAML", file.display());
        Failure::new(Code::Usage, what, "add --format csv or --format yaml, or name it .csv or .yaml")
    })?;
    let bytes = read_bytes(file, BYTES_MAX)?.ok_or_else(|| {
        Failure::new(
            code,
            format!("{} is larger than {} MB", file.display(), BYTES_MAX / 1_000_000),
            "divide it",
        )
    })?;
    read(file, &bytes, format).map_err(|wrong| Failure::of_file(&wrong, code))
}
