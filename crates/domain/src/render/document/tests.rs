//! The job, compared with what real servers and nodes accept.

use super::super::gfx;
use super::super::mapping::tests::{COMPOSITION, row};
use super::super::mapping::{self, Kind, MappingRow};
use super::super::profile::tests::profile;
use super::super::uid::RenderId;
use super::*;
use crate::lease::Epoch;
use proptest::prelude::*;

struct Kitchen {
    rows: Vec<MappingRow>,
    profile: Profile,
    allow: AllowList,
}

impl Kitchen {
    fn new() -> Self {
        let folder = |path| NodePath::parse(path).unwrap();
        let clock = MappingRow {
            source: Some("time * 1000".to_owned()),
            ..row("Single - clock", "Clock", Kind::Expression)
        };
        let country = MappingRow {
            source: Some("D:\\assets\\flags".to_owned()),
            optional: true,
            ..row("Slot 1 - country", "Flag 1", Kind::Image)
        };
        let optional = |field, layer| MappingRow { optional: true, ..row(field, layer, Kind::Text) };
        Self {
            rows: vec![
                row("Slot 1 - name", "Name 1", Kind::Text),
                optional("Slot 1 - stack", "Stack 1"),
                row("Slot 2 - name", "Name 2", Kind::Text),
                row("Single - table_id", "Table ID", Kind::Text),
                country,
                clock,
            ],
            profile: profile(),
            allow: AllowList {
                template_folders: vec![folder("D:\\templates")],
                asset_folders: vec![folder("D:\\assets")],
                ..AllowList::default()
            },
        }
    }

    fn build(&self, data: &str) -> Result<Value, BadDocument> {
        let mappings = mapping::read(&self.rows).unwrap();
        build(Ingredients {
            uid: Uid::new(RenderId::new(4711), Epoch::new(2)),
            gfx: &gfx::read(data).unwrap(),
            mapping: &mappings[COMPOSITION],
            profile: &self.profile,
            staging: &NodePath::parse("\\\\NAS\\broadcast\\.staging\\rq-4711-2.mp4").unwrap(),
            allow: &self.allow,
            priority: 10,
            tags: None,
        })
    }

    fn problems(&self, data: &str) -> Vec<String> {
        self.build(data).unwrap_err().problems.iter().map(ToString::to_string).collect()
    }
}

const GOOD: &str = r#"{"composition_name": "_MAIN Mini Chip Count",
    "slots": [{"slot_number": 1, "fields": {"name": "PHIL IVEY", "stack": null, "country": "United States"}}],
    "single_fields": {"table_id": 7}}"#;

#[test]
fn a_good_job_has_everything_that_nexrender_needs() {
    let text = |field: &str, value: &str| json!({"type": "data", "layerName": field, "composition": COMPOSITION, "property": "Source Text", "value": value});

    let job = Kitchen::new().build(GOOD).unwrap();

    assert_eq!(
        job,
        json!({
            "uid": "rq-4711-2",
            "priority": 10,
            "template": {
                "src": "file:///D:/templates/cyprusdesign.aep",
                "name": "template.aep",
                "composition": COMPOSITION,
                "outputModule": "H.264 - Match Render Settings - 15 Mbps",
                "outputExt": "mp4",
                "continueOnMissing": false,
            },
            "assets": [
                {"type": "image", "layerName": "Flag 1", "composition": COMPOSITION,
                 "src": "file:///D:/assets/flags/United%20States.png", "name": "asset-1.png"},
                text("Name 1", "PHIL IVEY"),
                text("Stack 1", ""),
                text("Name 2", ""),
                {"type": "data", "layerName": "Clock", "composition": COMPOSITION, "property": "Source Text",
                 "expression": "time * 1000"},
                text("Table ID", "7"),
            ],
            "actions": {"postrender": [
                {"module": "@nexrender/action-copy", "output": "//NAS/broadcast/.staging/rq-4711-2.mp4"},
            ]},
        })
    );
}

#[test]
fn all_fields_that_do_not_match_are_named_together() {
    let problems = Kitchen::new().problems(
        r#"{"slots": [{"slot_number": 1, "fields": {"nmae": "x"}}, {"slot_number": 3, "fields": {"name": "C"}}],
            "single_fields": {"clock": "1+1", "round": "Final"}}"#,
    );

    assert_eq!(
        problems,
        [
            "Slot 1 - name is missing",
            "Single - clock is an expression in the mapping and takes no data",
            "Single - table_id is missing",
            "Slot 1 - nmae is not mapped",
            "Slot 3 - name is not mapped",
            "Single - round is not mapped",
        ]
    );
}

#[test]
fn unused_seats_are_cleared_or_left_as_the_mapping_says() {
    let mut kitchen = Kitchen::new();
    let shown = |kitchen: &Kitchen| {
        let job = kitchen.build(GOOD).unwrap();
        job["assets"].as_array().unwrap().iter().any(|asset| asset["layerName"] == "Name 2")
    };
    assert!(shown(&kitchen));

    kitchen.rows[2].unused = Some(Unused::Leave);

    assert!(!shown(&kitchen));
}

#[test]
fn a_layer_without_its_image_is_hidden_if_the_mapping_says_so() {
    let mut kitchen = Kitchen::new();
    let data = GOOD.replace("\"United States\"", "null");
    let first = |kitchen: &Kitchen| kitchen.build(&data).unwrap()["assets"][0].clone();
    assert_eq!(first(&kitchen)["layerName"], "Name 1");

    kitchen.rows[4].unused = Some(Unused::Clear);

    let hidden = json!({"type": "data", "layerName": "Flag 1", "composition": COMPOSITION, "property": "enabled", "value": false});
    assert_eq!(first(&kitchen), hidden);
}

#[test]
fn a_misspelt_key_makes_no_blank_graphic() {
    let mut kitchen = Kitchen::new();
    kitchen.rows.retain(|row| row.field_name.starts_with("Slot"));

    assert_eq!(
        kitchen.problems(r#"{"slots": []}"#),
        ["the data fills no field of the template: the graphic would be blank"]
    );
    assert_eq!(kitchen.build("{}").unwrap_err().code(), Code::FieldsNotMapped);
}

#[test]
fn what_nobody_allowed_is_refused() {
    let mut kitchen = Kitchen::new();
    kitchen.profile.template = "E:\\private\\a.aep".to_owned();
    kitchen.profile.composition = "a'); system('x".to_owned();
    kitchen.allow.modules.clear();
    let data = |country: &str| {
        json!({"slots": [{"slot_number": 1, "fields": {"name": "a", "country": country}}],
               "single_fields": {"table_id": ""}})
        .to_string()
    };

    assert_eq!(kitchen.problems(&data("Korea")).len(), 3);
    let kitchen = Kitchen::new();
    for (country, code) in [
        ("C:\\Users\\secret.png", Code::NotOnAllowList),
        ("http://elsewhere/a.png", Code::NotOnAllowList),
        ("..\\..\\secret.png", Code::BadRenderData),
        ("file:///D:/assets/%2e%2e/secret.png", Code::BadRenderData),
        ("a\nb", Code::BadRenderData),
    ] {
        assert_eq!(kitchen.build(&data(country)).unwrap_err().code(), code, "{country:?}");
    }
}

#[test]
fn data_for_another_composition_is_refused() {
    let data = GOOD.replace("_MAIN Mini Chip Count", "_MAIN Leaderboard");

    assert_eq!(
        Kitchen::new().problems(&data),
        [
            "the data names the composition \"_MAIN Leaderboard\", but the profile \"_MAIN Mini Chip Count\"; if \
             the template uses that name, set name_in_template in the profile"
        ]
    );
}

#[test]
fn images_come_by_name_by_path_and_by_allowed_addresses() {
    let mut kitchen = Kitchen::new();
    kitchen.allow.schemes = vec!["https".to_owned()];
    let image = |country: &str| {
        let data = json!({"slots": [{"slot_number": 1, "fields": {"name": "a", "country": country}}],
                          "single_fields": {"table_id": ""}});
        let job = kitchen.build(&data.to_string()).unwrap();
        let asset = &job["assets"][0];
        (asset["src"].as_str().unwrap().to_owned(), asset["name"].as_str().unwrap().to_owned())
    };
    let check = |country: &str, src: &str, name: &str| {
        assert_eq!(image(country), (src.to_owned(), name.to_owned()), "{country}");
    };

    check("St. Kitts", "file:///D:/assets/flags/St.%20Kitts.png", "asset-1.png");
    check("Cote d'Iv'oire.PNG", "file:///D:/assets/flags/Cote%20d'Iv'oire.PNG", "asset-1.png");
    check("D:/assets/100%.jpg", "file:///D:/assets/100%25.jpg", "asset-1.jpg");
    check("https://cdn/a.webp?x=1", "https://cdn/a.webp?x=1", "asset-1.webp");
}

#[test]
fn flags_without_a_mapping_go_to_layers_of_their_names() {
    let data = r#"{"slots": [{"slot_number": 1, "fields": {"name": "a"}}], "single_fields": {"table_id": ""},
                   "flags": [null, "D:/assets/flags/Korea.png"]}"#;

    let job = Kitchen::new().build(data).unwrap();

    let flag = job["assets"].as_array().unwrap().last().unwrap();
    assert_eq!((&flag["layerName"], &flag["composition"]), (&json!("Flag 2"), &json!(COMPOSITION)));
}

proptest! {
    #[test]
    fn whatever_people_write_stays_a_value(name in "\\PC{0,40}", table in "\\PC{0,40}") {
        let data = json!({"slots": [{"slot_number": 1, "fields": {"name": name}}], "single_fields": {"table_id": table}});
        prop_assume!(!(name.trim().is_empty() && table.trim().is_empty()));
        let job = Kitchen::new().build(&data.to_string()).unwrap();
        let assets = job["assets"].as_array().unwrap();
        let expressions: Vec<_> = assets.iter().filter_map(|asset| asset.get("expression")).collect();
        prop_assert_eq!(expressions, [&json!("time * 1000")]);
        prop_assert!(assets.iter().all(|asset| asset["composition"] == COMPOSITION));
        prop_assert!(assets.iter().any(|asset| asset["value"] == name.as_str()));
    }

    #[test]
    fn no_image_leads_out_of_its_folder(country in "[a-zA-Z.:/\\\\% 2e]{0,24}") {
        let data = json!({"slots": [{"slot_number": 1, "fields": {"name": "a", "country": country}}],
                          "single_fields": {"table_id": ""}});
        if let Ok(job) = Kitchen::new().build(&data.to_string()) {
            let src = job["assets"][0]["src"].as_str().unwrap();
            prop_assert!(src.starts_with("file:///D:/assets/") || src.starts_with("file:///D:/templates/"), "{src}");
            prop_assert!(!src.contains("/../"));
        }
    }
}
