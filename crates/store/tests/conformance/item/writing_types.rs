//! The types of each database, written and read back.

use crate::Bench;
use serde_json::json;
use tidemill_domain::item::{ErrorKind, Phase, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::time::Timestamp;
use tidemill_store::Store;
use tidemill_store::item::{CursorReader, Database, Mode, SqlQuery, TableWriter};
use uuid::Uuid;

async fn run(store: &Store, sql: &str) {
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// Writes rows into `t` in this mode and reads them back in order.
async fn there_and_back(store: &Store, mode: Mode, rows: &[Vec<Value>]) -> Vec<Vec<Value>> {
    run(store, "delete from t").await;
    let mut writer = TableWriter::new("t").mode(mode);
    writer.open(store).await.unwrap();
    for row in rows {
        writer.push(row).unwrap();
    }
    let mut tx = store.begin().await.unwrap();
    writer.flush(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let mut reader =
        CursorReader::new("rows", Database::of(store), SqlQuery::new("select * from t order by id"));
    reader.open(&ExecutionContext::new()).await.unwrap();
    let mut found = Vec::new();
    while let Some(row) = reader.read().await.unwrap() {
        found.push(row.values().to_vec());
    }
    found
}

fn decimal(text: &str) -> Value {
    Value::Decimal(text.parse().unwrap())
}

fn modes() -> [Mode; 3] {
    [Mode::Copy, Mode::Insert, Mode::Upsert { key: vec!["id".to_owned()] }]
}

#[tokio::test]
async fn every_type_of_postgres_is_written_as_it_is_read() {
    let Some(bench) = Bench::postgres().await else { return };
    run(
        &bench.store,
        "create type mood as enum ('sad', 'happy');
         create domain amount as numeric(12, 2) check (value >= 0);
         create domain large_amount as amount check (value > 100);
         create table t (
             id int8 primary key, a bool, b int2, c int4, d float4, e float8, f numeric, g numeric(10, 3), h text,
             i varchar(10), j char(4), k bytea, l date, m time, n timestamp, o timestamptz, p uuid, q json, r jsonb,
             s mood, t large_amount, u oid, v name, w \"char\"
         )",
    )
    .await;
    let full = |id: i64, sign: i64| -> Vec<Value> {
        vec![
            id.into(),
            (sign > 0).into(),
            (sign * 32_767).into(),
            (sign * 2_147_483_647).into(),
            (sign as f64 * 0.5).into(),
            (sign as f64 * 0.1).into(),
            decimal(if sign > 0 { "12345678901234567890.00001000" } else { "-0.00000000000000000001" }),
            decimal(if sign > 0 { "1234567.891" } else { "-0.001" }),
            "가 \\ \" \t".into(),
            "ab".into(),
            "abcd".into(),
            vec![0_u8, 255, 10].into(),
            Value::Date(if sign > 0 { "9999-12-31" } else { "0001-01-01" }.parse().unwrap()),
            Value::Time("23:59:59.999999".parse().unwrap()),
            Value::DateTime(
                if sign > 0 { "2026-11-15T12:00:00.000001" } else { "1582-10-04T00:00:00" }.parse().unwrap(),
            ),
            Value::Instant(Timestamp::from_micros(sign * 1_700_000_000_000_001)),
            Uuid::from_u128(7).into(),
            json!({"a": [1, null, "x"]}).into(),
            json!({"a": [1, null, "x"]}).into(),
            "happy".into(),
            decimal("100.01"),
            4_294_967_295_i64.into(),
            "pg_class".into(),
            "x".into(),
        ]
    };
    let nothing: Vec<Value> = std::iter::once(3.into()).chain(std::iter::repeat_n(Value::Null, 23)).collect();
    let rows = [full(1, 1), full(2, -1), nothing];

    for mode in modes() {
        let found = there_and_back(&bench.store, mode.clone(), &rows).await;
        for (found, given) in found.iter().flatten().zip(rows.iter().flatten()) {
            assert_eq!(found, given, "{mode:?}");
        }
        assert_eq!(found.len(), 3);
    }
}

#[tokio::test]
async fn texts_of_a_file_become_what_the_columns_of_postgres_hold() {
    let Some(bench) = Bench::postgres().await else { return };
    run(
        &bench.store,
        "create table t (id int4 primary key, amount numeric(12, 2), day date, at timestamptz, ok bool)",
    )
    .await;
    for mode in modes() {
        let given: Vec<Value> =
            ["7", "-12.50", "2026-11-15", "2026-11-15T12:00:00+09:00", "yes"].map(Value::from).to_vec();

        let found = there_and_back(&bench.store, mode, &[given]).await;

        let expected: Vec<Value> = vec![
            7.into(),
            decimal("-12.50"),
            Value::Date("2026-11-15".parse().unwrap()),
            Value::Instant("2026-11-15T03:00:00Z".parse().unwrap()),
            true.into(),
        ];
        assert_eq!(found, [expected]);
    }
}

#[tokio::test]
async fn a_value_that_a_column_of_postgres_does_not_take_leaves_the_buffer_as_it_was() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, "create table t (id int4 primary key, amount numeric, day date)").await;
    for mode in modes() {
        let mut writer = TableWriter::new("t").mode(mode.clone());
        writer.open(&bench.store).await.unwrap();
        writer.push(&[1.into(), "1.5".into(), "2026-11-15".into()]).unwrap();
        for (wrong, column, said) in [
            (["x".into(), "1".into(), Value::Null], "\"id\"", "\"x\" (text)"),
            ([4_000_000_000_i64.into(), "1".into(), Value::Null], "\"id\"", "32 bits"),
            ([2.into(), "1,5".into(), Value::Null], "\"amount\"", "\"1,5\""),
            ([2.into(), "1".into(), "15.11.2026".into()], "\"day\"", "a day such as"),
        ] {
            let error = writer.push(&wrong).unwrap_err();
            assert_eq!(error.kind_in(Phase::Write), ErrorKind::PARSE);
            assert!(error.to_string().contains(column) && error.to_string().contains(said), "{error}");
        }
        writer.push(&[2.into(), "2.5".into(), Value::Null]).unwrap();
        assert_eq!(writer.len(), 2);

        let mut tx = bench.begin().await;
        writer.flush(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        run(&bench.store, "do $$ begin assert (select count(*) = 2 and sum(amount) = 4 from t); end $$")
            .await;
        run(&bench.store, "delete from t").await;
    }
}

/// What the server takes for one key must be one key in the buffer too: it refuses to change a row twice.
#[tokio::test]
async fn keys_that_postgres_takes_for_equal_are_one_key() {
    let Some(bench) = Bench::postgres().await else { return };
    for (type_name, one, other) in [
        ("numeric", decimal("1.5"), decimal("1.500")),
        ("numeric", "1".into(), Value::Text("1.0".into())),
        ("float8", 0.0.into(), (-0.0).into()),
        ("char(5)", "a".into(), "a  ".into()),
        ("int4", 7.into(), "7".into()),
        ("timestamptz", "2026-11-15T12:00:00+09:00".into(), "2026-11-15T03:00:00Z".into()),
    ] {
        run(&bench.store, &format!("create table t (id {type_name} primary key, n int4)")).await;

        let mode = Mode::Upsert { key: vec!["id".into()] };
        let found = there_and_back(&bench.store, mode, &[vec![one, 1.into()], vec![other, 2.into()]]).await;

        assert_eq!(found.len(), 1, "{type_name}");
        assert_eq!(found[0][1], Value::Long(2));
        run(&bench.store, "drop table t").await;
    }
}

#[tokio::test]
async fn a_column_of_a_type_without_a_form_of_ours_is_refused_when_it_opens() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, "create table t (id int4, span interval)").await;

    let error = TableWriter::new("t").open(&bench.store).await.unwrap_err();

    assert!(error.to_string().contains("\"span\"") && error.to_string().contains("interval"), "{error}");
}

#[tokio::test]
async fn a_text_that_is_too_long_for_its_column_is_no_matter_of_constraints() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, "create table t (id int4, name varchar(3))").await;
    for mode in [Mode::Copy, Mode::Insert] {
        let mut writer = TableWriter::new("t").mode(mode);
        writer.open(&bench.store).await.unwrap();
        writer.push(&[1.into(), "abcd".into()]).unwrap();
        let mut tx = bench.begin().await;

        let error = writer.flush(&mut tx).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Write), ErrorKind::WRITE, "{error}");
    }
}

#[tokio::test]
async fn values_have_a_form_in_sqlite_that_reads_back() {
    let bench = Bench::sqlite().await;
    run(
        &bench.store,
        "create table t (id integer primary key, a, b real, c text, d blob, e text, f text, g text, h text, i integer,
             j text, k text, l text)",
    )
    .await;
    let instant = Timestamp::from_micros(1_700_000_000_000_001);
    let given: Vec<Value> = vec![
        1.into(),
        true.into(),
        0.1.into(),
        "가".into(),
        vec![0_u8, 255].into(),
        decimal("12345678901234567890.10"),
        Value::Date("2026-11-15".parse().unwrap()),
        Value::Time("12:00:00".parse().unwrap()),
        Value::DateTime("2026-11-15T12:00:00".parse().unwrap()),
        Value::Instant(instant),
        Value::Instant(instant),
        Uuid::from_u128(7).into(),
        json!([1]).into(),
    ];
    let expected: Vec<Value> = vec![
        1.into(),
        1.into(),
        0.1.into(),
        "가".into(),
        vec![0_u8, 255].into(),
        "12345678901234567890.10".into(),
        "2026-11-15".into(),
        "12:00:00".into(),
        "2026-11-15T12:00:00".into(),
        1_700_000_000_000_001_i64.into(),
        "2023-11-14T22:13:20.000001Z".into(),
        "00000000-0000-0000-0000-000000000007".into(),
        "[1]".into(),
    ];
    let nothing: Vec<Value> = std::iter::once(2.into()).chain(std::iter::repeat_n(Value::Null, 12)).collect();

    for mode in modes() {
        let found = there_and_back(&bench.store, mode, &[given.clone(), nothing.clone()]).await;
        assert_eq!(found, [expected.clone(), nothing.clone()]);
    }
}
