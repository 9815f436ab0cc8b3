//! Tables that people paste, and the orders that come of them.

use super::super::gfx;
use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn row(line: usize, cells: &[&str]) -> SheetRow {
    SheetRow { line, cells: cells.iter().map(|cell| (*cell).to_owned()).collect() }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(column, target)| ((*column).to_owned(), (*target).to_owned())).collect()
}

fn columns(names: &[&str], pairs: &[(&str, &str)]) -> Columns {
    Columns::of(&row(1, names), &map(pairs)).unwrap()
}

fn refused(names: &[&str], pairs: &[(&str, &str)]) -> Vec<String> {
    let bad = Columns::of(&row(1, names), &map(pairs)).unwrap_err();
    bad.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_row_becomes_the_order_of_one_render() {
    let columns = columns(
        &[
            "composition",
            "cue_item_id",
            "priority",
            "deadline",
            "date",
            "Slot 2 - name",
            "Player",
            "Table",
            "Flag 1",
            "Notes",
        ],
        &[("Player", "Slot 1 - name"), ("Table", "Single - table_id"), ("Notes", "")],
    );
    let cells = [
        "Main",
        "cue-7",
        " 10 ",
        "2026-11-15T18:00:00Z",
        "2026-11-15",
        "",
        "PHIL IVEY",
        "Table 1",
        "us.png",
        "late",
    ];

    let order = columns.order(&row(2, &cells), &SheetOrder::default()).unwrap();

    assert_eq!((order.composition.as_deref(), order.cue_item.as_deref()), (Some("Main"), Some("cue-7")));
    assert_eq!(order.priority, 10);
    assert_eq!(order.deadline, Some("2026-11-15T18:00:00Z".parse().unwrap()));
    assert_eq!(order.broadcast_date, Some("2026-11-15".parse().unwrap()));
    assert_eq!(
        order.data,
        json!({
            "slots": [{ "slot_number": 1, "fields": { "name": "PHIL IVEY" } }],
            "single_fields": { "table_id": "Table 1" },
            "flag_fields": { "1": "us.png" },
        }),
        "slot 2 is an empty seat"
    );
    let name = "Slot 1 - name".parse().unwrap();
    assert_eq!(columns.name_of(&name), Some("Player"));
}

#[test]
fn an_empty_cell_keeps_the_default() {
    let defaults = SheetOrder { composition: Some("Main".into()), priority: 3, ..SheetOrder::default() };
    let columns = columns(&["composition", "priority", "Flag 1"], &[]);

    let kept = columns.order(&row(2, &["", " ", "a"]), &defaults).unwrap();
    let own = columns.order(&row(3, &["Other", "-1", "a"]), &defaults).unwrap();

    assert_eq!((kept.composition.as_deref(), kept.priority), (Some("Main"), 3));
    assert_eq!((own.composition.as_deref(), own.priority), (Some("Other"), -1));
}

#[test]
fn a_header_that_is_not_understood_names_every_column() {
    let told = refused(
        &["Plaver", "priorty", "Flag 1", "F", ""],
        &[("Player", "Flag 1"), ("F", "Flag 1"), ("priorty", "Slot 0 - a")],
    );

    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[0].starts_with("line 1, column \"Player\": the map names this column"), "{told:#?}");
    assert!(told[0].contains("did you mean Plaver?"));
    assert!(
        told[1].contains("map it (\"Plaver=Slot 1 - name\"), or leave it out (\"Plaver=\")"),
        "{told:#?}"
    );
    assert!(told[2].contains("\"Slot 0 - a\" is not a target"), "{told:#?}");
    assert_eq!(told[3], "line 1, column \"F\": the column \"Flag 1\" is Flag 1 too");
    assert!(refused(&["priorty"], &[])[0].contains("did you mean priority?"));
}

#[test]
fn a_header_or_a_map_with_too_many_columns_is_refused_at_once() {
    let many: Vec<String> = (0..=COLUMNS_MAX).map(|number| format!("Single - a{number}")).collect();
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, "Flag 1")).collect();

    let expected = ["line 1: the table or its map has 1001 columns; 1000 are allowed"];
    assert_eq!(refused(&names, &[]), expected);
    assert_eq!(refused(&["a"], &pairs), expected);
    assert_eq!(refused(&["Single - a"], &pairs[1..]).len(), PROBLEMS_MAX, "each names the columns");
    let long = ["x".repeat(5_000), "y".repeat(5_000)];
    let told = refused(&[&long[0], &long[1]], &[("z", "")]);
    assert!(told[0].len() < 500, "{}", told[0]);
}

#[test]
fn a_text_below_no_name_is_not_lost() {
    let columns = columns(&["Flag 1", ""], &[]);
    let order = |cells: &[&str]| columns.order(&row(2, cells), &SheetOrder::default());

    assert!(order(&["us.png", " "]).is_ok());
    let problem = order(&["us.png", "PHIL IVEY"]).unwrap_err().remove(0);
    let told = "line 2: the column of \"PHIL IVEY\" has no name; name it in the header, or empty its cells";
    assert_eq!(problem.to_string(), told);
}

#[test]
fn a_row_tells_its_first_problems_and_how_many_follow() {
    let problems = |count: usize| (0..count).map(|_| SheetProblem::new(7, None, "bad")).collect();

    assert_eq!(first_problems(problems(PROBLEMS_MAX)).len(), PROBLEMS_MAX);
    let told = first_problems(problems(PROBLEMS_MAX + 5));
    assert_eq!(told.len(), PROBLEMS_MAX + 1);
    assert_eq!(told.last().unwrap().to_string(), "line 7: and 5 more problems");
    assert_eq!(first_problems(Vec::new()), []);
}

#[test]
fn a_row_names_every_cell_that_is_wrong() {
    let columns = columns(&["priority", "deadline", "broadcast_date", "cue_item"], &[]);
    let long = "x".repeat(LABEL_CHARS_MAX + 1);

    let problems =
        columns.order(&row(7, &["high", "tomorrow", "15/11", &long]), &SheetOrder::default()).unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();

    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(told[0].starts_with("line 7, column \"priority\": \"high\" is not a whole number"), "{told:#?}");
    assert!(told[1].starts_with("line 7, column \"deadline\": \"tomorrow\" is not a time"));
    assert!(told[2].starts_with("line 7, column \"broadcast_date\": \"15/11\" is not a date"));
    assert!(told[3].starts_with("line 7, column \"cue_item\": the text has 501 characters"));
    let short = columns.order(&row(8, &["1"]), &SheetOrder::default()).unwrap_err();
    assert!(short[0].to_string().starts_with("line 8: the row has 1 cells and the header 4"), "{short:?}");
}

fn fields() -> impl Strategy<Value = Field> {
    let number = 1..=super::super::field::NUMBER_MAX;
    (0..3_u8, number, "[a-z가-힣_]{1,6}").prop_map(|(which, number, name)| match which {
        0 => Field::Slot { number, name },
        1 => Field::Single { name },
        _ => Field::Flag { number },
    })
}

proptest! {
    /// What the worker reads from the document are the filled cells, each at its field; whatever the columns are called.
    #[test]
    fn the_document_has_each_filled_cell_at_its_field(
        cells in vec((fields(), "[ a-zA-Z0-9가-힣{}\":,.-]{0,8}", any::<bool>()), 0..12)
    ) {
        let mut unique: Vec<(Field, String, bool)> = Vec::new();
        for (field, cell, is_mapped) in cells {
            if unique.iter().all(|(other, ..)| *other != field) {
                unique.push((field, cell, is_mapped));
            }
        }
        let named = |(index, (field, _, is_mapped)): (usize, &(Field, String, bool))| {
            if *is_mapped { format!("column {index}") } else { field.to_string() }
        };
        let names: Vec<String> = unique.iter().enumerate().map(named).collect();
        let mapped = names.iter().zip(&unique).filter(|(_, (_, _, is_mapped))| *is_mapped);
        let map = mapped.map(|(name, (field, ..))| (name.clone(), field.to_string())).collect();
        let columns = Columns::of(&SheetRow { line: 1, cells: names }, &map).unwrap();
        let row = SheetRow { line: 2, cells: unique.iter().map(|(_, cell, _)| cell.clone()).collect() };

        let order = columns.order(&row, &SheetOrder::default()).unwrap();

        let read = gfx::read(&order.data.to_string()).unwrap();
        let filled: BTreeMap<Field, Option<String>> = unique
            .into_iter()
            .filter(|(_, cell, _)| !cell.trim().is_empty())
            .map(|(field, cell, _)| (field, Some(cell)))
            .collect();
        prop_assert_eq!(read.fields, filled);
        prop_assert_eq!(order.composition, None);
    }

    #[test]
    fn any_table_is_read_or_refused_without_a_panic(
        header in vec("[a-zA-Z0-9 =-]{0,10}|Slot 1 - a|priority|deadline|date", 0..5),
        cells in vec("[a-z0-9: -]{0,12}", 0..5),
        map in btree_map("[a-c]", "[a-z]{0,3}|Flag 1|Single - x", 0..3),
    ) {
        if let Ok(columns) = Columns::of(&SheetRow { line: 1, cells: header }, &map) {
            let _answer = columns.order(&SheetRow { line: 2, cells }, &SheetOrder::default());
        }
    }
}
