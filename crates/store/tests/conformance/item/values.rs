//! The types of each database, as values. Each database has its own, so each has its own test.

use super::source::Source;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::time::Timestamp;
use tidemill_store::item::{CursorReader, SqlQuery};
use uuid::Uuid;

async fn one(source: &Source, text: &str) -> Result<Row, ItemError> {
    let mut reader = CursorReader::new("rows", source.database.clone(), SqlQuery::new(text));
    reader.open(&ExecutionContext::new()).await?;
    let row = reader.read().await?.expect("the query has one row");
    assert!(reader.read().await?.is_none());
    Ok(row)
}

/// Each expression of the query, and what it is read as.
async fn check(source: &Source, cases: &[(&str, Value)]) {
    let columns: Vec<String> =
        cases.iter().enumerate().map(|(at, (text, _))| format!("{text} as c{at}")).collect();

    let row = one(source, &format!("select {}", columns.join(", "))).await.unwrap();

    for ((text, expected), found) in cases.iter().zip(row.values()) {
        assert_eq!(found, expected, "{text}");
    }
}

fn decimal(text: &str) -> Value {
    Value::Decimal(text.parse().unwrap())
}

fn datetime(text: &str) -> Value {
    Value::DateTime(text.parse().unwrap())
}

fn instant(text: &str) -> Value {
    Value::Instant(text.parse::<Timestamp>().unwrap())
}

#[tokio::test]
async fn the_types_of_postgres_are_read_exactly() {
    let Some(source) = Source::postgres().await else { return };
    source.run("create type mood as enum ('sad', 'happy')").await;
    source.run("create domain amount as numeric(12, 2) check (value >= 0)").await;
    check(
        &source,
        &[
            ("true", true.into()),
            ("(-32768)::int2", (-32_768).into()),
            ("2147483647", 2_147_483_647.into()),
            ("'-9223372036854775808'::int8", i64::MIN.into()),
            ("4294967295::oid", 4_294_967_295_i64.into()),
            ("0.5::float4", 0.5.into()),
            ("0.1::float8", 0.1.into()),
            ("'Infinity'::float8", f64::INFINITY.into()),
            ("'-12345678901234567890.01230'::numeric", decimal("-12345678901234567890.01230")),
            ("0.000::numeric", decimal("0.000")),
            ("1e20::numeric", decimal("100000000000000000000")),
            ("12.5::amount", decimal("12.50")),
            ("'가 ''\"'::text", "가 '\"".into()),
            ("'ab'::varchar(5)", "ab".into()),
            ("'ab'::char(4)", "ab  ".into()),
            ("'x'::\"char\"", "x".into()),
            ("'pg_class'::name", "pg_class".into()),
            ("'happy'::mood", "happy".into()),
            ("'unknown'", "unknown".into()),
            ("'\\x00ff'::bytea", vec![0_u8, 255].into()),
            ("'0001-01-01'::date", Value::Date("0001-01-01".parse().unwrap())),
            ("'2024-02-29'::date", Value::Date("2024-02-29".parse().unwrap())),
            ("'23:59:59.999999'::time", Value::Time("23:59:59.999999".parse().unwrap())),
            ("'2026-11-15 12:00:00.000001'::timestamp", datetime("2026-11-15T12:00:00.000001")),
            ("'1900-01-01'::timestamp", datetime("1900-01-01T00:00:00")),
            ("'2026-11-15 12:00:00+09'::timestamptz", instant("2026-11-15T03:00:00Z")),
            ("'00000000-0000-0000-0000-000000000007'::uuid", Uuid::from_u128(7).into()),
            ("'{\"b\": [1, null]}'::json", serde_json::json!({"b": [1, null]}).into()),
            ("'{\"b\": 1.50}'::jsonb", serde_json::json!({"b": 1.5}).into()),
            ("null::int4", Value::Null),
            ("null::jsonb", Value::Null),
            ("null", Value::Null),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_postgres_has_and_values_have_not_is_named_with_the_remedy() {
    let Some(source) = Source::postgres().await else { return };
    for (expression, kind, said) in [
        ("'NaN'::numeric", ErrorKind::READ, "is NaN"),
        ("'Infinity'::numeric", ErrorKind::READ, "is infinite"),
        ("'infinity'::timestamptz", ErrorKind::READ, "infinite timestamp"),
        ("'-infinity'::date", ErrorKind::READ, "infinite date"),
        ("'20000-01-01'::date", ErrorKind::READ, "too far away"),
        ("'24:00'::time", ErrorKind::READ, "24:00"),
        ("'1 day'::interval", ErrorKind::FATAL, "cast it to text in the query"),
        ("array[1, 2]", ErrorKind::FATAL, "cast it to text in the query"),
        ("'10.0.0.1'::inet", ErrorKind::FATAL, "INET"),
        ("row(1, 2)", ErrorKind::FATAL, "cast it to text in the query"),
    ] {
        let error = one(&source, &format!("select {expression} as amount")).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Read), kind, "{expression}: {error}");
        assert!(
            error.to_string().contains("\"amount\"") && error.to_string().contains(said),
            "{expression}: {error}"
        );
    }
}

#[tokio::test]
async fn values_take_the_types_of_their_places_on_postgres() {
    let Some(source) = Source::postgres().await else { return };
    let values = [
        ("date", Value::Text("2026-11-15".into()), Value::Date("2026-11-15".parse().unwrap())),
        ("int4", Value::Text("7".into()), 7.into()),
        ("numeric", 7.into(), decimal("7")),
        ("timestamptz", Value::Text("2026-11-15T00:00:00Z".into()), instant("2026-11-15T00:00:00Z")),
        ("text", 7.into(), "7".into()),
        ("uuid", Value::Null, Value::Null),
    ];
    for (type_name, given, expected) in values {
        let query = SqlQuery::new(format!("select $1::{type_name}")).bind(given);
        let mut reader = CursorReader::new("rows", source.database.clone(), query);
        reader.open(&ExecutionContext::new()).await.unwrap();
        assert_eq!(reader.read().await.unwrap().unwrap().values()[0], expected, "{type_name}");
    }
    for (type_name, given, said) in [
        ("int4", Value::Text("x".into()), "place $1 takes a whole number"),
        ("interval", 1.into(), "$1::text::"),
    ] {
        let query = SqlQuery::new(format!("select $1::{type_name}::text")).bind(given);
        let mut reader = CursorReader::new("rows", source.database.clone(), query);
        let error = match reader.open(&ExecutionContext::new()).await {
            Err(error) => error,
            Ok(()) => reader.read().await.unwrap_err(),
        };
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[tokio::test]
async fn the_classes_of_sqlite_are_read_exactly_whatever_was_declared() {
    let source = Source::sqlite().await;
    check(
        &source,
        &[
            ("1", 1.into()),
            ("-9223372036854775808", i64::MIN.into()),
            ("0.1", 0.1.into()),
            ("'가'", "가".into()),
            ("''", "".into()),
            ("x'00ff'", vec![0_u8, 255].into()),
            ("x''", Vec::<u8>::new().into()),
            ("null", Value::Null),
        ],
    )
    .await;
    source.run("create table loose (a boolean, b datetime, c decimal(10,2), d integer)").await;
    source.run("insert into loose values (1, '2026-11-15', 12.5, 'text')").await;

    let row = one(&source, "select a, b, c, d from loose").await.unwrap();

    assert_eq!(row.values(), [1.into(), "2026-11-15".into(), 12.5.into(), "text".into()]);
}

#[tokio::test]
async fn the_types_of_mysql_are_read_exactly() {
    let Some(source) = Source::mysql().await else { return };
    source
        .run(
            "create table m (
                 a tinyint, b tinyint unsigned, c smallint, d mediumint, e int unsigned, f bigint,
                 g bigint unsigned, h bool, i float, j double, k decimal(40, 10), l char(5), m varchar(20), n text, o enum('x', 'y'),
                 p set('x', 'y'), q binary(2), r varbinary(5), s blob, t json, u date, v time(6), w datetime(6),
                 x timestamp(6), y year, z bit(12), aa varchar(20) collate utf8mb4_bin, ab uuid, ac int
             )",
        )
        .await;
    source
        .run(
            "set time_zone = '+00:00';
             insert into m values (
                 -128, 255, -32768, -8388608, 4294967295, -9223372036854775808, 18446744073709551615,
                 true, 0.5, 0.1, -12345678901234567890.0123, 'ab', '가', 'text', 'y',
                 'x,y', x'00ff', x'01', x'02', '{\"b\": [1]}', '2024-02-29', '23:59:59.999999',
                 '2026-11-15 12:00:00.000001',
                 '2026-11-15 03:00:00', 2026, b'100000000001', 'bin', '00000000-0000-0000-0000-000000000007', null
             )",
        )
        .await;

    let row = one(&source, "select * from m").await.unwrap();

    let expected: Vec<Value> = vec![
        (-128).into(),
        255.into(),
        (-32_768).into(),
        (-8_388_608).into(),
        4_294_967_295_i64.into(),
        i64::MIN.into(),
        decimal("18446744073709551615"),
        1.into(),
        0.5.into(),
        0.1.into(),
        decimal("-12345678901234567890.0123000000"),
        "ab".into(),
        "가".into(),
        "text".into(),
        "y".into(),
        "x,y".into(),
        vec![0_u8, 255].into(),
        vec![1_u8].into(),
        vec![2_u8].into(),
        "{\"b\": [1]}".into(),
        Value::Date("2024-02-29".parse().unwrap()),
        Value::Time("23:59:59.999999".parse().unwrap()),
        datetime("2026-11-15T12:00:00.000001"),
        instant("2026-11-15T03:00:00Z"),
        2026.into(),
        2049.into(),
        "bin".into(),
        "00000000-0000-0000-0000-000000000007".into(),
        Value::Null,
    ];
    for ((name, found), expected) in row.columns().iter().zip(row.values()).zip(&expected) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(row.values().len(), expected.len());
}

#[tokio::test]
async fn what_mysql_has_and_values_have_not_is_named_with_the_remedy() {
    let Some(source) = Source::mysql().await else { return };
    for (expression, kind, said) in [
        ("cast('-01:00:00' as time)", ErrorKind::READ, "duration"),
        ("cast('25:00:00' as time)", ErrorKind::READ, "duration"),
        ("point(1, 2)", ErrorKind::FATAL, "cast it to text in the query"),
    ] {
        let error = one(&source, &format!("select {expression} as amount")).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Read), kind, "{expression}: {error}");
        assert!(
            error.to_string().contains("\"amount\"") && error.to_string().contains(said),
            "{expression}: {error}"
        );
    }
}
