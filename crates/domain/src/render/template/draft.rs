//! Drafts of profiles, of a mapping and of data for the compositions of a project. People correct the drafts.

use super::{Composition, Layer, LayerType, Template};
use crate::render::field::{Field, NUMBER_MAX};
use crate::render::mapping::{Kind, MappingRow};
use crate::render::profile::{ApprovalNeed, Audio, BYTES_MIN, Decoding, Profile, check_composition};
use crate::render::rate::Rate;
use crate::words::plural;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Which compositions to draft; if empty, those that no other one shows.
    pub compositions: &'a [String],
    /// Path of the project on render nodes.
    pub template: &'a str,
    pub output_module: &'a str,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Draft {
    pub profiles: Vec<Profile>,
    pub mapping: Vec<MappingRow>,
    /// What people have to look at.
    pub notes: Vec<String>,
}

impl Template {
    pub fn draft(&self, wish: &Wish<'_>) -> Draft {
        let chosen: Vec<&Composition> = match wish.compositions {
            [] => self.outermost().collect(),
            names => self.compositions.iter().filter(|one| names.contains(&one.name)).collect(),
        };
        let (mut draft, mut seen) = (Draft::default(), BTreeSet::new());
        for composition in chosen {
            if let Err(bad) = check_composition(&composition.name) {
                draft.notes.push(format!("{bad}; rename it in After Effects"));
            } else if !seen.insert(composition.name.as_str()) {
                draft.notes.push(format!("{:?} is there twice; rename one of them", composition.name));
            } else {
                self.add(composition, wish, &mut draft);
            }
        }
        draft
    }

    fn add(&self, composition: &Composition, wish: &Wish<'_>, draft: &mut Draft) {
        let rows = self.rows(composition, &mut draft.notes);
        if rows.is_empty() {
            draft.notes.push(format!("{:?} has no layer of text or image with a name", composition.name));
            return;
        }
        match profile(composition, wish) {
            Some(profile) => draft.profiles.push(profile),
            None => draft.notes.push(format!(
                "{:?} has no profile: its size or its frame rate is not in the file",
                composition.name
            )),
        }
        draft.mapping.extend(rows);
    }

    /// The rows of a composition and of all that it shows.
    fn rows(&self, rendered: &Composition, notes: &mut Vec<String>) -> Vec<MappingRow> {
        let mut rows: Vec<MappingRow> = Vec::new();
        let (mut fields, mut layers) = (BTreeSet::new(), BTreeSet::new());
        let (mut seen, mut next) = (BTreeSet::from([rendered.name.as_str()]), vec![rendered]);
        while let Some(composition) = next.pop() {
            let is_inner = composition.name != rendered.name;
            let mut unnamed = 0_usize;
            for layer in &composition.layers {
                if let Some(inner) = layer.composition.as_deref().filter(|inner| seen.insert(*inner)) {
                    next.extend(self.named(inner));
                }
                if !matches!(layer.kind, LayerType::Text | LayerType::Image) {
                    continue;
                }
                let is_safe = !is_inner || check_composition(&composition.name).is_ok();
                if layer.name.trim().is_empty() || layer.name.chars().any(char::is_control) || !is_safe {
                    unnamed += 1;
                } else if layers.insert((composition.name.as_str(), layer.name.as_str())) {
                    let around = is_inner.then_some(composition.name.as_str());
                    let field = unused(field(layer, around), &mut fields);
                    rows.push(row(rendered, around, layer, &field));
                } else {
                    let name = &composition.name;
                    notes.push(format!("{name:?} has several layers {:?}; all show the same", layer.name));
                }
            }
            if unnamed > 0 {
                let count = plural(unnamed, "layer", "layers");
                notes.push(format!("{:?}: {count} cannot be mapped without a plain name", composition.name));
            }
        }
        rows.sort_by_key(|row| row.field_name.parse::<Field>().ok());
        rows
    }
}

fn row(rendered: &Composition, around: Option<&str>, layer: &Layer, field: &Field) -> MappingRow {
    let is_image = layer.kind == LayerType::Image;
    MappingRow {
        composition: rendered.name.clone(),
        field_name: field.to_string(),
        layer_name: layer.name.clone(),
        layer_composition: around.map(str::to_owned),
        property: None,
        kind: if is_image { Kind::Image } else { Kind::Text },
        source: None,
        // Without data, the layer keeps the image of the template.
        optional: is_image,
        unused: None,
    }
}

/// `Name 1` is `Slot 1 - name`, and so is `Name` in the composition `Seat 1`. `Table` is `Single - table`.
fn field(layer: &Layer, around: Option<&str>) -> Field {
    let (name, number) = split(&layer.name);
    match number.or_else(|| split(around?).1) {
        Some(number) if layer.kind == LayerType::Image && name == "flag" => Field::Flag { number },
        Some(number) if !name.is_empty() => Field::Slot { number, name },
        _ => {
            let name = Some(plain(&layer.name)).filter(|name| !name.is_empty());
            Field::Single { name: name.unwrap_or_else(|| "layer".to_owned()) }
        }
    }
}

/// The name without its number, if it has exactly one from 1 to 999.
fn split(name: &str) -> (String, Option<u16>) {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let mut numbers = name.split(|letter| !is_digit(letter)).filter(|digits| !digits.is_empty());
    let number = numbers.next().and_then(|digits| digits.parse().ok());
    match number.filter(|number| (1..=NUMBER_MAX).contains(number) && numbers.next().is_none()) {
        Some(number) => (plain(&name.replace(is_digit, " ")), Some(number)),
        None => (plain(name), None),
    }
}

/// Lower-case letters and digits with underscores between them.
fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// The field, or one with a further number in its name if it is taken.
fn unused(field: Field, taken: &mut BTreeSet<Field>) -> Field {
    if taken.insert(field.clone()) {
        return field;
    }
    let other = |count: usize| match &field {
        Field::Slot { number, name } => Field::Slot { number: *number, name: format!("{name}_{count}") },
        Field::Single { name } => Field::Single { name: format!("{name}_{count}") },
        Field::Flag { number } => Field::Slot { number: *number, name: format!("flag_{count}") },
    };
    // One of these is free, because there are more of them than fields.
    let free = (2..taken.len() + 3).map(other).find(|field| taken.insert(field.clone()));
    free.unwrap_or(field)
}

/// None if the file does not say enough.
fn profile(composition: &Composition, wish: &Wish<'_>) -> Option<Profile> {
    let millis = |seconds: f64| Duration::from_millis((seconds * 1_000.0).round() as u64);
    let duration = composition.duration.filter(|seconds| (0.001..=86_400.0).contains(seconds)).map(millis);
    let word = |word: &str| BTreeSet::from([word.to_owned()]);
    let profile = Profile {
        composition: composition.name.clone(),
        name_in_template: None,
        template: wish.template.to_owned(),
        output_module: wish.output_module.to_owned(),
        settings_template: None,
        extension: "mp4".to_owned(),
        container: "mp4".to_owned(),
        width: composition.width?,
        height: composition.height?,
        rate: Rate::near(composition.frame_rate?)?,
        codecs: word("h264"),
        pixel_formats: word("yuv420p"),
        duration,
        bytes_min: BYTES_MIN,
        audio: Audio::Any,
        decoding: Decoding::On,
        approval: ApprovalNeed::None,
        required_fields: BTreeSet::new(),
        min_slots: None,
        notify: BTreeSet::new(),
        targets: BTreeSet::new(),
    };
    let is_bad_size = |(field, _): &(&str, String)| matches!(*field, "width" | "height" | "rate");
    let problems = profile.check().err().map(|bad| bad.problems).unwrap_or_default();
    (!problems.iter().any(is_bad_size)).then_some(profile)
}

/// Data that fills each text of a composition with the name of its layer.
pub fn sample(composition: &str, rows: &[MappingRow]) -> Value {
    let mut slots: BTreeMap<u16, Map<String, Value>> = BTreeMap::new();
    let mut single = Map::new();
    for row in rows.iter().filter(|row| row.composition == composition && row.kind == Kind::Text) {
        match row.field_name.parse() {
            Ok(Field::Slot { number, name }) => {
                slots.entry(number).or_default().insert(name, json!(row.layer_name));
            }
            Ok(Field::Single { name }) => {
                single.insert(name, json!(row.layer_name));
            }
            Ok(Field::Flag { .. }) | Err(_) => {}
        }
    }
    let slot = |(number, fields)| json!({ "slot_number": number, "fields": Value::Object(fields) });
    let slots: Vec<Value> = slots.into_iter().map(slot).collect();
    json!({ "composition_name": composition, "slots": slots, "single_fields": single })
}
