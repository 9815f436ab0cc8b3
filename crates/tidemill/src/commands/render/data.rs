//! What a render is to show, from a file or the standard input.

use crate::report::Failure;
use std::io::Read;
use std::path::Path;
use tidemill_domain::code::Code;
use tidemill_domain::render::gfx::{BadGfx, GFX_BYTES_MAX};
use tidemill_engine::render::BadMaterial;

/// The text of a file, or of the standard input if it is `-`. Of what is too large no more is read than it takes to see
/// that.
pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let bytes = read_bytes(file, GFX_BYTES_MAX)?
        .ok_or_else(|| Failure::from(BadMaterial::Data(BadGfx::TooLarge { bytes: GFX_BYTES_MAX + 1 })))?;
    String::from_utf8(bytes).map_err(|error| {
        let why = error.utf8_error().to_string();
        BadMaterial::Data(BadGfx::NotJson { why }).into()
    })
}

/// The bytes of a file; none when there are more than `most`.
pub(super) fn read_bytes(file: &Path, most: usize) -> Result<Option<Vec<u8>>, Failure> {
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
