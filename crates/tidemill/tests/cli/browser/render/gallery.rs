//! Renders in every state, with something of everything on their pages.

use super::super::scene::SOON;
use super::scene;
use super::studio::{CLIP, COMPOSITION, Nas, describe, order};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::output::staging_name;
use tidemill_domain::render::{Failure, Phase, Policy, Report, Trouble, Uid, Work};
use tidemill_domain::schedule::Zone;
use tidemill_engine::SystemIds;
use tidemill_store::Store;
use tidemill_store::render::{ClaimRequest, Claimed, Notes, WorkerBeat, WorkerState};
use tidemill_testkit::BrowserOptions;

/// One process for each worker.
fn process(worker: &str) -> ProcessId {
    static KNOWN: Mutex<BTreeMap<String, ProcessId>> = Mutex::new(BTreeMap::new());
    *KNOWN.lock().unwrap().entry(worker.to_owned()).or_insert_with(|| SystemIds.process())
}

async fn claim(store: &Store, worker: &str) -> Claimed {
    let policy = Policy::standard().unwrap();
    let by = process(worker);
    let mut tx = store.begin().await.unwrap();
    let request = ClaimRequest { by, worker, count: 1, policy: &policy, zone: &Zone::UTC };
    let mut claims = tx.renders().claim(request).await.unwrap();
    let (capacity, in_flight, state) = (4, 4, WorkerState::Working);
    let farm = Some(Duration::from_millis(14));
    let copy = Some(Duration::from_secs(3));
    let beat = WorkerBeat { process: by, name: worker, capacity, in_flight, state, farm, copy };
    tx.renders().beat_worker(beat).await.unwrap();
    tx.commit().await.unwrap();
    claims.claimed.remove(0)
}

async fn say(store: &Store, claimed: &Claimed, work: Work, notes: Notes<'_>) {
    let mut tx = store.begin().await.unwrap();
    let policy = Policy::standard().unwrap();
    let id = claimed.record.id();
    tx.renders().work(id, claimed.fence, work, notes, &policy).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

async fn render_to(store: &Store, claimed: &Claimed, percent: f64) {
    let report = Report::At { phase: Phase::Rendering, percent: Some(percent) };
    for work in [Work::Prepared, Work::Submitted, Work::Reported(report)] {
        say(store, claimed, work, Notes::default()).await;
    }
}

/// A frame of the film, where the server looks for it.
fn paint(nas: &Nas, done: &Claimed) -> PathBuf {
    let film = nas.path().join("film.mp4");
    let poster = nas.posters().join(staging_name(Uid::new(done.record.id(), done.fence.epoch), "", "jpg"));
    std::fs::write(&film, CLIP).unwrap();
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-i"]).arg(&film).args(["-frames:v", "1"]).arg(&poster);
    assert!(ffmpeg.status().unwrap().success());
    poster
}

/// Something of everything: the first has its film, the second has failed, the third and the fourth are rendered, the fifth
/// is to be tried again, and three wait. The second to the sixth are a batch.
pub(in super::super) async fn furnish(store: &Store, nas: &Nas) {
    describe(store).await;
    order(store, COMPOSITION, "cue-10", 0).await;
    let done = claim(store, "renderer-1").await;
    render_to(store, &done, 50.0).await;
    say(store, &done, Work::Reported(Report::Finished), Notes::default()).await;
    let report = json!({
        "is_good": true,
        "failures": [],
        "warnings": [{ "check": "black", "expected": "a part of it", "actual": "99 %" }],
        "bytes": 18_400_000,
        "format": "mov,mp4,m4a,3gp,3g2,mj2",
        "videos": [{ "codec": "h264", "pixel_format": "yuv420p", "width": 1920, "height": 1080, "rate": "30", "frames": 150,
            "packets": 150, "seconds": 5.0 }],
        "audios": [],
        "decoded": "whole",
    });
    let poster = paint(nas, &done).display().to_string();
    let found = Notes { report: Some(&report), poster_path: Some(&poster), ..Notes::default() };
    say(store, &done, Work::Validated, found).await;
    let published = Notes {
        output_path: Some("\\\\NAS\\broadcast\\output\\2026-11-15\\_MAIN Mini Chip Count_1.mp4"),
        output_bytes: Some(18_400_000),
        output_sha256: Some("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        ..Notes::default()
    };
    say(store, &done, Work::Copied, published).await;
    say(store, &done, Work::Published, Notes::default()).await;
    order(store, COMPOSITION, "cue-11", 0).await;
    let tried = claim(store, "renderer-1").await;
    render_to(store, &tried, 80.0).await;
    let message = "aerender ended with code 9: After Effects error: could not find the font “Noto Sans KR Black”\n\
                   at Text (layer “Name 1”)";
    say(store, &tried, Work::Failed(Trouble::new(Failure::TemplateMissing, message)), Notes::default()).await;
    for (worker, cue, percent) in [("renderer-1", "cue-12", 37.0), ("renderer-2", "cue-13", 82.0)] {
        order(store, COMPOSITION, cue, 0).await;
        render_to(store, &claim(store, worker).await, percent).await;
    }
    order(store, COMPOSITION, "cue-14", 0).await;
    let down =
        Trouble::new(Failure::NexrenderDown, "http://render01:3000 does not answer: connection refused");
    say(store, &claim(store, "renderer-1").await, Work::Failed(down), Notes::default()).await;
    for (composition, cue, priority) in [
        (COMPOSITION, "cue-15", 10),
        ("Feature Table Lower Third with quite a long name", "cue-16", 0),
        ("최종 테이블", "cue-17", 0),
    ] {
        order(store, composition, cue, priority).await;
    }
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test("update render_queue set batch_id = 2 where id between 2 and 6").await.unwrap();
    tx.commit().await.unwrap();
}

#[test]
fn renders_are_read_and_cancelled_without_javascript() {
    let Some((scene, nas)) = scene(&BrowserOptions { javascript: false }) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(scene.real_store());
    runtime.block_on(furnish(&store, &nas));

    let page = scene.visit("/render?status=rendering");
    page.set_window(1280, 900).unwrap();
    assert!(page.text("#renders").unwrap().contains("37 %"));
    page.click("a[data-ask]").unwrap();
    assert!(page.text("main").unwrap().contains("nexrender cannot stop it"));
    page.fill("[name=reason]", "wrong name").unwrap();
    page.click("button.end").unwrap();

    page.wait_until(SOON, |page| Ok(page.text("main")?.contains("cancelling"))).unwrap();
    assert_eq!(scene.path(), "/render?status=rendering");
    runtime.block_on(store.close());
}
