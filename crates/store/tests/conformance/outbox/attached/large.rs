//! Rows of others have no limits. What nobody could publish is not fetched, and what can be is fetched in portions.

use super::{attached, claim, ids, insert, mark, numbers};
use crate::Bench;
use crate::outbox::reader::Reader;
use crate::outbox::run;
use tidemill_domain::outbox::attached::RowOutcome;
use tidemill_domain::outbox::attached::row::{ClaimedRow, RowHeaders, RowPayload};

/// Rows of one aggregate, each with payload and headers of these lengths.
async fn insert_large(bench: &Bench, rows: u32, payload: usize, headers: usize) {
    run(
        &bench.store,
        &format!(
            "insert into transfer_events (aggregate_id, payload, headers)
             select 'large', repeat('x', {payload}), '{{\"h\": \"' || repeat('y', {headers}) || '\"}}'
             from generate_series(1, {rows})"
        ),
    )
    .await;
}

/// The first row of a table whose payloads are of this type.
async fn first_of(type_name: &str, payload: &str) -> Option<ClaimedRow> {
    let bench = attached().await?;
    run(
        &bench.store,
        &format!(
            "alter table transfer_events alter column payload type {type_name} using payload::text::{type_name}"
        ),
    )
    .await;
    run(
        &bench.store,
        &format!("insert into transfer_events (aggregate_id, payload) values ('a', {payload})"),
    )
    .await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;
    Some(claim(&mut relay, &[], 10).await.unwrap().rows.remove(0))
}

#[tokio::test]
async fn a_payload_that_nobody_could_publish_is_not_fetched() {
    let Some(bench) = attached().await else { return };
    insert_large(&bench, 1, 3 << 20, 1).await;
    insert(&bench, &["other"]).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;

    let claimed = claim(&mut relay, &[], 10).await.unwrap();

    assert_eq!(numbers(&claimed), [1, 2]);
    assert_eq!(claimed.rows[0].payload, RowPayload::TooLarge { len: 3 << 20 });
    assert_eq!(claimed.rows[1].payload, RowPayload::Text("{}".into()));
}

#[tokio::test]
async fn headers_that_nobody_could_publish_are_not_fetched() {
    let Some(bench) = attached().await else { return };
    insert_large(&bench, 1, 1, 3 << 20).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;

    let row = claim(&mut relay, &[], 10).await.unwrap().rows.remove(0);

    assert_eq!((row.payload, row.headers), (RowPayload::Text("x".into()), RowHeaders::TooLarge));
}

#[tokio::test]
async fn bytes_are_measured_as_they_are_and_not_as_they_are_written() {
    let most = format!("decode(repeat('ab', {}), 'hex')", 1 << 20);
    let Some(row) = first_of("bytea", &most).await else { return };
    assert_eq!(row.payload, RowPayload::Bytes(vec![0xab; 1 << 20]));

    let more = format!("decode(repeat('ab', {}), 'hex')", (1 << 20) + 1);
    let row = first_of("bytea", &more).await.unwrap();
    assert_eq!(row.payload, RowPayload::TooLarge { len: (1 << 20) + 1 });
}

#[tokio::test]
async fn json_is_measured_as_it_is_written() {
    for type_name in ["json", "jsonb"] {
        // Two marks stand around the text.
        let text = |len: usize| format!("to_json(repeat('x', {len}))::{type_name}");
        let Some(row) = first_of(type_name, &text((1 << 20) - 2)).await else { return };
        assert!(matches!(row.payload, RowPayload::Text(text) if text.len() == 1 << 20));

        let row = first_of(type_name, &text(1 << 20)).await.unwrap();
        assert_eq!(row.payload, RowPayload::TooLarge { len: (1 << 20) + 2 });

        // What does not even compress is not written out.
        let noise = "(select to_json(string_agg(md5(n::text), '')) from generate_series(1, 400000) as n)";
        let row = first_of(type_name, &format!("{noise}::{type_name}")).await.unwrap();
        assert!(matches!(row.payload, RowPayload::TooLarge { len } if len > 8 << 20), "{:?}", row.payload);
    }
}

#[tokio::test]
async fn what_is_fetched_at_once_is_limited_and_headers_count() {
    let Some(bench) = attached().await else { return };
    insert_large(&bench, 20, 1_000_000, 100_000).await;
    let mut relay = Reader::of_all(&bench.store, 1, 10).await;

    let first = ids(&mut relay).await;

    // The last one begins before the limit of 16 MiB and ends behind it.
    assert_eq!(first, (1..=16).collect::<Vec<_>>());
    let published: Vec<(i64, RowOutcome)> = first.into_iter().map(|id| (id, RowOutcome::Published)).collect();
    mark(&mut relay, &published).await.unwrap();
    assert_eq!(ids(&mut relay).await, [17, 18, 19, 20]);
}
