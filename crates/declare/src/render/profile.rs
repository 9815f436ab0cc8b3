//! Profiles of compositions as files.

use super::{Format, record, records, write};
use crate::render::record::{Column, Kind, needed, optional, parsed};
use crate::{Diagnostic, Diagnostics};
use std::collections::BTreeSet;
use std::path::Path;
use tidemill_domain::duration;
use tidemill_domain::render::Profile;
use tidemill_domain::render::rate::Rate;

static COLUMNS: [Column; 21] = [
    Column { other_name: Some("composition_id"), ..needed("composition", Kind::Text) },
    optional("name_in_template", Kind::Text),
    needed("template", Kind::Text),
    needed("output_module", Kind::Text),
    optional("settings_template", Kind::Text),
    optional("extension", Kind::Text),
    optional("container", Kind::Text),
    needed("width", Kind::Number),
    needed("height", Kind::Number),
    needed("rate", parsed::<Rate>()),
    optional("codecs", Kind::Words),
    optional("pixel_formats", Kind::Words),
    optional("duration", Kind::Read(period)),
    optional("bytes_min", Kind::Number),
    optional("audio", Kind::Word(&["any", "none", "required"])),
    optional("decoding", Kind::Word(&["on", "off"])),
    optional("approval", Kind::Word(&["none", "required"])),
    optional("required_fields", Kind::Texts),
    optional("min_slots", Kind::Number),
    optional("notify", Kind::Words),
    optional("targets", Kind::Words),
];

fn period(text: &str) -> Result<(), String> {
    duration::parse(text).map(drop).map_err(|error| error.to_string())
}

/// Reports all problems of a file at once. A composition has one profile.
pub fn read_profiles(path: &Path, bytes: &[u8], format: Format) -> Result<Vec<Profile>, Diagnostics> {
    let (source, records) = records(path, bytes, format, &COLUMNS)?;
    let (mut profiles, mut seen, mut problems) = (Vec::new(), BTreeSet::new(), Vec::new());
    for found in &records {
        let Some(profile) = record::read::<Profile>(found, &COLUMNS, &source, &mut problems) else {
            continue;
        };
        let mut bad = |field: &str, why: String| {
            let (place, chars) = found.at(&COLUMNS, field);
            let fix = format!("correct {field}");
            problems.push(Diagnostic::at(&source, place, chars, format!("{field}: {why}"), fix));
        };
        for (field, why) in profile.check().err().map(|bad| bad.problems).unwrap_or_default() {
            bad(field, why);
        }
        if !seen.insert(profile.composition.clone()) {
            bad("composition", "there is another profile of it in the file".to_owned());
        }
        profiles.push(profile);
    }
    Diagnostics::of(problems).map_or(Ok(profiles), Err)
}

pub fn write_profiles(profiles: &[Profile], format: Format) -> String {
    write(profiles, format, &COLUMNS)
}
