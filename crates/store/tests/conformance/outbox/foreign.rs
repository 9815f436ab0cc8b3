//! Events that other programs write with SQL of their own.

use super::{events, paid, publish};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::outbox::{BadEvent, Payload, Slot, StoredHeaders};
use tidemill_store::StoreError;

crate::on_both![
    an_event_of_plain_sql_is_an_event_like_any_other,
    an_event_of_plain_sql_has_the_time_of_the_database,
    the_database_refuses_what_cannot_be_published,
    the_refusal_names_what_is_wrong,
    headers_that_only_others_write_are_shown_as_they_are,
    plain_sql_and_our_own_functions_share_one_order,
    nobody_chooses_the_number_of_an_event,
    who_writes_events_needs_no_other_right,
];

/// As the documents show it.
const PLAIN: &str = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                     values ('order', '주문-42', 'order.paid', 'orders', '{\"amount\": 5}')";

async fn run(bench: &Bench, sql: &str) -> Result<(), StoreError> {
    let mut tx = bench.begin().await;
    tx.execute_for_test(sql).await?;
    tx.commit().await
}

fn is_sqlite(bench: &Bench) -> bool {
    bench.scratch.url().starts_with("sqlite")
}

async fn an_event_of_plain_sql_is_an_event_like_any_other(bench: Bench) {
    run(&bench, PLAIN).await.unwrap();
    let columns = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, headers)";
    run(&bench, &format!("{columns} values ('order', '7', 'order.gone', 'orders', '{{\"a\":\"b\"}}')"))
        .await
        .unwrap();

    let stored = events(&bench).await;
    let mut tx = bench.begin().await;
    let found = tx.outbox().event(stored[0].id).await.unwrap().unwrap();

    assert_eq!(found.payload, Payload::Json("{\"amount\": 5}".into()));
    assert_eq!((found.slot, found.headers.clone()), (Slot::of("주문-42"), StoredHeaders::of(None)));
    assert_eq!(stored[1].payload, Payload::Tombstone);
    assert_eq!(stored[1].headers.good().unwrap().get("a").unwrap(), "b");
}

async fn an_event_of_plain_sql_has_the_time_of_the_database(bench: Bench) {
    let store = bench.scratch.store(None).await.unwrap();
    let before = store.begin().await.unwrap().now().await.unwrap();

    run(&bench, PLAIN).await.unwrap();

    let after = store.begin().await.unwrap().now().await.unwrap();
    let at = events(&bench).await[0].created_at;
    // SQLite counts milliseconds there.
    let margin = Duration::from_millis(1);
    assert!(before.minus(margin) <= at && at <= after.plus(margin), "{before} {at} {after}");
    store.close().await;
}

/// Columns and values of an event that is good but for one of them.
fn with(column: &str, value: &str) -> String {
    let mut columns = vec![
        ("aggregate_type", "'order'"),
        ("aggregate_id", "'1'"),
        ("event_type", "'order.paid'"),
        ("topic", "'orders'"),
        ("payload", "'{}'"),
    ];
    match columns.iter_mut().find(|(name, _)| *name == column) {
        Some(found) => found.1 = value,
        None => columns.push((column, value)),
    }
    let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    format!("insert into outbox_event ({}) values ({})", names.join(", "), values.join(", "))
}

async fn the_database_refuses_what_cannot_be_published(bench: Bench) {
    let long = |length: usize| format!("'{}'", "x".repeat(length));
    let large = format!("'\"{}\"'", "x".repeat(1024 * 1024 - 1));
    let (name, id, topic, headers) =
        (long(201), long(1001), long(250), format!("'{{\"a\":{}}}'", "1".repeat(131_072)));
    let mut bad = vec![
        ("aggregate_type", "null"),
        ("aggregate_type", "''"),
        ("aggregate_type", &name),
        ("aggregate_id", "null"),
        ("aggregate_id", "''"),
        ("aggregate_id", &id),
        ("event_type", "null"),
        ("event_type", "''"),
        ("event_type", &name),
        ("topic", "null"),
        ("topic", "''"),
        ("topic", "'.'"),
        ("topic", "'..'"),
        ("topic", "'a b'"),
        ("topic", "'한'"),
        ("topic", "'a\n'"),
        ("topic", &topic),
        ("payload", "'{'"),
        ("payload", "''"),
        ("payload", &large),
        ("headers", "'[]'"),
        ("headers", "'\"a\"'"),
        ("headers", "'{'"),
        ("headers", &headers),
        ("created_at", "null"),
        ("slot", "256"),
    ];
    if is_sqlite(&bench) {
        bad.extend([
            ("payload_bytes", "x'00'"),
            ("aggregate_id", "x'ff'"),
            ("aggregate_id", "'a' || char(0)"),
            ("topic", "'a' || char(0)"),
            ("topic", "x'61'"),
            ("payload", "x'7b7d'"),
            ("headers", "x'7b7d'"),
            ("slot", "1.5"),
            ("slot", "'one'"),
            ("created_at", "'2026-11-15 02:00:00'"),
        ]);
    } else {
        bad.extend([
            ("payload_bytes", "'\\x00'"),
            ("headers", "'{\"a\":1}'"),
            ("headers", "'{\"a\":null}'"),
            ("headers", "'{\"a\":\"\\u0000\"}'"),
            ("slot", "7"),
        ]);
    }

    for (column, value) in bad {
        let refused = run(&bench, &with(column, value)).await;
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{column} = {value:.40}: {refused:?}");
    }
    run(&bench, &with("headers", "'{\"a\":\"b\"}'")).await.unwrap();
    assert_eq!(events(&bench).await.len(), 1);
}

/// What the guide says that people see.
async fn the_refusal_names_what_is_wrong(bench: Bench) {
    let cases = [
        (
            "aggregate_id",
            "null",
            "null value in column \"aggregate_id\"",
            "NOT NULL constraint failed: outbox_event.aggregate_id",
        ),
        (
            "aggregate_id",
            "''",
            "outbox_event_aggregate_id_check",
            "CHECK constraint failed: length(cast(aggregate_id as blob))",
        ),
        (
            "topic",
            "'a b'",
            "outbox_event_topic_check",
            "CHECK constraint failed: length(cast(topic as blob))",
        ),
        ("payload", "'{'", "invalid input syntax for type json", "CHECK constraint failed: payload is null"),
        ("headers", "'[]'", "outbox_event_headers_check", "CHECK constraint failed: headers is null"),
    ];
    for (column, value, on_postgres, on_sqlite) in cases {
        let Err(StoreError::Failed(refused)) = run(&bench, &with(column, value)).await else {
            panic!("{column} = {value} is accepted")
        };

        let expected = if is_sqlite(&bench) { on_sqlite } else { on_postgres };
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

async fn headers_that_only_others_write_are_shown_as_they_are(bench: Bench) {
    let value = if is_sqlite(&bench) { "{\"a\":1}" } else { "{\"a\\n\":\"b\"}" };
    publish(&bench, &[paid("before")]).await;
    run(&bench, &with("headers", &format!("'{value}'"))).await.unwrap();
    publish(&bench, &[paid("after")]).await;

    let stored = events(&bench).await;

    assert_eq!(stored.len(), 3);
    let StoredHeaders::Bad { text, why } = &stored[1].headers else { panic!("{:?}", stored[1].headers) };
    assert_eq!(text, value);
    let expected = matches!(why, BadEvent::HeadersNotAnObject | BadEvent::Header { .. });
    assert!(expected, "{why}");
    assert_eq!(stored[1].payload, Payload::Json("{}".into()));
}

async fn plain_sql_and_our_own_functions_share_one_order(bench: Bench) {
    for number in 0..3 {
        publish(&bench, &[paid(&format!("ours-{number}"))]).await;
        run(&bench, &with("aggregate_id", &format!("'theirs-{number}'"))).await.unwrap();
    }

    let ids: Vec<String> = events(&bench).await.into_iter().map(|event| event.aggregate.id).collect();

    assert_eq!(ids, ["ours-0", "theirs-0", "ours-1", "theirs-1", "ours-2", "theirs-2"]);
}

/// On SQLite a program can, as long as the number is higher than all before; later ones then go on behind it.
async fn nobody_chooses_the_number_of_an_event(bench: Bench) {
    publish(&bench, &[paid("1")]).await;

    let chosen = run(&bench, &with("id", "700")).await;
    publish(&bench, &[paid("2")]).await;

    let ids: Vec<i64> = events(&bench).await.into_iter().map(|event| event.id.get()).collect();
    if is_sqlite(&bench) {
        assert_eq!(ids, [1, 700, 701]);
    } else {
        let Err(StoreError::Failed(refused)) = chosen else { panic!("{chosen:?}") };
        assert!(
            refused.to_string().contains("cannot insert a non-DEFAULT value into column \"id\""),
            "{refused}"
        );
        assert_eq!(ids, [1, 2]);
    }
}

/// The role is made and used in one transaction, so that nothing of it stays in the server.
async fn who_writes_events_needs_no_other_right(bench: Bench) {
    if is_sqlite(&bench) {
        return; // It has no rights but those to the file.
    }
    let mut tx = bench.begin().await;
    for sql in [
        "create role tidemill_test_shop",
        "grant insert on outbox_event to tidemill_test_shop",
        "set local role tidemill_test_shop",
        PLAIN,
        &with("headers", "'{\"a\":\"b\"}'"),
    ] {
        tx.execute_for_test(sql).await.unwrap();
    }

    let read = tx.execute_for_test("select * from outbox_event").await;

    assert!(matches!(read, Err(StoreError::NotPermitted(_))), "{read:?}");
}

/// Relays go by these numbers; PostgreSQL gives them out itself.
#[tokio::test]
async fn a_number_that_relays_have_passed_is_refused() {
    let bench = Bench::sqlite().await;
    publish(&bench, &[paid("1"), paid("2")]).await;
    run(&bench, &with("id", "700")).await.unwrap();

    for gone in [false, true] {
        if gone {
            run(&bench, "delete from outbox_event").await.unwrap();
        }
        for id in ["650", "0", "-1"] {
            let Err(StoreError::Failed(refused)) = run(&bench, &with("id", id)).await else {
                panic!("{id} is accepted")
            };
            assert!(refused.to_string().contains("leave out id"), "{refused}");
        }
    }
    publish(&bench, &[paid("3")]).await;
    run(&bench, PLAIN).await.unwrap();

    let ids: Vec<i64> = events(&bench).await.into_iter().map(|event| event.id.get()).collect();
    assert_eq!(ids, [701, 702]);
}
