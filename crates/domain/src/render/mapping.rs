//! The layer and property that show each field. Expressions are code, so only a mapping can contain them, never a render.

use super::field::Field;
use super::path::NodePath;
use super::profile::check_composition;
use crate::error_chain::listed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

crate::words! {
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        #[default]
        Text = "text",
        /// An image that replaces a layer's.
        Image = "image",
        /// An expression that After Effects computes; the data has no value for it.
        Expression = "expression",
    }

    /// What happens to a field that a render does not have.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Unused {
        Clear = "clear",
        Leave = "leave",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingRow {
    pub composition: String,
    /// `Slot 1 - name`, `Single - table_id` or `Flag 1`.
    pub field_name: String,
    pub layer_name: String,
    /// The composition of the layer, if it is another one; `A->B` for nested ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_composition: Option<String>,
    /// `Source Text` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property: Option<String>,
    #[serde(default)]
    pub kind: Kind,
    /// The text of an expression; the folder of images that are given by name only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default)]
    pub optional: bool,
    /// Texts are cleared by default, and images left. A layer whose image is cleared is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unused: Option<Unused>,
}

pub(super) const SOURCE_TEXT: &str = "Source Text";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    pub layer: String,
    /// The composition of the layer, if it is another one than is rendered.
    pub composition: Option<String>,
    pub target: Target,
    pub is_optional: bool,
    pub unused: Unused,
}

/// Images that are given by name only are in `folder`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Text { property: String },
    Image { folder: Option<NodePath> },
    Expression { property: String, expression: String },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mapping {
    pub lines: BTreeMap<Field, Line>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", listed(problems.iter().map(|(row, why)| format!("row {row}: {why}")), "; "))]
pub struct BadMapping {
    /// The row, from 1, and the problem.
    pub problems: Vec<(usize, String)>,
}

crate::code::coded!(BadMapping, BadFieldMapping);

pub fn read(rows: &[MappingRow]) -> Result<BTreeMap<String, Mapping>, BadMapping> {
    let mut mappings: BTreeMap<String, Mapping> = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let number = index + 1;
        match line(row) {
            Err(whys) => problems.extend(whys.into_iter().map(|why| (number, why))),
            Ok((field, line)) => {
                let lines = &mut mappings.entry(row.composition.clone()).or_default().lines;
                if lines.insert(field, line).is_some() {
                    problems.push((number, format!("there is another row for {}", row.field_name)));
                }
            }
        }
    }
    if problems.is_empty() { Ok(mappings) } else { Err(BadMapping { problems }) }
}

fn line(row: &MappingRow) -> Result<(Field, Line), Vec<String>> {
    let mut problems = Vec::new();
    let field = row.field_name.parse::<Field>().map_err(|error| problems.push(error.to_string()));
    for composition in std::iter::once(&row.composition).chain(&row.layer_composition) {
        if let Err(unsafe_name) = check_composition(composition) {
            problems.push(unsafe_name.to_string());
        }
    }
    let is_name = |name: &str| !name.trim().is_empty() && !name.chars().any(char::is_control);
    if !is_name(&row.layer_name) {
        problems.push("the layer has no name, or one with a control character".to_owned());
    }
    if row.property.as_deref().is_some_and(|property| !is_name(property)) {
        problems.push("the property has no name, or one with a control character".to_owned());
    }
    let property = row.property.clone().unwrap_or_else(|| SOURCE_TEXT.to_owned());
    let target = match (row.kind, &row.source) {
        (Kind::Text, None) => Ok(Target::Text { property }),
        (Kind::Text, Some(_)) => Err("a text takes no source; use the kind expression".to_owned()),
        (Kind::Expression, Some(text)) if !text.trim().is_empty() => {
            Ok(Target::Expression { property, expression: text.clone() })
        }
        (Kind::Expression, _) => Err("the expression is missing".to_owned()),
        (Kind::Image, None) => Ok(Target::Image { folder: None }),
        (Kind::Image, Some(folder)) => match NodePath::parse(folder) {
            Ok(folder) => Ok(Target::Image { folder: Some(folder) }),
            Err(bad) => Err(bad.to_string()),
        },
    };
    let target = target.map_err(|why| problems.push(why));
    if row.kind == Kind::Expression && row.unused == Some(Unused::Clear) {
        problems.push("an expression cannot be cleared".to_owned());
    }
    let is_text = row.kind == Kind::Text;
    let unused = row.unused.unwrap_or(if is_text { Unused::Clear } else { Unused::Leave });
    match (field, target) {
        (Ok(field), Ok(target)) if problems.is_empty() => {
            let line = Line {
                layer: row.layer_name.clone(),
                composition: row.layer_composition.clone(),
                target,
                is_optional: row.optional,
                unused,
            };
            Ok((field, line))
        }
        _ => Err(problems),
    }
}

#[cfg(test)]
pub(super) mod tests;
