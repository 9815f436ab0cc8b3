//! Where object stores have the file of a render, as the row and the notices say.

use super::notify::{bodies, notifying};
use super::{ann, bring_to, execute, find, say, say_with, take_leftovers};
use crate::Bench;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::render::{Failure, Phase, Status, Trouble, Work};
use tidemill_store::render::{Claimed, Notes, RenderRecord};

crate::on_both![
    objects_are_shown_and_told_of_when_the_file_is_published,
    a_file_that_one_store_may_have_gets_another_name_next_time,
    a_file_that_vanishes_after_one_store_has_it_is_rendered_under_another_name,
    what_waits_for_a_store_is_cancelled_by_sql_too,
];

/// The last one is that of an earlier file.
const OBJECTS: &str = "s3://films/Chips_1.mp4\ngs://old/Chips_1.mp4\n\ns3://former/Chips_1.mp4";

async fn objects_are_shown_and_told_of_when_the_file_is_published(bench: Bench) {
    let bench = notifying(&bench, &["hook"]).await;
    let mut claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    let notes = Notes { output_objects: Some(OBJECTS), ..Notes::default() };
    claimed.record = say_with(&bench, id, claimed.fence, Work::Copied, notes).await.unwrap().record;
    assert_eq!(claimed.record.objects(), [] as [&str; 0], "they are not there yet");

    let notes = Notes { output_path: Some("\\\\NAS\\Chips_1.mp4"), ..Notes::default() };
    let record = say_with(&bench, id, claimed.fence, Work::Published, notes).await.unwrap().record;

    assert_eq!(record.objects(), ["s3://films/Chips_1.mp4", "gs://old/Chips_1.mp4"]);
    let told = bodies(&bench).await.remove(0);
    assert_eq!(
        (&told["output"], &told["objects"]),
        (&json!("\\\\NAS\\Chips_1.mp4"), &json!(["s3://films/Chips_1.mp4", "gs://old/Chips_1.mp4"]))
    );
    execute(&bench, "update render_queue set status = 'pending'").await;
    let again = find(&bench, id).await;
    assert_eq!((again.objects().len(), again.output_objects.as_deref()), (0, Some(OBJECTS)));
}

/// The worker has copied the file, and goes on to these object stores.
async fn copied(bench: &Bench, claimed: &Claimed, objects: Option<&str>) -> RenderRecord {
    let notes = Notes {
        output_objects: objects,
        output_bytes: Some(9_000),
        output_sha256: Some("ab"),
        ..Notes::default()
    };
    say_with(bench, claimed.record.id(), claimed.fence, Work::Copied, notes).await.unwrap().record
}

async fn a_file_that_one_store_may_have_gets_another_name_next_time(bench: Bench) {
    for (objects, revision) in [(None, 1), (Some(OBJECTS), 2)] {
        let mut claimed = bring_to(&bench, Phase::Copying).await;
        let id = claimed.record.id();
        claimed.record = copied(&bench, &claimed, objects).await;
        // Another store is down, so the file is looked for and copied once more.
        say(&bench, &claimed, Work::FinalMissing).await;
        let mut tx = bench.begin().await;
        let _done = tx.renders().cancel(id, &ann(), None).await.unwrap();
        tx.commit().await.unwrap();
        say(&bench, &claimed, Work::Copied).await;
        assert_eq!(find(&bench, id).await.render.status, Status::Cancelled);

        let mut tx = bench.begin().await;
        let _done = tx.renders().retry(id, &ann(), None).await.unwrap();
        tx.commit().await.unwrap();

        let record = find(&bench, id).await;
        assert_eq!((record.render.status, record.output_revision), (Status::Pending, revision));
        execute(&bench, "update render_queue set status = 'cancelled'").await;
    }
}

async fn a_file_that_vanishes_after_one_store_has_it_is_rendered_under_another_name(bench: Bench) {
    for (objects, revision) in [(None, 1), (Some(OBJECTS), 2)] {
        let claimed = bring_to(&bench, Phase::Copying).await;
        let id = claimed.record.id();
        copied(&bench, &claimed, objects).await;
        say(&bench, &claimed, Work::FinalMissing).await;

        let gone = Work::Failed(Trouble::new(Failure::OutputInvalid, "it is not there"));
        let again = say(&bench, &claimed, gone).await.record;

        assert_eq!((again.render.status, again.render.phase), (Status::Pending, Phase::Queued));
        assert_eq!((again.output_revision, again.output_bytes), (revision, None));
        execute(&bench, "update render_queue set status = 'cancelled'").await;
        execute(&bench, &format!("update render_queue set status = 'pending' where id = {id}")).await;
        assert_eq!(find(&bench, id).await.output_revision, revision, "its file was not copied again");
        execute(&bench, "update render_queue set status = 'cancelled'").await;
    }
}

async fn what_waits_for_a_store_is_cancelled_by_sql_too(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    copied(&bench, &claimed, Some(OBJECTS)).await;
    say(&bench, &claimed, Work::Failed(Trouble::new(Failure::TargetDown, "no answer"))).await;
    let waits = find(&bench, id).await.render;
    assert_eq!((waits.status, waits.phase), (Status::Pending, Phase::Publishing));

    execute(&bench, "update render_queue set status = 'cancelled'").await;

    assert_eq!(find(&bench, id).await.render.status, Status::Cancelled);
    bench.advance(Duration::from_secs(366 * 86_400));
    assert_eq!(take_leftovers(&bench).await.len(), 1, "its job is dropped");
    execute(&bench, "update render_queue set status = 'pending'").await;
    let again = find(&bench, id).await;
    assert_eq!((again.render.phase, again.output_revision), (Phase::Queued, 2));
}
