//! A file that a person has to approve: it waits without a worker, and nothing else than it is published.

use super::studio::{MINI, Studio, until};
use std::num::NonZeroUsize;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::profile::ApprovalNeed;
use tidemill_domain::render::{Phase, RenderId, Status};
use tidemill_store::render::{RenderChanged, RenderRecord};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    what_waits_for_approval_holds_no_place_and_keeps_its_file,
    a_file_that_has_changed_is_asked_for_again,
    a_file_that_has_vanished_is_rendered_again_and_asked_for_again,
    a_file_is_hashed_in_its_turn,
    a_rejected_file_is_deleted,
];

/// The file of a profile, staged by the fake node.
const STAGED: &str = "/staging/rq-1-1.mp4";

/// A studio whose files need approval, and a render that waits for it.
async fn asked(scratch: Scratch) -> (Studio, RenderId) {
    let studio = Studio::on(scratch).await;
    let mut tx = studio.store.begin().await.unwrap();
    let mut profile = tx.renders().profile(MINI).await.unwrap().unwrap();
    profile.approval = ApprovalNeed::Required;
    tx.renders().save_profiles(&[profile], &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    studio.know("Free", None).await;
    let id = studio.order().await;
    let worker = studio.worker().await;
    let record = awaiting(&studio, id).await;
    assert_eq!(record.output_sha256.as_deref(), Some("sha of rq-1-1"));
    worker.stop().await;
    (studio, id)
}

async fn awaiting(studio: &Studio, id: RenderId) -> RenderRecord {
    studio.until(id, |record| record.render.awaits_approval()).await
}

async fn approve(studio: &Studio, id: RenderId) {
    let mut tx = studio.store.begin().await.unwrap();
    let approved = tx.renders().approve(id, None, &Actor::system(), None).await.unwrap();
    assert!(matches!(approved, RenderChanged::Done { .. }), "{approved:?}");
    tx.commit().await.unwrap();
}

fn finals(studio: &Studio) -> Vec<Vec<u8>> {
    studio.fake.state().finals.values().cloned().collect()
}

async fn what_waits_for_approval_holds_no_place_and_keeps_its_file(scratch: Scratch) {
    let (studio, id) = asked(scratch).await;
    let title = serde_json::json!({ "single_fields": { "title": "x" } });
    let other = studio.order_of("Free", title).await;

    let worker = studio.worker_with(|options| options.capacity = NonZeroUsize::new(1).unwrap()).await;
    studio.until_status(other, Status::Completed).await;
    // Old files are looked for when a worker starts.
    until(|| studio.fake.calls("left") >= 2).await;
    assert!(studio.fake.state().staged.contains_key(STAGED));
    assert!(studio.fake.state().jobs.contains_key("rq-1-1"));
    assert!(studio.record(id).await.render.awaits_approval());
    approve(&studio, id).await;
    let record = studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    assert_eq!(record.output_sha256.as_deref(), Some("sha of rq-1-1"));
    assert!(finals(&studio).contains(&b"rq-1-1".to_vec()));
    assert_eq!(studio.fake.submits(), 2);
}

async fn a_file_that_has_changed_is_asked_for_again(scratch: Scratch) {
    let (studio, id) = asked(scratch).await;
    studio.fake.state().staged.insert(STAGED.into(), b"something else".to_vec());
    approve(&studio, id).await;

    let worker = studio.worker().await;
    let again = awaiting(&studio, id).await;
    assert_eq!((again.output_sha256.as_deref(), finals(&studio).len()), (Some("sha of something else"), 0));
    approve(&studio, id).await;
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    assert_eq!((finals(&studio), studio.fake.submits()), (vec![b"something else".to_vec()], 1));
}

async fn a_file_that_has_vanished_is_rendered_again_and_asked_for_again(scratch: Scratch) {
    let (studio, id) = asked(scratch).await;
    studio.fake.state().staged.clear();
    approve(&studio, id).await;

    let worker = studio.worker().await;
    studio.until(id, |record| record.render.reason.is_some()).await;
    assert_eq!(studio.record(id).await.render.approval, None);
    studio.clock.advance(super::studio::WAIT_AND_MORE);
    let again = awaiting(&studio, id).await;
    worker.stop().await;

    assert_ne!(again.output_sha256.as_deref(), Some("sha of rq-1-1"));
    assert_eq!((finals(&studio).len(), studio.fake.submits()), (0, 2));
}

async fn a_file_is_hashed_in_its_turn(scratch: Scratch) {
    let (studio, _) = asked(scratch).await;
    let inspected = studio.fake.calls("inspect");
    studio.fake.close("content");
    let worker = studio.worker_with(|options| options.uploads = NonZeroUsize::MIN).await;
    let ids = [studio.order().await, studio.order().await];
    for id in ids {
        studio.until_phase(id, Phase::Validating).await;
    }
    until(|| studio.fake.calls("content") == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;

    assert_eq!(studio.fake.calls("inspect"), inspected + 1, "the other file waits for its turn");
    studio.fake.open("content");
    for id in ids {
        awaiting(&studio, id).await;
    }
    worker.stop().await;
}

async fn a_rejected_file_is_deleted(scratch: Scratch) {
    let (studio, id) = asked(scratch).await;
    let mut tx = studio.store.begin().await.unwrap();
    let _rejected = tx.renders().reject(id, None, &Actor::system(), "a wrong name").await.unwrap();
    tx.commit().await.unwrap();

    let worker = studio.worker().await;
    until(|| {
        let state = studio.fake.state();
        state.staged.is_empty() && !state.removed.is_empty()
    })
    .await;
    worker.stop().await;

    let state = studio.fake.state();
    assert_eq!((state.removed.as_slice(), state.finals.len()), (["rq-1-1".to_owned()].as_slice(), 0));
}
