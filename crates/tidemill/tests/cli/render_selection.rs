//! Many renders at the command line: named or found by a filter, each by its own rule.

use crate::Stage;
use crate::pool::json_of;
use crate::render::known;
use serde_json::{Value, json};
use std::fs;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![renders_are_cancelled_retried_and_moved_by_a_filter];

const MAIN: &str = "_MAIN Mini Chip Count";

/// What a command did: the ids with the status after it, and those that it refused.
fn changes(stage: &Stage, arguments: &[&str]) -> Value {
    let ran = json_of(&stage.run(&[arguments, &["-o", "json"]].concat()));
    let items = ran["items"].as_array().unwrap();
    items.iter().map(|item| json!([item["render"], item["status"]])).collect()
}

async fn renders_are_cancelled_retried_and_moved_by_a_filter(database: Scratch) {
    let stage = known(Stage::on(database.url()));
    let rows = "Slot 1 - name,Slot 1 - stack\nA,1\nB,2\nC,3\n";
    fs::write(stage.path("rows.csv"), rows).unwrap();
    stage.run(&["render", "submit", "--csv", "rows.csv", "--composition", MAIN]).succeeds();

    let to = ["render", "prioritize", "3", "--to", "9", "--reason", "on air first"];
    assert_eq!(changes(&stage, &to), json!([[3, "pending"]]));
    let by = ["render", "prioritize", "--batch", "1", "--by", "-10"];
    assert_eq!(changes(&stage, &by), json!([[1, "pending"], [2, "pending"], [3, "pending"]]));
    let shown = json_of(&stage.run(&["render", "show", "3", "-o", "json"]));
    assert_eq!(shown["priority"], -1);
    let dry =
        ["render", "cancel", "--status", "pending", "--composition", MAIN, "--reason", "x", "--dry-run"];
    assert_eq!(changes(&stage, &dry).as_array().unwrap().len(), 3);
    let cancel = &dry[..dry.len() - 1];
    assert_eq!(changes(&stage, cancel), json!([[1, "cancelled"], [2, "cancelled"], [3, "cancelled"]]));
    assert_eq!(changes(&stage, cancel), json!([]), "none waits any more");

    let failed_only = ["render", "retry", "--composition", MAIN, "--reason", "x"];
    assert_eq!(changes(&stage, &failed_only), json!([]), "whoever cancelled them does not want them");
    let retry = ["render", "retry", "--status", "cancelled", "--reason", "wanted after all"];
    assert_eq!(changes(&stage, &retry).as_array().unwrap().len(), 3);
    let late = ["render", "cancel", "--late", "--reason", "x"];
    assert_eq!(changes(&stage, &late), json!([]));
    let found = json_of(&stage.run(&["render", "list", "--late", "-o", "json"]));
    assert_eq!(found["items"], json!([]));
    let audited = json_of(&stage.run(&["audit", "list", "--action", "render.retry", "-o", "json"]));
    assert_eq!(audited["items"].as_array().unwrap().len(), 3, "one entry for each");
}

#[test]
fn what_says_nothing_or_too_much_is_refused() {
    let stage = known(Stage::new());
    for arguments in [
        &["render", "cancel", "--reason", "x"][..],
        &["render", "cancel", "1", "--status", "pending", "--reason", "x"],
        &["render", "retry", "--status", "done", "--reason", "x"],
        &["render", "prioritize", "1"],
        &["render", "prioritize", "1", "--to", "1", "--by", "1"],
        &["render", "prioritize", "--to", "1"],
    ] {
        stage.run(arguments).fails("TM0002", 2);
    }
    let never = stage.run(&["render", "retry", "--status", "completed", "--reason", "x"]);
    never.fails("TM0504", 2);
    assert!(never.stderr.contains("retry is not possible for renders that are completed"), "{never:#?}");
    stage.run(&["render", "prioritize", "7", "--to", "1"]).fails("TM1546", 3);
    stage.run(&["render", "retry", "--batch", "7", "--reason", "x"]).fails("TM1546", 3);
}
