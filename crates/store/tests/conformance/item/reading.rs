//! What every reader promises: all rows, once, in order, and after a restart exactly those that are left.

use super::on_all;
use super::source::{Kind, Reader, Source};
use tidemill_domain::item::{ErrorKind, Phase, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::item::{CursorReader, Database, KeysetReader, OffsetReader, SqlQuery};

const ROWS: i64 = 25;

on_all!(
    a_restart_at_any_position_reads_exactly_what_is_left,
    composite_keys_with_ties_lose_and_repeat_nothing,
    keys_of_many_types_come_back_exactly,
    an_empty_result_ends_at_once,
    bound_values_choose_the_rows,
    the_total_is_counted_when_asked_for,
    a_query_may_end_in_a_comment_or_a_semicolon,
    rows_before_the_position_may_go_away_under_a_keyset,
    the_end_stays_the_end,
    a_reader_that_is_opened_again_begins_where_it_is_told,
);

fn longs(numbers: std::ops::RangeInclusive<i64>) -> Vec<Value> {
    numbers.map(Value::Long).collect()
}

fn by_id() -> (SqlQuery, SqlQuery) {
    (SqlQuery::new("select id, member from t"), SqlQuery::new("select id, member from t order by id"))
}

async fn a_restart_at_any_position_reads_exactly_what_is_left(source: Source) {
    source.fill(ROWS).await;
    let (query, ordered) = by_id();
    for size in [1, 4, 25, 100] {
        for kind in 0..3 {
            for stop in 0..=ROWS {
                let make = || {
                    Reader::all(&source.database, &query, &ordered, &["id"], size)
                        .into_iter()
                        .nth(kind)
                        .unwrap()
                };
                let mut first = make();
                first.open(&ExecutionContext::new()).await.unwrap();
                for expected in 1..=stop {
                    let row = first.read().await.unwrap().unwrap();
                    assert_eq!(row.values()[0], Value::Long(expected));
                }
                let position = first.position();
                first.close().await;

                let mut second = make();
                second.open(&position).await.unwrap();

                assert_eq!(second.rest().await, longs(stop + 1..=ROWS), "{kind} {size} {stop}");
                second.close().await;
            }
        }
    }
}

async fn composite_keys_with_ties_lose_and_repeat_nothing(source: Source) {
    source.fill(ROWS).await;
    let query = SqlQuery::new("select id, family, member from t");
    let ordered = SqlQuery::new("select id, family, member from t order by family, member");
    let mut expected = CursorReader::new("all", source.database.clone(), ordered.clone());
    expected.open(&ExecutionContext::new()).await.unwrap();
    let mut all = Vec::new();
    while let Some(row) = expected.read().await.unwrap() {
        all.push(row.values()[0].clone());
    }
    assert_eq!(all.len(), 25);

    for size in [1, 2, 3, 4, 24, 25, 26] {
        for stop in [0, 1, 2, 3, 4, 5, 11, 24, 25] {
            let make = || {
                let (database, keys) = (source.database.clone(), ["family", "member"]);
                Reader::Keyset(KeysetReader::new("rows", database, query.clone(), keys, size))
            };
            let mut first = make();
            first.open(&ExecutionContext::new()).await.unwrap();
            for at in &all[..stop] {
                assert_eq!(&first.read().await.unwrap().unwrap().values()[0], at);
            }
            let position = first.position();
            let mut second = make();
            second.open(&position).await.unwrap();

            assert_eq!(second.rest().await, all[stop..], "{size} {stop}");
        }
    }
}

/// A table with one key column of each type; the values are in order.
async fn keys_of_many_types_come_back_exactly(source: Source) {
    let columns: &[(&str, &[&str])] = match source.kind {
        Kind::Postgres => {
            source.run("create type mood as enum ('sad', 'ok', 'happy')").await;
            &[
                ("smallint", &["-7", "0", "12"]),
                ("numeric", &["-1.50", "0.00000000000000000000000000001", "12345678901234567890.5"]),
                ("text", &["'a'", "'b\"'", "'가'"]),
                ("char(3)", &["'a'", "'ab'", "'b'"]),
                ("bytea", &["'\\x00'", "'\\x00ff'", "'\\xff'"]),
                ("date", &["'1582-10-04'", "'2000-02-29'", "'2026-11-15'"]),
                ("time", &["'00:00'", "'12:30:00.000001'", "'23:59:59.999999'"]),
                (
                    "timestamp",
                    &["'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2026-11-15 12:00:00.000001'"],
                ),
                (
                    "timestamptz",
                    &["'1969-12-31 23:59:59.999999+00'", "'1970-01-01 01:00+00'", "'2026-11-15 12:00+09'"],
                ),
                (
                    "uuid",
                    &[
                        "'00000000-0000-0000-0000-000000000001'",
                        "'00000000-0000-0000-0000-0000000000ff'",
                        "'ffffffff-0000-0000-0000-000000000000'",
                    ],
                ),
                ("double precision", &["'-Infinity'", "0.1", "0.30000000000000004"]),
                ("boolean", &["false", "true"]),
                ("mood", &["'sad'", "'ok'", "'happy'"]),
            ]
        }
        Kind::Sqlite => &[
            ("integer", &["-9223372036854775808", "0", "9223372036854775807"]),
            ("real", &["-1.5", "0.1", "0.30000000000000004"]),
            ("text", &["'a'", "'b\"'", "'가'"]),
            ("blob", &["x'00'", "x'00ff'", "x'ff'"]),
            ("", &["1", "1.5", "'a'", "x'00'"]),
        ],
        Kind::MySql => &[
            (
                "bigint unsigned",
                &["0", "9223372036854775807", "18446744073709551614", "18446744073709551615"],
            ),
            (
                "decimal(30,10)",
                &["-1.5", "12345678901234567890.0000000001", "12345678901234567890.0000000002"],
            ),
            ("varchar(20)", &["'a'", "'b'", "'가'"]),
            ("varbinary(20)", &["x'00'", "x'00ff'", "x'ff'"]),
            ("date", &["'1000-01-01'", "'2000-02-29'", "'2026-11-15'"]),
            ("time(6)", &["'00:00:00'", "'12:30:00.000001'", "'23:59:59.999999'"]),
            (
                "datetime(6)",
                &["'1969-12-31 23:59:59.999999'", "'1970-01-01'", "'2026-11-15 12:00:00.000001'"],
            ),
            (
                "timestamp(6)",
                &["'1970-01-02 00:00:00.000001'", "'1970-01-02 00:00:00.000002'", "'2026-11-15 12:00:00'"],
            ),
            ("double", &["-1.5", "0.1", "0.30000000000000004"]),
            ("enum('x','y')", &["'x'", "'y'"]),
        ],
    };
    for (number, (type_name, values)) in columns.iter().enumerate() {
        source
            .run(&format!("create table k{number} (k {type_name} not null unique, n bigint not null)"))
            .await;
        let rows: Vec<String> = values.iter().zip(1..).map(|(value, n)| format!("({value}, {n})")).collect();
        let zone = if source.kind == Kind::MySql { "set time_zone = '+00:00';" } else { "" };
        source.run(&format!("{zone} insert into k{number} (k, n) values {}", rows.join(", "))).await;
        let query = SqlQuery::new(format!("select n, k from k{number}"));
        let last = i64::try_from(values.len()).unwrap();

        for stop in 0..=last {
            let make = || KeysetReader::new("rows", source.database.clone(), query.clone(), ["k"], 1);
            let mut first = Reader::Keyset(make());
            first.open(&ExecutionContext::new()).await.unwrap();
            for _ in 0..stop {
                first.read().await.unwrap().unwrap();
            }
            let position = first.position();
            let mut second = Reader::Keyset(make());
            second.open(&position).await.unwrap();

            assert_eq!(second.rest().await, longs(stop + 1..=last), "{type_name} {stop} {position:?}");
        }
    }
}

async fn an_empty_result_ends_at_once(source: Source) {
    source.fill(0).await;
    let (query, ordered) = by_id();
    for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 10) {
        reader.open(&ExecutionContext::new()).await.unwrap();

        assert!(reader.read().await.unwrap().is_none());
        let position = reader.position();
        reader.open(&position).await.unwrap();
        assert!(reader.read().await.unwrap().is_none());
    }
}

async fn bound_values_choose_the_rows(source: Source) {
    source.fill(ROWS).await;
    let text = format!("select id from t where id > {}", source.place());
    let query = SqlQuery::new(text.clone()).bind(20);
    let ordered = SqlQuery::new(format!("{text} order by id")).bind(20);

    for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 2) {
        reader.open(&ExecutionContext::new()).await.unwrap();
        assert_eq!(reader.rest().await, longs(21..=ROWS));
    }

    let unbound = SqlQuery::new(format!("{text} order by id"));
    for mut reader in Reader::all(&source.database, &SqlQuery::new(text), &unbound, &["id"], 2) {
        let error = reader.open(&ExecutionContext::new()).await.unwrap_err();
        assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
        assert!(error.to_string().contains("places for values"), "{error}");
    }
}

async fn the_total_is_counted_when_asked_for(source: Source) {
    source.fill(ROWS).await;
    let (query, ordered) = by_id();
    let (database, empty) = (&source.database, ExecutionContext::new());

    let mut cursor = CursorReader::new("c", database.clone(), ordered.clone()).count_total();
    let mut keyset = KeysetReader::new("k", database.clone(), query.clone(), ["id"], 10).count_total();
    let mut offset = OffsetReader::new("o", database.clone(), ordered.clone(), 10).count_total();
    let mut uncounted = CursorReader::new("c", database.clone(), ordered);
    cursor.open(&empty).await.unwrap();
    keyset.open(&empty).await.unwrap();
    offset.open(&empty).await.unwrap();
    uncounted.open(&empty).await.unwrap();

    assert_eq!([cursor.total(), keyset.total(), offset.total()], [Some(25); 3]);
    assert_eq!(uncounted.total(), None);
}

async fn a_query_may_end_in_a_comment_or_a_semicolon(source: Source) {
    source.fill(ROWS).await;
    for end in ["; ", " -- all of them", " -- all of them;\n"] {
        let query = SqlQuery::new(format!("select id from t where id <= 5{end}"));
        let ordered = SqlQuery::new(format!("select id from t where id <= 5 order by id{end}"));
        for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 2) {
            reader.open(&ExecutionContext::new()).await.unwrap();
            assert_eq!(reader.rest().await, longs(1..=5), "{end}");
        }
    }
}

async fn rows_before_the_position_may_go_away_under_a_keyset(source: Source) {
    source.fill(ROWS).await;
    let make = || {
        let query = SqlQuery::new("select id from t");
        Reader::Keyset(KeysetReader::new("rows", source.database.clone(), query, ["id"], 3))
    };
    let mut first = make();
    first.open(&ExecutionContext::new()).await.unwrap();
    for _ in 0..10 {
        first.read().await.unwrap().unwrap();
    }
    let position = first.position();
    first.close().await;

    source.run("delete from t where id <= 10").await;
    let mut second = make();
    second.open(&position).await.unwrap();

    assert_eq!(second.rest().await, longs(11..=ROWS));
}

async fn the_end_stays_the_end(source: Source) {
    source.fill(3).await;
    let (query, ordered) = by_id();
    for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 2) {
        reader.open(&ExecutionContext::new()).await.unwrap();
        assert_eq!(reader.rest().await, longs(1..=3));
        let position = reader.position();

        assert!(reader.read().await.unwrap().is_none());
        assert!(reader.read().await.unwrap().is_none());

        assert_eq!(reader.position(), position);
        assert!(matches!(position.get_long("rows.read.count"), None | Some(3)), "{position:?}");
    }
}

async fn a_reader_that_is_opened_again_begins_where_it_is_told(source: Source) {
    source.fill(ROWS).await;
    let (query, ordered) = by_id();
    for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 4) {
        reader.open(&ExecutionContext::new()).await.unwrap();
        for _ in 0..7 {
            reader.read().await.unwrap();
        }

        reader.open(&ExecutionContext::new()).await.unwrap();

        assert_eq!(reader.rest().await, longs(1..=ROWS));
    }
}

/// SQLite alone has databases in memory.
#[tokio::test]
async fn a_store_in_memory_is_read_by_pages_while_chunks_are_written() {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("create table t (id integer primary key)").await.unwrap();
    tx.execute_for_test("insert into t values (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let (query, ordered) = (SqlQuery::new("select id from t"), SqlQuery::new("select id from t order by id"));
    let [mut cursor, mut keyset, mut offset] =
        Reader::all(&Database::of(&store), &query, &ordered, &["id"], 4);

    let refusal = cursor.open(&ExecutionContext::new()).await.unwrap_err();
    assert!(refusal.to_string().contains("keyset or offset"), "{refusal}");
    for reader in [&mut keyset, &mut offset] {
        reader.open(&ExecutionContext::new()).await.unwrap();
        for expected in 1..=10 {
            assert_eq!(reader.read().await.unwrap().unwrap().values()[0], Value::Long(expected));
            store.begin().await.unwrap().commit().await.unwrap();
        }
        assert!(reader.read().await.unwrap().is_none());
    }
}
