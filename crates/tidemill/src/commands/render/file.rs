//! Files that `tidemill render` reads: data, mappings and profiles.

use crate::report::{Failure, Result};
use clap::ValueEnum;
use std::io::Read;
use std::path::Path;
use tidemill_declare::Diagnostics;
use tidemill_declare::render::Format;
use tidemill_domain::code::Code;
use tidemill_domain::render::gfx::{BadGfx, GFX_BYTES_MAX};
use tidemill_engine::render::BadMaterial;

const BYTES_MAX: usize = 20_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header
    Csv,
    /// List of mappings with one key per column
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

/// Reads a file. Without a format, the file name decides.
pub(super) fn read_table<T>(
    file: &Path,
    format: Option<FileFormat>,
    code: Code,
    read: impl Fn(&Path, &[u8], Format) -> Result<Vec<T>, Diagnostics>,
) -> Result<Vec<T>> {
    let format = format.map(Format::from).or_else(|| Format::of(file)).ok_or_else(|| {
        let what = format!("the name of {} does not say whether it is CSV or YAML", file.display());
        Failure::new(Code::Usage, what, "add --format csv or --format yaml")
    })?;
    let bytes = read_bytes(file, BYTES_MAX)?.ok_or_else(|| {
        let what = format!("{} is larger than {} MB", file.display(), BYTES_MAX / 1_000_000);
        Failure::new(code, what, "split it into several files")
    })?;
    read(file, &bytes, format).map_err(|wrong| Failure::of_file(&wrong, code))
}

/// The text of a file, or of standard input if it is `-`. Reading stops at the size limit.
pub(super) fn read_data(file: &Path) -> Result<String> {
    let bytes = read_bytes(file, GFX_BYTES_MAX)?
        .ok_or_else(|| Failure::from(BadMaterial::Data(BadGfx::TooLarge { bytes: GFX_BYTES_MAX + 1 })))?;
    String::from_utf8(bytes).map_err(|error| {
        let why = error.utf8_error().to_string();
        BadMaterial::Data(BadGfx::NotJson { why }).into()
    })
}

/// None when the file has more than `most` bytes.
fn read_bytes(file: &Path, most: usize) -> Result<Option<Vec<u8>>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        let fix = "use a readable file, or - for standard input";
        Failure::new(Code::FileUnreadable, format!("cannot read {}", file.display()), fix)
            .because(&error.to_string())
    })?;
    Ok((bytes.len() <= most).then_some(bytes))
}
