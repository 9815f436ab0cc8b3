//! The page of render workers: their state, current renders and results.

use super::page::tabs;
use super::row::{bar, title};
use crate::dashboard::part::{
    Health, command, milliseconds, plain_panel, span, state as state_word, table, value_or,
};
use crate::dashboard::{
    Audience, Frame, Page, PageContext, PageResult, PageSnapshot, Region, Row, Section, Times,
};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::lease::Lease;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::{RenderRecord, WorkerRecord, WorkerState, WorkerTally};
use tidemill_store::{StoreError, Tx};

const COLUMNS: &[&str] =
    &["State", "Worker", "Renders", "Places", "nexrender", "Last copy", "Last 24 h", "Last heartbeat"];

/// Workers without a heartbeat for this long are not listed.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

const SHOWN: usize = 100;

#[derive(Debug)]
pub(crate) struct WorkerList {
    workers: Vec<WorkerRecord>,
    at_work: Vec<RenderRecord>,
    tallies: Vec<WorkerTally>,
}

impl WorkerList {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        Ok(Self {
            workers: tx.renders().workers(KEPT_FOR).await?,
            at_work: tx.renders().at_work(200).await?,
            tallies: tx.renders().tallies().await?,
        })
    }
}

pub(crate) fn region(state: &State, list: &WorkerList, times: &Times) -> Region {
    let rows = list.workers.iter().take(SHOWN).map(|worker| row(state, list, worker, times));
    let empty = html! { "No worker in the last 24 hours. Start one: " (command("tidemill render worker")) };
    let count = list.workers.len();
    let note = (count > SHOWN).then(|| html! { "The first " (SHOWN) " of " (count) "." });
    Region::rows("render-workers", Audience::On(&[Page::RenderWorkers]), COLUMNS, rows, &empty, note)
}

fn row(state: &State, list: &WorkerList, worker: &WorkerRecord, times: &Times) -> Row {
    let (health, word) = match worker.state {
        _ if times.now().since(worker.seen_at) > WORKER_SEEN_WITHIN => (Health::Bad, "silent"),
        WorkerState::Paused => (Health::Warn, "paused"),
        WorkerState::Draining => (Health::Idle, "draining"),
        WorkerState::Working if worker.in_flight >= worker.capacity => (Health::Ok, "busy"),
        WorkerState::Working if worker.in_flight > 0 => (Health::Ok, "working"),
        WorkerState::Working => (Health::Ok, "idle"),
    };
    let has = |record: &&RenderRecord| matches!(record.render.lease, Lease::Held { fence, .. } if fence.owner == worker.process);
    let tally = list.tallies.iter().find(|tally| tally.worker == worker.name);
    let (completed, failed) = tally.map_or((0, 0), |tally| (tally.completed, tally.failed));
    let cells = html! {
        td.long { (state_word(health, word)) (why(state, worker)) }
        th.long scope="row" title=(worker.process) { (worker.name) }
        td.long {
            @for record in list.at_work.iter().filter(has) {
                div {
                    a href=(state.path(&format!("/render/{}", record.id()))) { (title(record)) " #" (record.id()) }
                    " " (bar(&record.render)) " " span.soft { (record.render.phase.label()) }
                }
            }
        }
        td.still { (worker.in_flight) " of " (worker.capacity) " busy" }
        td.still { (value_or(worker.farm.map(milliseconds), "unknown")) }
        td.still { (value_or(worker.copy.map(span), "unknown")) }
        td.still {
            (completed) " completed"
            br;
            @if failed > 0 { (state_word(Health::Bad, &format!("{failed} failed"))) } @else { span.soft { "0 failed" } }
        }
        td { (times.at(worker.seen_at)) }
    };
    Row::of(format!("render-worker:{}", worker.process), &cells)
}

/// Why a worker is paused: known for the worker of this process, in the log of any other.
fn why(state: &State, worker: &WorkerRecord) -> Markup {
    let own = state.inner().parts.render.worker.as_ref().map(|handle| handle.health());
    let paused = own.filter(|health| health.process == worker.process).and_then(|health| health.paused);
    html! {
        @if let Some(paused) = paused { br; code { (paused.code) } " " (paused.message) }
        @else if worker.state == WorkerState::Paused { br; span.soft { "see its log" } }
    }
}

pub(crate) async fn page(visit: PageContext) -> PageResult {
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let list = WorkerList::read(&mut tx).await?;
    let times = visit.render_times(common.now);
    let body = region(&visit.state, &list, &times);
    let more = html! {
        div.body {
            p { "Each place allows one job at the farm. A worker that stops finishes the files it is publishing; other workers take over the rest." }
            p { "Start another worker: " (command("tidemill render worker --capacity 2")) }
            p { "At the command line: " (command("tidemill render workers")) }
        }
    };
    let content = html! {
        h1 { "Render workers" }
        (tabs(&visit, "/render/workers"))
        (plain_panel("workers", "Workers", &html! { (table("Render workers", COLUMNS, &body.markup())) (more) }))
    };
    let frame = Frame::new(&visit, &common, Section::Render).titled("Workers").live(Page::RenderWorkers);
    Ok(frame.render(&content))
}
