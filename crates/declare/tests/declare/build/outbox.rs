//! Steps that write events.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::outbox::{Headers, Payload, StoredEvent};
use tidemill_store::outbox::EventFilter;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    every_item_becomes_an_event,
    rows_and_events_commit_together,
    an_item_without_a_key_is_skipped_and_kept_with_the_code,
];

/// The events, the oldest first.
async fn events(stand: &Stand) -> Vec<StoredEvent> {
    let mut tx = stand.bench.store().read().await.unwrap();
    let mut events = Vec::new();
    for record in tx.outbox().events(&EventFilter::default(), 1000).await.unwrap().into_iter().rev() {
        events.push(tx.outbox().event(record.id).await.unwrap().unwrap());
    }
    events
}

fn headers(of: &[(&str, &str)]) -> Headers {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn every_item_becomes_an_event(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.csv", "id,amount,trace\n1,5.20,abc\n2,7.00,\n1,9.99,x\n");
    let text = r#"
job: load
parameters: { date: { type: date }, stage: { type: string } }
steps:
  - name: s
    chunk: 2
    read: { csv: { path: "@/in.csv" } }
    process: { map: { id: "int(row.id)", cents: "decimal(row.amount, 2)", trace: "row.trace == '' ? null : row.trace" } }
    write:
      outbox:
        topic: "transfers-${stage}"
        aggregate_type: transfer
        aggregate_id: "row.id"
        event_type: transfer.loaded
        headers: { day: "parameters.date", trace: "row.trace" }
"#;

    let run = stand.run(text, &["date=2026-11-15", "stage=test"]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let events = events(&stand).await;
    let ids: Vec<&str> = events.iter().map(|event| event.aggregate.id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "1"]);
    let first = &events[0];
    assert_eq!((first.topic.as_str(), first.aggregate.kind.as_str()), ("transfers-test", "transfer"));
    assert_eq!(first.event_type, "transfer.loaded");
    assert_eq!(first.payload, Payload::Json(r#"{"id":1,"cents":520,"trace":"abc"}"#.into()));
    assert_eq!(first.headers.good(), Ok(&headers(&[("day", "2026-11-15"), ("trace", "abc")])));
    assert_eq!(events[1].headers.good(), Ok(&headers(&[("day", "2026-11-15")])), "no value, no header");
    assert_eq!(run.step("s").unwrap().delivery.as_deref(), Some("exactly-once"));
}

async fn rows_and_events_commit_together(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table balance (id bigint not null primary key, cents bigint not null)"]).await;
    stand.sql(&["insert into balance values (3, 0)"]).await;
    stand.write("in.csv", "id,cents\n1,10\n2,20\n3,30\n4,40\n");
    let text = r#"
job: load
steps:
  - name: s
    chunk: 2
    read: { csv: { path: "@/in.csv", columns: [id, cents] } }
    process: { map: { id: "int(row.id)", cents: "int(row.cents)" } }
    write:
      sql: { table: balance }
      outbox: { topic: balances, aggregate_type: balance, aggregate_id: "row.id", event_type: made, payload: "{'cents': row.cents}" }
"#;

    let failed = stand.run(text, &[]).await;
    let early = events(&stand).await;
    stand.sql(&["delete from balance where id = 3"]).await;
    let run = stand.run(text, &[]).await;

    assert_eq!(failed.end.status, BatchStatus::Failed, "{:?}", failed.end);
    assert_eq!(early.len(), 2, "the second chunk failed in the table, and its events went with it");
    assert!(run.is_completed(), "{:?}", run.end);
    let payloads: Vec<Payload> = events(&stand).await.into_iter().map(|event| event.payload).collect();
    let expected = [10, 20, 30, 40].map(|cents| Payload::Json(format!("{{\"cents\":{cents}}}")));
    assert_eq!(payloads, expected);
    assert_eq!(stand.texts("select cast(id as text) from balance order by id").await, ["1", "2", "3", "4"]);
}

async fn an_item_without_a_key_is_skipped_and_kept_with_the_code(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.write("in.jsonl", "{\"id\":\"a\"}\n{\"id\":null}\n{\"id\":\"b\"}\n");
    let text = r#"
job: load
steps:
  - name: s
    chunk: 10
    read: { jsonl: { path: "@/in.jsonl" } }
    write: { outbox: { topic: t, aggregate_type: k, aggregate_id: "row.id", event_type: e, payload: "row.id == 'b' ? null : row.id" } }
    skip: { limit: 1, on: validation, reject: "@/rejects.jsonl" }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let payloads: Vec<Payload> = events(&stand).await.into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, [Payload::Json("\"a\"".into()), Payload::Tombstone]);
    let reject: serde_json::Value = serde_json::from_str(&stand.content("rejects.jsonl")).unwrap();
    assert_eq!(reject["kind"], "validation");
    assert!(reject["error"].as_str().unwrap().starts_with("TM1401: the event is not accepted"), "{reject}");
}

/// Whatever may be skipped: with a topic that is not accepted no item can be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_a_parameter_spoils_fails_the_step_at_once() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.jsonl", "{\"id\":\"a\"}\n");
    let text = r#"
job: load
parameters: { stage: { type: string } }
steps:
  - name: s
    chunk: 10
    read: { jsonl: { path: "@/in.jsonl" } }
    write: { outbox: { topic: "t-${stage}", aggregate_type: k, aggregate_id: "row.id", event_type: e } }
    skip: { limit: 100 }
"#;

    let run = stand.run(text, &["stage=not one"]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    let told = &run.end.exit.description;
    assert!(told.contains("TM1401: the events are not accepted: a topic is 1 to 249"), "{told}");
    assert!(events(&stand).await.is_empty());
}
