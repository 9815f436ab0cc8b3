//! Rows are sorted, and duplicates are dropped, in a job that goes on where it ended.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![rows_are_sorted_and_duplicates_are_filtered];

const SORTED: &str = r#"
job: sorted
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "@/in.csv" } }
    process:
      sort: [account, { by: "decimal(row.amount, 2)", order: desc }, "id desc"]
      dedupe: [account, amount]
      map: { id: "int(row.id)", account: "row.account", amount: "row.amount" }
    write: { csv: { path: "@/out.csv" } }
    skip: { limit: 3, on: [parse, process], reject: "@/rejects.csv" }
"#;

async fn rows_are_sorted_and_duplicates_are_filtered(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.csv", "id,account,amount\n1,b,9\n2,a,10\n3,b,10.5\n4,a,9\n5,b,9\n6,b,x\n7,b,9\n8\n");

    let run = stand.run(SORTED, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("out.csv"), "id,account,amount\n2,a,10\n4,a,9\n3,b,10.5\n7,b,9\n");
    let counters = run.step("load").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.filter), (6, 4, 2), "duplicates are filtered");
    assert_eq!(counters.read_skip, 2, "a row that cannot be read, and one that has no place in the order");
    let rejects = stand.content("rejects.csv");
    assert!(rejects.contains("in.csv line 9") && rejects.contains("in.csv line 7"), "{rejects}");
}

const FAILING: &str = r#"
job: failing
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "@/in.csv" } }
    process: { sort: [{ by: "int(row.id)" }], dedupe: id, map: { id: "int(row.id)", name: "row.name" } }
    write: { sql: { table: target } }
"#;

async fn failed(stand: &Stand) -> tidemill_engine::job::Job {
    stand
        .sql(&[
            "create table target (id bigint primary key, name text)",
            "insert into target values (5, 'in the way')",
        ])
        .await;
    stand.write("in.csv", "id,name\n6,f\n5,e\n3,c\n1,a\n2,b\n1,again\n4,d\n");
    let job = stand.job(&[FAILING]);
    let run = stand.launch(&job, &[]).await.unwrap();
    assert_eq!(run.end.status, BatchStatus::Failed);
    stand.sql(&["delete from target where id = 5"]).await;
    job
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_sorts_again_and_goes_on_behind_the_last_committed_row() {
    let stand = Stand::on(Scratch::file()).await;
    let job = failed(&stand).await;

    let again = stand.launch(&job, &[]).await.unwrap();

    assert!(again.is_completed(), "{:?}", again.end);
    let counters = again.step("load").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.filter), (3, 2, 1));
    let names = stand.texts("select name from target order by id").await;
    assert_eq!(names, ["a", "b", "c", "d", "e", "f"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_on_another_input_is_refused() {
    let stand = Stand::on(Scratch::file()).await;
    let job = failed(&stand).await;
    stand.write("in.csv", "id,name\n6,f\n5,e\n3,c\n0,new\n1,a\n2,b\n4,d\n");

    let again = stand.launch(&job, &[]).await.unwrap();

    assert_eq!(again.end.status, BatchStatus::Failed);
    let told = &again.end.exit.description;
    assert!(told.contains("4 rows of the sorted input were written, and the input has changed"), "{told}");
    assert_eq!(stand.texts("select name from target order by id").await, ["a", "b", "c", "d"]);
}
