//! An After Effects project as its compositions and layers, and the rows of a mapping that fit none of its layers.

pub mod draft;

use super::mapping::{Kind, MappingRow, SOURCE_TEXT};
use crate::nearest::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A project with more has no use as a template, and would make drafts slow.
pub const COMPOSITIONS_MAX: usize = 2_000;
pub const LAYERS_MAX: usize = 20_000;

crate::words! {
    /// What a layer shows.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LayerType {
        Text = "text",
        /// A picture or a video from a file.
        Image = "image",
        Composition = "composition",
        /// Solids, shapes, lights, cameras and so on.
        #[default]
        Other = "other",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: LayerType,
    /// The composition that the layer shows, if it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composition: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composition {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Frames per second as After Effects shows it, such as 29.97.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<f64>,
    /// In seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    pub layers: Vec<Layer>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// File name of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub compositions: Vec<Composition>,
}

/// A row of a mapping that nexrender could not follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Misfit {
    pub composition: String,
    pub field_name: String,
    pub layer_name: String,
    pub problem: String,
    pub suggestion: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the project has {what}; at most {most} are read")]
pub struct TooMany {
    what: String,
    most: usize,
}

impl Template {
    pub fn check_size(&self) -> Result<(), TooMany> {
        let layers = self.compositions.iter().map(|composition| composition.layers.len()).sum();
        for (count, noun, most) in
            [(self.compositions.len(), "compositions", COMPOSITIONS_MAX), (layers, "layers", LAYERS_MAX)]
        {
            if count > most {
                return Err(TooMany { what: format!("{count} {noun}"), most });
            }
        }
        Ok(())
    }

    /// The compositions that no other one shows: those that are rendered.
    pub fn outermost(&self) -> impl Iterator<Item = &Composition> {
        let layers = self.compositions.iter().flat_map(|composition| &composition.layers);
        let shown: BTreeSet<&str> = layers.filter_map(|layer| layer.composition.as_deref()).collect();
        self.compositions.iter().filter(move |composition| !shown.contains(composition.name.as_str()))
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Composition> {
        self.compositions.iter().filter(move |composition| composition.name == name)
    }

    /// The rows that fit no layer. `name_in_template` is the name in the project of a composition of a mapping.
    pub fn misfits<'a>(
        &self,
        rows: &'a [MappingRow],
        name_in_template: impl Fn(&'a str) -> &'a str,
    ) -> Vec<Misfit> {
        let misfit = |row: &'a MappingRow| {
            let (problem, suggestion) = self.misfit(row, name_in_template(&row.composition))?;
            Some(Misfit {
                composition: row.composition.clone(),
                field_name: row.field_name.clone(),
                layer_name: row.layer_name.clone(),
                problem,
                suggestion,
            })
        };
        rows.iter().filter_map(misfit).collect()
    }

    /// The problem of a row and how it may have been meant.
    fn misfit(&self, row: &MappingRow, rendered: &str) -> Option<(String, Option<String>)> {
        // nexrender looks in the last composition of a path.
        let inner = row.layer_composition.as_deref().and_then(|path| path.rsplit("->").next());
        let searched = inner.map_or(rendered, str::trim);
        if self.named(searched).next().is_none() {
            let names = self.compositions.iter().map(|composition| composition.name.as_str());
            let near = nearest(searched, names).map(|near| format!("did you mean {near:?}?"));
            return Some((format!("the project has no composition {searched:?}"), near));
        }
        let layers = || self.named(searched).flat_map(|composition| &composition.layers);
        let mut same = layers().filter(|layer| layer.name == row.layer_name).peekable();
        if same.peek().is_none() {
            let is_there = |other: &&Composition| {
                other.name != searched && other.layers.iter().any(|layer| layer.name == row.layer_name)
            };
            let elsewhere = self.compositions.iter().find(is_there);
            let elsewhere = elsewhere.map(|other| {
                format!("the composition {:?} has it: set layer_composition to that name", other.name)
            });
            let names = layers().map(|layer| layer.name.as_str());
            let near = nearest(&row.layer_name, names).map(|near| format!("did you mean {near:?}?"));
            let what = format!("{searched:?} has no layer {:?}", row.layer_name);
            return Some((what, elsewhere.or(near)));
        }
        let is_text =
            row.kind == Kind::Text && row.property.as_deref().is_none_or(|name| name == SOURCE_TEXT);
        let fits = |layer: &Layer| match row.kind {
            Kind::Image => layer.kind != LayerType::Text,
            _ => !is_text || layer.kind == LayerType::Text,
        };
        let first = same.peek().map(|layer| layer.kind)?;
        if same.any(fits) {
            return None;
        }
        let wanted = if row.kind == Kind::Image { "an image cannot replace it" } else { "it has no text" };
        let kind = if row.kind == Kind::Image { Kind::Text } else { Kind::Image };
        Some((
            format!("the layer is of the type {first}: {wanted}"),
            (first != LayerType::Other).then(|| format!("set kind to {kind}, or choose another layer")),
        ))
    }
}

#[cfg(test)]
mod tests;
