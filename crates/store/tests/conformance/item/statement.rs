//! What statements of the author's promise: all or none, values in their places, and the transaction stays the step's.

use crate::item::source::{Kind, Reader, Source};
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::item::{CursorReader, Database, Mode, SqlQuery};

mod in_the_steps_transaction {
    use super::{count, refused};
    use crate::Bench;
    use tidemill_store::item::SqlQuery;

    crate::on_both!(
        what_is_changed_is_counted_and_what_is_only_read_is_not,
        a_rollback_takes_all_of_them_with_it,
        a_statement_that_ends_the_transaction_is_refused,
        values_and_places_have_to_agree,
        a_text_with_two_statements_is_refused,
        a_statement_and_its_values_are_given_in_one_line,
    );

    async fn a_statement_and_its_values_are_given_in_one_line(bench: Bench) {
        let mut tx = bench.store.begin().await.unwrap();
        tx.execute("create table t (id bigint primary key, name text)", ()).await.unwrap();
        let inserted = tx.execute("insert into t (id, name) values ($1, $2)", (7, "'; drop table t")).await;
        tx.execute("insert into t (id, name) values ($1, $2)", (8, None::<String>)).await.unwrap();

        let rows = tx.fetch("select id, name from t where id >= $1 order by id", (7,)).await.unwrap();

        let row =
            |n: usize| (rows[n].get::<i64>("id").unwrap(), rows[n].get::<Option<String>>("name").unwrap());
        assert_eq!(inserted.unwrap(), 1);
        assert_eq!([row(0), row(1)], [(7, Some("'; drop table t".to_owned())), (8, None)]);
        let missing = tx.fetch("select id from t where id = $1", ()).await.unwrap_err();
        assert!(missing.to_string().contains("values"), "{missing}");
        assert!(tx.fetch("commit", ()).await.is_err());
    }

    async fn table(bench: &Bench) {
        let mut tx = bench.store.begin().await.unwrap();
        tx.execute_for_test("create table t (id bigint primary key, name text)").await.unwrap();
        tx.commit().await.unwrap();
    }

    fn insert(id: i64) -> SqlQuery {
        SqlQuery::new("insert into t (id, name) values ($1, $2)").bind(id).bind("'; drop table t; --")
    }

    async fn what_is_changed_is_counted_and_what_is_only_read_is_not(bench: Bench) {
        table(&bench).await;
        let mut tx = bench.store.begin().await.unwrap();
        let statements = [
            insert(1),
            insert(2),
            SqlQuery::new("select id from t"),
            SqlQuery::new("create table u (id bigint)"),
            SqlQuery::new("insert into u (id) select id from t returning id"),
            SqlQuery::new("update t set name = 'x' where id > $1").bind(1),
            SqlQuery::new("delete from t where id = $1").bind("7"),
        ];

        let changed = tx.run_statements(&statements).await.unwrap();

        tx.commit().await.unwrap();
        assert_eq!(changed, 2 + 2 + 1);
        assert_eq!(count(&bench.store, "t").await, 2);
    }

    async fn a_rollback_takes_all_of_them_with_it(bench: Bench) {
        table(&bench).await;
        let mut tx = bench.store.begin().await.unwrap();

        let failed = tx.run_statements(&[insert(1), insert(1)]).await.unwrap_err();

        tx.rollback().await.unwrap();
        assert!(failed.text().starts_with("statement 2: "), "{}", failed.text());
        assert_eq!(count(&bench.store, "t").await, 0);
    }

    async fn a_statement_that_ends_the_transaction_is_refused(bench: Bench) {
        table(&bench).await;
        for text in ["commit", "-- well\nROLLBACK", "/* x */ begin"] {
            let mut tx = bench.store.begin().await.unwrap();

            let refusal = tx.run_statements(&[insert(1), SqlQuery::new(text)]).await.unwrap_err();

            tx.commit().await.unwrap();
            refused(&refusal, "the step itself begins and commits");
            assert_eq!(count(&bench.store, "t").await, 0, "{text}");
        }
    }

    async fn values_and_places_have_to_agree(bench: Bench) {
        table(&bench).await;
        let mut tx = bench.store.begin().await.unwrap();
        let short = SqlQuery::new("insert into t (id, name) values ($1, $2)").bind(1);

        let refusal = tx.run_statements(&[short]).await.unwrap_err();

        tx.rollback().await.unwrap();
        refused(&refusal, "2 places for values, and 1 are bound");
    }

    async fn a_text_with_two_statements_is_refused(bench: Bench) {
        table(&bench).await;
        let mut tx = bench.store.begin().await.unwrap();
        let two = SqlQuery::new("insert into t (id) values (1); commit");

        assert!(tx.run_statements(&[two]).await.is_err());

        tx.rollback().await.unwrap();
        assert_eq!(count(&bench.store, "t").await, 0);
    }
}

crate::item::on_all!(
    statements_of_another_database_commit_together,
    of_statements_that_fail_on_another_database_none_has_happened,
    values_go_to_another_database_as_values,
    rows_of_each_mode_are_written_into_another_database,
    a_procedure_is_called_or_its_absence_is_told,
);

async fn statements_of_another_database_commit_together(source: Source) {
    source.fill(10).await;
    let place = source.place();
    let statements = [
        SqlQuery::new(format!("delete from t where id > {place}")).bind(7),
        SqlQuery::new("select id from t"),
        SqlQuery::new("update t set member = 'x'"),
    ];

    let changed = source.database.run_statements(&statements).await.unwrap();

    let left = first_column(&source.database, "select id from t where member = 'x'").await;
    assert_eq!((changed, left.len()), (3 + 7, 7));
}

async fn of_statements_that_fail_on_another_database_none_has_happened(source: Source) {
    source.fill(10).await;
    let statements = [SqlQuery::new("delete from t"), SqlQuery::new("delete from nowhere")];

    let failed = source.database.run_statements(&statements).await.unwrap_err();

    refused(&failed, "statement 2: ");
    assert_eq!(first_column(&source.database, "select id from t").await.len(), 10);
}

async fn values_go_to_another_database_as_values(source: Source) {
    source.fill(1).await;
    let evil = "x'; drop table t; --";
    let update = SqlQuery::new(format!("update t set member = {}", source.place()));

    let changed = source.database.run_statements(&[update.bind(evil)]).await.unwrap();

    assert_eq!(changed, 1);
    assert_eq!(first_column(&source.database, "select member from t").await, [Value::Text(evil.to_owned())]);
}

async fn rows_of_each_mode_are_written_into_another_database(source: Source) {
    source.fill(4).await;
    let columns = ["id", "family", "member"].map(str::to_owned);
    let upsert = Mode::Upsert { key: vec!["id".to_owned()] };
    let statement = |columns: &[String], mode: &Mode, values: &[Value]| {
        let text = source.database.row_statement("t", columns, mode).unwrap();
        values.iter().fold(SqlQuery::new(text), |query, value| query.bind(value.clone()))
    };
    let row = |id: i64, member: &str| [Value::Long(id), Value::Long(7), member.into()];
    let statements = [
        statement(&columns, &Mode::Insert, &row(5, "new")),
        statement(&columns, &upsert, &row(1, "first")),
        statement(&columns, &upsert, &row(1, "x'; drop table t; --")),
        statement(&columns, &upsert, &row(6, "added")),
        statement(&columns[..1], &Mode::Delete, &[2.into()]),
        statement(&columns[..1], &Mode::Delete, &[99.into()]),
        statement(&[columns[0].clone(), columns[2].clone()], &Mode::Delete, &[3.into(), "other".into()]),
    ];

    source.database.run_statements(&statements).await.unwrap();

    let ids = first_column(&source.database, "select id from t order by id").await;
    assert_eq!(ids, [1, 3, 4, 5, 6].map(Value::Long));
    let written = first_column(&source.database, "select member from t where family = 7 order by id").await;
    assert_eq!(written, ["x'; drop table t; --", "new", "added"].map(Value::from));
    let again = statement(&columns, &Mode::Insert, &row(5, "again"));
    let refusal = source.database.run_statements(&[again]).await.unwrap_err();
    assert_eq!(refusal.kind_in(Phase::Write), ErrorKind::CONSTRAINT, "{refusal:?}");
    if source.kind != Kind::Sqlite {
        // One bad value is the fault of its row. SQLite takes any value in any column.
        let unfit = statement(&columns, &Mode::Insert, &["x".into(), 1.into(), "y".into()]);
        let refusal = source.database.run_statements(&[unfit]).await.unwrap_err();
        assert!(refusal.kind_in(Phase::Write) != ErrorKind::FATAL, "{refusal:?}");
    }
}

async fn a_procedure_is_called_or_its_absence_is_told(source: Source) {
    source.fill(2).await;
    let create = match source.kind {
        Kind::Postgres => "language sql as 'update t set family = $2 where id = $1'",
        _ => "update t set family = f where id = n",
    };
    if source.kind != Kind::Sqlite {
        source.run(&format!("create procedure move(n bigint, f bigint) {create}")).await;
    }
    let places = if source.kind == Kind::Postgres { "$1, $2" } else { "?, ?" };
    let call = SqlQuery::new(format!("call move({places})")).bind(2).bind("9");

    let called = source.database.run_statements(&[call]).await;

    if source.kind == Kind::Sqlite {
        refused(&called.unwrap_err(), "SQLite has no stored procedures");
    } else {
        called.unwrap();
        assert_eq!(first_column(&source.database, "select id from t where family = 9").await, [2.into()]);
    }
}

/// Only MySQL may be set up to cut off values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_is_strict_while_a_job_writes() {
    let Some(source) = Source::mysql().await else { return };
    source.run("create table m (mode text)").await;

    let keep = SqlQuery::new("insert into m (mode) select @@session.sql_mode");
    source.database.run_statements(&[keep]).await.unwrap();

    let mode = first_column(&source.database, "select mode from m").await;
    assert!(matches!(&mode[..], [Value::Text(mode)] if mode.contains("STRICT_ALL_TABLES")), "{mode:?}");
}

#[track_caller]
fn refused(error: &ItemError, what: &str) {
    assert_eq!(error.kind_in(Phase::Write), ErrorKind::FATAL, "{error:?}");
    assert!(error.text().contains(what), "{}", error.text());
}

async fn count(store: &Store, table: &str) -> usize {
    first_column(&Database::of(store), &format!("select id from {table}")).await.len()
}

async fn first_column(database: &Database, sql: &str) -> Vec<Value> {
    let mut reader = Reader::Cursor(CursorReader::new("rows", database.clone(), SqlQuery::new(sql)));
    reader.open(&ExecutionContext::new()).await.unwrap();
    let values = reader.rest().await;
    reader.close().await;
    values
}
