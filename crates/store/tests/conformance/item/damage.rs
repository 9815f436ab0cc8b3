//! What readers do when something is wrong: with the query, with a row, with the connection.

use super::on_all;
use super::source::{Kind, Reader, Source};
use tidemill_domain::item::{ErrorKind, Phase, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::item::{CursorReader, Database, KeysetReader, OffsetReader, SqlQuery};

on_all!(
    a_wrong_query_is_fatal_when_it_opens,
    a_query_by_offset_needs_an_order,
    a_key_that_is_null_is_named,
    a_row_without_a_key_is_never_lost_behind_a_page,
    keys_that_are_not_unique_are_noticed_even_at_the_end_of_a_page,
    a_key_that_the_query_does_not_have_is_named,
    a_position_of_another_reader_is_refused,
    hostile_names_of_keys_stay_names,
    a_row_that_cannot_be_understood_is_passed_over,
    a_lost_connection_is_transient_and_reading_goes_on_behind_the_last_row,
);

fn fresh() -> ExecutionContext {
    ExecutionContext::new()
}

async fn a_wrong_query_is_fatal_when_it_opens(source: Source) {
    source.fill(3).await;
    for text in
        ["select id from no_such_table order by id", "select wrong from t order by id", "selct id order by x"]
    {
        let query = SqlQuery::new(text);
        for mut reader in Reader::all(&source.database, &query, &query, &["id"], 10) {
            let error = reader.open(&fresh()).await.unwrap_err();
            assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL, "{text}: {error}");
            // The driver would append the line of PostgreSQL's own source.
            let text = error.text();
            assert!(source.kind == Kind::MySql || !text.contains(" at line "), "{text}");
        }
    }
}

async fn a_query_by_offset_needs_an_order(source: Source) {
    source.fill(3).await;
    let query = SqlQuery::new("select id from t");

    let error =
        OffsetReader::new("rows", source.database.clone(), query, 10).open(&fresh()).await.unwrap_err();

    assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
    assert!(error.to_string().contains("needs an order by"), "{error}");
}

async fn a_key_that_is_null_is_named(source: Source) {
    source.run("create table n (a bigint, b bigint)").await;
    source.run("insert into n (a, b) values (1, 1), (2, null), (3, 3)").await;
    let query = SqlQuery::new("select a, b from n");

    for page in [1, 10] {
        let mut reader = KeysetReader::new("rows", source.database.clone(), query.clone(), ["a", "b"], page);
        reader.open(&fresh()).await.unwrap();
        let mut read = Vec::new();
        let error = loop {
            match reader.read().await {
                Ok(row) => read.push(row.unwrap().get::<i64>("a").unwrap()),
                Err(error) => break error,
            }
        };

        assert!(read.is_empty() || read == [1], "{read:?}");
        assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
        let text = error.to_string();
        assert!(text.contains("\"b\" is null") || text.contains("in a or b"), "{text}");
    }
}

async fn a_row_without_a_key_is_never_lost_behind_a_page(source: Source) {
    source.run("create table n (a bigint, b bigint)").await;
    source.run("insert into n (a, b) values (1, 1), (1, 2), (1, 3), (1, null)").await;
    let query = SqlQuery::new("select a, b from n");
    let reader = || KeysetReader::new("rows", source.database.clone(), query.clone(), ["a", "b"], 1);
    let mut behind = ExecutionContext::new();
    behind.put("rows.start.after", serde_json::json!({"a": {"long": 1}, "b": {"long": 2}}));

    for context in [fresh(), behind] {
        let mut reader = reader();
        reader.open(&context).await.unwrap();
        let error = reader.read().await;
        // A page behind the row cannot return it where rows without a key come first: then it was returned before.
        if source.kind == Kind::Postgres || context == fresh() {
            let error = error.unwrap_err();
            assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
            assert!(error.to_string().contains("a row without a key cannot be found again"), "{error}");
        }
    }
}

/// Only PostgreSQL can count, by a setting of the session, how many rows a query has made.
#[tokio::test]
async fn a_query_of_one_page_is_run_once() {
    let Some(source) = Source::postgres().await else { return };
    let rows_made = "coalesce(nullif(current_setting('tidemill.rows', true), ''), '0')::bigint";
    let query = SqlQuery::new(format!(
        "select id, set_config('tidemill.rows', ({rows_made} + 1)::text, false)::bigint as n
         from generate_series(1, 5) as id"
    ));
    let mut reader = KeysetReader::new("rows", source.database.clone(), query, ["id"], 10);

    reader.open(&fresh()).await.unwrap();
    let mut made = Vec::new();
    while let Some(row) = reader.read().await.unwrap() {
        made.push(row.get::<i64>("n").unwrap());
    }

    assert_eq!(made, [1, 2, 3, 4, 5], "rows were made before these");
}

/// As above. Nothing is known about the nulls of a computed key, so that the pages themselves have to return them.
#[tokio::test]
async fn no_query_is_run_besides_the_pages() {
    let Some(source) = Source::postgres().await else { return };
    let rows_made = "coalesce(nullif(current_setting('tidemill.rows', true), ''), '0')::bigint";
    source.run("create table kept (id bigint primary key)").await;
    source.run("insert into kept values (1), (2), (3), (4), (5)").await;
    for from in ["generate_series(1, 5) as id", "kept"] {
        let query = SqlQuery::new(format!(
            "select id, set_config('tidemill.rows', ({rows_made} + 1)::text, false)::bigint as n from {from}"
        ));
        let mut reader = KeysetReader::new("rows", source.database.clone(), query, ["id"], 3);

        reader.open(&fresh()).await.unwrap();
        let mut made = 0;
        while let Some(row) = reader.read().await.unwrap() {
            made = made.max(row.get::<i64>("n").unwrap());
        }

        assert!(made <= 10, "{from}: {made} rows were made for two pages of five");
    }
}

#[tokio::test]
async fn a_computed_key_that_is_null_is_noticed_on_the_last_page() {
    let Some(source) = Source::postgres().await else { return };
    let query = SqlQuery::new("select nullif(id, 4) as id from generate_series(1, 4) as id");
    let mut reader = KeysetReader::new("rows", source.database.clone(), query, ["id"], 2);

    reader.open(&fresh()).await.unwrap();
    let mut read = 0;
    let error = loop {
        match reader.read().await {
            Ok(Some(_)) => read += 1,
            Ok(None) => panic!("the row without a key was lost"),
            Err(error) => break error,
        }
    };

    assert_eq!(read, 3);
    assert!(error.to_string().contains("column \"id\" is null"), "{error}");
}

/// The catalogue of PostgreSQL tells nothing about the rows of children, nor about those before a constraint that is not
/// valid (from version 18 on, where children can no longer drop what they inherit).
#[tokio::test]
async fn a_null_key_that_the_catalogue_does_not_exclude_is_noticed() {
    let Some(source) = Source::postgres().await else { return };
    source
        .run(
            "do $$ begin
                 create table parent (id bigint);
                 if current_setting('server_version_num')::int >= 180000 then
                     insert into parent values (null);
                     execute 'alter table parent add constraint keyed not null id not valid';
                 else
                     alter table parent alter id set not null;
                     create table child () inherits (parent);
                     alter table child alter id drop not null;
                     insert into child values (null);
                 end if;
                 insert into parent values (1), (2), (3);
             end $$",
        )
        .await;
    let query = SqlQuery::new("select id from parent");
    let mut reader = KeysetReader::new("rows", source.database.clone(), query, ["id"], 2);

    reader.open(&fresh()).await.unwrap();
    let mut ended = reader.read().await;
    while let Ok(Some(_)) = ended {
        ended = reader.read().await;
    }

    assert!(ended.is_err(), "the row without a key was lost");
}

async fn keys_that_are_not_unique_are_noticed_even_at_the_end_of_a_page(source: Source) {
    source.run("create table d (a bigint)").await;
    source.run("insert into d (a) values (1), (2), (2), (3)").await;
    for size in [1, 2, 3, 10] {
        let query = SqlQuery::new("select a from d");
        let mut reader = KeysetReader::new("rows", source.database.clone(), query, ["a"], size);
        reader.open(&fresh()).await.unwrap();
        let mut read = Vec::new();

        let error = loop {
            match reader.read().await {
                Ok(row) => read.push(row.unwrap().values()[0].clone()),
                Err(error) => break error,
            }
        };

        assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
        assert!(error.to_string().contains("two rows have the key a = 2"), "{error}");
        assert_eq!(read, [Value::Long(1), Value::Long(2)], "{size}");
    }
}

async fn a_key_that_the_query_does_not_have_is_named(source: Source) {
    source.fill(3).await;
    let query = SqlQuery::new("select id from t");

    let error = KeysetReader::new("rows", source.database.clone(), query, ["number"], 10)
        .open(&fresh())
        .await
        .unwrap_err();

    assert!(
        error.to_string().contains("no column \"number\"") && error.to_string().contains("id"),
        "{error}"
    );
}

async fn a_position_of_another_reader_is_refused(source: Source) {
    source.fill(3).await;
    let query = SqlQuery::new("select id from t order by id");
    let mut context = fresh();
    context.put("rows.read.count", "many");
    context.put("rows.start.after", "7");

    for mut reader in Reader::all(&source.database, &query, &query, &["id"], 10) {
        let error = reader.open(&context).await.unwrap_err();
        assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
        assert!(error.to_string().contains("in the execution context"), "{error}");
    }
}

async fn hostile_names_of_keys_stay_names(source: Source) {
    source.fill(3).await;
    let quote = if source.kind == Kind::MySql { '`' } else { '"' };
    let name = format!("id{quote} desc; drop table t; --");
    let doubled = name.replace(quote, &format!("{quote}{quote}"));
    let query = SqlQuery::new(format!("select id, id as {quote}{doubled}{quote} from t"));

    let mut reader = Reader::Keyset(KeysetReader::new("rows", source.database.clone(), query, [name], 1));
    reader.open(&fresh()).await.unwrap();

    assert_eq!(reader.rest().await, [Value::Long(1), Value::Long(2), Value::Long(3)]);
    source.run("select count(*) from t").await;
}

/// SQLite has texts that are not UTF-8, the others have values that are no numbers or days.
async fn a_row_that_cannot_be_understood_is_passed_over(source: Source) {
    source.fill(0).await;
    let (type_name, wrong, named) = match source.kind {
        Kind::Sqlite => ("text", "cast(x'ff' as text)", "cannot be read"),
        Kind::Postgres => ("numeric", "'NaN'", "is NaN"),
        Kind::MySql => ("date", "'0000-00-00'", "0000-00-00"),
    };
    let right = if source.kind == Kind::MySql { "'2026-11-15'" } else { "1" };
    source.run(&format!("create table bad (id bigint primary key, amount {type_name})")).await;
    let lenient = if source.kind == Kind::MySql { "set sql_mode = '';" } else { "" };
    source
        .run(&format!(
            "{lenient} insert into bad values (1, {right}), (2, {wrong}), (3, {right}), (4, {right})"
        ))
        .await;
    let query = SqlQuery::new("select id, amount from bad");
    let ordered = SqlQuery::new("select id, amount from bad order by id");

    for size in [1, 2, 10] {
        for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], size) {
            reader.open(&fresh()).await.unwrap();
            assert_eq!(reader.read().await.unwrap().unwrap().values()[0], Value::Long(1));

            let error = reader.read().await.unwrap_err();

            assert_eq!(error.kind_in(Phase::Read), ErrorKind::READ);
            assert!(error.to_string().contains("\"amount\"") && error.to_string().contains(named), "{error}");
            let position = reader.position();
            assert_eq!(reader.read().await.unwrap().unwrap().values()[0], Value::Long(3));
            reader.open(&position).await.unwrap();
            assert_eq!(reader.rest().await, [Value::Long(3), Value::Long(4)]);
        }
    }
}

/// SQLite has no connection that could be lost, so this is for servers.
async fn a_lost_connection_is_transient_and_reading_goes_on_behind_the_last_row(source: Source) {
    if source.kind == Kind::Sqlite {
        return;
    }
    // Rows of some size, so that not all of them are in buffers when the connection is cut.
    source.run("create table w (id bigint primary key, pad varchar(10000) not null)").await;
    let values: Vec<String> = (1..=2_000).map(|id| format!("({id}, repeat('x', 10000))")).collect();
    source.run(&format!("insert into w (id, pad) values {}", values.join(", "))).await;
    let (query, ordered) =
        (SqlQuery::new("select id, pad from w"), SqlQuery::new("select id, pad from w order by id"));
    for mut reader in Reader::all(&source.database, &query, &ordered, &["id"], 5) {
        reader.open(&fresh()).await.unwrap();
        assert_eq!(reader.read().await.unwrap().unwrap().values()[0], Value::Long(1));

        source.cut_others().await;
        let mut read = 1;
        let error = loop {
            match reader.read().await {
                Ok(row) => {
                    read += 1;
                    assert_eq!(row.unwrap().values()[0], Value::Long(read));
                }
                Err(error) => break error,
            }
        };

        assert_eq!(error.kind_in(Phase::Read), ErrorKind::TRANSIENT, "{error}");
        let rest = reader.rest().await;
        assert_eq!(rest.first(), Some(&Value::Long(read + 1)));
        assert_eq!(rest.last(), Some(&Value::Long(2_000)));
        assert_eq!(i64::try_from(rest.len()).unwrap() + read, 2_000);
    }
}

#[tokio::test]
async fn a_server_that_does_not_listen_is_transient_and_named_without_its_password() {
    for (url, place) in [
        ("postgres://u:geheim@127.0.0.1:1/d", "postgres://127.0.0.1:1/d"),
        ("mysql://u:geheim@127.0.0.1:1/d", "mysql://127.0.0.1:1/d"),
    ] {
        let database = Database::connect(url).unwrap();
        let mut reader = CursorReader::new("rows", database, SqlQuery::new("select 1"));

        let error = reader.open(&fresh()).await.unwrap_err();

        assert_eq!(error.kind_in(Phase::Read), ErrorKind::TRANSIENT);
        assert!(
            error.to_string().contains(place) && !format!("{error} {error:?}").contains("geheim"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_sqlite_file_that_is_not_there_is_not_made() {
    let folder = std::env::temp_dir().join(format!("tm-no-such-{}", std::process::id()));
    let file = folder.join("x.db");
    let database = Database::connect(&format!("sqlite://{}", file.display())).unwrap();

    let error =
        CursorReader::new("rows", database, SqlQuery::new("select 1")).open(&fresh()).await.unwrap_err();

    assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL);
    assert!(!file.exists());
}
