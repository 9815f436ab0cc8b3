//! Builds the nexrender job from the data, the mapping and the profile, or lists all problems.
//!
//! It never sends what nexrender accepts but does wrongly: every asset names its composition (otherwise it would appear in
//! all of them), every file gets a plain name, the output's extension is set, actions are an object, and we choose where
//! the file goes.

#[cfg(test)]
mod tests;

use super::blank;
use super::field::Field;
use super::gfx::GfxData;
use super::mapping::{Line, Mapping, Target, Unused};
use super::path::{BadPath, encode};
use super::profile::{Profile, check_composition, is_project};
use super::{NodePath, Uid};
use crate::code::Code;
use crate::error_chain::listed;
use serde_json::{Value, json};

/// The module that copies the file to where we expect it.
pub const COPY_MODULE: &str = "@nexrender/action-copy";

/// A flag that is not mapped goes to a layer with the flag's name.
const FLAG_KEY: &str = "Flag";

/// For names without one of these extensions.
const DEFAULT_ENDING: &str = "png";

const ENDINGS: [&str; 15] = [
    "png", "jpg", "jpeg", "tif", "tiff", "psd", "tga", "exr", "gif", "bmp", "webp", "ai", "svg", "mov", "mp4",
];

/// What a job may use. Otherwise those who submit renders could read any file of the nodes and run any module there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowList {
    pub template_folders: Vec<NodePath>,
    /// Beside the folders of templates.
    pub asset_folders: Vec<NodePath>,
    /// URL schemes of assets beside `file`, such as `https`.
    pub schemes: Vec<String>,
    pub modules: Vec<String>,
}

impl Default for AllowList {
    fn default() -> Self {
        Self {
            template_folders: Vec::new(),
            asset_folders: Vec::new(),
            schemes: Vec::new(),
            modules: vec![COPY_MODULE.to_owned()],
        }
    }
}

impl AllowList {
    pub fn has_template(&self, path: &NodePath) -> bool {
        self.template_folders.iter().any(|folder| path.is_in(folder))
    }

    pub fn has_asset(&self, path: &NodePath) -> bool {
        self.asset_folders.iter().chain(&self.template_folders).any(|folder| path.is_in(folder))
    }

    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.schemes.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme))
    }

    pub fn has_module(&self, module: &str) -> bool {
        self.modules.iter().any(|allowed| allowed == module)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Ingredients<'a> {
    pub uid: Uid,
    pub gfx: &'a GfxData,
    pub mapping: &'a Mapping,
    pub profile: &'a Profile,
    /// Where the file should be left, as nodes see it.
    pub staging: &'a NodePath,
    pub allow: &'a AllowList,
    /// Higher first, if nexrender is configured to use it.
    pub priority: i64,
    pub tags: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Composition(String),
    #[error(
        "the data names the composition {named:?}, but the profile {profile:?}; if the template uses \
         that name, set name_in_template in the profile"
    )]
    OtherComposition { named: String, profile: String },
    #[error("{0} is not mapped")]
    NotMapped(Field),
    #[error("{0} is missing")]
    Missing(Field),
    #[error("{0} is an expression in the mapping and takes no data")]
    Expression(Field),
    #[error("{0} is empty, and the profile requires it")]
    Required(Field),
    #[error("the data fills {filled} slots, and the profile requires {least}")]
    Slots { filled: usize, least: u16 },
    #[error("the data fills no field of the template: the graphic would be blank")]
    Blank,
    #[error("{0}: {1}")]
    Image(Field, String),
    #[error("{why}")]
    NotAllowed { field: Option<Field>, why: String },
    #[error("{0}")]
    Path(String),
}

crate::code::coded!(Problem {
    Composition => UnsafeComposition;
    NotAllowed => NotOnAllowList;
    Path => BadPath;
    OtherComposition | Image => BadRenderData;
    NotMapped | Missing | Expression | Required | Slots | Blank => FieldsNotMapped;
});

impl Problem {
    /// The field that it is about.
    pub const fn field(&self) -> Option<&Field> {
        match self {
            Self::NotMapped(field)
            | Self::Missing(field)
            | Self::Expression(field)
            | Self::Required(field)
            | Self::Image(field, _) => Some(field),
            Self::NotAllowed { field, .. } => field.as_ref(),
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", listed(problems, "; "))]
pub struct BadDocument {
    pub problems: Vec<Problem>,
}

impl BadDocument {
    pub fn code(&self) -> Code {
        self.problems.first().map_or(Code::BadRenderData, Problem::code)
    }
}

pub fn build(ingredients: Ingredients<'_>) -> Result<Value, BadDocument> {
    let Ingredients { profile, allow, gfx, .. } = ingredients;
    let mut problems = Vec::new();
    if let Err(bad) = check_composition(profile.in_template()) {
        problems.push(Problem::Composition(bad.to_string()));
    }
    let is_known = |name: &str| name == profile.composition || name == profile.in_template();
    if let Some(named) = gfx.composition.clone().filter(|name| !is_known(name)) {
        let profile = profile.in_template().to_owned();
        problems.push(Problem::OtherComposition { named, profile });
    }
    let template = template(profile, allow, &mut problems);
    if !allow.has_module(COPY_MODULE) {
        let why = format!("the module {COPY_MODULE} is not on the allow-list");
        problems.push(Problem::NotAllowed { field: None, why });
    }
    let assets = assets(ingredients, &mut problems);
    blank::check(gfx, ingredients.mapping, profile, &mut problems);
    if !problems.is_empty() {
        return Err(BadDocument { problems });
    }
    let mut job = json!({ "uid": ingredients.uid.to_string(), "priority": ingredients.priority });
    if let Some(tags) = ingredients.tags {
        job["tags"] = json!(tags);
    }
    job["template"] = template;
    job["assets"] = Value::Array(assets);
    let copy = json!({ "module": COPY_MODULE, "output": ingredients.staging.forward() });
    job["actions"] = json!({ "postrender": [copy] });
    Ok(job)
}

fn template(profile: &Profile, allow: &AllowList, problems: &mut Vec<Problem>) -> Value {
    let src = match NodePath::parse(&profile.template) {
        Ok(path) if !is_project(&path) || !allow.has_template(&path) => {
            let why = format!("the template {path} is not in a template folder");
            problems.push(Problem::NotAllowed { field: None, why });
            String::new()
        }
        Ok(path) => encode(&path),
        Err(bad) => {
            problems.push(Problem::Path(bad.to_string()));
            String::new()
        }
    };
    let mut template = json!({
        "src": src,
        // Some versions cannot download a file without a name.
        "name": "template.aep",
        "composition": profile.in_template(),
        "outputModule": profile.output_module,
        "outputExt": profile.extension,
        "continueOnMissing": false,
    });
    if let Some(settings) = &profile.settings_template {
        template["settingsTemplate"] = json!(settings);
    }
    template
}

fn assets(ingredients: Ingredients<'_>, problems: &mut Vec<Problem>) -> Vec<Value> {
    let Ingredients { gfx, mapping, profile, allow, .. } = ingredients;
    let mut assets = Vec::new();
    for (field, line) in &mapping.lines {
        let value = gfx.fields.get(field);
        let composition = line.composition.as_deref().unwrap_or(profile.in_template());
        let data = |property: &str, key: &str, text: &str| {
            json!({
                "type": "data",
                "layerName": line.layer,
                "composition": composition,
                "property": property,
                key: text,
            })
        };
        match (&line.target, value) {
            (Target::Expression { property, expression }, None) => {
                assets.push(data(property, "expression", expression));
            }
            (Target::Expression { .. }, Some(_)) => problems.push(Problem::Expression(field.clone())),
            (Target::Text { property }, Some(text)) => {
                assets.push(data(property, "value", text.as_deref().unwrap_or_default()));
            }
            (Target::Image { folder }, Some(Some(given))) => {
                let number = assets.len() + 1;
                match source(field, given, folder.as_ref(), allow) {
                    Ok(source) => assets.push(source.asset(&line.layer, composition, number)),
                    Err(problem) => problems.push(problem),
                }
            }
            (_, None) if is_needed(field, line, gfx) => problems.push(Problem::Missing(field.clone())),
            // Null means no image.
            (Target::Image { .. }, None | Some(None)) if line.unused == Unused::Clear => {
                let mut hidden = data("enabled", "value", "");
                hidden["value"] = json!(false);
                assets.push(hidden);
            }
            (Target::Image { .. }, Some(None)) => {}
            (Target::Text { property }, None) if line.unused == Unused::Clear => {
                assets.push(data(property, "value", ""));
            }
            (Target::Text { .. } | Target::Image { .. }, None) => {}
        }
    }
    for (field, value) in gfx.fields.iter().filter(|(field, _)| !mapping.lines.contains_key(field)) {
        match (field, value) {
            // Flags need no mapping: they go to layers with their names.
            (Field::Flag { number: flag }, Some(given)) => match source(field, given, None, allow) {
                Ok(source) => {
                    let number = assets.len() + 1;
                    assets.push(source.asset(&format!("{FLAG_KEY} {flag}"), profile.in_template(), number));
                }
                Err(problem) => problems.push(problem),
            },
            (Field::Flag { .. }, None) => {}
            (Field::Slot { .. } | Field::Single { .. }, _) => {
                problems.push(Problem::NotMapped(field.clone()))
            }
        }
    }
    assets
}

/// Whether a render without this field is incomplete. A slot that is absent needs no fields.
fn is_needed(field: &Field, line: &Line, gfx: &GfxData) -> bool {
    let is_there = match field {
        Field::Slot { number, .. } => gfx.slots.contains(number),
        Field::Single { .. } => true,
        Field::Flag { .. } => false,
    };
    is_there && !line.is_optional
}

/// The source of an image: a path, a URL, or a name in the folder of its field.
struct Source {
    src: String,
    ending: Option<String>,
}

/// A name without a folder is searched in `folder`.
fn source(
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
        let why = format!("{field}: {path} is not in an asset folder");
        return Err(Problem::NotAllowed { field: Some(field.clone()), why });
    }
    let ending = path.file_name().and_then(ending);
    Ok(Source { src: encode(&path), ending })
}

fn address(field: &Field, given: &str, scheme: &str, allow: &AllowList) -> Result<Source, Problem> {
    if !allow.has_scheme(scheme) {
        let scheme: String = scheme.chars().take(16).collect();
        let why = format!("{field}: URLs with {scheme:?} are not on the allow-list");
        return Err(Problem::NotAllowed { field: Some(field.clone()), why });
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
    fn asset(&self, layer: &str, composition: &str, number: usize) -> Value {
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
