//! From the order to the published file.

use super::studio::Studio;
use super::world::Node;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{Phase, Progress, Report, Status};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_render_becomes_a_file_on_the_nas_and_leaves_nothing_behind,
    a_composition_may_have_another_name_in_the_table_than_in_the_template,
    what_the_farm_says_is_seen_in_the_row,
    a_corrected_render_gets_a_file_of_its_own,
    a_name_that_is_taken_is_seen_before_anything_is_rendered,
    queues_in_one_staging_folder_have_files_of_their_own,
    a_worker_whose_name_is_a_uuid_is_seen_by_it_in_the_row,
];

async fn a_corrected_render_gets_a_file_of_its_own(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let id = studio.order().await;
    let worker = studio.worker().await;
    let first = studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    let data = r#"{"single_fields": {"title": "HEADS UP"}}"#;
    studio.run_sql(&format!("update render_queue set gfx_data = '{data}', status = 'pending'")).await;
    // The database's own clock has noted when it may begin.
    studio.clock.advance(Duration::from_secs(366 * 86_400));
    let worker = studio.worker().await;
    let second = studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    assert_eq!((first.output_revision, second.output_revision), (1, 2));
    assert_eq!(second.previous_output_path, first.output_path);
    assert_eq!(second.output_path.as_deref(), Some("\\\\NAS\\broadcast\\output\\2026-11-15\\Mini_1_r2.mp4"));
    let state = studio.fake.state();
    assert_eq!(
        state.finals.keys().collect::<Vec<_>>(),
        ["2026-11-15/Mini_1.mp4", "2026-11-15/Mini_1_r2.mp4"]
    );
    assert_eq!(state.documents[1]["assets"][0]["value"], json!("HEADS UP"));
}

async fn a_name_that_is_taken_is_seen_before_anything_is_rendered(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.state().finals.insert("2026-11-15/Mini_1.mp4".into(), b"another".to_vec());
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Failed).await;
    worker.stop().await;

    assert_eq!(record.render.reason.unwrap().code.to_string(), "TM1538");
    assert_eq!(studio.fake.state().documents.len(), 0);
}

async fn a_worker_whose_name_is_a_uuid_is_seen_by_it_in_the_row(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let id = studio.order().await;
    let name = "7d9f1f0e-6f5c-4f0a-9a3e-0f4f6f1f2a3b";

    let worker = studio.worker_named(name).await;
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    let mut tx = studio.store.read().await.unwrap();
    let attempts = tx.renders().attempts(id).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(attempts[0].worker.to_string(), name);
}

async fn queues_in_one_staging_folder_have_files_of_their_own(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.run_sql("update render_revision set queue = 'a1b2'").await;
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until(id, |record| record.staged_path.is_some()).await;
    worker.stop().await;

    assert_eq!(record.staged_path.as_deref(), Some("\\\\NAS\\broadcast\\.staging\\rq-1-1.a1b2.mp4"));
}

async fn a_render_becomes_a_file_on_the_nas_and_leaves_nothing_behind(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    let id = studio.order().await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Completed).await;
    super::studio::until(|| studio.fake.calls("discard") == 1).await;
    worker.stop().await;

    assert_eq!(record.output_path.as_deref(), Some("\\\\NAS\\broadcast\\output\\2026-11-15\\Mini_1.mp4"));
    assert_eq!(record.output_sha256.as_deref(), Some("sha of rq-1-1"));
    assert_eq!(record.poster_path.as_deref(), Some("/posters/rq-1-1.jpg"));
    assert_eq!(record.render.progress, Progress::DONE);
    {
        let state = studio.fake.state();
        assert_eq!(state.finals.keys().collect::<Vec<_>>(), ["2026-11-15/Mini_1.mp4"]);
        assert_eq!(state.removed, ["rq-1-1"]);
        assert_eq!((state.staged.len(), state.parts.len(), state.jobs.len()), (0, 0, 0));
        assert_eq!(state.documents[0]["assets"][0]["value"], json!("FINAL TABLE"));
    }
    let mut tx = studio.store.read().await.unwrap();
    let attempts = tx.renders().attempts(id).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::Completed));
    assert_eq!(attempts[0].report.as_ref().unwrap()["is_good"], json!(true));
}

/// The document's own row: `comp_123` of the table is `_MAIN Mini Chip Count` of the template.
async fn a_composition_may_have_another_name_in_the_table_than_in_the_template(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.know("comp_123", Some("_MAIN Mini Chip Count")).await;
    let name = "_MAIN Mini Chip Count";
    let fields = json!({ "title": "FINAL TABLE" });
    let named = |name| json!({ "composition_name": name, "single_fields": fields });
    let both = studio.order_of("comp_123", named(name)).await;
    let unnamed = studio.order_of("comp_123", json!({ "single_fields": fields })).await;
    let other = studio.order_of("comp_123", named("Lower")).await;

    let worker = studio.worker().await;
    studio.until_status(both, Status::Completed).await;
    studio.until_status(unnamed, Status::Completed).await;
    let other = studio.until_status(other, Status::Failed).await;
    worker.stop().await;

    let state = studio.fake.state();
    for document in &state.documents {
        assert_eq!(document["template"]["composition"], json!(name));
        assert_eq!(document["assets"][0]["composition"], json!(name));
    }
    let finals: Vec<&str> = state.finals.keys().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(finals, ["_MAIN Mini Chip Count_1.mp4", "comp_123_2.mp4"]);
    let reason = other.render.reason.unwrap();
    assert_eq!(reason.code.to_string(), "TM1501");
    assert!(reason.message.contains("name_in_template"), "{}", reason.message);
}

async fn what_the_farm_says_is_seen_in_the_row(scratch: Scratch) {
    let studio = Studio::on(scratch).await;
    studio.fake.set_node(Node::Absent);
    let id = studio.order().await;
    let worker = studio.worker().await;
    studio.until_phase(id, Phase::WaitingForNode).await;

    studio.fake.says("rq-1-1", Report::At { phase: Phase::Rendering, percent: Some(45.0) });
    let record = studio.until_phase(id, Phase::Rendering).await;

    assert_eq!((record.render.status, record.render.progress.get()), (Status::Rendering, 45));
    assert_eq!(record.worker_name.as_deref(), Some("one"));
    studio.fake.says("rq-1-1", Report::At { phase: Phase::Encoding, percent: Some(20.0) });
    let record = studio.until_status(id, Status::Encoding).await;
    assert_eq!(record.render.progress.get(), 45);
    worker.stop().await;
}

#[tokio::test]
async fn all_that_is_wrong_with_a_render_is_told_at_once() {
    let studio = Studio::any().await;
    let id = studio.order_with(json!({ "single_fields": { "name": "a", "stack": "b" } })).await;

    let worker = studio.worker().await;
    let record = studio.until_status(id, Status::Failed).await;
    worker.stop().await;

    let reason = record.render.reason.unwrap();
    assert_eq!(reason.code.to_string(), "TM1503");
    for problem in
        ["Single - name is not mapped", "Single - stack is not mapped", "Single - title is missing"]
    {
        assert!(reason.message.contains(problem), "{}", reason.message);
    }
    assert_eq!(studio.fake.submits(), 0);
}

#[tokio::test]
async fn a_profile_that_was_mended_is_used_at_once() {
    let studio = Studio::any().await;
    studio.run_sql("delete from aep_field_mapping").await;
    let worker = studio.worker().await;
    let refused = studio.order().await;
    studio.until_status(refused, Status::Failed).await;

    studio
        .run_sql(
            "insert into aep_field_mapping (composition_id, field_name, layer_name)
             values ('Mini', 'Single - title', 'Other')",
        )
        .await;
    let id = studio.order().await;
    studio.until_status(id, Status::Completed).await;
    worker.stop().await;

    assert_eq!(studio.fake.state().documents[0]["assets"][0]["layerName"], json!("Other"));
}
