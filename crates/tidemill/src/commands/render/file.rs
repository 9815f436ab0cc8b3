//! Files that `tidemill render` reads: what a render shows, mappings and profiles.

use crate::report::Failure;
use clap::ValueEnum;
use std::io::Read;
use std::path::Path;
use tidemill_declare::Diagnostics;
use tidemill_declare::render::Format;
use tidemill_domain::code::Code;
use tidemill_domain::render::gfx::{BadGfx, GFX_BYTES_MAX};
use tidemill_engine::render::BadMaterial;

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
pub(super) fn read_table<T>(
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

/// The text of a file, or of the standard input if it is `-`. Of what is too large no more is read than it takes to see
/// that.
pub(super) fn read_data(file: &Path) -> Result<String, Failure> {
    let bytes = read_bytes(file, GFX_BYTES_MAX)?
        .ok_or_else(|| Failure::from(BadMaterial::Data(BadGfx::TooLarge { bytes: GFX_BYTES_MAX + 1 })))?;
    String::from_utf8(bytes).map_err(|error| {
        let why = error.utf8_error().to_string();
        BadMaterial::Data(BadGfx::NotJson { why }).into()
    })
}

/// The bytes of a file; none when there are more than `most`.
fn read_bytes(file: &Path, most: usize) -> Result<Option<Vec<u8>>, Failure> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        let fix = "name a file that can be read, or use - for standard input";
        Failure::new(Code::FileUnreadable, format!("{} cannot be read", file.display()), fix)
            .because(&error.to_string())
    })?;
    Ok((bytes.len() <= most).then_some(bytes))
}
