//! Where a job file writes to: tables by mode, other databases, procedures, several targets, and a choice by row.

use super::Stand;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::time::FakeClock;
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_store::item::Database;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::CommitProxy;

tidemill_store::on_both![
    rows_are_deleted_by_their_key,
    each_mode_writes_to_another_database_and_says_at_least_once,
    a_chunk_that_is_repeated_changes_nothing_by_upsert_and_delete,
    a_procedure_is_called_for_each_row_and_by_a_step,
    every_row_goes_to_the_first_branch_that_takes_it,
    a_row_that_no_branch_takes_is_an_error_that_can_be_skipped,
    every_row_goes_to_all_writers_and_a_restart_goes_on_in_each,
];

const ROWS: &str = "id,kind,name\n1,a,one\n2,b,two\n3,a,three\n4,c,four\n5,b,five\n";

async fn stand(scratch: Scratch) -> Stand {
    let stand = Stand::on(scratch).await;
    stand.write("in.csv", ROWS);
    stand
}

/// A job of one step with this target.
fn job(chunk: usize, write: &str) -> String {
    format!(
        "job: writes\nsteps:\n  - name: load\n    chunk: {chunk}\n    read: {{ csv: {{ path: \"@/in.csv\" }} }}\n    \
         process: {{ map: {{ id: int(row.id), kind: row.kind, name: row.name }} }}\n    write: {write}\n"
    )
}

const TABLE: &str = "(id bigint primary key, kind varchar(10), name varchar(20))";

fn delivery(run: &TestRun) -> String {
    assert!(run.is_completed(), "{:?}", run.end);
    run.step("load").unwrap().delivery.clone().unwrap()
}

async fn rows_are_deleted_by_their_key(scratch: Scratch) {
    let stand = stand(scratch).await;
    let filled = "insert into t (id, kind, name) values (2, 'b', 'x'), (3, 'x', 'y'), (7, 'a', 'z')";
    stand.sql(&[&format!("create table t {TABLE}"), filled]).await;

    let run = stand.run(&job(2, "{ sql: { table: t, mode: delete, on: [id, kind] } }"), &[]).await;

    assert_eq!(delivery(&run), "exactly-once");
    assert_eq!(run.step("load").unwrap().counters.write, 5);
    assert_eq!(stand.texts("select name from t order by id").await, ["y", "z"]);
}

/// The same stand with a second database under the name `shop`.
async fn beside(mut stand: Stand) -> (Stand, Stand) {
    let scratch = match stand.scratch.url().starts_with("postgres") {
        true => Scratch::postgres_with_schema().await.unwrap(),
        false => Scratch::file(),
    };
    let other = Stand::on(scratch).await;
    stand.connections.insert("shop".to_owned(), Database::of(other.bench.store()));
    (stand, other)
}

async fn each_mode_writes_to_another_database_and_says_at_least_once(scratch: Scratch) {
    let (stand, shop) = beside(stand(scratch).await).await;
    shop.sql(&[
        &format!("create table t {TABLE}"),
        "insert into t (id, name) values (2, 'old'), (9, 'nine')",
    ])
    .await;
    let names = "select name from t order by id";

    let upsert = "{ sql: { table: t, mode: upsert, on: id, connection: shop, columns: [id, name] } }";
    let upserted = stand.run(&job(2, upsert), &[]).await;
    let after_upsert = shop.texts(names).await;
    stand.write("in.csv", "id,kind,name\n9,,\n2,,\n77,,\n");
    let delete = job(10, "{ sql: { table: t, mode: delete, on: id, connection: shop } }");
    let deleted = stand.run(&delete.replace("writes", "deletes"), &[]).await;
    let after_delete = shop.texts(names).await;
    stand.write("in.csv", "id,kind,name\n6,a,six\n1,a,twice\n7,a,seven\n");
    let insert = job(10, "{ sql: { table: t, connection: shop } }\n    skip: { limit: 1, on: constraint }");
    let inserted = stand.run(&insert.replace("writes", "inserts"), &[]).await;

    assert_eq!(after_upsert, ["one", "two", "three", "four", "five", "nine"]);
    assert_eq!(after_delete, ["one", "three", "four", "five"]);
    assert_eq!(shop.texts(names).await, ["one", "three", "four", "five", "six", "seven"]);
    for run in [&upserted, &deleted, &inserted] {
        assert_eq!(delivery(run), "at-least-once");
    }
    assert_eq!(inserted.step("load").unwrap().counters.write_skip, 1);
}

async fn a_chunk_that_is_repeated_changes_nothing_by_upsert_and_delete(scratch: Scratch) {
    let (stand, shop) = beside(stand(scratch).await).await;
    shop.sql(&[&format!("create table t {TABLE}")]).await;
    // The rows are in the other database when the chunk fails, because that commits on its own.
    let broken = "[{ sql: { table: t, mode: upsert, on: id, connection: shop } }, { sql: { table: done, columns: [id] } }]";
    let text = job(10, broken);
    let job = stand.job(&[&text]);

    stand.sql(&["create table done (id bigint primary key check (id < 5))"]).await;
    let failed = stand.launch(&job, &[]).await.unwrap();
    let before = shop.texts("select name from t order by id").await;
    stand.sql(&["drop table done", "create table done (id bigint primary key)"]).await;
    let again = stand.launch(&job, &[]).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(before.len(), 5);
    assert_eq!(delivery(&again), "at-least-once");
    assert_eq!(shop.texts("select name from t order by id").await, before);
    assert_eq!(stand.texts("select cast(count(*) as text) from done").await, ["5"]);
}

async fn a_procedure_is_called_for_each_row_and_by_a_step(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand.sql(&[&format!("create table t {TABLE}")]).await;
    let text = job(2, "{ sql: { call: \"archive(:id, :name)\" } }")
        + "  - { name: close, sql: \"call archive(99, 'closed')\" }\n";
    if stand.bench.store().begin().await.unwrap().postgres().is_none() {
        let run = stand.run(&text, &[]).await;

        assert_eq!(run.end.status, BatchStatus::Failed);
        let why = &run.end.exit.description;
        assert!(why.contains("SQLite has no stored procedures"), "{why}");
        return;
    }
    stand
        .sql(&["create procedure archive(n bigint, s text) language sql as 'insert into t (id, name) values (n, s)'"])
        .await;

    let run = stand.run(&text, &[]).await;

    assert_eq!(delivery(&run), "exactly-once");
    assert_eq!(
        stand.texts("select name from t order by id").await,
        ["one", "two", "three", "four", "five", "closed"]
    );
}

const CHOICE: &str = r#"
      choose:
        - { when: "row.kind == 'a'", to: { sql: { table: a } } }
        - { when: "row.kind in ['a', parameters.kind]", to: { csv: { path: "@/b.csv", columns: [name, id] } } }
        - { else: [{ sql: { table: others, columns: [id] } }, { jsonl: { path: "@/others.jsonl" } }] }
"#;

async fn every_row_goes_to_the_first_branch_that_takes_it(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand.sql(&[&format!("create table a {TABLE}"), "create table others (id bigint primary key)"]).await;
    let text =
        job(2, CHOICE).replace("steps:", "parameters: { kind: { type: string, required: true } }\nsteps:");

    let run = stand.run(&text, &["kind=b"]).await;

    assert_eq!(delivery(&run), "exactly-once");
    assert_eq!(run.step("load").unwrap().counters.write, 5);
    assert_eq!(stand.texts("select name from a order by id").await, ["one", "three"]);
    assert_eq!(stand.content("b.csv"), "name,id\ntwo,2\nfive,5\n");
    assert_eq!(stand.texts("select cast(id as text) from others").await, ["4"]);
    assert_eq!(stand.content("others.jsonl"), "{\"id\":4,\"kind\":\"c\",\"name\":\"four\"}\n");
}

async fn a_row_that_no_branch_takes_is_an_error_that_can_be_skipped(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand.sql(&[&format!("create table t {TABLE}")]).await;
    let choice = "{ choose: [{ when: \"row.kind != 'c'\", to: { sql: { table: t } } }] }";

    let failed = stand.run(&job(10, choice), &[]).await;
    let skipping =
        job(10, &format!("{choice}\n    skip: {{ limit: 1, on: write }}")).replace("writes", "skips");
    let run = stand.run(&skipping, &[]).await;

    let why = &failed.end.exit.description;
    assert!(why.contains("no branch of choose takes this row"), "{why}");
    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(run.step("load").unwrap().counters.write_skip, 1);
    assert_eq!(stand.texts("select name from t order by id").await, ["one", "two", "three", "five"]);
}

async fn every_row_goes_to_all_writers_and_a_restart_goes_on_in_each(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand.sql(&["create table t (id bigint primary key check (id < 5))"]).await;
    let text = job(
        2,
        "[{ jsonl: { path: \"@/a.jsonl\" } }, { sql: { table: t, columns: [id] } }, { csv: { path: \"@/b.csv\", columns: [id] } }]",
    );
    let job = stand.job(&[&text]);

    let failed = stand.launch(&job, &[]).await.unwrap();
    let context = failed.context("load").unwrap();
    let keys: Vec<String> =
        context.iter().map(|(key, _)| key.to_owned()).filter(|key| key.starts_with("write")).collect();
    stand.sql(&["drop table t", "create table t (id bigint primary key)"]).await;
    let again = stand.launch(&job, &[]).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert!(keys.iter().any(|key| key.starts_with("write.1.")), "{keys:?}");
    assert!(keys.iter().any(|key| key.starts_with("write.3.")), "{keys:?}");
    assert_eq!(again.step("load").unwrap().counters.read, 1);
    assert_eq!(delivery(&again), "exactly-once");
    // The last chunk of the first run is in no file twice.
    assert_eq!(stand.content("a.jsonl").lines().count(), 5);
    assert_eq!(stand.content("b.csv"), "id\n1\n2\n3\n4\n5\n");
    assert_eq!(stand.texts("select cast(count(*) as text) from t").await, ["1"]);
}

/// Counted on the wire, as in the test of the engine: neither the readers and writers of a job file nor `skip` and `retry` cost more.
#[tokio::test]
async fn a_chunk_of_a_job_file_costs_one_round_trip() {
    let Some(scratch) = Scratch::postgres_with_schema().await else { return };
    let wire = CommitProxy::in_front_of(scratch.url()).unwrap();
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let options = StoreOptions { clock: Some(clock.clone()), max_connections: 2, ..StoreOptions::default() };
    let store = Store::open(wire.url().parse().unwrap(), &options).await.unwrap();
    let bench = JobBench::with_lease(store, clock, Duration::from_secs(15)).await.unwrap();
    let stand = Stand { bench, folder: TempDir::new().unwrap(), connections: BTreeMap::new(), scratch };
    stand.sql(&[&format!("create table t {TABLE}")]).await;

    for mode in ["mode: insert", "mode: upsert, on: id", "mode: copy"] {
        let mut costs = Vec::new();
        for chunks in [20_u32, 20, 60] {
            let rows: String = (1..=chunks).map(|id| format!("{id},a,b\n")).collect();
            stand.write("in.csv", &format!("id,kind,name\n{rows}"));
            stand.sql(&["delete from t"]).await;
            let text = job(1, &format!("{{ sql: {{ table: t, {mode} }} }}"))
                + "    skip: { limit: 5, on: constraint }\n    retry: { limit: 3, on: transient }\n";
            let name = format!("job: wire-{}", wire.statements());
            let job = stand.job(&[&text.replace("job: writes", &name)]);

            let before = wire.statements();
            let run = stand.launch(&job, &[]).await.unwrap();

            costs.push(wire.statements() - before);
            assert_eq!(run.step("load").unwrap().counters.write, u64::from(chunks), "{:?}", run.end);
        }
        // A connection that is opened in between costs a few.
        assert!((40..=45).contains(&(costs[2] - costs[1])), "{mode}: {costs:?}");
    }
}
