//! Rows that break rules become rejects with their line, columns and reason.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![rows_that_break_rules_are_skipped_and_kept_with_line_column_and_reason];

const ORDERS: &str = r#"
job: orders
parameters: { country: { type: string, default: KR } }
steps:
  - name: load
    chunk: 4
    read: { csv: { path: "@/in.csv" } }
    process:
      validate:
        id: { required: true, type: long, min: 1 }
        amount: { type: decimal, min: 0, max: 100 }
        country: { one_of: [KR, US] }
        account: { pattern: "[0-9]{3}-[0-9]+" }
        until: { type: date, check: "row.until >= row.since", message: "is before since" }
        since: required
      map: { id: "int(row.id)", cents: "decimal(row.amount, 2)" }
    write: { sql: { table: orders } }
    skip: { limit: 10, on: validation, reject: "@/rejects.csv" }
"#;

async fn rows_that_break_rules_are_skipped_and_kept_with_line_column_and_reason(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table orders (id bigint primary key, cents bigint not null)"]).await;
    stand.write(
        "in.csv",
        "id,amount,country,account,since,until\n\
         1,1.50,KR,001-7,2026-01-01,2026-01-31\n\
         0,101,DE,x,2026-02-01,2026-01-31\n\
         2,99.99,US,002-8,2026-01-01,2026-01-31\n\
         ,abc,KR,001-7,,2026-13-01\n\
         3,0,,003-9,2026-01-01,\n",
    );

    let run = stand.run(ORDERS, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.texts("select cast(cents as text) from orders order by id").await, ["150", "9999", "0"]);
    let counters = run.step("load").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.filter), (5, 3, 0));
    assert_eq!((counters.process_skip, counters.rollback), (2, 0), "no good row is processed twice");
    let rejects = stand.content("rejects.csv");
    let lines: Vec<&str> = rejects.lines().collect();
    assert_eq!(lines.len(), 3, "{rejects}");
    assert!(lines[1].starts_with("process,validation,"), "{rejects}");
    assert!(lines[1].contains("in.csv line 3,") && lines[2].contains("in.csv line 5,"), "{rejects}");
    assert!(lines[1].ends_with(r#","id, amount, country, account, until""#), "{rejects}");
    assert!(lines[2].ends_with(r#","id, amount, until, since""#), "{rejects}");
    for reason in [
        r#"column ""id"" is less than 1"#,
        r#"column ""amount"" is greater than 100"#,
        r#"column ""country"" is none of KR, US"#,
        r#"column ""account"" does not match the pattern"#,
        r#"column ""until"" is before since"#,
    ] {
        assert!(lines[1].contains(reason), "{reason}: {rejects}");
    }
    for reason in [
        r#"column ""id"" has no value"#,
        r#"column ""amount"" is not a decimal number"#,
        r#"column ""until"" is not a day"#,
        r#"column ""since"" has no value"#,
    ] {
        assert!(lines[2].contains(reason), "{reason}: {rejects}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_skip_the_first_row_that_breaks_a_rule_fails_the_step() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.jsonl", "{\"id\":1}\n{\"id\":2,\"name\":\"Kim\"}\n{\"name\":\"Lee\"}\n");
    let text = r#"
job: people
steps:
  - name: load
    chunk: 1
    read: { jsonl: { path: "@/in.jsonl" } }
    process: { validate: { id: { required: true, type: long }, name: { pattern: "[A-Z].*" } } }
    write: { jsonl: { path: "@/out.jsonl" } }
"#;

    let run = stand.run(text, &[]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    let counters = run.step("load").unwrap().counters;
    assert_eq!(counters.write, 2, "a missing key of JSON is a missing value");
    let told = &run.end.exit.description;
    assert!(told.contains("column \"id\" has no value") && told.contains("in.jsonl line 3"), "{told}");
}
