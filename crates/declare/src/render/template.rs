//! Templates as files: a project of After Effects as XML, or the report of the script that Tidemill prints.

mod aepx;

#[cfg(test)]
mod tests;

use crate::{Diagnostic, Diagnostics};
use std::path::Path;
use tidemill_domain::render::template::Template;

/// Projects as XML are large: they have every keyframe.
pub const TEMPLATE_BYTES_MAX: usize = 200_000_000;

/// What a binary project begins with.
const BINARY: &[u8] = b"RIFX";

/// Reads the compositions and layers of a project.
///
/// ```
/// # use tidemill_declare::render::read_template;
/// let report = r#"{"compositions": [{"name": "Main", "layers": [{"name": "Name 1", "type": "text"}]}]}"#;
/// let template = read_template("main.json".as_ref(), report.as_bytes()).unwrap();
/// assert_eq!(template.compositions[0].layers[0].name, "Name 1");
/// ```
pub fn read_template(path: &Path, bytes: &[u8]) -> Result<Template, Diagnostics> {
    let bad = |what: String, fix: &str| Diagnostics::one(Diagnostic::of_file(path, what, fix));
    let again =
        "save the project again, or make a report with the script of `tidemill render template script`";
    if bytes.starts_with(BINARY) {
        let fix = "in After Effects choose File > Save As > Save a Copy As XML, and scan the .aepx file";
        return Err(bad("this is a binary project of After Effects".to_owned(), fix));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the file is not UTF-8".to_owned(), again))?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut template = match text.starts_with('<') {
        true => aepx::read(text).map_err(|why| bad(why, again))?,
        false => serde_json::from_str::<Template>(text)
            .map_err(|error| bad(format!("the report of the project is not accepted: {error}"), again))?,
    };
    let fix = "save a copy of the project with only the compositions that are rendered";
    template.check_size().map_err(|many| bad(many.to_string(), fix))?;
    if template.compositions.is_empty() {
        return Err(bad("the project has no composition".to_owned(), again));
    }
    if template.project.is_none() {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        template.project = stem.filter(|stem| stem != "-").map(|stem| format!("{stem}.aep"));
    }
    Ok(template)
}
