//! Rows of a mapping for tests, and what is read of them.

use super::*;
use crate::code::Code;

pub(in super::super) const COMPOSITION: &str = "_MAIN Mini Chip Count";

pub(in super::super) fn row(field: &str, layer: &str, kind: Kind) -> MappingRow {
    MappingRow {
        composition: COMPOSITION.to_owned(),
        field_name: field.to_owned(),
        layer_name: layer.to_owned(),
        layer_composition: None,
        property: None,
        kind,
        source: None,
        optional: false,
        unused: None,
    }
}

#[test]
fn what_is_not_said_is_a_text_of_the_layer_in_the_composition() {
    let row: MappingRow = serde_json::from_str(
        r#"{"composition": "C", "field_name": "Slot 1 - name", "layer_name": "Name 1"}"#,
    )
    .unwrap();

    let mappings = read(&[row]).unwrap();

    let line = &mappings["C"].lines[&"Slot 1 - name".parse().unwrap()];
    assert_eq!((line.composition.as_deref(), line.unused, line.is_optional), (None, Unused::Clear, false));
    assert_eq!(line.target, Target::Text { property: "Source Text".to_owned() });
}

#[test]
fn all_that_is_wrong_is_named_at_once_with_its_row() {
    let good = row("Single - a", "A", Kind::Text);
    let rows = [
        good.clone(),
        MappingRow { field_name: "Slot - a".into(), layer_name: " ".into(), ..good.clone() },
        good.clone(),
        MappingRow { kind: Kind::Expression, field_name: "Single - b".into(), ..good.clone() },
        MappingRow { source: Some("time".into()), field_name: "Single - c".into(), ..good.clone() },
        MappingRow {
            unused: Some(Unused::Clear),
            source: Some(" ".into()),
            ..row("Single - f", "F", Kind::Expression)
        },
        MappingRow { layer_composition: Some("a'b".into()), field_name: "Single - d".into(), ..good.clone() },
        MappingRow { property: Some(String::new()), field_name: "Single - e".into(), ..good },
    ];

    let bad = read(&rows).unwrap_err();

    let numbers: Vec<_> = bad.problems.iter().map(|(row, _)| *row).collect();
    assert_eq!(numbers, [2, 2, 3, 4, 5, 6, 6, 7, 8], "{bad}");
    assert_eq!(bad.code(), Code::BadFieldMapping);
}

#[test]
fn rows_survive_a_file() {
    let mut image = row("Flag 1", "Flag 1", Kind::Image);
    image.source = Some("D:\\assets\\flags".to_owned());
    image.unused = Some(Unused::Leave);

    let text = serde_json::to_string(&image).unwrap();

    assert_eq!(serde_json::from_str::<MappingRow>(&text).unwrap(), image, "{text}");
    assert!(serde_json::from_str::<MappingRow>(&text.replace("optional", "optionel")).is_err());
}
