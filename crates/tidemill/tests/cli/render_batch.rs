//! Renders of a CSV file at the command line: planned, ordered all or none, watched and retried.

use crate::Stage;
use crate::pool::json_of;
use crate::render::known;
use serde_json::{Value, json};
use std::fs;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![the_rows_of_a_file_are_ordered_as_one_batch];

const MAIN: &str = "_MAIN Mini Chip Count";

/// A file as a spreadsheet saves it: with another separator, and a column that is for people.
const ROWS: &str = "Cue;Player;Slot 1 - stack;Notes\n\
                    cue-1;PHIL IVEY;250;\"late;\nmaybe\"\n\
                    cue-2;DANIEL;300;\n";

const MAP: [&str; 8] =
    ["--map", "Cue=cue_item", "--map", "Player=Slot 1 - name", "--map", "Notes=", "--composition", MAIN];

fn submit(stage: &Stage, rows: &str, flags: &[&str]) -> crate::Ran {
    fs::write(stage.path("rows.csv"), rows).unwrap();
    stage.run(&[&["render", "submit", "--csv", "rows.csv"], &MAP[..], flags].concat())
}

async fn the_rows_of_a_file_are_ordered_as_one_batch(database: Scratch) {
    let stage = known(Stage::on(database.url()));
    let list = |flags: &[&str]| json_of(&stage.run(&[&["render", "list", "-o", "json"], flags].concat()));

    let dry = submit(&stage, ROWS, &["--dry-run"]);
    dry.succeeds();
    assert!(dry.stderr.contains("nothing was ordered"), "{dry:#?}");
    assert!(dry.stderr.contains("warning: line 2: these fields stay empty: Single - table_id"), "{dry:#?}");
    assert_eq!(list(&[])["items"], json!([]));

    let done = json_of(&submit(&stage, ROWS, &["--priority", "7", "-o", "json"]));
    assert_eq!((&done["batch"], &done["is_valid"]), (&json!(1), &json!(true)));
    let lines: Vec<&Value> = done["rows"].as_array().unwrap().iter().map(|row| &row["line"]).collect();
    assert_eq!(lines, [2, 4], "a cell has two lines");
    stage.run(&["render", "submit", "ivey.json"]).succeeds();
    let of_batch = list(&["--batch", "1"]);
    assert_eq!(of_batch["items"].as_array().unwrap().len(), 2);
    assert_eq!((&of_batch["items"][0]["priority"], &of_batch["items"][0]["batch"]), (&json!(7), &json!(1)));
    let data = stage.run(&["render", "show", "1", "--data"]);
    let data: Value = serde_json::from_str(&data.succeeds().stdout).unwrap();
    assert_eq!(
        data,
        json!({ "slots": [{ "slot_number": 1, "fields": { "name": "PHIL IVEY", "stack": "250" } }] })
    );
    let again = submit(&stage, ROWS, &[]);
    again.succeeds();
    assert!(again.stderr.contains("already ordered"), "{again:#?}");

    let batch = json_of(&stage.run(&["render", "batch", "1", "-o", "json"]));
    assert_eq!((&batch["renders"], &batch["pending"], &batch["failed"]), (&json!(2), &json!(2), &json!(0)));
    let none = stage.run(&["render", "retry", "--batch", "1", "--reason", "x"]);
    assert!(none.succeeds().stdout.contains("No renders changed"), "{none:#?}");
    stage.run(&["render", "batch", "3"]).fails("TM1546", 3);
}

#[test]
fn one_bad_row_orders_none_and_every_problem_has_its_line_and_column() {
    let stage = known(Stage::new());
    let rows = "cue_item,Player,Slot 1 - stack,Slot 1 - country,deadline\n\
                a,PHIL IVEY,250,Spain,\n\
                b,,250,Spain,\n\
                c,DANIEL,300,C:\\secret.png,soon\n\
                d,DANIEL,300,C:\\secret.png,\n";
    fs::write(stage.path("rows.csv"), rows).unwrap();
    let arguments =
        ["render", "submit", "--csv", "rows.csv", "--map", "Player=Slot 1 - name", "--composition", MAIN];

    for flags in [&[][..], &["--dry-run"]] {
        let ran = stage.run(&[&arguments[..], flags].concat());
        ran.fails("TM1555", 2);
        for part in [
            "the table has 3 problems",
            "line 3, column \"Player\": Slot 1 - name is missing",
            "line 4, column \"deadline\": \"soon\" is not a time",
            "line 5, column \"Slot 1 - country\": Slot 1 - country: ",
        ] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert_eq!(ran.stdout.is_empty(), flags.is_empty(), "a dry run shows every row");
    }
    let listed = json_of(&stage.run(&["render", "list", "-o", "json"]));
    assert_eq!(listed["items"], json!([]));
}

#[test]
fn what_is_no_table_is_refused_with_what_to_do() {
    let stage = known(Stage::new());
    let refused = |rows: &[u8], part: &str| {
        fs::write(stage.path("rows.csv"), rows).unwrap();
        let ran = stage.run(&["render", "submit", "--csv", "rows.csv"]);
        ran.fails("TM1555", 2);
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    };

    refused(b"", "the table has no rows");
    refused(b"priority\n", "the table has no rows");
    refused(b"priority\n\xff\n", "is not UTF-8");
    refused(b"Player\nA\n", "it is not a field");
    refused(&b"x".repeat(1_000_001), "larger than 1 MB");
    refused(format!("priority\n{}", "1\n".repeat(1_001)).as_bytes(), "more than 1000 rows");
    stage.run(&["render", "submit", "--csv", "rows.csv", "ivey.json"]).fails("TM0002", 2);
    stage.run(&["render", "submit"]).fails("TM0002", 2);
    stage.run(&["render", "submit", "ivey.json", "--map", "a=b"]).fails("TM0002", 2);
    stage.run(&["render", "submit", "--csv", "rows.csv", "--map", "a"]).fails("TM0002", 2);
}
