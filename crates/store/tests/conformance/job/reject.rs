//! Items that a step left out.

use super::{day, launch, run_step};
use crate::Bench;
use tidemill_store::job::RejectRow;

crate::on_both![rejects_are_kept_in_order_and_listed_by_pages, a_reject_goes_with_its_chunk];

fn reject(item: &str) -> RejectRow {
    let place = Some("in.csv line 7".to_owned());
    RejectRow {
        phase: "read",
        kind: "parse".into(),
        error: "no".into(),
        place,
        item: Some(item.into()),
        columns: None,
    }
}

async fn rejects_are_kept_in_order_and_listed_by_pages(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let (step, other) =
        (run_step(&bench, &launched, "copy").await, run_step(&bench, &launched, "check").await);
    let mut tx = bench.begin().await;
    tx.jobs().insert_rejects(step, &[reject("a"), reject("b\0")]).await.unwrap();
    tx.jobs().insert_rejects(other, &[reject("x")]).await.unwrap();
    tx.jobs().insert_rejects(step, &[reject("c")]).await.unwrap();

    let page = tx.jobs().rejects(step, 0, 2).await.unwrap();
    let rest = tx.jobs().rejects(step, page[1].id, 2).await.unwrap();

    let items: Vec<_> = page.iter().chain(&rest).map(|reject| reject.item.as_deref().unwrap()).collect();
    assert_eq!(items, ["a", "b\u{fffd}", "c"]);
    let first = &page[0];
    assert_eq!((first.phase.as_str(), first.kind.as_str(), first.error.as_str()), ("read", "parse", "no"));
    assert_eq!((first.place.as_deref(), first.at), (Some("in.csv line 7"), bench.now()));
}

async fn a_reject_goes_with_its_chunk(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut tx = bench.begin().await;
    tx.jobs().insert_rejects(step, &[reject("a")]).await.unwrap();

    tx.rollback().await.unwrap();

    assert!(bench.begin().await.jobs().rejects(step, 0, 10).await.unwrap().is_empty());
}
