//! Renders at the command line: ordered, looked at, planned and operated; and everything that is refused.

use crate::pool::json_of;
use crate::{Ran, Stage, workspace};
use serde_json::{Value, json};
use std::fs;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_render_is_ordered_listed_shown_cancelled_and_tried_again,
    a_render_that_has_ended_is_corrected,
    data_is_encrypted_with_a_key_and_sealed_anew_with_another,
];

pub(crate) const PROFILES: &str = "\
- composition: \"_MAIN Mini Chip Count\"
  template: \"D:\\\\templates\\\\cyprusdesign.aep\"
  output_module: \"H.264 - Match Render Settings - 15 Mbps\"
  width: 1920
  height: 1080
  rate: 30
  duration: 5s
";

pub(crate) const MAPPING: &str = "\
composition,field_name,layer_name,kind,source,optional
_MAIN Mini Chip Count,Slot 1 - name,Name 1,,,
_MAIN Mini Chip Count,Slot 1 - stack,Stack 1,,,
_MAIN Mini Chip Count,Slot 1 - country,Flag 1,image,D:\\assets\\flags,true
_MAIN Mini Chip Count,Single - table_id,Table,,,true
_MAIN Mini Chip Count,Single - clock,Clock,expression,time * 1000,
";

pub(crate) fn ivey() -> Value {
    json!({
        "composition_name": "_MAIN Mini Chip Count",
        "slots": [{ "slot_number": 1, "fields": { "name": "PHIL IVEY", "stack": 250, "country": "United States" } }],
        "single_fields": { "table_id": "Table 1" },
    })
}

/// A database that knows one composition, with the settings of the document.
pub(crate) fn known(stage: Stage) -> Stage {
    fs::write(stage.path("profiles.yaml"), PROFILES).unwrap();
    fs::write(stage.path("mapping.csv"), MAPPING).unwrap();
    fs::write(stage.path("ivey.json"), ivey().to_string()).unwrap();
    let stage = stage
        .with("USER", "ann")
        .with("TIDEMILL_DATABASE_INIT", "always")
        .with("NAS_MOUNT_PATH", "/mnt/nas")
        .with("NAS_OUTPUT_DIR", "/broadcast/output")
        .with("AEP_TEMPLATE_DIR", "D:\\templates")
        .with("TIDEMILL_RENDER_ASSET_FOLDERS", "D:\\assets")
        .with("TIDEMILL_RENDER_PATHS", "\\\\NAS\\broadcast=/mnt/nas/broadcast");
    stage.run(&["render", "profile", "import", "profiles.yaml"]).succeeds();
    stage.run(&["render", "mapping", "import", "mapping.csv"]).succeeds();
    stage
}

/// A change of the example.
fn data(stage: &Stage, change: impl Fn(&mut Value)) -> &'static str {
    let mut data = ivey();
    change(&mut data);
    fs::write(stage.path("data.json"), data.to_string()).unwrap();
    "data.json"
}

fn submit(stage: &Stage, flags: &[&str]) -> Ran {
    stage.run(&[&["render", "submit", "ivey.json"], flags].concat())
}

fn submitted(stage: &Stage, flags: &[&str]) -> Value {
    json_of(&submit(stage, &[&["-o", "json"], flags].concat()))
}

fn statuses(stage: &Stage, flags: &[&str]) -> Vec<(i64, String)> {
    let list = json_of(&stage.run(&[&["render", "list", "-o", "json"], flags].concat()));
    let item = |item: &Value| (item["id"].as_i64().unwrap(), item["status"].as_str().unwrap().to_owned());
    list["items"].as_array().unwrap().iter().map(item).collect()
}

async fn a_render_is_ordered_listed_shown_cancelled_and_tried_again(database: Scratch) {
    let stage = known(Stage::on(database.url()));

    let ordered = submitted(&stage, &["--priority", "7", "--date", "2026-11-16", "--cue-item", "cue-1"]);
    let again = submitted(&stage, &["--cue-item", "cue-1"]);
    assert_eq!((&ordered["render"], &ordered["is_new"]), (&json!(1), &json!(true)));
    assert_eq!((&again["render"], &again["is_new"]), (&json!(1), &json!(false)));
    // A number may have gone to the one that was known.
    let other = submitted(&stage, &["--deadline", "2026-11-15T18:00:00Z"])["render"].as_i64().unwrap();
    let second = other.to_string();
    assert_eq!(statuses(&stage, &[]), [(other, "pending".into()), (1, "pending".into())]);
    assert_eq!(statuses(&stage, &["--date", "2026-11-16"]), [(1, "pending".into())]);
    assert_eq!(statuses(&stage, &["--before", &second, "--limit", "1"]), [(1, "pending".into())]);

    let shown = json_of(&stage.run(&["render", "show", "1", "-o", "json"]));
    assert_eq!((&shown["priority"], &shown["broadcast_date"]), (&json!(7), &json!("2026-11-16")));
    assert_eq!(shown["history"][0]["to"], "pending");
    assert!(!shown.to_string().contains("IVEY"), "{shown}");
    let data = stage.run(&["render", "show", "1", "--data"]);
    let data: Value = serde_json::from_str(&data.succeeds().stdout).unwrap();
    assert_eq!(data, ivey());
    stage.run(&["render", "show", "1", "--job"]).fails("TM1546", 3);

    let dry = stage.run(&["render", "cancel", "1", "--dry-run", "--reason", "wrong name"]);
    assert!(dry.succeeds().stderr.contains("nothing changed"));
    assert_eq!(statuses(&stage, &["--status", "cancelled"]), []);
    stage.run(&["render", "cancel", "1", "--reason", "wrong name"]).succeeds();
    assert_eq!(statuses(&stage, &["--status", "cancelled"]), [(1, "cancelled".into())]);
    stage.run(&["render", "cancel", "1", "--reason", "again"]).fails("TM1511", 5);
    let both = stage.run(&["render", "cancel", "1", &second, "--reason", "both"]);
    both.fails("TM1511", 5);
    assert!(both.stderr.contains("1 of 2 renders were refused"), "{both:#?}");
    assert_eq!(statuses(&stage, &["--status", "cancelled"]).len(), 2);
    stage.run(&["render", "retry", "1", "--reason", "right name now"]).succeeds();
    assert_eq!(statuses(&stage, &["--status", "pending"]), [(1, "pending".into())]);

    // No worker has it, so there is nobody to take it from.
    stage.run(&["render", "recover", "1", "--reason", "x"]).succeeds();
    assert_eq!(statuses(&stage, &["--status", "pending"]), [(1, "pending".into())]);
    stage.run(&["render", "recover", "--all", "--reason", "x"]).succeeds();
    stage.run(&["render", "poll"]).succeeds();
    assert!(stage.run(&["render", "workers"]).succeeds().stdout.contains("No worker is running"));
    let log = stage.run(&["audit", "list", "-o", "json"]);
    assert!(log.stdout.contains("wrong name") && log.stdout.contains("ann"), "{log:#?}");
    assert!(!log.stdout.contains("IVEY"));
    for command in ["show", "cancel", "retry", "recover"] {
        let mut arguments = vec!["render", command, "99"];
        if command != "show" {
            arguments.extend(["--reason", "x"]);
        }
        stage.run(&arguments).fails("TM1546", 3);
    }
}

async fn a_render_that_has_ended_is_corrected(database: Scratch) {
    let stage = known(Stage::on(database.url()));
    submitted(&stage, &[]);
    let correct = |flags: &[&str]| stage.run(&[&["render", "correct", "1"], flags].concat());
    let shown = || json_of(&stage.run(&["render", "show", "1", "-o", "json"]));
    let data = || {
        let data = stage.run(&["render", "show", "1", "--data"]);
        serde_json::from_str::<Value>(&data.succeeds().stdout).unwrap()
    };
    let early = correct(&["--set", "slots.1.fields.name=IVEY"]);
    early.fails("TM1511", 5);
    assert!(early.stderr.contains("has not ended") && early.stderr.contains("cancel it first"), "{early:#?}");
    stage.run(&["render", "cancel", "1", "--reason", "wrong name"]).succeeds();
    let looked_at = shown()["revision"].to_string();

    // The same checks as of a new render; nothing changes.
    correct(&["--set", "slots.9.fields.name=IVEY"]).fails("TM1501", 2);
    correct(&["--set", "single_fields.table=1"]).fails("TM1503", 2);
    correct(&["--set", "nonsense"]).fails("TM0002", 2);
    fs::write(stage.path("blank.json"), "{}").unwrap();
    correct(&["--data", "blank.json"]).fails("TM1503", 2);
    let dry = correct(&["--set", "slots.1.fields.stack=300", "--dry-run"]);
    assert!(dry.succeeds().stderr.contains("nothing changed"));
    assert_eq!((data(), &shown()["status"]), (ivey(), &json!("cancelled")));

    let sets = ["--set", "slots.1.fields.stack=300", "--set", "slots.1.fields.name=PHIL = IVEY"];
    correct(&[&sets[..], &["--revision", &looked_at, "--reason", "he won"]].concat()).succeeds();

    let mut expected = ivey();
    expected["slots"][0]["fields"]["stack"] = json!(300);
    expected["slots"][0]["fields"]["name"] = json!("PHIL = IVEY");
    assert_eq!((data(), &shown()["status"]), (expected, &json!("pending")));
    stage.run(&["render", "cancel", "1", "--reason", "wrong again"]).succeeds();
    let late = correct(&["--revision", &looked_at]);
    late.fails("TM1511", 5);
    assert!(late.stderr.contains("was changed since"), "{late:#?}");
    correct(&["--data", "ivey.json"]).succeeds();
    assert_eq!(data(), ivey());
    let log = stage.run(&["audit", "list", "-o", "json"]);
    assert!(log.stdout.contains("render.correct") && log.stdout.contains("he won"), "{log:#?}");
    assert!(!log.stdout.contains("IVEY"));

    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("update render_queue set output_revision = 2").await.unwrap();
    tx.commit().await.unwrap();
    let planned = |flags: &[&str]| {
        let plan = [&["render", "plan", "ivey.json", "--date", "2026-11-15"], flags].concat();
        stage.run(&plan).succeeds().stderr.clone()
    };
    assert!(planned(&["--id", "1"]).contains("Count_1_r2.mp4"), "{}", planned(&["--id", "1"]));
    for flags in [&[][..], &["--id", "2"]] {
        assert!(!planned(flags).contains("_r2"), "{}", planned(flags));
    }
}

#[test]
fn what_cannot_be_rendered_is_refused_with_a_code_and_not_ordered() {
    let stage = known(Stage::new());
    let refused = |stage: &Stage, change: &dyn Fn(&mut Value), code: &str, exit: i32| {
        let file = data(stage, change);
        for command in ["submit", "plan"] {
            let ran = stage.run(&["render", command, file]);
            ran.fails(code, exit);
            assert!(ran.stdout.is_empty(), "{ran:#?}");
        }
    };

    refused(&stage, &|data| *data = json!([1]), "TM1501", 2);
    refused(&stage, &|data| data["slots"] = json!([{ "slot_number": 0 }]), "TM1501", 2);
    refused(&stage, &|data| data["slot"] = json!([]), "TM1501", 2);
    // It would be a blank graphic.
    refused(&stage, &|data| *data = json!({ "composition_name": data["composition_name"] }), "TM1503", 2);
    refused(&stage, &|data| data["single_fields"]["table_id"] = json!(1e30), "TM1501", 2);
    refused(&stage, &|data| data["composition_name"] = json!("Other"), "TM1547", 3);
    refused(&stage, &|data| drop(data.as_object_mut().unwrap().remove("composition_name")), "TM1547", 3);
    refused(&stage, &|data| data["composition_name"] = json!("..\\..\\secret"), "TM1506", 2);
    refused(&stage, &|data| data["composition_name"] = json!("Cote d'Ivoire"), "TM1506", 2);
    refused(&stage, &|data| data["slots"][0]["fields"]["odds"] = json!(2), "TM1503", 2);
    refused(&stage, &|data| data["single_fields"]["clock"] = json!("alert(1)"), "TM1503", 2);
    // An image that lies elsewhere, or leads out of its folder.
    refused(&stage, &|data| data["slots"][0]["fields"]["country"] = json!("C:\\secret.png"), "TM1507", 4);
    refused(&stage, &|data| data["slots"][0]["fields"]["country"] = json!("https://x/a.png"), "TM1507", 4);
    refused(
        &stage,
        &|data| data["slots"][0]["fields"]["country"] = json!("D:\\assets\\..\\a.png"),
        "TM1501",
        2,
    );
    refused(&stage, &|data| data["single_fields"]["table_id"] = json!("x".repeat(5_000_000)), "TM1502", 2);
    fs::write(stage.path("not.json"), "{").unwrap();
    stage.run(&["render", "submit", "not.json"]).fails("TM1501", 2);
    stage.run(&["render", "submit", "absent.json"]).fails("TM0104", 2);
    for answer in ["approve", "reject"] {
        let both = ["render", answer, "1", "2", "--revision", "1", "--reason", "x"];
        stage.run(&both).fails("TM0002", 2);
    }
    for date in ["../2026-11-15", "2026-13-01", "today", "2026-11-15/.."] {
        submit(&stage, &["--date", date]).fails("TM1510", 2);
    }
    submit(&stage, &["--composition", "Another"]).fails("TM1547", 3);

    assert_eq!(statuses(&stage, &[]), []);
    submit(&stage, &["--dry-run"]).succeeds();
    assert_eq!(statuses(&stage, &[]), []);
}

#[test]
fn what_stays_empty_is_told_before_it_is_rendered() {
    let stage = known(Stage::new());
    let file = data(&stage, |data| drop(data.as_object_mut().unwrap().remove("slots")));

    for arguments in [&["render", "plan", file][..], &["render", "submit", file, "--dry-run"]] {
        let told = stage.run(arguments).succeeds().stderr.clone();
        assert!(told.contains("these fields stay empty: Slot 1 - name, Slot 1 - stack"), "{told}");
        assert!(told.contains("these fields show what the template has: Slot 1 - country"), "{told}");
    }
}

#[test]
fn the_insert_of_the_guide_fits_the_mapping_of_the_guide() {
    let guide = fs::read_to_string(workspace().join("docs/guide/render.md")).unwrap();
    let between = |from: &str, to: &str| {
        let (_, rest) = guide.split_once(from).unwrap();
        rest.split_once(to).unwrap().0.to_owned()
    };
    let stage = known(Stage::new());
    for (file, kind) in [("profiles.yaml", "yaml"), ("mapping.csv", "csv")] {
        fs::write(stage.path(file), between(&format!("<!-- file: {file} -->\n```{kind}\n"), "```")).unwrap();
    }
    fs::write(stage.path("data.json"), between("    '_MAIN Mini Chip Count',\n    '", "',\n")).unwrap();

    let files = ["--profiles", "profiles.yaml", "--mapping", "mapping.csv"];
    let named = ["render", "plan", "data.json", "--composition", "_MAIN Mini Chip Count"];
    stage.run(&[&named[..], &files].concat()).succeeds();
}

#[test]
fn a_plan_names_the_file_as_the_worker_will() {
    let stage = known(Stage::new());
    let named = "composition: comp_123\n  name_in_template: \"_MAIN Mini Chip Count\"";
    let profiles = PROFILES.replace("composition: \"_MAIN Mini Chip Count\"", named);
    fs::write(stage.path("profiles.yaml"), profiles).unwrap();
    fs::write(stage.path("mapping.csv"), MAPPING.replace("_MAIN Mini Chip Count", "comp_123")).unwrap();
    let files = ["--profiles", "profiles.yaml", "--mapping", "mapping.csv", "--composition", "comp_123"];

    let ran = stage.run(&[&["render", "plan", "ivey.json"], &files[..]].concat());

    assert!(ran.succeeds().stderr.contains("\\_MAIN Mini Chip Count_1.mp4"), "{ran:#?}");
}

#[test]
fn a_plan_names_all_targets_and_one_that_is_not_configured_is_refused() {
    let stage =
        known(Stage::new()).with("TIDEMILL_RENDER_TARGETS", "archive=s3://films/main; cold=gs://old/");
    let import = |targets: &str| {
        fs::write(stage.path("profiles.yaml"), format!("{PROFILES}  targets: {targets}\n")).unwrap();
        stage.run(&["render", "profile", "import", "profiles.yaml"])
    };
    let plan =
        || stage.run(&["render", "plan", "ivey.json", "--date", "2026-11-15"]).succeeds().stderr.clone();

    import("[nas, archive, cold]").succeeds();
    let all = plan();
    import("[archive]").succeeds();
    let one = plan();
    let unknown = import("[nas, archve]");

    let name = "2026-11-15/_MAIN Mini Chip Count_1.mp4";
    let stores = format!("s3://films/main/{name} and then as gs://old/{name} and then as ");
    assert!(all.contains(&format!("it is published as {stores}\\\\NAS\\broadcast\\output\\")), "{all}");
    assert!(one.contains(&format!("it is published as s3://films/main/{name}\n")), "{one}");
    unknown.fails("TM1505", 2);
    assert!(unknown.stderr.contains("did you mean archive?"), "{unknown:#?}");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let stage = known(Stage::new());
    let file = data(&stage, |data| {
        data["slots"][0]["fields"] = json!({ "nmae": "A", "stak": 1, "country": "C:\\x.png" });
    });

    let ran = stage.run(&["render", "plan", file]);

    ran.fails("TM1507", 4);
    for part in [
        "Slot 1 - nmae is not mapped",
        "Slot 1 - stak is not mapped",
        "Slot 1 - name is missing",
        "Slot 1 - stack is missing",
        "Slot 1 - country: ",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

#[test]
fn a_plan_shows_the_job_and_where_its_file_goes() {
    let stage = known(Stage::new());

    let ran = stage.run(&["render", "plan", "ivey.json", "--date", "2026-11-15", "--id", "4711"]);

    let job: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    assert_eq!(job["uid"], "rq-4711-1");
    assert_eq!(job["template"]["src"], "file:///D:/templates/cyprusdesign.aep");
    assert_eq!(job["template"]["outputExt"], "mp4");
    let assets = job["assets"].as_array().unwrap();
    let of = |layer: &str| assets.iter().find(|asset| asset["layerName"] == layer).unwrap();
    assert_eq!((&of("Name 1")["value"], &of("Stack 1")["value"]), (&json!("PHIL IVEY"), &json!("250")));
    assert_eq!(of("Flag 1")["src"], "file:///D:/assets/flags/United%20States.png");
    assert_eq!((&of("Clock")["expression"], &of("Clock")["value"]), (&json!("time * 1000"), &Value::Null));
    assert!(assets.iter().all(|asset| asset["composition"] == "_MAIN Mini Chip Count"));
    // The word of the queue is between: another queue may leave its files in the same folder.
    let staged = job["actions"]["postrender"][0]["output"].as_str().unwrap();
    let word =
        staged.strip_prefix("//NAS/broadcast/.staging/rq-4711-1.").unwrap().strip_suffix(".mp4").unwrap();
    assert!(word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()), "{staged}");
    assert!(ran.stderr.contains(&format!("/mnt/nas/broadcast/.staging/rq-4711-1.{word}.mp4")), "{ran:#?}");
    let published = "\\\\NAS\\broadcast\\output\\2026-11-15\\_MAIN Mini Chip Count_4711.mp4";
    assert!(ran.stderr.contains(published), "{ran:#?}");
    assert_eq!(statuses(&stage, &[]), []);

    // The same with files that nobody has imported.
    let files = ["render", "plan", "ivey.json", "--profiles", "profiles.yaml", "--mapping", "mapping.csv"];
    let other =
        Stage::new().with("TIDEMILL_DATABASE_URL", "sqlite://other.db").with("NAS_MOUNT_PATH", "/mnt/nas");
    let other =
        other.with("AEP_TEMPLATE_DIR", "D:\\templates").with("TIDEMILL_RENDER_ASSET_FOLDERS", "D:\\assets");
    for file in ["profiles.yaml", "mapping.csv", "ivey.json"] {
        fs::copy(stage.path(file), other.path(file)).unwrap();
    }
    let ran = other.run(&files);
    let planned: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    assert_eq!(planned["assets"], job["assets"]);
    // Whoever only wants to see the job needs no map; whoever renders does.
    assert!(ran.stderr.contains("a worker would not start: render.paths"), "{ran:#?}");
    other.with("NEXRENDER_API_URL", "http://127.0.0.1:9").run(&["render", "worker"]).fails("TM1549", 2);
}

#[test]
fn settings_that_cannot_work_are_told_all_at_once() {
    let stage = known(Stage::new()).with("TIDEMILL_RENDER_ZONE", "Mars/Olympus");
    let stage = stage.with("TIDEMILL_RENDER_PATHS", "D:\\output=/mnt/out;nonsense");

    let ran = stage.run(&["render", "plan", "ivey.json"]);

    ran.fails("TM1549", 2);
    for part in
        ["render.zone", "\"nonsense\" does not have the form NODE=/LOCAL", "render.staging_folder: no line"]
    {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    Stage::new().run(&["render", "worker"]).fails("TM1549", 2);
    let keys = Stage::new();
    fs::write(
        keys.path("tidemill.toml"),
        "[render]\ncurrent_key = \"k9\"\n[render.keys.k1]\nsecret = \"env:KEY\"\n",
    )
    .unwrap();
    keys.with("KEY", &"0f".repeat(32)).run(&["render", "list"]).fails("TM1541", 2);
}

#[test]
fn the_environment_of_supabase_is_explained_until_a_database_is_configured() {
    let stage =
        Stage::new().with("SUPABASE_URL", "https://abcd1234.supabase.co").with("SUPABASE_KEY", "eyJ-geheim");

    let ran = stage.run(&["render", "list"]);

    ran.fails("TM1548", 2);
    assert!(ran.stderr.contains("postgres://postgres@db.abcd1234.supabase.co:5432/postgres"), "{ran:#?}");
    assert!(!ran.stderr.contains("geheim"));
    assert!(!stage.path("tidemill.db").exists(), "an empty file would be taken for the queue");
    let only_key = Stage::new().with("SUPABASE_KEY", "eyJ-geheim").run(&["render", "list"]);
    only_key.fails("TM1548", 2);
    assert!(only_key.stderr.contains("SUPABASE_KEY") && !only_key.stderr.contains("geheim"), "{only_key:#?}");
    // It is nothing to the other commands, and to those who have configured a database.
    stage.run(&["process", "list"]).succeeds();
    stage.with("TIDEMILL_DATABASE_URL", "sqlite://queue.db").run(&["render", "list"]).succeeds();
}

async fn data_is_encrypted_with_a_key_and_sealed_anew_with_another(database: Scratch) {
    let stage = known(Stage::on(database.url())).with("K1", &"0f".repeat(32)).with("K2", &"f0".repeat(32));
    let configure = |text: &str| fs::write(stage.path("tidemill.toml"), text).unwrap();
    submit(&stage, &[]).succeeds();
    stage.run(&["render", "reseal"]).fails("TM1541", 2);
    let resealed =
        || json_of(&stage.run(&["render", "reseal", "-o", "json"]))["items"][0]["resealed"].clone();
    let shown = || stage.run(&["render", "show", "1", "--data"]);
    let key = || json_of(&stage.run(&["render", "show", "1", "-o", "json"]))["encryption_key"].clone();

    configure("[render.keys.k1]\nsecret = \"env:K1\"\n");
    assert_eq!((resealed(), key()), (json!(1), json!("k1")));
    assert!(shown().succeeds().stdout.contains("IVEY"));
    let two = "[render.keys.k1]\nsecret = \"env:K1\"\n[render.keys.k2]\nsecret = \"env:K2\"\n";
    configure(two);
    shown().fails("TM1541", 2);
    configure(&format!("[render]\ncurrent_key = \"k2\"\n{two}"));
    assert_eq!((resealed(), resealed(), key()), (json!(1), json!(0), json!("k2")));
    configure("[render.keys.k1]\nsecret = \"env:K1\"\n");
    shown().fails("TM1539", 2);
    configure("[render.keys.k2]\nsecret = \"env:K2\"\n");
    assert!(shown().succeeds().stdout.contains("IVEY"));
}
