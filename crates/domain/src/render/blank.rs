//! What a render leaves empty, and whether that is too much: a graphic with empty texts must not go on air by mistake.

use super::document::Problem;
use super::field::Field;
use super::gfx::GfxData;
use super::mapping::{Mapping, Target, Unused};
use super::profile::Profile;
use std::collections::BTreeSet;

/// The fields of the template that stay empty, and those that show what the template has.
pub fn warnings(gfx: &GfxData, mapping: &Mapping) -> Vec<String> {
    let filled = filled(gfx, mapping);
    let unfilled = mapping.lines.iter().filter_map(|(field, line)| {
        let is_cleared = match line.target {
            Target::Expression { .. } => return None,
            // Null is an empty text.
            Target::Text { .. } => line.unused == Unused::Clear || gfx.fields.contains_key(field),
            Target::Image { .. } => line.unused == Unused::Clear,
        };
        (!filled.contains(field)).then_some((field, is_cleared))
    });
    let unfilled: Vec<_> = unfilled.collect();
    let names = |cleared: bool| {
        let of_them = unfilled.iter().filter(|(_, is_cleared)| *is_cleared == cleared);
        of_them.map(|(field, _)| field.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (empty, kept) = (names(true), names(false));
    let mut warnings = Vec::new();
    if !empty.is_empty() {
        warnings.push(format!("these fields stay empty: {empty}"));
    }
    if !kept.is_empty() {
        warnings.push(format!("these fields show what the template has: {kept}"));
    }
    warnings
}

/// Adds what the profile requires and the data does not fill.
pub(super) fn check(gfx: &GfxData, mapping: &Mapping, profile: &Profile, problems: &mut Vec<Problem>) {
    let filled = filled(gfx, mapping);
    for field in profile.required_fields.iter().filter_map(|name| name.parse::<Field>().ok()) {
        if !filled.contains(&field) && !problems.contains(&Problem::Missing(field.clone())) {
            problems.push(Problem::Required(field));
        }
    }
    let slots: BTreeSet<u16> = filled
        .iter()
        .filter_map(|field| if let Field::Slot { number, .. } = field { Some(*number) } else { None })
        .collect();
    if let Some(least) = profile.min_slots.filter(|least| slots.len() < usize::from(*least)) {
        problems.push(Problem::Slots { filled: slots.len(), least });
    }
    let takes_data = mapping.lines.values().any(|line| !is_expression(&line.target));
    // What may not be used is another problem, which is not checked everywhere.
    let is_fine = problems.iter().all(|problem| matches!(problem, Problem::NotAllowed { .. }));
    if is_fine && filled.is_empty() && takes_data && profile.min_slots != Some(0) {
        problems.push(Problem::Blank);
    }
}

/// The fields that show something of the data.
fn filled<'a>(gfx: &'a GfxData, mapping: &Mapping) -> BTreeSet<&'a Field> {
    let is_filled = |(field, text): &(&'a Field, &'a Option<String>)| {
        let has_layer = match mapping.lines.get(*field) {
            Some(line) => !is_expression(&line.target),
            None => matches!(field, Field::Flag { .. }),
        };
        has_layer && text.as_deref().is_some_and(|text| !is_blank(text))
    };
    gfx.fields.iter().filter(is_filled).map(|(field, _)| field).collect()
}

/// Whether nothing of the text is seen: it has only spaces, and characters that no font shows.
fn is_blank(text: &str) -> bool {
    let is_hidden = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    text.chars().all(|c| c.is_whitespace() || is_hidden(c))
}

fn is_expression(target: &Target) -> bool {
    matches!(target, Target::Expression { .. })
}

#[cfg(test)]
mod tests {
    use super::super::gfx::read;
    use super::super::mapping::tests::{COMPOSITION, row};
    use super::super::mapping::{self, Kind, MappingRow};
    use super::super::profile::tests::profile;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn mapping() -> Mapping {
        let clock = MappingRow {
            source: Some("time".to_owned()),
            ..row("Single - clock", "Clock", Kind::Expression)
        };
        let left = MappingRow { unused: Some(Unused::Leave), ..row("Slot 2 - stack", "Stack 2", Kind::Text) };
        let hidden =
            MappingRow { unused: Some(Unused::Clear), ..row("Slot 2 - country", "Flag 2", Kind::Image) };
        let mut rows = vec![clock, left, hidden, row("Slot 1 - country", "Flag 1", Kind::Image)];
        for field in ["Slot 1 - name", "Slot 2 - name", "Single - title"] {
            rows.push(MappingRow { optional: true, ..row(field, field, Kind::Text) });
        }
        mapping::read(&rows).unwrap().remove(COMPOSITION).unwrap()
    }

    fn found(data: &str, profile: &Profile) -> Vec<String> {
        let mut problems = Vec::new();
        check(&read(data).unwrap(), &mapping(), profile, &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    const IVEY: &str = r#"{"slots": [{"slot_number": 1, "fields": {"name": "PHIL IVEY"}}], "single_fields": {"title": null}}"#;

    #[test]
    fn data_that_fills_no_field_is_refused() {
        let blank = "the data fills no field of the template: the graphic would be blank";

        for data in [
            "{}",
            r#"{"slots": []}"#,
            r#"{"slots": [{"slot_number": 1, "fields": {"name": " ", "country": null}}]}"#,
            r#"{"slots": [{"slot_number": 1, "fields": {"name": "\u200b"}}]}"#,
            r#"{"slots": [{"slot_number": 1, "fields": {"name": " \ufeff\u2060\u00ad\u200f"}}]}"#,
        ] {
            assert_eq!(found(data, &profile()), [blank], "{data}");
            assert_eq!(found(data, &Profile { min_slots: Some(0), ..profile() }), [""; 0], "{data}");
        }
        assert_eq!(found(IVEY, &profile()), [""; 0]);
        // A flag needs no mapping, and a composition without fields no data.
        assert_eq!(found(r#"{"flags": ["D:/a.png"]}"#, &profile()), [""; 0]);
        let mut problems = Vec::new();
        check(&GfxData::default(), &Mapping::default(), &profile(), &mut problems);
        assert_eq!(problems, []);
    }

    #[test]
    fn what_the_profile_requires_must_be_filled() {
        let required_fields = ["Single - title", "Slot 1 - name"].map(str::to_owned).into();
        let strict = Profile { required_fields, min_slots: Some(2), ..profile() };

        assert_eq!(
            found(IVEY, &strict),
            [
                "Single - title is empty, and the profile requires it",
                "the data fills 1 slots, and the profile requires 2",
            ]
        );
    }

    #[test]
    fn every_field_that_stays_empty_is_named() {
        let warned = warnings(&read(IVEY).unwrap(), &mapping());

        assert_eq!(
            warned,
            [
                "these fields stay empty: Slot 2 - country, Slot 2 - name, Single - title",
                "these fields show what the template has: Slot 1 - country, Slot 2 - stack",
            ]
        );
    }

    proptest! {
        #[test]
        fn each_field_is_filled_or_warned_of(names in prop::collection::vec(" {0,2}[a-z]{0,2}", 2), title in " {0,2}[a-z]{0,2}") {
            let slots: Vec<_> =
                (1..).zip(&names).map(|(number, name)| json!({"slot_number": number, "fields": {"name": name}})).collect();
            let data = json!({"slots": slots, "single_fields": {"title": title}}).to_string();
            let warned = warnings(&read(&data).unwrap(), &mapping()).join("; ");
            let fields = ["Slot 1 - name", "Slot 2 - name", "Single - title"];
            for (field, text) in fields.into_iter().zip(names.iter().chain([&title])) {
                prop_assert_eq!(warned.contains(field), text.trim().is_empty(), "{}: {}", field, warned);
            }
            let is_blank = names.iter().chain([&title]).all(|text| text.trim().is_empty());
            prop_assert_eq!(found(&data, &profile()).is_empty(), !is_blank);
        }
    }
}
