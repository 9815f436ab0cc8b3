//! Forms of output: data on standard output, the rest on standard error.

use crate::{BINARY, Ran, Stage};
use std::process::Command;
use tidemill_testkit::skip;

#[test]
fn the_same_rows_come_as_table_json_jsonl_and_csv() {
    let stage = Stage::new();
    stage.run(&["db", "migrate"]).succeeds();

    let table = stage.run(&["db", "status"]);
    let json = stage.run(&["db", "status", "-o", "json"]);
    let jsonl = stage.run(&["db", "status", "--output=jsonl"]);
    let csv = Stage { folder: stage.folder, environment: vec![("TIDEMILL_OUTPUT".into(), "csv".into())] }
        .run(&["db", "status"]);

    assert!(table.succeeds().stdout.starts_with("VERSION  NAME"), "{}", table.stdout);
    let answer: serde_json::Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
    assert_eq!(answer["schema"], "tidemill.migration/v1");
    assert_eq!(answer["items"][0]["name"], "foundation");
    let first: serde_json::Value =
        serde_json::from_str(jsonl.succeeds().stdout.lines().next().unwrap()).unwrap();
    assert_eq!(first, answer["items"][0]);
    assert!(
        csv.succeeds().stdout.starts_with("version,name,status,applied_at\n1,foundation,applied,"),
        "{}",
        csv.stdout
    );
}

#[test]
fn a_table_fits_the_terminal_unless_it_is_wide_or_piped() {
    let stage = Stage::new().with("COLUMNS", "60");
    stage.run(&["db", "migrate"]).succeeds();

    let narrow = stage.run(&["audit", "list", "--limit", "3"]);
    let wide = stage.run(&["audit", "list", "--limit", "3", "--wide"]);
    let json = stage.run(&["audit", "list", "--limit", "3", "-o", "json"]);
    let piped = Stage { environment: Vec::new(), ..stage }.run(&["audit", "list", "--limit", "3"]);

    let width = |ran: &Ran| ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(width(narrow.succeeds()) <= 60 && width(wide.succeeds()) > 60, "{narrow:#?} {wide:#?}");
    assert!(narrow.stdout.contains(" s ago") && !narrow.stdout.contains("REQUEST ID"), "{narrow:#?}");
    assert!(wide.stdout.contains("REQUEST ID") && !wide.stdout.contains(" ago"), "{wide:#?}");
    assert_eq!(wide.stdout, piped.stdout);
    assert!(json.stdout.contains("request_id") && !json.stdout.contains(" ago"), "{json:#?}");
}

#[test]
fn a_list_that_was_cut_says_how_to_see_the_rest() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        stage.run(&["pool", "create", name, "--max", "8"]).succeeds();
    }

    let cut = stage.run(&["pool", "list", "--limit", "2"]);
    assert!(cut.succeeds().stderr.contains("the first 2; more exist: use a higher --limit\n"), "{cut:#?}");
    assert_eq!(cut.stdout.lines().count(), 3);
    let whole = stage.run(&["pool", "list", "--limit", "3"]);
    assert!(whole.stdout.lines().count() == 4 && !whole.stderr.contains("more exist"), "{whole:#?}");
    let page = stage.run(&["audit", "list", "--action", "pool.create", "--limit", "1"]);
    assert!(page.stderr.contains("--limit, or --before "), "{page:#?}");
}

#[test]
fn watch_needs_a_terminal() {
    let ran = Stage::new().run(&["pool", "list", "--watch"]);
    assert!(ran.fails("TM0002", 2).stderr.contains("--watch needs a terminal"), "{ran:#?}");
    Stage::new().run(&["pool", "list", "--watch=0"]).fails("TM0002", 2);
    Stage::new().run(&["db", "migrate", "--watch"]).fails("TM0002", 2);
}

#[test]
fn watch_draws_again_until_it_is_interrupted() {
    let has_script = Command::new("script").arg("--version").output().ok();
    if skip::require("script", has_script).is_none() {
        return;
    }
    let stage = Stage::new();
    stage.run(&["pool", "create", "ADW", "--max", "8"]).succeeds();
    let watch = format!("timeout --foreground --preserve-status -s INT 5 {BINARY} pool list --watch=1");
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &watch, "/dev/null"]);

    let ran = Ran::of(stage.dress(terminal, &[]).output().unwrap());

    let drawn = ran.succeeds().stdout.matches("\u{1b}[2J\u{1b}[H").count();
    assert!(drawn >= 2 && ran.stdout.matches("ADW").count() == drawn, "{ran:#?}");
}

#[test]
fn status_shows_every_pillar() {
    let stage = Stage::new();
    stage.run(&["pool", "create", "ADW", "--max", "100"]).succeeds();

    let text = stage.run(&["status"]);
    for line in
        ["pools       ADW: 0 of 95 in use, 0 waiting", "executions  0 running, 0 failed", "alerts      none"]
    {
        assert!(text.succeeds().stdout.contains(line), "{text:#?}");
    }
    assert!(text.stdout.contains("0 unpublished; 0 failed; 0 relays"), "{text:#?}");
    let json: serde_json::Value = serde_json::from_str(&stage.run(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["schema"], "tidemill.status/v1");
    assert_eq!((&json["pools"][0]["limit"], &json["executions"]["running"]), (&95.into(), &0.into()));
    assert_eq!(json["database"]["pending_migrations"], 0);
}

#[test]
fn one_thing_as_csv_is_a_header_and_a_row() {
    let stage = Stage::new();
    for arguments in [
        &["pool", "create", "P", "--max", "10"][..],
        &["pool", "show", "P"],
        &["outbox", "stats"],
        &["outbox", "notify", "status"],
    ] {
        let ran = stage.run(&[arguments, &["-o", "csv"]].concat());

        let mut reader = csv::Reader::from_reader(ran.succeeds().stdout.as_bytes());
        let columns = reader.headers().unwrap().len();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1, "{ran:#?}");
        assert!(rows[0].len() == columns && !ran.stdout.contains("  "), "{ran:#?}");
    }
    let shown = stage.run(&["pool", "show", "P", "-o", "csv"]).stdout;
    assert!(shown.starts_with("name,external_id,state,in_use,"), "{shown}");
    assert!(shown.contains("\nP,,open,0,"), "{shown}");
}

#[test]
fn errors_are_problem_objects_when_json_is_asked_for() {
    let stage = Stage::on("mysql://host/app");

    let ran = stage.run(&["process", "list", "-o", "json"]);

    let problem: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.is_empty());
    assert_eq!(problem["code"], "TM0201");
    assert_eq!(problem["type"], "urn:tidemill:error:TM0201");
    assert_eq!(problem["exit_code"], 2);
    for field in ["title", "detail", "remedy"] {
        assert!(!problem[field].as_str().unwrap().is_empty(), "{field}");
    }
}

#[test]
fn usage_errors_are_problem_objects_too() {
    let ran = Stage::new().run(&["frobnicate", "-o", "json"]);

    let problem: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((problem["code"].as_str(), ran.code), (Some("TM0002"), Some(2)));
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let stage = Stage::new();
    let plain = stage.run(&["explain", "x"]).stderr;
    let forced = stage.run(&["explain", "x", "--color", "always"]).stderr;

    assert!(!plain.contains('\u{1b}'));
    assert!(forced.contains('\u{1b}'));
    let no_color = Stage::new().with("NO_COLOR", "1").run(&["explain", "x", "--color", "auto"]).stderr;
    assert!(!no_color.contains('\u{1b}'));
}

#[test]
fn quiet_and_verbose_change_the_log_only() {
    let stage = Stage::new();

    assert_eq!(stage.run(&["-q", "db", "migrate"]).succeeds().stderr, "");
    let quiet = stage.run(&["-q", "process", "list"]);
    let verbose = stage.run(&["-vvv", "process", "list"]);

    assert_eq!(quiet.succeeds().stderr, "");
    assert_eq!(quiet.stdout, verbose.succeeds().stdout);
}

#[test]
fn empty_lists_say_so_to_people_and_are_empty_for_programs() {
    let stage = Stage::new();

    assert_eq!(stage.run(&["lease", "list"]).stdout, "No leases.\n");
    assert_eq!(stage.run(&["lease", "list", "-o", "jsonl"]).stdout, "");
    let json: serde_json::Value =
        serde_json::from_str(&stage.run(&["lease", "list", "-o", "json"]).stdout).unwrap();
    assert_eq!(json["items"], serde_json::json!([]));
}

#[test]
fn doctor_says_what_is_wrong_and_ends_with_one() {
    let well = Stage::new().run(&["doctor"]);
    assert!(well.succeeds().stdout.contains("✓ database"), "{}", well.stdout);

    let ill = Stage::on("sqlite://absent/x.db").run(&["doctor", "-o", "json"]);
    assert_eq!(ill.code, Some(1), "{ill:#?}");
    let checks: serde_json::Value = serde_json::from_str(&ill.stdout).unwrap();
    let failed =
        checks["items"].as_array().unwrap().iter().find(|check| check["status"] == "failed").unwrap();
    assert!(failed["fix"].as_str().unwrap().contains("create the folder"), "{failed}");
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(Stage::new().run(&["completions", shell]).succeeds().stdout.contains("tidemill"), "{shell}");
    }
}

#[test]
fn the_audit_log_tells_who_migrated() {
    let stage = Stage::new().with("USER", "ann");
    stage.run(&["db", "migrate"]).succeeds();

    let ran = stage.run(&["audit", "list", "--object", "migration/1", "-o", "jsonl"]);

    let entry: serde_json::Value = serde_json::from_str(ran.succeeds().stdout.trim()).unwrap();
    assert_eq!(
        (&entry["actor"], &entry["role"], &entry["object"]),
        (&"ann".into(), &"local".into(), &"migration/1".into())
    );
}
