//! The source of an image: a path, an address, or a name that lies in the folder of its field.

use super::super::field::Field;
use super::super::path::NodePath;
use super::super::uri;
use super::{AllowList, Problem};
use serde_json::{Value, json};

/// What a name has behind it that has none of these.
const DEFAULT_ENDING: &str = "png";

const ENDINGS: [&str; 15] = [
    "png", "jpg", "jpeg", "tif", "tiff", "psd", "tga", "exr", "gif", "bmp", "webp", "ai", "svg", "mov", "mp4",
];

pub(super) struct Source {
    src: String,
    ending: Option<String>,
}

pub(super) enum Why {
    /// It is nothing that could be an image.
    Bad(String),
    NotAllowed(String),
}

pub(super) fn problem(field: &Field, why: Why) -> Problem {
    match why {
        Why::Bad(why) => Problem::Image(field.clone(), why),
        Why::NotAllowed(why) => Problem::NotAllowed(format!("{field}: {why}")),
    }
}

/// What a render says about an image. A name without a folder is looked for in `folder`.
pub(super) fn source(given: &str, folder: Option<&NodePath>, allow: &AllowList) -> Result<Source, Why> {
    if let Some((scheme, _)) = given.split_once("://")
        && !scheme.eq_ignore_ascii_case("file")
    {
        return address(given, scheme, allow);
    }
    let path = match (NodePath::parse(given), folder) {
        (Ok(path), _) => path,
        (Err(_), Some(folder)) if !given.contains(['/', '\\']) => {
            let name =
                if ending(given).is_some() { given.to_owned() } else { format!("{given}.{DEFAULT_ENDING}") };
            folder.join(&name).map_err(|bad| Why::Bad(bad.to_string()))?
        }
        (Err(bad), _) => return Err(Why::Bad(bad.to_string())),
    };
    if !allow.has_asset(&path) {
        return Err(Why::NotAllowed(format!("{path} is not in a folder of assets")));
    }
    let ending = path.file_name().and_then(ending);
    Ok(Source { src: uri::encode(&path), ending })
}

fn address(given: &str, scheme: &str, allow: &AllowList) -> Result<Source, Why> {
    if !allow.has_scheme(scheme) {
        let scheme: String = scheme.chars().take(16).collect();
        return Err(Why::NotAllowed(format!("addresses with {scheme:?} are not on the allow-list")));
    }
    if !given.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Why::Bad("the address has spaces or letters in it that have to be escaped".to_owned()));
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
    /// The asset. nexrender writes the name of the file into its script without quoting it, so it is one of ours.
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
