//! The profile of a composition: its template, and what its file must be like.

use super::field::{Field, NUMBER_MAX};
use super::path::NodePath;
use super::rate::Rate;
use crate::alert::notify::Notify;
use crate::error_chain::listed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// The default. A clip of pure black has 9 kB and is valid.
pub const BYTES_MIN: u64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audio {
    None,
    /// With 48 kHz.
    Required,
    #[default]
    Any,
}

/// Whether every frame is decoded before the file is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decoding {
    /// The only way to detect damage in the middle.
    #[default]
    On,
    Off,
}

/// Whether a person has to approve a file before it is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalNeed {
    #[default]
    None,
    Required,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name in rows and mappings.
    pub composition: String,
    /// The name in the template, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_in_template: Option<String>,
    /// The After Effects project, as nodes see it.
    pub template: String,
    pub output_module: String,
    /// The render settings of After Effects, if not its default ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_template: Option<String>,
    /// Without a dot.
    #[serde(default = "mp4")]
    pub extension: String,
    #[serde(default = "mp4")]
    pub container: String,
    pub width: u32,
    pub height: u32,
    pub rate: Rate,
    #[serde(default = "h264")]
    pub codecs: BTreeSet<String>,
    /// Empty means any.
    #[serde(default = "yuv420p")]
    pub pixel_formats: BTreeSet<String>,
    /// Set if all its files have this duration.
    #[serde(default, with = "crate::duration::optional_text", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    #[serde(default = "bytes_min")]
    pub bytes_min: u64,
    #[serde(default)]
    pub audio: Audio,
    #[serde(default)]
    pub decoding: Decoding,
    /// Left out if nobody is needed, because earlier versions do not know it.
    #[serde(default, skip_serializing_if = "crate::newtype::is_default")]
    pub approval: ApprovalNeed,
    /// Fields that a render must fill, such as `Single - title`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub required_fields: BTreeSet<String>,
    /// How many slots a render must fill; with 0 it may fill no field at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_slots: Option<u16>,
    /// Alert channels that hear of the ends of its renders, such as `ops` or `failed:ops`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub notify: BTreeSet<String>,
    /// Where its files are published, by name; only the NAS if there is none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub targets: BTreeSet<String>,
}

fn mp4() -> String {
    "mp4".to_owned()
}

fn h264() -> BTreeSet<String> {
    BTreeSet::from(["h264".to_owned()])
}

fn yuv420p() -> BTreeSet<String> {
    BTreeSet::from(["yuv420p".to_owned()])
}

const fn bytes_min() -> u64 {
    BYTES_MIN
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", listed(problems.iter().map(|(field, why)| format!("{field}: {why}")), "; "))]
pub struct BadProfile {
    pub problems: Vec<(&'static str, String)>,
}

crate::code::coded!(BadProfile, BadProfile);

impl Profile {
    pub fn in_template(&self) -> &str {
        self.name_in_template.as_deref().unwrap_or(&self.composition)
    }

    pub fn notifies(&self) -> Vec<Notify> {
        self.notify.iter().filter_map(|text| text.parse().ok()).collect()
    }

    pub fn check(&self) -> Result<(), BadProfile> {
        let mut problems = Vec::new();
        let mut bad = |field, why: &str| problems.push((field, why.to_owned()));
        if let Err(unsafe_name) = check_composition(&self.composition) {
            bad("composition", &unsafe_name.to_string());
        }
        if let Some(Err(unsafe_name)) = self.name_in_template.as_deref().map(check_composition) {
            bad("name_in_template", &unsafe_name.to_string());
        }
        match NodePath::parse(&self.template) {
            Err(path) => bad("template", &path.to_string()),
            Ok(path) if !is_project(&path) => bad("template", "it does not end with .aep or .aepx"),
            Ok(_) => {}
        }
        let is_name = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
        let is_ending = |text: &str| {
            (1..=8).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        let is_size = |pixels| (1..=32_768).contains(&pixels);
        let is_duration = |length: Duration| !length.is_zero() && length <= Duration::from_secs(86_400);
        let Self { output_module, extension, container, codecs, .. } = self;
        let settings = self.settings_template.as_deref().is_none_or(is_name);
        let duration = self.duration.is_none_or(is_duration);
        let required = self.required_fields.iter().all(|field| field.parse::<Field>().is_ok());
        for (field, is_good, why) in [
            ("output_module", is_name(output_module), "write the name of an output module of After Effects"),
            (
                "settings_template",
                settings,
                "write the name of a template of render settings, or leave it out",
            ),
            ("extension", is_ending(extension), "write 1 to 8 lower-case letters and digits, without a dot"),
            (
                "container",
                is_ending(container),
                "write the container as ffprobe names it, such as mp4 or mov",
            ),
            ("width", is_size(self.width), "write 1 to 32768 pixels"),
            ("height", is_size(self.height), "write 1 to 32768 pixels"),
            ("rate", self.rate.per_second() <= 1_000.0, "write at most 1000 frames per second"),
            ("codecs", !codecs.is_empty(), "name at least one, such as h264"),
            ("duration", duration, "write more than 0s and at most 1d, or leave it out"),
            ("required_fields", required, "write fields as in the mapping, such as Slot 1 - name"),
            (
                "notify",
                self.notifies().len() == self.notify.len(),
                "write alert channels, such as ops or failed:ops",
            ),
            (
                "targets",
                self.targets.iter().all(|name| super::target::is_name(name)),
                "write nas and names of render.targets",
            ),
            ("min_slots", self.min_slots.is_none_or(|slots| slots <= NUMBER_MAX), "write at most 999"),
        ] {
            if !is_good {
                bad(field, why);
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(BadProfile { problems }) }
    }
}

pub(super) fn is_project(path: &NodePath) -> bool {
    let name = path.file_name().unwrap_or_default().to_lowercase();
    name.ends_with(".aep") || name.ends_with(".aepx")
}

/// The name would become part of the script that nexrender writes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnsafeComposition {
    #[error("the composition has no name")]
    Empty,
    #[error("the name of the composition is longer than 255 characters")]
    TooLong,
    #[error("the composition {name:?} has the character {letter:?} in its name")]
    Letter { name: String, letter: char },
}

crate::code::coded!(UnsafeComposition, UnsafeComposition);

/// Refuses names that nexrender would write into its script without quoting.
pub fn check_composition(name: &str) -> Result<(), UnsafeComposition> {
    if name.trim().is_empty() {
        return Err(UnsafeComposition::Empty);
    }
    if name.chars().count() > 255 {
        return Err(UnsafeComposition::TooLong);
    }
    let is_unsafe = |letter: &char| {
        letter.is_control() || matches!(letter, '\'' | '"' | '\\' | '$' | '`' | '\u{2028}' | '\u{2029}')
    };
    match name.chars().find(is_unsafe) {
        Some(letter) => Err(UnsafeComposition::Letter { name: name.to_owned(), letter }),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests;
