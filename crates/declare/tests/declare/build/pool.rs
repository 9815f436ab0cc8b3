//! Steps of a file that take units of a pool.

use super::Stand;
use std::num::NonZeroU32;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::Settings;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_command_is_told_what_was_granted,
    a_divided_step_has_as_many_partitions_as_were_granted_and_its_query_has_the_hint,
    statements_have_the_hint_and_a_parameter_of_that_name_stays_a_value,
];

/// A pool of six units, of which a step gets two unless it says more.
async fn stand(scratch: Scratch) -> Stand {
    let stand = Stand::on(scratch).await;
    let mut settings = Settings::new("adw".parse().unwrap(), 6);
    settings.threshold_percent = 100;
    settings.default_units = NonZeroU32::new(2).unwrap();
    settings.min_units = NonZeroU32::MIN;
    let mut tx = stand.bench.store().begin().await.unwrap();
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    stand
}

async fn usage(stand: &Stand) -> u64 {
    let mut tx = stand.bench.store().read().await.unwrap();
    let found = tx.pools().find(&"adw".parse().unwrap()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    found.usage
}

async fn a_command_is_told_what_was_granted(scratch: Scratch) {
    let stand = stand(scratch).await;
    let run = stand
        .run(
            r#"
job: extract
parameters: { day: { type: string, required: true } }
steps:
  - name: unload
    pool: { name: adw, units: 16, min: 2, class: critical, hint: "/*+ PARALLEL(16) FULL(t) */", wait: 1m }
    command: ["sh", "-c", "echo \"$1 $2 $3 $TIDEMILL_HINT $OWN\" > @/told", "sh", "${units}", "${hint}", "${day}"]
    env: { OWN: "own ${units}" }
  - name: plain
    pool: adw
    command: ["sh", "-c", "echo $1 > @/plain", "sh", "${units}"]
"#,
            &["day=monday"],
        )
        .await;

    assert!(run.is_completed(), "{:?}", run.end);
    let hint = "/*+ PARALLEL(4) FULL(t) */";
    assert_eq!(stand.content("told"), format!("4 {hint} monday {hint} own 4\n"), "a quarter of 16 fits");
    assert_eq!(stand.content("plain"), "2\n");
    assert_eq!(usage(&stand).await, 0);
}

async fn a_divided_step_has_as_many_partitions_as_were_granted_and_its_query_has_the_hint(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand
        .sql(&[
            "create table orders (id bigint primary key)",
            "insert into orders (id) values (1), (2), (3), (4), (5), (6), (7), (8), (9)",
            "create table copied (id bigint primary key, units bigint not null)",
        ])
        .await;

    let run = stand
        .run(
            r#"
job: copy
steps:
  - name: copy
    pool: { name: adw, units: 3, hint: "/*+ PARALLEL(8) */" }
    chunk: 2
    partitions: { by: range, table: orders, column: id, count: pool }
    read:
      sql:
        query: "select ${hint} id, cast(${units} as bigint) as units from orders where id between ${range.from} and ${range.to}"
        key: [id]
    write: { sql: { table: copied, mode: insert, columns: [id, units] } }
"#,
            &[],
        )
        .await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(run.steps().count(), 4, "three partitions, and the step itself");
    let copied = stand.texts("select cast(sum(units) as text) from copied").await;
    assert_eq!(copied, ["27"], "nine rows, each with the three units");
    assert_eq!(usage(&stand).await, 0);
}

async fn statements_have_the_hint_and_a_parameter_of_that_name_stays_a_value(scratch: Scratch) {
    let stand = stand(scratch).await;
    stand.sql(&["create table noted (text varchar(100) not null)"]).await;
    let text = r#"
job: note
parameters: { hint: { type: string, required: true } }
steps:
  - name: with
    pool: { name: adw, hint: "/*+ PARALLEL(2) */" }
    sql: "insert ${hint} into noted (text) values ('with')"
  - name: without
    sql: "insert into noted (text) values (${hint})"
"#;

    let run = stand.run(text, &["hint='); drop table noted; --"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let noted = stand.texts("select text from noted order by text desc").await;
    assert_eq!(noted, ["with", "'); drop table noted; --"]);
}

#[tokio::test]
async fn a_pool_is_a_part_of_the_definition() {
    let stand = Stand::on(Scratch::file()).await;
    let of = |pool: &str| {
        let text = format!("job: j\nsteps:\n  - name: s\n    command: [\"true\"]\n{pool}");
        stand.file(&text).fingerprint
    };

    assert_ne!(of("    pool: adw\n"), of(""), "without units it would take what others hold");
    assert_ne!(of("    pool: { name: adw, units: 4 }\n"), of("    pool: { name: adw, units: 8 }\n"));
}
