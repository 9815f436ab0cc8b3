//! Who renders: every worker that was heard of lately, what it has in hand, and how it fares.

use super::page::tabs;
use super::row::{bar, title};
use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::instant::{Times, span};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::{PageSnapshot, milliseconds};
use crate::dashboard::part::{Health, command, empty_row, panel, state as state_word, table};
use crate::dashboard::region::{Audience, Page, Region, Row};
use crate::problem::Problem;
use crate::state::State;
use axum::response::Html;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::lease::Lease;
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::{RenderRecord, WorkerRecord, WorkerState, WorkerTally};
use tidemill_store::{StoreError, Tx};

const COLUMNS: &[&str] =
    &["State", "Worker", "At work on", "Places", "nexrender", "Last copy", "Last 24 h", "Heard of"];

/// Workers are forgotten after this.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

const SHOWN: usize = 100;

/// The workers, and what they have.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<WorkerRecord>,
    at_work: Vec<RenderRecord>,
    tallies: Vec<WorkerTally>,
}

impl Crew {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        Ok(Self {
            workers: tx.renders().workers(KEPT_FOR).await?,
            at_work: tx.renders().at_work(200).await?,
            tallies: tx.renders().tallies().await?,
        })
    }
}

/// The table's body, on the page and in its patch.
pub(crate) fn region(state: &State, crew: &Crew, times: &Times) -> Region {
    let shown = crew.workers.iter().take(SHOWN);
    let rows = shown.map(|worker| Row::new(name(worker), row(state, crew, worker, times))).collect();
    let without = empty_row(
        COLUMNS.len(),
        &html! {
            "No worker has been heard of in the last 24 hours. Start one: " (command("tidemill render worker"))
        },
    );
    let below = html! {
        @if crew.workers.len() > SHOWN {
            tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " of " (crew.workers.len()) "." } }
        }
    };
    Region::table_body("render-workers", Audience::On(&[Page::RenderWorkers]), rows, without, below)
}

fn name(worker: &WorkerRecord) -> String {
    format!("render-worker:{}", worker.process)
}

fn is_silent(worker: &WorkerRecord, now: Timestamp) -> bool {
    now > worker.seen_at && now.since(worker.seen_at) > WORKER_SEEN_WITHIN
}

fn row(state: &State, crew: &Crew, worker: &WorkerRecord, times: &Times) -> Markup {
    let (health, word) = match worker.state {
        _ if is_silent(worker, times.now()) => (Health::Bad, "silent"),
        WorkerState::Paused => (Health::Warn, "paused"),
        WorkerState::Draining => (Health::Idle, "draining"),
        WorkerState::Working if worker.in_flight >= worker.capacity => (Health::Ok, "busy"),
        WorkerState::Working if worker.in_flight > 0 => (Health::Ok, "working"),
        WorkerState::Working => (Health::Ok, "idle"),
    };
    let has = |record: &&RenderRecord| matches!(record.render.lease, Lease::Held { fence, .. } if fence.owner == worker.process);
    let tally = crew.tallies.iter().find(|tally| tally.worker == worker.name);
    let (completed, failed) = tally.map_or((0, 0), |tally| (tally.completed, tally.failed));
    html! {
        tr data-live=(name(worker)) {
            td.long { (state_word(health, word)) (why(state, worker)) }
            th.long scope="row" title=(worker.process) { (worker.name) }
            td.long {
                @for record in crew.at_work.iter().filter(has) {
                    div {
                        a href=(state.path(&format!("/render/{}", record.id()))) { (title(record)) " #" (record.id()) }
                        " " (bar(&record.render)) " " span.soft { (record.render.phase.label()) }
                    }
                }
            }
            td.still { (worker.in_flight) " of " (worker.capacity) " taken" }
            td.still { (maybe(worker.farm.map(milliseconds))) }
            td.still { (maybe(worker.copy.map(span))) }
            td.still {
                (completed) " completed"
                br;
                @if failed > 0 { (state_word(Health::Bad, &format!("{failed} failed"))) } @else { span.soft { "0 failed" } }
            }
            td { (times.at(worker.seen_at)) }
        }
    }
}

fn maybe(text: Option<String>) -> Markup {
    html! { @match text { Some(text) => (text), None => span.soft { "unknown" } } }
}

/// Why the worker of this very process takes nothing; others say it in their logs.
fn why(state: &State, worker: &WorkerRecord) -> Markup {
    let own = state.inner().parts.render.worker.as_ref().map(|handle| handle.health());
    let paused = own.filter(|health| health.process == worker.process).and_then(|health| health.paused);
    html! {
        @if let Some(paused) = paused { br; code { (paused.code) } " " (paused.message) }
        @else if worker.state == WorkerState::Paused { br; span.soft { "its log says why" } }
    }
}

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let crew = Crew::read(&mut tx).await?;
    let times = visit.times(common.now);
    let body = region(&visit.state, &crew, &times);
    let more = html! {
        div.body {
            p { "A place is the right to have one job at the farm. A worker that is asked to end brings to its end what is about to be published, and gives back the rest." }
            p { "Another worker: " (command("tidemill render worker --capacity 2")) }
            p { "At the command line: " (command("tidemill render workers")) }
        }
    };
    let content = html! {
        h1 { "Render workers" }
        (tabs(&visit, "/render/workers"))
        (panel("workers", "Workers", &html! {}, &html! { (table("Render workers", COLUMNS, &body.markup())) (more) }))
    };
    let frame = Frame {
        visit: &visit,
        common: &common,
        section: Section::Render,
        title: Some("Workers"),
        page: Page::RenderWorkers,
    };
    Ok(frame.render(&content))
}
