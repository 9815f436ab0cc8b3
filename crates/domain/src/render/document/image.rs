//! The source of an image: a path, a URL, or a name in the folder of its field.

use super::super::field::Field;
use super::super::path::{BadPath, NodePath};
use super::super::uri;
use super::{AllowList, Problem};
use serde_json::{Value, json};

/// For names without one of these extensions.
const DEFAULT_ENDING: &str = "png";

const ENDINGS: [&str; 15] = [
    "png", "jpg", "jpeg", "tif", "tiff", "psd", "tga", "exr", "gif", "bmp", "webp", "ai", "svg", "mov", "mp4",
];

pub(super) struct Source {
    src: String,
    ending: Option<String>,
}

/// A name without a folder is searched in `folder`.
pub(super) fn source(
    field: &Field,
    given: &str,
    folder: Option<&NodePath>,
    allow: &AllowList,
) -> Result<Source, Problem> {
    let bad = |bad: BadPath| Problem::Image(field.clone(), bad.to_string());
    if let Some((scheme, _)) = given.split_once("://")
        && !scheme.eq_ignore_ascii_case("file")
    {
        return address(field, given, scheme, allow);
    }
    let path = match (NodePath::parse(given), folder) {
        (Ok(path), _) => path,
        (Err(_), Some(folder)) if !given.contains(['/', '\\']) => {
            let name =
                if ending(given).is_some() { given.to_owned() } else { format!("{given}.{DEFAULT_ENDING}") };
            folder.join(&name).map_err(bad)?
        }
        (Err(error), _) => return Err(bad(error)),
    };
    if !allow.has_asset(&path) {
        return Err(Problem::NotAllowed(format!("{field}: {path} is not in an asset folder")));
    }
    let ending = path.file_name().and_then(ending);
    Ok(Source { src: uri::encode(&path), ending })
}

fn address(field: &Field, given: &str, scheme: &str, allow: &AllowList) -> Result<Source, Problem> {
    if !allow.has_scheme(scheme) {
        let scheme: String = scheme.chars().take(16).collect();
        let why = format!("{field}: URLs with {scheme:?} are not on the allow-list");
        return Err(Problem::NotAllowed(why));
    }
    if !given.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = "the URL has characters that must be escaped".to_owned();
        return Err(Problem::Image(field.clone(), why));
    }
    let path = given.split(['?', '#']).next().unwrap_or_default();
    Ok(Source { src: given.to_owned(), ending: ending(path) })
}

fn ending(name: &str) -> Option<String> {
    let (_, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()).then_some(ending)
}

impl Source {
    /// nexrender writes the file name into its script without quoting, so we choose it.
    pub(super) fn asset(&self, layer: &str, composition: &str, number: usize) -> Value {
        let name = match &self.ending {
            Some(ending) => format!("asset-{number}.{ending}"),
            None => format!("asset-{number}"),
        };
        json!({
            "type": "image",
            "layerName": layer,
            "composition": composition,
            "src": self.src,
            "name": name,
        })
    }
}
