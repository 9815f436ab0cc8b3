//! What the writer of a table promises: all rows of a chunk or none, and the reason for a refusal.

use crate::Bench;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::item::{CursorReader, Database, Mode, SqlQuery, TableWriter};
use tidemill_store::{Store, StoreError};

crate::on_both!(
    rows_are_there_after_the_commit_and_not_before,
    more_rows_than_one_statement_takes_are_written,
    a_roll_back_takes_the_rows_and_the_buffer_with_it,
    an_upsert_changes_what_is_there_and_adds_what_is_not,
    of_several_rows_with_one_key_the_last_one_counts,
    an_upsert_of_keys_alone_adds_what_is_missing,
    a_deletion_takes_the_rows_of_its_keys_and_minds_no_others,
    a_refused_row_is_a_matter_of_constraints,
    a_missing_table_or_column_is_named_with_those_that_are_there,
    hostile_names_stay_names,
    rows_are_written_by_the_names_of_their_columns,
    a_column_that_the_database_computes_is_left_alone,
    a_writer_is_used_only_when_it_is_open,
    errors_of_the_store_have_kinds,
);

const MODES: [Mode; 2] = [Mode::Copy, Mode::Insert];

async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

async fn rows(store: &Store, text: &str) -> Vec<Vec<Value>> {
    let mut reader = CursorReader::new("rows", Database::of(store), SqlQuery::new(text));
    reader.open(&ExecutionContext::new()).await.unwrap();
    let mut all = Vec::new();
    while let Some(row) = reader.read().await.unwrap() {
        all.push(row.values().to_vec());
    }
    all
}

async fn payment(store: &Store) {
    run(
        store,
        "create table payment (
             id bigint primary key, name varchar(20) not null, amount bigint check (amount >= 0)
         )",
    )
    .await;
}

async fn opened(store: &Store, mode: Mode) -> TableWriter {
    let mut writer = TableWriter::new("payment").columns(["id", "name", "amount"]).mode(mode);
    writer.open(store).await.unwrap();
    writer
}

fn upsert() -> Mode {
    Mode::Upsert { key: vec!["id".to_owned()] }
}

/// Writes rows in one chunk.
async fn write(store: &Store, writer: &mut TableWriter, rows: &[Vec<Value>]) -> Result<(), ItemError> {
    for row in rows {
        writer.push(row)?;
    }
    let mut tx = store.begin().await.unwrap();
    writer.flush(&mut tx).await?;
    tx.commit().await.unwrap();
    Ok(())
}

fn row(id: i64, name: &str, amount: i64) -> Vec<Value> {
    vec![id.into(), name.into(), amount.into()]
}

async fn rows_are_there_after_the_commit_and_not_before(bench: Bench) {
    payment(&bench.store).await;
    for mode in MODES {
        run(&bench.store, "delete from payment").await;
        let mut writer = opened(&bench.store, mode).await;
        writer.push(&row(1, "a", 10)).unwrap();
        writer.push(&[2.into(), "b".into(), Value::Null]).unwrap();
        assert_eq!(writer.len(), 2);

        let mut tx = bench.begin().await;
        writer.flush(&mut tx).await.unwrap();
        let before = rows(&bench.store, "select id from payment").await;
        tx.commit().await.unwrap();

        assert_eq!(before, Vec::<Vec<Value>>::new());
        assert!(writer.is_empty());
        let after = rows(&bench.store, "select id, name, amount from payment order by id").await;
        assert_eq!(after, [row(1, "a", 10), vec![2.into(), "b".into(), Value::Null]]);
    }
}

async fn more_rows_than_one_statement_takes_are_written(bench: Bench) {
    payment(&bench.store).await;
    for (mode, count) in [(Mode::Copy, 1_203), (Mode::Insert, 1_203), (upsert(), 1_000), (upsert(), 1)] {
        run(&bench.store, "delete from payment").await;
        let mut writer = opened(&bench.store, mode.clone()).await;
        let expected: Vec<Vec<Value>> = (1..=count).map(|id| row(id, &format!("n{id}"), id * 2)).collect();

        // Twice, so that a buffer that is not emptied would show.
        let (first, second) = expected.split_at(usize::try_from(count).unwrap() / 2);
        write(&bench.store, &mut writer, first).await.unwrap();
        write(&bench.store, &mut writer, second).await.unwrap();
        write(&bench.store, &mut writer, &[]).await.unwrap();

        assert_eq!(
            rows(&bench.store, "select id, name, amount from payment order by id").await,
            expected,
            "{mode:?}"
        );
    }
}

async fn a_roll_back_takes_the_rows_and_the_buffer_with_it(bench: Bench) {
    payment(&bench.store).await;
    for mode in [Mode::Copy, Mode::Insert, upsert()] {
        let mut writer = opened(&bench.store, mode).await;
        writer.push(&row(1, "written", 1)).unwrap();
        let mut tx = bench.begin().await;
        writer.flush(&mut tx).await.unwrap();
        writer.push(&row(2, "pushed", 2)).unwrap();

        tx.rollback().await.unwrap();
        writer.clear();
        write(&bench.store, &mut writer, &[row(3, "next", 3)]).await.unwrap();

        assert_eq!(rows(&bench.store, "select id, name, amount from payment").await, [row(3, "next", 3)]);
        run(&bench.store, "delete from payment").await;
    }
}

async fn an_upsert_changes_what_is_there_and_adds_what_is_not(bench: Bench) {
    payment(&bench.store).await;
    write(&bench.store, &mut opened(&bench.store, Mode::Copy).await, &[row(1, "old", 1), row(2, "old", 2)])
        .await
        .unwrap();

    let mut writer = opened(&bench.store, upsert()).await;
    write(&bench.store, &mut writer, &[row(2, "new", 20), row(3, "new", 30)]).await.unwrap();

    let found = rows(&bench.store, "select id, name, amount from payment order by id").await;
    assert_eq!(found, [row(1, "old", 1), row(2, "new", 20), row(3, "new", 30)]);
}

async fn of_several_rows_with_one_key_the_last_one_counts(bench: Bench) {
    payment(&bench.store).await;
    let mut writer = opened(&bench.store, upsert()).await;

    let given =
        [row(1, "a", 1), row(2, "b", 2), row(1, "c", 3), row(1, "d", 4), row(2, "e", 5), row(3, "f", 6)];
    write(&bench.store, &mut writer, &given).await.unwrap();

    let found = rows(&bench.store, "select id, name, amount from payment order by id").await;
    assert_eq!(found, [row(1, "d", 4), row(2, "e", 5), row(3, "f", 6)]);

    // What was replaced in one chunk is forgotten in the next, whether the first was written or not.
    writer.push(&row(1, "never", 0)).unwrap();
    writer.push(&row(1, "never", 0)).unwrap();
    writer.clear();
    write(&bench.store, &mut writer, &[row(1, "g", 7), row(2, "h", 8)]).await.unwrap();
    let found = rows(&bench.store, "select id, name, amount from payment order by id").await;
    assert_eq!(found, [row(1, "g", 7), row(2, "h", 8), row(3, "f", 6)]);
}

async fn an_upsert_of_keys_alone_adds_what_is_missing(bench: Bench) {
    run(&bench.store, "create table tag (name varchar(20), item bigint, primary key (name, item))").await;
    let mode = Mode::Upsert { key: vec!["item".into(), "name".into()] };
    let mut writer = TableWriter::new("tag").columns(["name", "item"]).mode(mode);
    writer.open(&bench.store).await.unwrap();

    for _ in 0..2 {
        write(
            &bench.store,
            &mut writer,
            &[vec!["a".into(), 1.into()], vec!["a".into(), 2.into()], vec!["a".into(), 1.into()]],
        )
        .await
        .unwrap();
    }

    let found = rows(&bench.store, "select name, item from tag order by item").await;
    assert_eq!(found, [vec![Value::Text("a".into()), 1.into()], vec!["a".into(), 2.into()]]);
}

async fn a_deletion_takes_the_rows_of_its_keys_and_minds_no_others(bench: Bench) {
    payment(&bench.store).await;
    let all: Vec<Vec<Value>> =
        (1..=1_203).map(|id| row(id, if id % 2 == 0 { "a" } else { "b" }, id)).collect();
    write(&bench.store, &mut opened(&bench.store, Mode::Insert).await, &all).await.unwrap();
    let mut by_id = TableWriter::new("payment").columns(["id"]).mode(Mode::Delete);
    by_id.open(&bench.store).await.unwrap();
    let mut by_both = TableWriter::new("payment").columns(["name", "id"]).mode(Mode::Delete);
    by_both.open(&bench.store).await.unwrap();

    let ids: Vec<Vec<Value>> = (4..=2_000_i64).chain([4]).map(|id| vec![id.into()]).collect();
    write(&bench.store, &mut by_id, &ids).await.unwrap();
    // The first has another name, and null equals nothing.
    let pairs = [vec!["a".into(), 1.into()], vec!["a".into(), "2".into()], vec![Value::Null, 3.into()]];
    write(&bench.store, &mut by_both, &pairs).await.unwrap();

    let left = rows(&bench.store, "select id, name, amount from payment order by id").await;
    assert_eq!(left, [row(1, "b", 1), row(3, "b", 3)]);
}

async fn a_refused_row_is_a_matter_of_constraints(bench: Bench) {
    payment(&bench.store).await;
    write(&bench.store, &mut opened(&bench.store, Mode::Copy).await, &[row(1, "a", 1)]).await.unwrap();
    for mode in MODES {
        let mut writer = opened(&bench.store, mode).await;
        for (wrong, said) in [
            (row(1, "again", 1), "payment"),
            (row(2, "negative", -1), "amount"),
            (vec![3.into(), Value::Null, 1.into()], "name"),
        ] {
            let error = write(&bench.store, &mut writer, &[row(9, "fine", 1), wrong]).await.unwrap_err();

            assert_eq!(error.kind_in(Phase::Write), ErrorKind::CONSTRAINT, "{error}");
            assert!(error.to_string().contains(said), "{error}");
            assert!(writer.is_empty());
        }
        assert_eq!(rows(&bench.store, "select id from payment").await, [vec![Value::Long(1)]]);
    }
}

async fn a_missing_table_or_column_is_named_with_those_that_are_there(bench: Bench) {
    payment(&bench.store).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("create view emr_connection_limits as select * from tidemill_pool").await.unwrap();
    tx.commit().await.unwrap();
    for (table, column, said) in [
        ("paymnt", "id", "there are: payment"),
        ("payment", "summe", "id, name, amount"),
        ("no_such_schema.payment", "id", "no table"),
    ] {
        let error = TableWriter::new(table).columns([column]).open(&bench.store).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Write), ErrorKind::FATAL);
        assert!(error.to_string().contains(said), "{error}");
        assert!(!error.to_string().contains("emr_connection_limits"), "{error}");
    }
    let mode = Mode::Upsert { key: vec!["amount".into()] };
    let error =
        TableWriter::new("payment").columns(["id", "name"]).mode(mode).open(&bench.store).await.unwrap_err();
    assert!(error.to_string().contains("key column \"amount\""), "{error}");
}

async fn hostile_names_stay_names(bench: Bench) {
    payment(&bench.store).await;
    let table = "x\"; drop table payment; --";
    let column = "c\") values (1); --";
    run(
        &bench.store,
        &format!(
            "create table \"{}\" (\"{}\" bigint primary key)",
            table.replace('"', "\"\""),
            column.replace('"', "\"\"")
        ),
    )
    .await;
    for mode in [Mode::Copy, Mode::Insert, Mode::Upsert { key: vec![column.to_owned()] }] {
        let mut writer = TableWriter::new(table).columns([column]).mode(mode);
        writer.open(&bench.store).await.unwrap();

        write(&bench.store, &mut writer, &[vec![7.into()]]).await.unwrap();

        let text = format!("select * from \"{}\"", table.replace('"', "\"\""));
        assert_eq!(rows(&bench.store, &text).await, [vec![Value::Long(7)]]);
        run(&bench.store, &format!("delete from \"{}\"", table.replace('"', "\"\""))).await;
    }
    assert_eq!(rows(&bench.store, "select count(*) from payment").await, [vec![Value::Long(0)]]);
    for name in ["", "a\0b", &"a".repeat(64), "."] {
        let error = TableWriter::new(name).open(&bench.store).await.unwrap_err();
        assert_eq!(error.kind_in(Phase::Write), ErrorKind::FATAL, "{name:?}");
    }
}

async fn rows_are_written_by_the_names_of_their_columns(bench: Bench) {
    payment(&bench.store).await;
    let mut writer = TableWriter::new("payment").mode(Mode::Insert);
    writer.open(&bench.store).await.unwrap();
    assert_eq!(writer.column_names(), ["id", "name", "amount"]);
    let named = |columns: &[&str], values: Vec<Value>| {
        Row::new(columns.iter().map(|name| (*name).to_owned()).collect(), values)
    };

    writer
        .push_row(&named(
            &["amount", "extra", "name", "id"],
            vec![10.into(), true.into(), "a".into(), 1.into()],
        ))
        .unwrap();
    writer.push_row(&named(&["id", "name", "amount"], row(2, "b", 20))).unwrap();
    let error = writer.push_row(&named(&["id", "name"], vec![3.into(), "c".into()])).unwrap_err();
    let mut tx = bench.begin().await;
    writer.flush(&mut tx).await.unwrap();
    tx.commit().await.unwrap();

    assert!(error.to_string().contains("\"amount\""), "{error}");
    let found = rows(&bench.store, "select id, name, amount from payment order by id").await;
    assert_eq!(found, [row(1, "a", 10), row(2, "b", 20)]);
}

async fn a_column_that_the_database_computes_is_left_alone(bench: Bench) {
    run(&bench.store, "create table g (a bigint, b bigint generated always as (a * 2) stored)").await;

    let mut all = TableWriter::new("g");
    all.open(&bench.store).await.unwrap();
    write(&bench.store, &mut all, &[vec![21.into()]]).await.unwrap();
    let error = TableWriter::new("g").columns(["b"]).open(&bench.store).await.unwrap_err();

    assert_eq!(rows(&bench.store, "select a, b from g").await, [vec![Value::Long(21), 42.into()]]);
    assert!(error.to_string().contains("computed"), "{error}");
}

async fn a_writer_is_used_only_when_it_is_open(bench: Bench) {
    payment(&bench.store).await;
    let mut writer = TableWriter::new("payment").columns(["id", "name", "amount"]);

    let unopened = writer.push(&row(1, "a", 1)).unwrap_err();
    writer.open(&bench.store).await.unwrap();
    let short = writer.push(&[1.into()]).unwrap_err();

    assert!(unopened.to_string().contains("before it was opened"), "{unopened}");
    assert!(short.to_string().contains("1 values was given for the 3 columns"), "{short}");
}

async fn errors_of_the_store_have_kinds(bench: Bench) {
    payment(&bench.store).await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("insert into payment values (1, 'a', 1)").await.unwrap();

    let twice = tx.execute_for_test("insert into payment values (1, 'a', 1)").await.unwrap_err();
    drop(tx);
    let mut tx = bench.begin().await;
    let wrong = tx.execute_for_test("insert into no_such_table values (1)").await.unwrap_err();

    assert_eq!(twice.item_kind(), Some(ErrorKind::CONSTRAINT));
    assert_eq!(wrong.item_kind(), Some(ErrorKind::FATAL));
    assert_eq!(StoreError::ServerInRecovery.item_kind(), Some(ErrorKind::FATAL));
}

/// SQLite has one writer at a time and no deadlocks between rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_on_postgres_is_transient() {
    let Some(bench) = Bench::postgres().await else { return };
    payment(&bench.store).await;
    write(&bench.store, &mut opened(&bench.store, Mode::Copy).await, &[row(1, "a", 1), row(2, "b", 2)])
        .await
        .unwrap();
    let (mut one, mut two) = (bench.begin().await, bench.begin().await);
    let (mut first, mut second) =
        (opened(&bench.store, upsert()).await, opened(&bench.store, upsert()).await);
    first.push(&row(1, "x", 1)).unwrap();
    first.flush(&mut one).await.unwrap();
    second.push(&row(2, "y", 1)).unwrap();
    second.flush(&mut two).await.unwrap();
    first.push(&row(2, "x", 1)).unwrap();
    second.push(&row(1, "y", 1)).unwrap();

    let (one, two) = tokio::join!(first.flush(&mut one), second.flush(&mut two));

    let error = one.err().or(two.err()).expect("one of the two is the victim");
    assert_eq!(error.kind_in(Phase::Write), ErrorKind::TRANSIENT, "{error}");
}
