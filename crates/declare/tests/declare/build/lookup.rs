//! Rows are joined with a table or a file in memory.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![rows_get_columns_of_tables_and_files_and_others_are_rejected];

async fn rows_get_columns_of_tables_and_files_and_others_are_rejected(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand
        .sql(&[
            "create table customer (id bigint primary key, name text, country text)",
            "insert into customer values (1, 'Kim', 'KR'), (2, 'Lee', 'KR'), (3, 'Doe', 'US')",
            "create table sold (id bigint primary key, customer text, rate bigint, memo text)",
        ])
        .await;
    stand.write("rates.csv", "country;year;percent\nKR;2026;10\nUS;2025;7\nUS;2026;8\n");
    stand.write("in.csv", "id,customer,country\n1,3,US\n2,1,KR\n3,9,KR\n4,2,JP\n");
    let text = r#"
job: join
parameters: { year: { type: long, default: 2026 } }
steps:
  - name: load
    chunk: 2
    threads: 2
    read: { csv: { path: "@/in.csv" } }
    process:
      lookup:
        customer:
          read: { sql: { query: "select id, name from customer" } }
          key: id
          match: "int(row.customer)"
          columns: { customer_name: name }
        rate:
          read: { csv: { path: "@/rates.csv", delimiter: ";" } }
          key: [country, year]
          match: ["row.country", "string(parameters.year)"]
          columns: [percent]
          on_missing: null
      map:
        id: "int(row.id)"
        customer: "row.customer_name"
        rate: "row.percent == null ? null : int(row.percent)"
    write: { sql: { table: sold } }
    skip: { limit: 5, on: validation, reject: "@/rejects.csv" }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let sold = "select cast(id as text) || ' ' || customer || ' ' || coalesce(cast(rate as text), '-')
                from sold order by id";
    assert_eq!(stand.texts(sold).await, ["1 Doe 8", "2 Kim 10", "4 Lee -"]);
    let counters = run.step("load").unwrap().counters;
    assert_eq!((counters.read, counters.write, counters.process_skip), (4, 3, 1));
    let rejects = stand.content("rejects.csv");
    assert!(rejects.contains(r#"the lookup ""customer"" has no row for customer"#), "{rejects}");
    assert!(rejects.contains("in.csv line 4,") && rejects.ends_with(",customer\n"), "{rejects}");
}

/// Runs a job with this lookup of `codes.csv`, and returns how it ended.
async fn ending(codes: &str, lookup: &str) -> (BatchStatus, String) {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("codes.csv", codes);
    stand.write("in.jsonl", "{\"code\":1}\n{\"code\":7}\n");
    let text = format!(
        r#"
job: coded
steps:
  - name: load
    chunk: 10
    read: {{ jsonl: {{ path: "@/in.jsonl" }} }}
    process:
      lookup:
        code: {{ read: {{ csv: {{ path: "@/codes.csv" }} }}, key: code, columns: [name], {lookup} }}
    write: {{ jsonl: {{ path: "@/out.jsonl" }} }}
    skip: {{ limit: 10 }}
"#
    );
    let run = stand.run(&text, &[]).await;
    (run.end.status, run.end.exit.description.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_that_is_too_large_or_ambiguous_or_lacks_columns_fails_the_step_although_errors_are_skipped()
{
    for (codes, lookup, expected) in [
        ("code,name\n1,a\n2,b\n3,c\n", "max_rows: 2", "has more than 2 rows; raise max_rows"),
        ("code,name\n1,a\n1,b\n", "max_rows: 9", "two rows have the key 1"),
        ("cod,name\n1,a\n", "max_rows: 9", "there is no column \"code\"; there are cod, name"),
        ("code,nam\n1,a\n", "match: \"string(row.code)\"", "there is no column \"name\""),
        ("code,name\n1,a\n", "match: \"string(row.code)\", on_missing: fail", "has no row for code"),
        ("code,name\n1,a\n", "on_missing: fail", "the key of the lookup is text, but the row has long"),
    ] {
        let (status, told) = ending(codes, lookup).await;

        assert_eq!(status, BatchStatus::Failed, "{lookup}");
        assert!(told.contains(expected), "{lookup}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loads_the_lookup_again() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("codes.csv", "code,name\n1,one\n");
    stand.write("in.csv", "code\n1\n2\n");
    let text = r#"
job: again
steps:
  - name: load
    chunk: 1
    read: { csv: { path: "@/in.csv" } }
    process:
      lookup: { code: { read: { csv: { path: "@/codes.csv" } }, key: code, columns: [name], on_missing: fail } }
    write: { csv: { path: "@/out.csv", columns: [code, name] } }
"#;
    let job = stand.job(&[text]);

    let failed = stand.launch(&job, &[]).await.unwrap();
    stand.write("codes.csv", "code,name\n1,one\n2,two\n");
    let again = stand.launch(&job, &[]).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(again.step("load").unwrap().counters.read, 1);
    assert_eq!(stand.content("out.csv"), "code,name\n1,one\n2,two\n");
}
