//! Files of mappings and profiles: they read back as written, and all problems are reported with their lines.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::render::Profile;
use tidemill_domain::render::mapping::{Kind, MappingRow, Unused};
use tidemill_domain::render::profile::{ApprovalNeed, Audio, Decoding};
use tidemill_domain::render::rate::Rate;

const FORMATS: [Format; 2] = [Format::Csv, Format::Yaml];

fn path(format: Format) -> &'static Path {
    Path::new(if format == Format::Csv { "m.csv" } else { "m.yaml" })
}

fn mapping(text: &str, format: Format) -> Result<Vec<MappingRow>, Vec<String>> {
    read_mapping(path(format), text.as_bytes(), format).map_err(|wrong| lines(&wrong))
}

fn profiles(text: &str, format: Format) -> Result<Vec<Profile>, Vec<String>> {
    read_profiles(path(format), text.as_bytes(), format).map_err(|wrong| lines(&wrong))
}

fn lines(wrong: &Diagnostics) -> Vec<String> {
    wrong.problems().iter().map(Diagnostic::headline).collect()
}

/// Text that is not blank, with characters that are difficult in files.
fn name() -> impl Strategy<Value = String> {
    "[ -~가-힣é\u{feff}-]{0,8}[a-z가:#&*!|>%@`\",;'\\[\\]{}]{1,4}"
}

/// What the script of nexrender can contain.
fn composition() -> impl Strategy<Value = String> {
    "[a-zA-Z가-힣0-9_ ,;:#&*!|>%@\\[\\]{}-]{0,12}[a-z가]"
}

fn rows() -> impl Strategy<Value = Vec<MappingRow>> {
    let field = prop_oneof![
        (1_u16..=999, "[a-z_]{1,8}").prop_map(|(number, name)| format!("Slot {number} - {name}")),
        "[a-z가 ,\"_]{0,6}[a-z]".prop_map(|name| format!("Single - {name}")),
    ];
    let target = prop_oneof![
        Just((Kind::Text, None)),
        Just((Kind::Image, None)),
        Just((Kind::Image, Some("D:\\assets, all\\flags".to_owned()))),
        "[ -~\n\t\r가]{0,20}[a-z]".prop_map(|text| (Kind::Expression, Some(text))),
    ];
    let more = (
        prop::option::of(composition()),
        prop::option::of(name()),
        any::<bool>(),
        prop::option::of(Just(Unused::Leave)),
    );
    let row = (composition(), field, name(), target, more);
    prop::collection::vec(row, 0..8).prop_map(|rows| {
        let distinct: BTreeMap<_, _> =
            rows.into_iter().map(|row| ((row.0.clone(), row.1.clone()), row)).collect();
        distinct
            .into_values()
            .map(|(composition, field_name, layer_name, (kind, source), more)| MappingRow {
                composition,
                field_name,
                layer_name,
                layer_composition: more.0,
                property: more.1,
                kind,
                source,
                optional: more.2,
                unused: more.3,
            })
            .collect()
    })
}

fn some_profiles() -> impl Strategy<Value = Vec<Profile>> {
    let words = prop::collection::btree_set("[a-z0-9_]{1,8}", 0..3);
    let some_words = prop::collection::btree_set("[a-z0-9_]{1,8}", 1..3);
    let texts = (name(), prop::option::of(name()), "[a-z0-9]{1,8}");
    let numbers = (1_u32..=32_768, 1_u32..=32_768, (1_u32..=60_000, 60_u32..=1_001), any::<u32>());
    let choices = (
        prop_oneof![Just(Audio::None), Just(Audio::Required), Just(Audio::Any)],
        prop_oneof![Just((Decoding::On, ApprovalNeed::None)), Just((Decoding::Off, ApprovalNeed::Required))],
        prop::option::of(1_u64..=86_400_000),
        (
            prop::collection::btree_set("Single - [a-z가 ,\"_]{0,6}[a-z]", 0..3),
            prop::option::of(0_u16..=999),
            prop::collection::btree_set("(failed:)?[a-z][a-z0-9_-]{0,5}", 0..3),
            prop::collection::btree_set("nas|[a-z][a-z0-9]{3,5}", 0..3),
        ),
    );
    let profile = (composition(), texts, numbers, some_words, words, choices);
    prop::collection::vec(profile, 0..5).prop_map(|profiles| {
        let distinct: BTreeMap<_, _> = profiles.into_iter().map(|one| (one.0.clone(), one)).collect();
        distinct
            .into_values()
            .map(|(composition, texts, numbers, codecs, pixel_formats, choices)| Profile {
                name_in_template: texts.1.as_ref().map(|_| format!("in {}", composition.trim())),
                composition,
                template: "\\\\NAS\\templates\\a, b.aep".to_owned(),
                output_module: texts.0,
                settings_template: texts.1,
                extension: texts.2.clone(),
                container: texts.2,
                width: numbers.0,
                height: numbers.1,
                rate: Rate::new(numbers.2.0, numbers.2.1).unwrap(),
                // `any` means an empty list.
                codecs: codecs.into_iter().map(|word| word + "_x").collect(),
                pixel_formats: pixel_formats.into_iter().map(|word| word + "_x").collect(),
                duration: choices.2.map(Duration::from_millis),
                bytes_min: numbers.3.into(),
                audio: choices.0,
                decoding: choices.1.0,
                approval: choices.1.1,
                required_fields: choices.3.0,
                min_slots: choices.3.1,
                notify: choices.3.2,
                targets: choices.3.3,
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_mapping_that_was_written_reads_back(rows in rows()) {
        for format in FORMATS {
            let text = write_mapping(&rows, format);
            prop_assert_eq!(mapping(&text, format), Ok(rows.clone()), "{}", text);
        }
    }

    #[test]
    fn profiles_that_were_written_read_back(given in some_profiles()) {
        for format in FORMATS {
            let text = write_profiles(&given, format);
            prop_assert_eq!(profiles(&text, format), Ok(given.clone()), "{}", text);
        }
    }

    #[test]
    fn nothing_is_too_strange_for_an_answer(
        text in "(composition,field_name,layer_name\n)?[-a-z:,;\"\n\r\t \\[{}0가]{0,60}",
    ) {
        for format in FORMATS {
            let _answer = (mapping(&text, format), profiles(&text, format));
        }
    }
}

#[test]
fn what_spreadsheets_write_is_read() {
    let expected = mapping(
        "composition,field_name,layer_name,optional\nMain,Slot 1 - name,\"Name, 1\",true\n",
        Format::Csv,
    );
    assert_eq!(expected.as_ref().unwrap()[0].layer_name, "Name, 1");

    for text in [
        "\u{feff}composition;field_name;layer_name;optional\r\nMain;Slot 1 - name;Name, 1;TRUE\r\n\r\n;;;\r\n",
        "optional\tlayer_name\tfield_name\tcomposition_id\nyes\tName, 1\tSlot 1 - name\tMain\n",
    ] {
        assert_eq!(mapping(text, Format::Csv), expected, "{text:?}");
    }
}

#[test]
fn every_bad_line_of_a_csv_file_is_told_with_its_number() {
    let text = "composition,field_name,layer_name,kind,source\r\n\
                Main,Slot 1 - name,Name 1,,\r\n\
                \r\n\
                Main,Slot - name,,,\r\n\
                Main,Single - a,A,picture,\r\n\
                Main,Single - b,B\r\n\
                Main,Single - c,C,text,\"two\nlines\"\r\n\
                Main,Slot 1 - name,Again,,\r\n";

    let told = mapping(text, Format::Csv).unwrap_err();

    // A row with too few cells is reported alone, because no row may make sense then.
    assert_eq!(told, ["m.csv:6:1: the row has 3 cells, and the header has 5"]);
    let told = mapping(&text.replace("Single - b,B\r\n", "Single - b,B,,\r\n"), Format::Csv).unwrap_err();
    let expected = [
        "m.csv:4:1: field_name: a field is written",
        "m.csv:4:1: layer_name is missing",
        "m.csv:5:1: kind: write one of text, image, expression",
        "m.csv:7:1: a text takes no source",
        "m.csv:9:1: there is another row for Slot 1 - name",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told} / {expected}");
    }
}

#[test]
fn every_bad_place_of_a_yaml_file_is_told() {
    let text = "- composition: Main\n  template: D:\\a.exe\n  output_module: H.264\n  width: 0\n  height: wide\n  rate: 29.97\n\
                - composition: Main\n  template: D:\\a.aep\n  output_module: H.264\n  widht: 1\n  height: 1\n  rate: 25\n\
                - composition: Last\n  template: D:\\a.aep\n  output_module: {}\n  width: 1\n  height: 1\n  rate: 25\n  codecs: []\n";

    let told = profiles(text, Format::Yaml).unwrap_err();

    let expected = [
        "m.yaml:5:11: height: write a whole number",
        "m.yaml:6:9: rate: a rate is",
        "m.yaml:7:3: width is missing",
        "m.yaml:10:10: there is nothing called \"widht\"",
        "m.yaml:15:18: output_module: it is a table",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told} / {expected}");
    }
    let mended =
        text.replace("wide", "1").replace("29.97", "25").replace("widht", "width").replace("{}", "x");
    let told = profiles(&mended, Format::Yaml).unwrap_err();
    let expected = [
        "m.yaml:2:13: template: it does not end with",
        "m.yaml:4:10: width: write 1 to 32768 pixels",
        "m.yaml:7:16: composition: there is another profile",
        "m.yaml:19:11: codecs: name at least one",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told} / {expected}");
    }
}

#[test]
fn a_file_that_is_no_such_file_is_told() {
    let check = |text: &[u8], format: Format, expected: &str| {
        let told = lines(&read_mapping(path(format), text, format).unwrap_err());
        assert!(told[0].contains(expected), "{told:?} / {expected}");
    };

    check(b"", Format::Csv, "the file is empty");
    check(b"# nothing\n", Format::Yaml, "the file is empty");
    check(b"a: 1\n", Format::Yaml, "m.yaml:1:1: the file is a list of tables");
    check(b"- 1\n", Format::Yaml, "m.yaml:1:3: each item is a table");
    check(b"composition,field,layer_name\n", Format::Csv, "m.csv:1:1: there is nothing called \"field\"");
    check(b"composition\n\xc7\xd1\n", Format::Csv, "m.csv:2:1: the file is not UTF-8");
    check("composition,field_name,layer_name\na,Single - b,c\0\n".as_bytes(), Format::Csv, "NUL");
    check(&vec![b'a'; 10_000_001], Format::Csv, "larger than 10 MB");
}
