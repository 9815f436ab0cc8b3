//! Renders that are ordered together: all or none, with one id, and looked at together.

use super::{ann, claim, new_render, ordered, say};
use crate::Bench;
use serde_json::json;
use std::collections::BTreeMap;
use tidemill_domain::render::{Failure, RenderId, Status, Trouble, Work};
use tidemill_store::StoreError;
use tidemill_store::render::{NewRender, PlannedRender, RenderFilter, Submitted};

crate::on_both![
    a_batch_is_ordered_together_and_counted_by_status,
    what_was_ordered_before_stays_out_of_the_batch,
    one_row_that_is_refused_orders_none,
    a_batch_is_found_among_the_renders_around_it,
];

fn planned(order: NewRender) -> PlannedRender {
    PlannedRender { order: Some(order), ..PlannedRender::at(2) }
}

fn cue(cue_item: &str) -> NewRender {
    NewRender { cue_item: Some(cue_item.to_owned()), ..new_render() }
}

async fn submit_batch(bench: &Bench, rows: &mut [PlannedRender]) -> Option<RenderId> {
    let mut tx = bench.begin().await;
    let batch = tx.renders().submit_batch(rows, &ann()).await.unwrap();
    tx.commit().await.unwrap();
    batch
}

async fn a_batch_is_ordered_together_and_counted_by_status(bench: Bench) {
    ordered(&bench).await;
    let mut rows = [planned(cue("a")), PlannedRender::at(3), planned(cue("b")), planned(cue("c"))];
    let batch = submit_batch(&bench, &mut rows).await.unwrap();
    let ids: Vec<RenderId> = rows.iter().filter_map(|row| Some(row.submitted?.id())).collect();

    let new = bench.begin().await.renders().batch(batch).await.unwrap().unwrap();

    assert_eq!((batch, ids.len()), (ids[0], 3), "a row without an order is left out");
    assert_eq!((new.id, new.by_status, new.ended_at), (batch, BTreeMap::from([(Status::Pending, 3)]), None));
    assert_eq!(new.created_at, bench.now());
    let mut tx = bench.begin().await;
    assert_eq!(tx.renders().find(ids[2]).await.unwrap().unwrap().batch, Some(batch));
    assert_eq!(tx.renders().batch(RenderId::new(batch.get() - 1)).await.unwrap(), None, "it is no batch");
    drop(tx);

    bench.advance(super::MINUTE);
    claim(&bench, 1).await;
    let failed = claim(&bench, 2).await;
    say(&bench, &failed, Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"))).await;
    let mut tx = bench.begin().await;
    let one = tx.renders().batch(batch).await.unwrap().unwrap();
    let failed_ids: Vec<RenderId> =
        tx.renders().failed_in_batch(batch).await.unwrap().iter().map(|record| record.id()).collect();
    assert_eq!(one.by_status, BTreeMap::from([(Status::Pending, 2), (Status::Failed, 1)]));
    assert_eq!((one.ended_at, failed_ids), (None, vec![failed.record.id()]));
    for id in &ids {
        let _ended = tx.renders().cancel(*id, &ann(), None).await.unwrap();
    }
    let ended = tx.renders().batch(batch).await.unwrap().unwrap();
    assert_eq!(ended.ended_at, Some(bench.now()));
}

async fn what_was_ordered_before_stays_out_of_the_batch(bench: Bench) {
    let mut rows = [planned(cue("a")), planned(cue("b")), planned(cue("b"))];
    let first = submit_batch(&bench, &mut rows).await;
    let known = rows[1].submitted.unwrap().id();
    assert_eq!(rows[2].submitted, Some(Submitted::Known(known)), "the same row twice is one render");

    let mut again = [planned(cue("b")), planned(cue("c"))];
    let second = submit_batch(&bench, &mut again).await.unwrap();

    assert_eq!(again[0].submitted, Some(Submitted::Known(known)));
    assert_eq!(again[1].submitted, Some(Submitted::New(second)));
    let mut tx = bench.begin().await;
    assert_eq!(tx.renders().find(known).await.unwrap().unwrap().batch, first);
    drop(tx);
    assert_eq!(submit_batch(&bench, &mut [planned(cue("a"))]).await, None);
}

async fn one_row_that_is_refused_orders_none(bench: Bench) {
    let bad = NewRender { data: json!({ "single_fields": { "a": "\u{0}" } }), ..new_render() };
    let mut tx = bench.begin().await;
    let refused = tx.renders().submit_batch(&mut [planned(cue("a")), planned(bad)], &ann()).await;
    tx.rollback().await.unwrap();

    assert!(matches!(refused, Err(StoreError::NulInRender)), "{refused:?}");
    let all = bench.begin().await.renders().list(&RenderFilter::default(), None, 10).await.unwrap();
    assert_eq!(all, []);
}

async fn a_batch_is_found_among_the_renders_around_it(bench: Bench) {
    ordered(&bench).await;
    let batch = submit_batch(&bench, &mut [planned(cue("a")), planned(cue("b"))]).await.unwrap();
    ordered(&bench).await;
    let filter = RenderFilter { batch: Some(batch), ..RenderFilter::default() };
    let mut tx = bench.begin().await;
    let cues = |records: Vec<tidemill_store::render::RenderRecord>| -> Vec<Option<String>> {
        records.into_iter().map(|record| record.cue_item).collect()
    };
    let of = |names: &[&str]| -> Vec<Option<String>> {
        names.iter().map(|name| Some((*name).to_owned())).collect()
    };

    let all = tx.renders().list(&filter, None, 10).await.unwrap();
    assert_eq!(cues(all.clone()), of(&["b", "a"]));
    let rest = tx.renders().list(&filter, Some(all[0].id()), 10).await.unwrap();
    assert_eq!(cues(rest), of(&["a"]));
    let found = tx.renders().search(&filter, Some("b"), None, 10).await.unwrap();
    assert_eq!((cues(found.records), found.searched_to), (of(&["b"]), None));
    let failed = RenderFilter { status: Some(Status::Failed), ..filter };
    assert_eq!(tx.renders().list(&failed, None, 10).await.unwrap(), []);
    let nobody = RenderFilter { batch: Some(RenderId::new(999)), ..RenderFilter::default() };
    assert_eq!(tx.renders().list(&nobody, None, 10).await.unwrap(), []);
}
