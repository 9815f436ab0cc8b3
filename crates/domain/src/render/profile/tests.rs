//! A profile for tests, and what is wrong with others.

use super::*;
use crate::code::Code;

/// The profile of the document's example.
pub(in super::super) fn profile() -> Profile {
    serde_json::from_str(
        r#"{"composition": "_MAIN Mini Chip Count", "template": "D:\\templates\\cyprusdesign.aep",
            "output_module": "H.264 - Match Render Settings - 15 Mbps",
            "width": 1920, "height": 1080, "rate": "30", "duration": "5s"}"#,
    )
    .unwrap()
}

#[test]
fn what_is_not_said_is_an_mp4_with_h264() {
    let profile = profile();

    assert_eq!(profile.check(), Ok(()));
    assert_eq!((profile.extension.as_str(), profile.bytes_min), ("mp4", 1_000));
    assert_eq!((profile.audio, profile.decoding), (Audio::Any, Decoding::On));
    assert!(profile.codecs.contains("h264") && profile.pixel_formats.contains("yuv420p"));
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile, "{text}");
}

#[test]
fn a_profile_without_approval_can_be_read_by_earlier_versions() {
    let mut profile = profile();
    assert!(serde_json::to_value(&profile).unwrap().get("approval").is_none());

    profile.approval = ApprovalNeed::Required;

    assert_eq!(serde_json::to_value(&profile).unwrap()["approval"], "required");
}

#[test]
fn all_that_is_wrong_is_named_at_once() {
    let bad = Profile {
        composition: "Cote d'Ivoire".into(),
        template: "templates/a.aep".into(),
        output_module: " ".into(),
        settings_template: Some(String::new()),
        extension: ".mp4".into(),
        container: String::new(),
        width: 0,
        height: 100_000,
        rate: Rate::new(100_000, 1).unwrap(),
        codecs: BTreeSet::new(),
        duration: Some(Duration::ZERO),
        required_fields: BTreeSet::from(["title".to_owned()]),
        min_slots: Some(1_000),
        ..profile()
    };

    let fields: Vec<_> = bad.check().unwrap_err().problems.into_iter().map(|(field, _)| field).collect();

    assert_eq!(
        fields,
        [
            "composition",
            "template",
            "output_module",
            "settings_template",
            "extension",
            "container",
            "width",
            "height",
            "rate",
            "codecs",
            "duration",
            "required_fields",
            "min_slots",
        ]
    );
    let no_project = Profile { template: "D:\\a.exe".into(), ..profile() };
    assert_eq!(no_project.check().unwrap_err().code(), Code::BadProfile);
}

#[test]
fn names_that_would_break_the_script_are_refused() {
    for bad in ["a'b", "a\"b", "a\\b", "$&", "a`b", "a\nb", "a\u{2028}b", "", "  ", "\u{7f}"] {
        assert!(check_composition(bad).is_err(), "{bad:?}");
    }
    for good in ["_MAIN Mini Chip Count", "파이널 테이블", "Day 1: A/B", "FULL_HD->intro->logo"] {
        assert_eq!(check_composition(good), Ok(()), "{good}");
    }
}
