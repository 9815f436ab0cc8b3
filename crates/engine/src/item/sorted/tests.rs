//! The sorted reader, with so little memory that everything goes to disk.

use super::*;
use crate::item::ItemsReader;
use std::fs;

const ROWS: usize = 500;

fn row(id: i64, account: &str, amount: i64) -> Row {
    let columns = ["id", "account", "amount"].map(str::to_owned);
    Row::new(columns.into(), vec![id.into(), account.into(), amount.into()])
}

/// Rows in no order, of which every fifth has an id that was there before.
fn rows() -> Vec<Row> {
    let number = |index: usize| i64::try_from(index).unwrap();
    let one = |index: usize| {
        let id = if index % 5 == 4 { index - 4 } else { index };
        row(number(id), ["b", "a", "c"][index % 3], number(index * 7919 % 101))
    };
    (0..ROWS).map(one).collect()
}

fn reader(rows: Vec<Row>, folder: &std::path::Path) -> SortedReader<ItemsReader<Row>> {
    SortedReader::new("read", ItemsReader::new("rows", rows))
        .by("account", Direction::Ascending)
        .by_value(|row| Ok(row.value("amount")?.clone()), Direction::Descending)
        .distinct(["id"])
        .memory(2000)
        .folder(folder)
}

async fn rest(reader: &mut SortedReader<ItemsReader<Row>>) -> Vec<Row> {
    let mut all = Vec::new();
    while let Some(row) = reader.read().await.unwrap() {
        all.push(row);
    }
    all
}

fn shown(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.to_json().to_string()).collect()
}

#[tokio::test]
async fn rows_are_sorted_and_duplicates_come_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut sorted = reader(rows(), folder.path());

    sorted.open(&ExecutionContext::new()).await.unwrap();
    let all = rest(&mut sorted).await;

    let mut expected = rows();
    let order = |row: &Row| (row.get::<String>("account").unwrap(), -row.get::<i64>("amount").unwrap());
    expected.sort_by_key(order);
    let mut seen = std::collections::BTreeSet::new();
    expected.retain(|row| seen.insert(row.get::<i64>("id").unwrap()));
    assert_eq!(shown(&all[..expected.len()]), shown(&expected));
    assert!(all[expected.len()..].iter().all(SortedReader::is_duplicate));
    assert_eq!((all.len(), sorted.total()), (ROWS, Some(ROWS as u64)));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
}

#[tokio::test]
async fn a_restart_at_any_row_goes_on_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut sorted = reader(rows(), folder.path());
    sorted.open(&ExecutionContext::new()).await.unwrap();
    let mut positions = Vec::new();
    let mut all = Vec::new();
    loop {
        let mut context = ExecutionContext::new();
        sorted.update(&mut context).unwrap();
        positions.push(context);
        let Some(row) = sorted.read().await.unwrap() else { break };
        all.push(row);
    }

    for (number, position) in positions.iter().enumerate().step_by(37) {
        let mut again = reader(rows(), folder.path());
        again.open(position).await.unwrap();
        assert_eq!(shown(&rest(&mut again).await), shown(&all[number..]), "after {number} rows");
    }
}

#[tokio::test]
async fn a_restart_on_other_rows_is_refused_if_they_were_read_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut sorted = reader(rows(), folder.path());
    sorted.open(&ExecutionContext::new()).await.unwrap();
    let mut position = ExecutionContext::new();
    for _ in 0..10 {
        sorted.read().await.unwrap();
    }
    sorted.update(&mut position).unwrap();

    for (changed, is_refused) in [(row(9999, "a", 9999), true), (row(9999, "z", 0), false)] {
        let rows = rows().into_iter().chain([changed]).collect();
        let opened = reader(rows, folder.path()).open(&position).await;
        assert_eq!(opened.is_err(), is_refused, "{opened:?}");
    }
    let error = reader(Vec::new(), folder.path()).open(&position).await.unwrap_err();
    assert!(error.text().contains("10 rows of the sorted input were written"), "{error}");
}

#[tokio::test]
async fn rows_that_cannot_be_sorted_are_errors_that_can_be_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let rows = vec![row(1, "a", 1), row(2, "x", 2), row(3, "b", 3)];
    let by = |row: &Row| match row.get::<String>("account")?.as_str() {
        "x" => Err(ItemError::new(ErrorKind::PROCESS, "x has no place")),
        account => Ok(account.into()),
    };
    let reader = ItemsReader::new("rows", rows);
    let mut sorted =
        SortedReader::new("read", reader).by_value(by, Direction::Descending).folder(folder.path());

    sorted.open(&ExecutionContext::new()).await.unwrap();

    assert!(sorted.read().await.unwrap_err().text().contains("x has no place (row 2)"));
    let ids: Vec<i64> = rest(&mut sorted).await.iter().map(|row| row.get("id").unwrap()).collect();
    assert_eq!(ids, [3, 1]);
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named_with_what_helps() {
    let mut sorted = reader(rows(), "/nowhere/at/all".as_ref());

    let error = sorted.open(&ExecutionContext::new()).await.unwrap_err();

    assert!(error.text().contains("/nowhere/at/all") && error.text().contains("TMPDIR"), "{error}");
}
