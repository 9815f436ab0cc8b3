//! SQL steps whose process dies between the commit of their statements and their end.

use super::{die_at, go_on, stage};
use crate::examples::Program;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![statements_that_have_committed_are_not_run_again];

const JOB: &str = r#"
job: add
steps:
  - name: add
    sql: "update tally set n = n + 1"
    set: { n: "select n from tally" }
  - name: note
    sql: "insert into noted values (${context.n})"
"#;

async fn statements_that_have_committed_are_not_run_again(database: Scratch) {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for statement in
        ["create table tally (n bigint)", "create table noted (n bigint)", "insert into tally values (0)"]
    {
        tx.execute(statement, ()).await.unwrap();
    }
    tx.commit().await.unwrap();
    let program = Program::tidemill(stage(database.url()));
    std::fs::write(program.stage.path("add.yaml"), JOB).unwrap();

    die_at(&program, &["job", "run", "add.yaml"], "chunk_after_commit:1");
    go_on(&program, &["job", "run", "add.yaml"]).succeeds();

    let mut tx = store.read().await.unwrap();
    let found =
        tx.fetch("select t.n as tally, o.n as noted from tally t cross join noted o", ()).await.unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|row| (row.get::<i64>("tally").unwrap(), row.get::<i64>("noted").unwrap()))
        .collect();
    assert_eq!(found, [(1, 1)]);
}
