//! Assert steps let good data pass, and show what is wrong with other data.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::item::Database;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    data_as_expected_passes_and_other_data_is_shown_beside_what_was_expected,
    a_warning_is_kept_and_the_job_goes_on,
    another_database_is_asked_by_the_name_of_its_connection,
    data_may_be_only_so_old,
];

const TABLE: &[&str] = &[
    "create table sale (id bigint primary key, day date not null, cents bigint not null)",
    "insert into sale values (1, '2026-11-14', 100), (2, '2026-11-14', 250), (3, '2026-11-15', 50)",
];

async fn data_as_expected_passes_and_other_data_is_shown_beside_what_was_expected(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(TABLE).await;
    let text = |count: i64| {
        format!(
            r#"
job: check-{count}
parameters: {{ day: {{ type: date, default: 2026-11-14 }} }}
steps:
  - name: enough
    assert:
      - {{ query: "select count(*) from sale where day = ${{day}}", expect: "value == {count}" }}
      - {{ query: "select sum(cents) as cents, max(id) as last from sale", expect: "int(row.cents) == 400 && row.last >= {count}" }}
      - {{ query: "select id from sale where cents <= 0", expect: "rows == 0" }}
      - {{ query: "select id from sale where day > ${{day}}", expect: "rows == 1 && now > timestamp('2026-11-15T00:00:00Z')" }}
"#
        )
    };

    let good = stand.run(&text(2), &[]).await;
    let bad = stand.run(&text(4), &[]).await;

    assert!(good.is_completed(), "{:?}", good.end);
    assert_eq!(bad.end.status, BatchStatus::Failed);
    let told = &bad.end.exit.description;
    assert!(told.contains("expected value == 4; found value = 2"), "{told}");
    assert!(told.contains("found row.cents = 400, row.last = 3"), "{told}");
    assert!(!told.contains("rows == 0"), "{told}");
}

async fn a_warning_is_kept_and_the_job_goes_on(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(TABLE).await;
    let text = r#"
job: warned
steps:
  - name: fresh
    assert:
      query: "select id from sale where day > '2026-11-30'"
      expect: "row.id > 0"
      severity: warn
  - name: after
    sql: delete from sale
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let told = &run.step("fresh").unwrap().exit.description;
    assert_eq!(told, "warning: expected row.id > 0, and the query returned no row; found rows = 0");
    assert_eq!(stand.texts("select cast(id as text) from sale").await, Vec::<String>::new());
}

async fn another_database_is_asked_by_the_name_of_its_connection(scratch: Scratch) {
    let source = Stand::on(scratch).await;
    source.sql(TABLE).await;
    let mut stand = Stand::on(Scratch::file()).await;
    stand.connections.insert("shop".into(), Database::connect(source.scratch.url()).unwrap());
    let text = r#"
job: far
steps:
  - name: enough
    assert: { query: "select count(*) from sale", expect: "value > 3", connection: shop }
"#;

    let run = stand.run(text, &[]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    assert!(run.end.exit.description.contains("found value = 3"), "{:?}", run.end);
}

async fn data_may_be_only_so_old(scratch: Scratch) {
    // SQLite keeps times as texts.
    let (zoned, value) = match scratch.url().starts_with("sqlite") {
        true => ("text", "timestamp(value)"),
        false => ("timestamptz", "value"),
    };
    let stand = Stand::on(scratch).await;
    stand
        .sql(&[
            &format!("create table orders (source text, loaded_at {zoned}, loaded timestamp)"),
            "insert into orders values ('fresh', '2026-11-15T00:30:00Z', '2026-11-15T00:30:00'),
                                       ('stale', '2026-11-14T23:30:00Z', '2026-11-14T23:30:00')",
        ])
        .await;
    let text = |source: &str| {
        format!(
            r#"
job: check-{source}
steps:
  - name: age
    assert:
      - {{ query: "select max(loaded_at) from orders where source = '{source}'", expect: "now - {value} < duration('2h')" }}
      - {{ query: "select max(loaded) from orders where source = '{source}'", expect: "now - timestamp(value + 'Z') < duration('2h')" }}
"#
        )
    };

    let fresh = stand.run(&text("fresh"), &[]).await;
    let stale = stand.run(&text("stale"), &[]).await;

    assert!(fresh.is_completed(), "{:?}", fresh.end);
    let told = &stale.end.exit.description;
    assert_eq!(stale.end.status, BatchStatus::Failed);
    assert_eq!(told.matches("expected now - ").count(), 2, "{told}");
    assert!(!told.contains("cannot be evaluated"), "{told}");
}
