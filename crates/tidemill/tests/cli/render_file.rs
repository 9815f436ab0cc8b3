//! Field mappings and profiles at the command line: imported, exported, listed, forgotten; and every bad line told.

use crate::Stage;
use crate::pool::json_of;
use crate::render::{MAPPING, PROFILES, known};
use serde_json::json;
use std::fs;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![what_is_exported_is_imported_as_it_was,];

const MAIN: &str = "_MAIN Mini Chip Count";

async fn what_is_exported_is_imported_as_it_was(database: Scratch) {
    let stage = known(Stage::on(database.url()));
    for (what, format, file) in [
        ("mapping", "csv", "a.csv"),
        ("mapping", "yaml", "a.yaml"),
        ("profile", "csv", "b.csv"),
        ("profile", "yaml", "b.yml"),
    ] {
        let exported = stage.run(&["render", what, "export", "--format", format]);
        fs::write(stage.path(file), &exported.succeeds().stdout).unwrap();

        let imported = json_of(&stage.run(&["render", what, "import", file, "-o", "json"]));

        let expected = match what {
            "mapping" => {
                json!({ "composition": MAIN, "added": 0, "changed": 0, "unchanged": 5, "removed": 0 })
            }
            _ => json!({ "composition": MAIN, "result": "unchanged" }),
        };
        assert_eq!(imported["items"], json!([expected]), "{file}");
        assert_eq!(stage.run(&["render", what, "export", "--format", format]).stdout, exported.stdout);
    }
}

#[test]
fn an_import_adds_changes_and_with_replace_also_forgets() {
    let stage = known(Stage::new());
    let other = "composition,field_name,layer_name\n\
                 _MAIN Mini Chip Count,Slot 1 - name,Name One\n\
                 _MAIN Mini Chip Count,Slot 2 - name,Name 2\n";
    fs::write(stage.path("other.csv"), other).unwrap();
    let import = |flags: &[&str]| {
        let ran = stage.run(&[&["render", "mapping", "import", "other.csv", "-o", "json"], flags].concat());
        json_of(&ran)["items"][0].clone()
    };
    let count = || {
        json_of(&stage.run(&["render", "mapping", "list", "-o", "json"]))["items"].as_array().unwrap().len()
    };

    let dry = import(&["--dry-run"]);
    assert_eq!(dry, json!({ "composition": MAIN, "added": 1, "changed": 1, "unchanged": 0, "removed": 0 }));
    assert_eq!(count(), 5);
    import(&[]);
    assert_eq!(count(), 6);
    assert_eq!(import(&["--replace"])["removed"], 4);
    assert_eq!(count(), 2);
    let listed = json_of(&stage.run(&["render", "mapping", "list", MAIN, "-o", "json"]));
    assert_eq!(
        (&listed["items"][0]["layer_name"], &listed["items"][1]["field_name"]),
        (&json!("Name One"), &json!("Slot 2 - name"))
    );
}

#[test]
fn every_bad_line_is_told_and_nothing_of_the_file_is_taken() {
    let stage = known(Stage::new());
    let bad = format!("{MAPPING}_MAIN Mini Chip Count,Slot x,,,,\nit's,Single - a,A,picture,,\n");
    fs::write(stage.path("bad.csv"), bad).unwrap();
    fs::write(stage.path("bad.yaml"), PROFILES.replace("1920", "0").replace("rate: 30", "rate: 29.97"))
        .unwrap();

    let mapping = stage.run(&["render", "mapping", "import", "bad.csv"]);
    let profile = stage.run(&["render", "profile", "import", "bad.yaml"]);

    mapping.fails("TM1504", 2);
    for part in
        ["bad.csv:7:1: field_name", "bad.csv:7:1: layer_name is missing", "bad.csv:8:1: kind: write one of"]
    {
        assert!(mapping.stderr.contains(part), "{part}: {}", mapping.stderr);
    }
    profile.fails("TM1505", 2);
    assert!(profile.stderr.contains("bad.yaml:6:9: rate: "), "{}", profile.stderr);
    let rows = json_of(&stage.run(&["render", "mapping", "list", "-o", "json"]));
    assert_eq!(rows["items"].as_array().unwrap().len(), 5);
    let json = stage.run(&["render", "mapping", "import", "bad.csv", "-o", "json"]);
    let told: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((&told["code"], &told["errors"][0]["at"]["line"]), (&json!("TM1504"), &json!(7)));
}

#[test]
fn what_is_not_there_or_cannot_be_told_is_refused() {
    let stage = known(Stage::new());
    fs::write(stage.path("mapping.txt"), MAPPING).unwrap();

    stage.run(&["render", "mapping", "import", "mapping.txt"]).fails("TM0002", 2);
    stage.run(&["render", "mapping", "import", "mapping.txt", "--format", "csv"]).succeeds();
    stage.run(&["render", "profile", "import", "absent.csv"]).fails("TM0104", 2);
    stage.run(&["render", "mapping", "delete", MAIN, "--field", "Slot 9 - x"]).fails("TM1547", 3);
    stage.run(&["render", "mapping", "delete", MAIN]).succeeds();
    stage.run(&["render", "mapping", "delete", MAIN]).fails("TM1547", 3);
    stage.run(&["render", "profile", "delete", MAIN]).succeeds();
    stage.run(&["render", "profile", "delete", MAIN]).fails("TM1547", 3);
    assert!(stage.run(&["render", "profile", "list"]).succeeds().stdout.contains("No profiles"));
    // Without a mapping every field is one that nobody has mapped.
    stage.run(&["render", "profile", "import", "profiles.yaml"]).succeeds();
    stage.run(&["render", "submit", "ivey.json"]).fails("TM1503", 2);
}
