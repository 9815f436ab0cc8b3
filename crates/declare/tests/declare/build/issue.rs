//! A file with everything in it: partitions, threads, commands, SQL; what is changed in it; and ranges of a table.

use super::Stand;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_engine::job::JobError;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    ranges_of_a_table_are_read_at_the_same_time_and_cover_it,
    everything_that_a_file_can_say_runs,
    what_a_program_says_leads_on_and_a_failure_can_be_mended,
    a_file_that_was_changed_has_to_be_accepted_before_it_goes_on,
];

const TRANSFERS: &str = r#"
job: transfers
parameters: { date: { type: date, required: true }, file: { type: string, identifying: false } }
steps:
  - name: clean
    sql: "delete from transfers where day = ${date}"
  - name: load
    chunk: 3
    partitions: { by: file, pattern: "@/in/*.csv" }
    threads: 2
    read: { csv: { path: "${file}" } }
    process:
      filter: "row.amount != ''"
      map: { id: "int(row.id)", day: "parameters.date", cents: "decimal(row.amount, 2)" }
    write: { sql: { table: transfers, mode: copy, columns: [id, day, cents] } }
    skip: { limit: 10, on: [parse, process], reject: "@/rejects.csv" }
    retry: { limit: 3, backoff: 1s }
  - name: report
    command: ["@/report.sh", "${date}"]
    exit_codes: { 3: NO_DATA }
    on: { NO_DATA: end(NOTHING_TO_REPORT), FAILED: fail, "*": next }
  - name: last
    command: ["touch", "@/done"]
"#;

fn script(stand: &Stand, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    stand.write("report.sh", text);
    std::fs::set_permissions(stand.path().join("report.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

async fn prepared(scratch: Scratch) -> Stand {
    let stand = Stand::on(scratch).await;
    stand
        .sql(&["create table transfers (id bigint primary key, day date not null, cents bigint not null)"])
        .await;
    std::fs::create_dir(stand.path().join("in")).unwrap();
    stand.write("in/a.csv", "id,amount\n1,0.29\n2,19.99\n3,\n4,1.00\n5,many\n");
    stand.write("in/b c.csv", "id,amount\n11,-0.01\n12,7\n13,few\n");
    stand
}

const ROWS: &str = "select id || ' ' || cents from transfers order by id";

async fn everything_that_a_file_can_say_runs(scratch: Scratch) {
    let stand = prepared(scratch).await;
    script(&stand, "#!/bin/sh\necho \"$1 $TIDEMILL_PARAM_DATE\" > \"$(dirname \"$0\")/report.txt\"\n");

    let run = stand.run(TRANSFERS, &["date=2026-11-15"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.texts(ROWS).await, ["1 29", "2 1999", "4 100", "11 -1", "12 700"]);
    assert_eq!(stand.content("report.txt"), "2026-11-15 2026-11-15\n");
    assert!(stand.path().join("done").is_file());
    let mut keys: Vec<&str> = run.steps().filter_map(|step| step.name.strip_prefix("load:")).collect();
    keys.sort_unstable();
    assert!(keys[0].starts_with("a.csv-") && keys[1].starts_with("b_c.csv-"), "{keys:?}");
    for (key, bad) in keys.iter().zip(["many", "few"]) {
        assert!(
            stand.content(&format!("rejects-{key}.csv")).contains(bad),
            "each part has rejects of its own"
        );
    }
    let all = run.step("load").unwrap().counters;
    assert_eq!((all.read, all.write, all.filter, all.process_skip), (8, 5, 1, 2));
}

async fn what_a_program_says_leads_on_and_a_failure_can_be_mended(scratch: Scratch) {
    let stand = prepared(scratch).await;
    script(&stand, "#!/bin/sh\nexit 3\n");
    let nothing = stand.run(&TRANSFERS.replace("in/*.csv", "in/b*.csv"), &["date=2026-11-15"]).await;
    assert_eq!((nothing.is_completed(), nothing.end.exit.code.as_str()), (true, "NOTHING_TO_REPORT"));

    script(&stand, "#!/bin/sh\necho broken pipe in aisle 7 >&2\nexit 9\n");
    let failed = stand.run(&TRANSFERS.replace("in/*.csv", "in/a*.csv"), &["date=2026-11-16"]).await;

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert!(failed.step("report").unwrap().exit.description.contains("broken pipe in aisle 7"));
}

async fn a_file_that_was_changed_has_to_be_accepted_before_it_goes_on(scratch: Scratch) {
    let stand = prepared(scratch).await;
    script(&stand, "#!/bin/sh\nexit 9\n");
    let first = stand.run(TRANSFERS, &["date=2026-11-15"]).await;
    assert_eq!(first.end.status, BatchStatus::Failed);
    script(&stand, "#!/bin/sh\nexit 0\n");
    let commented = TRANSFERS.replace(
        "steps:",
        "# a remark\nschedule: { cron: '0 2 * * *', parameters: { date: \"${tick.date}\" } }\nsteps:",
    );
    let unchanged = stand.job(&[&commented]);
    assert_eq!(unchanged.definition(), stand.job(&[TRANSFERS]).definition());
    let changed = stand.job(&[&TRANSFERS.replace("\"@/done\"", "\"@/ready\"")]);

    let refused = stand.launch(&changed, &["date=2026-11-15"]).await.unwrap_err();
    let launcher = stand.bench.launcher(&changed).unwrap().accept_change(true);
    let running = launcher.restart(first.end.execution, &Actor::system()).await.unwrap();
    let end = running.ended().await.unwrap();

    assert!(
        matches!(&refused, JobError::Refused { refusal: LaunchRefusal::DefinitionChanged, .. }),
        "{refused}"
    );
    assert_eq!(end.status, BatchStatus::Completed, "{end:?}");
    assert!(stand.path().join("ready").is_file());
    assert_eq!(stand.texts(ROWS).await.len(), 5, "what was loaded is not loaded again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_job_that_it_runs_is_one_of_the_outer_job() {
    let stand = Stand::on(Scratch::file()).await;
    let outer = "job: outer\nsteps:\n  - name: run\n    job: inner\n";
    let inner = "job: inner\nsteps:\n  - name: s\n    command: [\"true\"]\n";

    let before = stand.job(&[outer, inner]);
    let after = stand.job(&[outer, &inner.replace("true", "false")]);

    assert_ne!(before.definition(), after.definition());
    assert_eq!(before.definition(), stand.job(&[outer, inner]).definition());
}

async fn ranges_of_a_table_are_read_at_the_same_time_and_cover_it(scratch: Scratch) {
    const ARCHIVE: &str = r#"
job: archive
steps:
  - name: orders
    chunk: 10
    partitions: { by: range, table: orders, column: id, count: 4 }
    read: { sql: { query: "select id, total from orders where id between ${range.from} and ${range.to}", key: id } }
    write: { csv: { path: "@/orders-${range.from}.csv", columns: [id, total] } }
"#;
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table orders (id bigint primary key, total bigint not null)"]).await;
    for n in 1..=103 {
        stand.sql(&[&format!("insert into orders values ({}, {n})", n * 3)]).await;
    }

    let run = stand.run(ARCHIVE, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!((run.steps().count(), run.step("orders").unwrap().counters.write), (5, 103));
    let files = ["3", "80", "157", "234"].map(|from| stand.content(&format!("orders-{from}.csv")));
    let lines: usize = files.iter().map(|file| file.lines().count() - 1).sum();
    assert_eq!(lines, 103);
}
