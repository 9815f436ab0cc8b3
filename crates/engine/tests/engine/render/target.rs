//! Files that object stores have besides the NAS, or in place of it.

use super::studio::{MINI, Running, Studio, WAIT_AND_MORE, until};
use tidemill_domain::code::Code;
use tidemill_domain::render::{Failure, Phase, RenderId, Status};
use tidemill_store::render::RenderRecord;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_store_has_the_file_before_the_nas_and_the_row_names_both,
    a_composition_without_the_nas_is_published_in_the_store_only,
    a_store_that_is_down_is_waited_for_and_nothing_is_rendered_again,
    a_store_that_takes_no_files_is_tried_by_one_render_and_nothing_is_copied_again,
    a_part_that_was_swept_while_its_store_was_down_is_copied_again,
    a_render_that_waits_for_a_store_is_cancelled_whether_the_store_answers_or_not,
    a_store_that_hangs_keeps_nobody_from_another_composition,
    a_corrected_file_has_an_object_of_its_own,
    a_worker_that_dies_in_an_upload_is_replaced_and_nothing_is_rendered_again,
    another_object_of_this_name_is_a_conflict_before_anything_is_rendered,
    a_target_that_a_worker_does_not_have_is_left_to_another_worker,
];

const OBJECT: &str = "s3://films/main/2026-11-15/Mini_1.mp4";

const FILE: &str = "\\\\NAS\\broadcast\\output\\2026-11-15\\Mini_1.mp4";

async fn studio(scratch: Scratch, targets: &[&str]) -> Studio {
    let studio = Studio::on(scratch).await;
    studio.know_with(MINI, None, targets).await;
    studio
}

async fn completed(studio: &Studio, id: RenderId, worker: Running) -> RenderRecord {
    let record = studio.until_status(id, Status::Completed).await;
    worker.stop().await;
    assert_eq!(studio.fake.submits(), 1);
    record
}

async fn a_store_has_the_file_before_the_nas_and_the_row_names_both(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = completed(&studio, id, worker).await;

    assert_eq!((record.output_path.as_deref(), record.objects()), (Some(FILE), vec![OBJECT]));
    let state = studio.fake.state();
    assert_eq!(state.objects[OBJECT], state.finals["2026-11-15/Mini_1.mp4"]);
}

async fn a_composition_without_the_nas_is_published_in_the_store_only(scratch: Scratch) {
    let studio = studio(scratch, &["archive"]).await;
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = completed(&studio, id, worker).await;

    assert_eq!((record.output_path.as_deref(), record.objects()), (Some(OBJECT), vec![OBJECT]));
    let state = studio.fake.state();
    assert_eq!((state.finals.len(), state.parts.len(), state.objects.len()), (0, 0, 1));
}

async fn a_store_that_is_down_is_waited_for_and_nothing_is_rendered_again(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    let worker = studio.worker().await;
    for (renders, call) in [(1, "object"), (2, "upload")] {
        studio.fake.breaks(call, Failure::TargetDown);
        let id = studio.order().await;
        for _ in 0..5 {
            let calls = studio.fake.calls(call);
            until(|| studio.fake.calls(call) > calls).await;
            let waits = studio.until(id, |record| record.render.reason.is_some()).await;
            assert_eq!(waits.render.reason.as_ref().unwrap().code, Code::RenderTargetDown);
            assert_eq!((waits.render.status, waits.render.counts.attempts), (Status::Pending, 0));
            assert!(waits.render.phase >= Phase::Copying && waits.objects().is_empty());
            studio.clock.advance(WAIT_AND_MORE);
        }
        assert_eq!(studio.fake.state().finals.len(), renders - 1, "the NAS was first");

        studio.fake.mend();
        studio.clock.advance(WAIT_AND_MORE);

        let record = studio.until_status(id, Status::Completed).await;
        assert_eq!((record.objects().len(), record.render.counts.upload), (1, 0));
        assert_eq!(studio.fake.submits(), renders);
    }
    worker.stop().await;
}

/// It has copied its file, and waits for its store.
fn waits_with_its_copy(record: &RenderRecord) -> bool {
    record.render.status == Status::Pending && record.render.phase == Phase::Publishing
}

async fn a_store_that_takes_no_files_is_tried_by_one_render_and_nothing_is_copied_again(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    studio.fake.breaks("upload", Failure::TargetDown);
    let worker = studio.worker().await;
    let id = studio.order().await;
    studio.until(id, waits_with_its_copy).await;
    let work = || (studio.fake.calls("inspect"), studio.fake.calls("copy"));
    let before = work();
    let tries_again = async || {
        let uploads = studio.fake.calls("upload");
        studio.clock.advance(WAIT_AND_MORE);
        until(|| studio.fake.calls("upload") > uploads).await;
    };
    for _ in 0..5 {
        tries_again().await;
        studio.until(id, waits_with_its_copy).await;
    }
    assert_eq!(work(), before, "it is neither checked nor copied again");

    studio.fake.close("upload");
    tries_again().await;
    let other = studio.order().await;
    let waits = studio.until(other, |record| record.render.reason.is_some()).await;
    assert_eq!((waits.render.status, waits.render.phase), (Status::Pending, Phase::Copying));
    assert_eq!(work().1, before.1, "the other one waits without a copy");
    studio.fake.mend();
    studio.fake.open("upload");
    studio.until_status(id, Status::Completed).await;
    studio.clock.advance(WAIT_AND_MORE);
    studio.until_status(other, Status::Completed).await;
    worker.stop().await;
}

async fn a_part_that_was_swept_while_its_store_was_down_is_copied_again(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    studio.fake.breaks("upload", Failure::TargetDown);
    let worker = studio.worker().await;
    let id = studio.order().await;
    studio.until(id, waits_with_its_copy).await;
    let copies = studio.fake.calls("copy");

    studio.fake.state().parts.clear();
    studio.fake.mend();
    studio.clock.advance(WAIT_AND_MORE);
    let record = completed(&studio, id, worker).await;

    assert_eq!((record.objects(), studio.fake.calls("copy")), (vec![OBJECT], copies + 1));
}

async fn a_render_that_waits_for_a_store_is_cancelled_whether_the_store_answers_or_not(scratch: Scratch) {
    let studio = studio(scratch, &["archive"]).await;
    studio.know_with("Both", None, &["nas", "archive"]).await;
    let worker = studio.worker().await;
    for (composition, is_silent) in [("Both", true), (MINI, false), (MINI, true)] {
        studio.fake.breaks("upload", Failure::TargetDown);
        let data = serde_json::json!({ "single_fields": { "title": "x" } });
        let id = studio.order_of(composition, data).await;
        studio.until(id, waits_with_its_copy).await;
        if is_silent {
            studio.fake.breaks("object", Failure::TargetDown);
        }

        studio.cancel(id).await;

        let record = studio.until_status(id, Status::Cancelled).await;
        assert!(record.render.cancel_requested_at.is_some(), "{composition}");
        studio.fake.mend();
    }
    worker.stop().await;
    assert_eq!(studio.fake.state().finals.len(), 0);
}

async fn a_store_that_hangs_keeps_nobody_from_another_composition(scratch: Scratch) {
    let studio = studio(scratch, &["archive"]).await;
    studio.know("Other", None).await;
    studio.fake.close("upload");
    let stuck = studio.order().await;
    let worker = studio.worker().await;
    until(|| studio.fake.calls("upload") == 1).await;

    let data = serde_json::json!({ "single_fields": { "title": "x" } });
    for _ in 0..8 {
        let other = studio.order_of("Other", data.clone()).await;
        studio.until_status(other, Status::Completed).await;
    }
    assert_eq!(studio.record(stuck).await.render.phase, Phase::Publishing);
    studio.fake.open("upload");

    studio.until_status(stuck, Status::Completed).await;
    worker.stop().await;
}

async fn a_corrected_file_has_an_object_of_its_own(scratch: Scratch) {
    let studio = studio(scratch, &["archive"]).await;
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    let data = r#"{"single_fields": {"title": "HEADS UP"}}"#;
    studio.run_sql(&format!("update render_queue set gfx_data = '{data}', status = 'pending'")).await;
    assert!(studio.record(id).await.objects().is_empty(), "its file is gone from the row");
    studio.clock.advance(std::time::Duration::from_secs(366 * 86_400));
    let worker = studio.worker().await;
    let second = studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    let new = "s3://films/main/2026-11-15/Mini_1_r2.mp4";
    assert_eq!((second.objects(), second.previous_output_path.as_deref()), (vec![new], Some(OBJECT)));
    assert_eq!(studio.fake.state().objects.keys().collect::<Vec<_>>(), [OBJECT, new]);
}

async fn a_worker_that_dies_in_an_upload_is_replaced_and_nothing_is_rendered_again(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    studio.fake.close("upload");
    let id = studio.order().await;
    let first = studio.worker().await;
    until(|| studio.fake.calls("upload") == 1).await;

    first.kill().await;
    studio.fake.open("upload");
    studio.clock.advance(super::studio::LEASE_AND_MORE);
    let second = studio.worker().await;
    studio.until(id, |record| record.render.counts.recoveries == 1).await;
    studio.clock.advance(WAIT_AND_MORE);
    let record = completed(&studio, id, second).await;

    assert_eq!((record.objects(), record.render.counts.recoveries), (vec![OBJECT], 1));
}

async fn another_object_of_this_name_is_a_conflict_before_anything_is_rendered(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archive"]).await;
    studio.fake.state().objects.insert(OBJECT.to_owned(), b"another".to_vec());
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Failed).await;
    worker.stop().await;

    assert_eq!(record.render.reason.unwrap().code, Code::OutputConflict);
    assert_eq!((studio.fake.submits(), &studio.fake.state().objects[OBJECT]), (0, &b"another".to_vec()));
}

async fn a_target_that_a_worker_does_not_have_is_left_to_another_worker(scratch: Scratch) {
    let studio = studio(scratch, &["nas", "archve"]).await;
    let id = studio.order().await;

    let lacking = studio.worker().await;
    let waits = studio.until(id, |record| record.render.reason.is_some()).await;
    lacking.stop().await;

    assert_eq!((waits.render.status, waits.render.counts.attempts), (Status::Pending, 0));
    let reason = waits.render.reason.unwrap();
    assert_eq!((reason.code, studio.fake.submits()), (Code::RenderTargetDown, 0));
    for part in ["the worker one lacks", "set render.targets on all workers", "did you mean archive?"] {
        assert!(reason.message.contains(part), "{}", reason.message);
    }
    studio.clock.advance(WAIT_AND_MORE);
    let knowing =
        studio.worker_with(|options| options.targets.add("archve", "s3://films/new").unwrap()).await;
    let record = completed(&studio, id, knowing).await;
    assert_eq!(record.objects(), ["s3://films/new/2026-11-15/Mini_1.mp4"]);
}
