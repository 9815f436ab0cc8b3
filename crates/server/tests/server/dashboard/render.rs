//! The pages of the renders, as a browser without JavaScript sees and uses them.

mod approval;
mod batch;
pub(crate) mod composition;
mod list;
mod live;
mod one;
mod order;
mod order_form;
mod selection;

use super::{Browser, HOSTILE, between, has_button};
use crate::App;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{Failure, Phase, Policy, RenderId, Report, Trouble, Work};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Clock;
use tidemill_store::render::{ClaimRequest, Claimed, NewRender, Notes, WorkerBeat, WorkerState};
use tower::ServiceExt;

pub(super) fn new_render(composition: &str) -> NewRender {
    NewRender {
        composition: Some(composition.to_owned()),
        data: json!({ "slots": [{ "slot_number": 1, "fields": { "name": "PHIL IVEY" } }] }),
        cue_item: None,
        priority: 0,
        deadline: None,
        broadcast_date: None,
    }
}

pub(super) async fn submit(app: &App, new: &NewRender) -> RenderId {
    let mut tx = app.store.begin().await.unwrap();
    let submitted = tx.renders().submit(new, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    submitted.id()
}

async fn ordered(app: &App, composition: &str) -> RenderId {
    submit(app, &new_render(composition)).await
}

fn process() -> ProcessId {
    tidemill_engine::SystemIds.process()
}

/// Lets a worker have the render that is first.
/// With a lease that does not end while a test looks at its pages.
fn policy() -> Policy {
    Policy { lease_for: Duration::from_secs(60), ..Policy::standard().unwrap() }
}

pub(super) async fn claim(app: &App, worker: &str) -> Claimed {
    let policy = policy();
    let mut tx = app.store.begin().await.unwrap();
    let request = ClaimRequest { by: process(), worker, count: 1, policy: &policy, zone: &Zone::UTC };
    let mut claims = tx.renders().claim(request).await.unwrap();
    tx.commit().await.unwrap();
    claims.claimed.remove(0)
}

async fn say_with(app: &App, claimed: &Claimed, work: Work, notes: Notes<'_>) {
    let mut tx = app.store.begin().await.unwrap();
    let policy = policy();
    let worked = tx.renders().work(claimed.record.id(), claimed.fence, work, notes, &policy).await.unwrap();
    tx.commit().await.unwrap();
    assert!(worked.is_some());
}

async fn say(app: &App, claimed: &Claimed, work: Work) {
    say_with(app, claimed, work, Notes::default()).await;
}

/// Brings a render that was claimed to where After Effects has rendered so much.
pub(super) async fn render_to(app: &App, claimed: &Claimed, percent: f64) {
    say(app, claimed, Work::Prepared).await;
    say(app, claimed, Work::Submitted).await;
    let report = Report::At { phase: Phase::Rendering, percent: Some(percent) };
    say(app, claimed, Work::Reported(report)).await;
}

/// Brings a render that was claimed to its end.
async fn complete(app: &App, claimed: &Claimed) {
    render_to(app, claimed, 50.0).await;
    say(app, claimed, Work::Reported(Report::Finished)).await;
    let report = json!({
        "is_good": true,
        "failures": [],
        "warnings": [{ "check": "black", "expected": "a part of it", "actual": "99 %" }],
        "bytes": 18_400_000,
        "format": "mov,mp4",
        "videos": [{ "codec": "h264", "width": 1920, "height": 1080, "frames": 150, "seconds": 5.0 }],
        "audios": [],
        "decoded": "whole",
    });
    say_with(app, claimed, Work::Validated, Notes { report: Some(&report), ..Notes::default() }).await;
    let published = Notes {
        output_path: Some("\\\\NAS\\output\\film.mp4"),
        output_bytes: Some(18_400_000),
        output_sha256: Some("abcdef0123456789"),
        ..Notes::default()
    };
    say_with(app, claimed, Work::Copied, published).await;
    say(app, claimed, Work::Published).await;
}

/// Lets a render that was claimed fail for good.
pub(super) async fn fail(app: &App, claimed: &Claimed, message: &str) {
    say(app, claimed, Work::Failed(Trouble::new(Failure::TemplateMissing, message))).await;
}

pub(super) async fn beat(app: &App, name: &str, capacity: u32, in_flight: u32, state: WorkerState) {
    let beat = WorkerBeat { process: process(), name, capacity, in_flight, state, farm: None, copy: None };
    let mut tx = app.store.begin().await.unwrap();
    tx.renders().beat_worker(beat).await.unwrap();
    tx.commit().await.unwrap();
}

async fn look(app: &App, path: &str) -> String {
    let answer = app.ask(Method::GET, path, &[], "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.text
}

/// The text of the row of a render, without its tags.
fn row_text(page: &str, id: RenderId) -> String {
    words(between(page, &format!("<tr role=\"row\" data-live=\"render:{id}\">"), "</tr>"))
}

/// The text of some HTML, without its tags.
fn words(html: &str) -> String {
    let pieces = format!(">{html}<");
    let texts = pieces.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text);
    texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The ids of the rows, from top to bottom.
fn ids(page: &str) -> Vec<i64> {
    let rows = page.split("<tr role=\"row\" data-live=\"render:").skip(1);
    rows.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

impl Browser<'_> {
    /// What is not a text: status, kind and bytes.
    async fn get_bytes(&self, path: &str) -> (StatusCode, String, Vec<u8>) {
        let request =
            Request::builder().uri(path).header("host", "127.0.0.1:7790").header("cookie", &self.cookie);
        let response = self.app.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let kind =
            response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let bytes = axum::body::to_bytes(response.into_body(), 10 << 20).await.unwrap();
        (status, kind, bytes.to_vec())
    }
}
