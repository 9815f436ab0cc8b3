//! Projects of After Effects at the command line: drafted, imported, checked; and the script that reports them.

use crate::Stage;
use crate::pool::json_of;
use serde_json::json;
use std::fs;
use std::process::Command;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::account::find_program;
use tidemill_testkit::skip::require;

tidemill_store::on_both![a_project_becomes_a_render_that_fits,];

const PROJECT: &str = r#"{"project": "cyprus.aep", "compositions": [
    {"name": "Main", "width": 1920, "height": 1080, "frame_rate": 29.97, "duration": 5.005, "layers": [
        {"name": "Name 1", "type": "text"}, {"name": "Flag 1", "type": "image"}]}]}"#;

fn stage(stage: Stage) -> Stage {
    fs::write(stage.path("cyprus.json"), PROJECT).unwrap();
    stage
        .with("TIDEMILL_DATABASE_INIT", "always")
        .with("NAS_MOUNT_PATH", "/mnt/nas")
        .with("AEP_TEMPLATE_DIR", "D:\\templates; E:\\more")
        .with("TIDEMILL_RENDER_PATHS", "\\\\NAS\\broadcast=/mnt/nas/broadcast")
}

async fn a_project_becomes_a_render_that_fits(database: Scratch) {
    let stage = stage(Stage::on(database.url()));
    let scan = ["render", "template", "scan", "cyprus.json"];

    let drafted = stage.run(&scan);
    let (profiles, mapping) = (
        fs::read_to_string(stage.path("profiles.yaml")).unwrap(),
        fs::read_to_string(stage.path("mapping.csv")).unwrap(),
    );
    assert!(
        drafted.succeeds().stderr.contains("tidemill render profile import ./profiles.yaml"),
        "{drafted:#?}"
    );
    assert!(
        profiles.contains("rate: \"30000/1001\"") && profiles.contains("D:\\\\templates\\\\cyprus.aep"),
        "{profiles}"
    );
    assert!(mapping.contains("Main,Slot 1 - name,Name 1,"), "{mapping}");
    stage.run(&scan).fails("TM0005", 5);
    stage.run(&[&scan[..], &["--import", "--force"]].concat()).succeeds();
    stage.run(&["render", "plan", "data.json"]).succeeds();
    stage.run(&["render", "submit", "data.json"]).succeeds();

    // What people have corrected is not replaced by a draft.
    stage.run(&[&scan[..], &["--import", "--force"]].concat()).fails("TM0005", 5);
    let check = |mapping: &str| stage.run(&[&scan[..], &["--check", mapping, "-o", "json"]].concat());
    assert_eq!(json_of(&check("Main"))["items"], json!([]));
    assert_eq!(json_of(&check("mapping.csv"))["items"], json!([]));
    fs::write(stage.path("old.csv"), mapping.replace("Name 1", "Nmae 1")).unwrap();
    let stale = check("old.csv");
    let told: serde_json::Value = serde_json::from_str(&stale.stdout).unwrap();
    assert_eq!((stale.code, told["items"].as_array().unwrap().len()), (Some(1), 1), "{stale:#?}");
    assert_eq!(told["items"][0]["suggestion"], "did you mean \"Name 1\"?");
    check("Mian").fails_as_json("TM1547", 3);
}

#[test]
fn what_cannot_be_drafted_says_what_to_do() {
    let stage = stage(Stage::new());
    let scan = |flags: &[&str]| stage.run(&[&["render", "template", "scan"], flags].concat());
    fs::write(stage.path("cyprus.aep"), b"RIFX\0\0\0\0Egg!").unwrap();
    let unnamed = PROJECT.replace("Name 1", "").replace("\"image\"", "\"other\"");
    fs::write(stage.path("unnamed.json"), unnamed).unwrap();

    let binary = scan(&["cyprus.aep"]);
    assert!(binary.fails("TM1556", 2).stderr.contains(".aepx"), "{binary:#?}");
    scan(&["unnamed.json"]).fails("TM1556", 2);
    let unknown = scan(&["cyprus.json", "--composition", "Mian"]);
    assert!(unknown.fails("TM1547", 3).stderr.contains("did you mean Main?"), "{unknown:#?}");
    scan(&["cyprus.json", "--template", "cyprus.aep"]).fails("TM1508", 2);
    // Renders would be accepted, and fail when a worker has them.
    for wrong in [["--template", "D:\\templates\\cyprus.txt"], ["--output-module", " "]] {
        scan(&[&["cyprus.json", "--import"], &wrong[..]].concat()).fails("TM1505", 2);
    }
    scan(&["absent.json"]).fails("TM0104", 2);
    assert!(!stage.path("profiles.yaml").exists());
}

/// What After Effects has, as far as the script asks for it.
const AFTER_EFFECTS: &str = r"
function CompItem() {} function FootageItem() {} function SolidSource() {} function FileSource() {}
const make = (kind, fields) => Object.assign(new kind(), fields);
const layer = (name, source, matchName) => ({ name, source: source || null, matchName: matchName || 'ADBE AV Layer' });
const compose = (name, layers) => make(CompItem, { name, width: 1920, height: 1080, frameRate: 29.9700000762939,
    duration: 5, numLayers: layers.length, layer: (index) => layers[index - 1] });
const footage = (source, hasVideo) => make(FootageItem, { mainSource: make(source, {}), hasVideo });
const inner = compose('Seat \u0022 1\\', []);
const items = [footage(FileSource, true), inner, compose('_MAIN \uce69', [
    layer('Name 1', null, 'ADBE Text Layer'), layer('Flag 1', footage(FileSource, true)),
    layer('Music', footage(FileSource, false)), layer('Box', footage(SolidSource, true)), layer('Seat', inner)])];
const app = { project: { file: { name: 'my%20show.aep' }, numItems: items.length, item: (index) => items[index - 1] } };
const File = { saveDialog: () => ({ open: () => true, close: () => true,
    write: (text) => { require('fs').writeFileSync('report.json', text); return true; } }) };
const alert = (text) => { throw new Error(text); };
";

#[test]
fn the_script_writes_a_report_that_is_read() {
    let Some(node) = require("nexrender", find_program("node")) else { return };
    let stage = stage(Stage::new());
    let script = stage.run(&["render", "template", "script"]);
    fs::write(stage.path("run.js"), format!("{AFTER_EFFECTS}{}", script.succeeds().stdout)).unwrap();

    let ran = stage.dress(Command::new(node), &["run.js"]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let drafted = stage.run(&["render", "template", "scan", "report.json"]);

    assert!(drafted.succeeds().stderr.contains("wrote ./mapping.csv"), "{drafted:#?}");
    let mapping = fs::read_to_string(stage.path("mapping.csv")).unwrap();
    assert_eq!(mapping.lines().count(), 3, "{mapping}");
    assert!(mapping.contains("_MAIN 칩,Flag 1,Flag 1,,,image,,true"), "{mapping}");
    let profiles = fs::read_to_string(stage.path("profiles.yaml")).unwrap();
    assert!(profiles.contains("my show.aep") && profiles.contains("duration: \"5s\""), "{profiles}");
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(stage.path("report.json")).unwrap()).unwrap();
    let layers = &report["compositions"][1]["layers"];
    let types: Vec<&str> = (0..5).filter_map(|index| layers[index]["type"].as_str()).collect();
    assert_eq!(types, ["text", "image", "other", "other", "composition"]);
    assert_eq!(layers[4]["composition"], "Seat \" 1\\");
}
