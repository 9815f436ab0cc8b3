//! The job of the guide: a file of transfers becomes rows of a table, exactly.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    amounts_arrive_exactly_and_what_is_wrong_becomes_a_reject,
    a_failed_job_goes_on_where_it_ended_once_the_file_is_mended,
    an_upsert_changes_the_rows_that_are_there,
    rows_are_counted_only_on_request,
    a_statement_is_run_for_each_item_with_its_values_bound,
];

const TRANSFERS: &str = r#"
job: transfers
parameters: { date: { type: date, required: true }, file: { type: string, identifying: false, allow: path } }
steps:
  - name: load
    chunk: 3
    read: { csv: { path: "${file}" } }
    process:
      filter: "row.amount != ''"
      map: { id: "int(row.id)", cents: "decimal(row.amount, 2)", day: "parameters.date" }
    write: { sql: { table: transfers, mode: copy } }
    skip: { limit: 2, on: [parse, process], reject: "@/rejects.csv" }
    retry: { limit: 3, backoff: 1s }
"#;

const TABLE: &str =
    "create table transfers (id bigint primary key, cents bigint not null, day date not null)";

const LOADED: &str = "select cast(id as text) || ':' || cast(cents as text) || ':' || cast(day as text)
                      from transfers order by id";

async fn amounts_arrive_exactly_and_what_is_wrong_becomes_a_reject(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&[TABLE]).await;
    stand.write("in.csv", "id,amount\n1,0.29\n2,19.99\n3,\n4,abc\n5,-0.5\n6\n7,92233720368547758.07\n");
    let file = format!("file={}/in.csv", stand.path().display());

    let run = stand.run(TRANSFERS, &["date=2026-11-15", &file]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(
        stand.texts(LOADED).await,
        ["1:29:2026-11-15", "2:1999:2026-11-15", "5:-50:2026-11-15", "7:9223372036854775807:2026-11-15"]
    );
    let counters = run.step("load").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.filter), (6, 4, 1));
    assert_eq!((counters.read_skip, counters.process_skip), (1, 1));
    let rejects = stand.content("rejects.csv");
    let lines: Vec<&str> = rejects.lines().collect();
    assert_eq!(lines.len(), 3, "{rejects}");
    assert_eq!(lines[0], "phase,kind,error,place,item,columns");
    let of = |kind: &str| *lines.iter().find(|line| line.contains(kind)).unwrap();
    assert!(of("read,parse").contains("in.csv"), "{rejects}");
    let process = of("process,process");
    assert!(process.contains("not a decimal number") && process.contains("in.csv line 5,"), "{rejects}");
    assert!(process.contains(r#"column ""cents"": decimal(row.amount, 2): decimal:"#), "{rejects}");
    assert!(process.contains(r#"{""id"":""4"",""amount"":""abc""}"#), "{rejects}");
}

async fn a_failed_job_goes_on_where_it_ended_once_the_file_is_mended(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&[TABLE]).await;
    let lines: String = (1..=10).map(|id| format!("{id},1.00\n")).collect();
    let broken = lines.replace("7,1.00", "7,x.00").replace("8,1.00", "8,x.00").replace("9,1.00", "9,x.00");
    stand.write("in.csv", &format!("id,amount\n{broken}"));
    let file = format!("file={}/in.csv", stand.path().display());
    let job = stand.job(&[TRANSFERS]);

    let failed = stand.launch(&job, &["date=2026-11-15", &file]).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(stand.texts(LOADED).await.len(), 6, "two whole chunks");
    let why = &failed.end.exit.description;
    assert!(why.contains("not a decimal number") && why.contains("in.csv line 10)"), "{why}");
    stand.write("in.csv", &format!("id,amount\n{lines}"));
    let again = stand.launch(&job, &["date=2026-11-15", &file]).await.unwrap();
    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(again.step("load").unwrap().counters.read, 4);
    assert_eq!(stand.texts(LOADED).await.len(), 10);
}

async fn an_upsert_changes_the_rows_that_are_there(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&[TABLE, "insert into transfers values (1, 5, '2026-01-01'), (9, 9, '2026-01-01')"]).await;
    stand.write("in.csv", "1;0.29;20261115\n2;1;20261115\n");
    let text = r#"
job: upserted
steps:
  - name: load
    chunk: 10
    read: { csv: { path: "@/in.csv", delimiter: ";", header: false, columns: [id, amount, day] } }
    process:
      map: { id: "int(row.id)", cents: "decimal(row.amount, 2)", day: "date(row.day, '%Y%m%d')" }
    write: { sql: { table: transfers, mode: upsert, key: [id] } }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.texts(LOADED).await, ["1:29:2026-11-15", "2:100:2026-11-15", "9:9:2026-01-01"]);
}

async fn rows_are_counted_only_on_request(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.csv", "id\n4\n5\n");
    stand.write("in.jsonl", "{\"id\": 6}\n");
    stand
        .sql(&[
            "create table source (id bigint primary key)",
            "insert into source (id) values (1), (2), (3)",
            "create table target (id bigint not null)",
        ])
        .await;
    let job = r#"
job: copies
steps:
  - name: uncounted
    chunk: 2
    read: { sql: { query: "select id from source", key: id } }
    write: { sql: { table: target, columns: [id] } }
  - name: counted
    chunk: 2
    read: { sql: { query: "select id from source", key: id, count: true } }
    write: { sql: { table: target, columns: [id] } }
  - name: uncounted-file
    chunk: 2
    read: { csv: { path: "@/in.csv" } }
    write: { csv: { path: "@/a.csv", columns: [id] } }
  - name: counted-file
    chunk: 2
    read: { csv: { path: "@/*.csv", count: true } }
    write: { jsonl: { path: "@/b.jsonl" } }
  - name: counted-lines
    chunk: 2
    read: { jsonl: { path: "@/in.jsonl", count: true } }
    write: { json: { path: "@/c.json" } }
"#;

    let run = stand.run(job, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let totals = "select coalesce(cast(total_items as text), 'none') from tidemill_step_execution
                  order by step_execution_id";
    // The pattern matches the file that the step before it has written, too.
    assert_eq!(stand.texts(totals).await, ["none", "3", "none", "4", "1"]);
}

async fn a_statement_is_run_for_each_item_with_its_values_bound(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand
        .sql(&[
            "create table orders (id bigint primary key, state varchar(40) not null)",
            "insert into orders (id, state) values (1, 'new'), (2, 'new'), (4, 'new')",
        ])
        .await;
    stand.write("in.csv", "id,state\n1,paid\n2,x'; drop table orders; --\n3,paid\n4,sent\n");
    let job = r#"
job: states
parameters: { mark: { type: string } }
steps:
  - name: set
    chunk: 10
    read: { csv: { path: "@/in.csv" } }
    process: { map: { id: "int(row.id)", state: "row.state" } }
    write: { sql: { statement: "update orders set state = :state where id = :id and ${mark} = '!' -- :id" } }
    skip: { limit: 1, on: write }
"#;

    let run = stand.run(job, &["mark=!"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let counters = run.step("set").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.write_skip), (4, 3, 1), "there is no order 3");
    assert_eq!(
        stand.texts("select state from orders order by id").await,
        ["paid", "x'; drop table orders; --", "sent"]
    );
    assert_eq!(run.step("set").unwrap().delivery.as_deref(), Some("exactly-once"));
}
