//! The live list of renders: counts by status, a warning without workers, and active, waiting and ended renders.

use super::filter::RenderQuery;
use super::row::{Ahead, COLUMNS, RowContext, row};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Count, Health, command, empty_row, state as state_word};
use crate::dashboard::region::{Audience, Buttons, Page, Region, Row};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::render::Status;
use tidemill_domain::render::wait::WorkerCapacity;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::list::COUNTED_MAX;
use tidemill_store::render::{RenderCounts, RenderFilter, RenderRecord, WorkerRecord, WorkerState};
use tidemill_store::{StoreError, Tx};

/// Maximum active renders; no farm has as many places.
const AT_WORK_MAX: u32 = 200;
/// Waiting renders, and ended renders, on the page of all renders.
const SHOWN: u32 = 20;
/// Renders on the page of one status.
pub(super) const PAGE_ROWS: u32 = 50;

/// Counts of renders, and the workers.
#[derive(Clone, Debug)]
pub(crate) struct RenderSummary {
    counts: RenderCounts,
    workers: Vec<WorkerRecord>,
    pace: Option<Duration>,
}

impl RenderSummary {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        Ok(Self {
            counts: tx.renders().counts().await?,
            workers: tx.renders().workers(WORKER_SEEN_WITHIN).await?,
            pace: tx.renders().pace().await?,
        })
    }

    pub(crate) fn capacity(&self) -> WorkerCapacity {
        let capacity = self.workers.iter().fold(WorkerCapacity::default(), |capacity, worker| {
            capacity.with(worker.state == WorkerState::Working, worker.capacity, worker.in_flight)
        });
        // A node that still renders a cancelled render keeps its place.
        capacity.without(self.counts.leftovers)
    }

    pub(crate) fn context<'a>(
        &self,
        state: &'a State,
        times: &'a Times,
        buttons: Buttons,
        back: &'a str,
    ) -> RowContext<'a> {
        RowContext { state, times, buttons, capacity: self.capacity(), pace: self.pace, back }
    }

    fn count(&self, status: Status) -> Count {
        Count::up_to(COUNTED_MAX.into(), self.counts.by_status.get(&status).copied().unwrap_or_default())
    }

    /// Whether no render was ever ordered.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.by_status.is_empty()
    }

    /// A warning when no worker can take the waiting renders.
    pub(crate) fn banner(&self, state: &State) -> Markup {
        let (capacity, waiting) = (self.capacity(), self.count(Status::Pending));
        html! {
            @if !waiting.is_zero() && capacity.workers == 0 {
                div.banner.bad {
                    (state_word(Health::Bad, "No worker is running"))
                    ", so " (waiting.of("render waits", "renders wait")) ". Start one: "
                    (command("tidemill render worker"))
                }
            } @else if !waiting.is_zero() && capacity.working == 0 {
                div.banner {
                    (state_word(Health::Warn, "No worker takes renders"))
                    ": all are paused or stopping. To find the cause, run " (command("tidemill doctor")) " "
                    a href=(state.path("/render/workers")) { "Workers" }
                }
            }
        }
    }

    /// The statuses with their counts, each a link to its renders.
    pub(super) fn chips(&self, state: &State, query: &RenderQuery, chosen: Option<Status>) -> Markup {
        let address = |status: &str| format!("{}{}", state.path("/render"), query.query(status, ""));
        html! {
            a href=(address("")) aria-current=[chosen.is_none().then_some("true")] { "All" }
            @for status in Status::ALL {
                @let count = self.count(status);
                a href=(address(status.as_str())) aria-current=[(chosen == Some(status)).then_some("true")] {
                    (state_word(health(status, count), status.as_str())) " " b { (count) }
                }
            }
        }
    }
}

pub(crate) fn address(state: &State, status: Option<Status>) -> String {
    let status = status.map_or("", Status::as_str);
    format!("{}{}", state.path("/render"), RenderQuery::default().query(status, ""))
}

fn health(status: Status, count: Count) -> Health {
    match status {
        _ if count.is_zero() => Health::Idle,
        Status::Failed => Health::Bad,
        Status::Pending | Status::Cancelled => Health::Idle,
        _ => Health::Ok,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Board {
    status: Option<Status>,
    at_work: Vec<RenderRecord>,
    waiting: Vec<RenderRecord>,
    ended: Vec<RenderRecord>,
}

impl Board {
    pub(crate) async fn read(tx: &mut Tx, status: Option<Status>) -> Result<Self, StoreError> {
        let rows = if status.is_some() { PAGE_ROWS } else { SHOWN };
        let mut board = Self { status, at_work: Vec::new(), waiting: Vec::new(), ended: Vec::new() };
        if status.is_none_or(Status::is_active) {
            board.at_work = tx.renders().at_work(AT_WORK_MAX).await?;
            board.at_work.retain(|record| status.is_none_or(|status| record.render.status == status));
        }
        if status.is_none_or(|status| status == Status::Pending) {
            board.waiting = tx.renders().waiting(rows).await?;
        }
        match status {
            None => board.ended = tx.renders().ended(rows).await?,
            Some(status) if status.is_terminal() => {
                let filter = RenderFilter { status: Some(status), ..RenderFilter::default() };
                // One more row tells whether there is a next page.
                board.ended = tx.renders().list(&filter, None, rows + 1).await?;
            }
            Some(_) => {}
        }
        Ok(board)
    }

    /// The last ended render on the page, if there are older ones.
    pub(super) fn next(&self) -> Option<&RenderRecord> {
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
        self.ended.get(shown).and_then(|_| self.ended.get(shown - 1))
    }
}

/// The live regions. The page is made of the same.
pub(crate) fn regions(context: &RowContext<'_>, summary: &RenderSummary, board: &Board) -> Vec<Region> {
    let page = Page::Renders(board.status, context.buttons);
    let mut regions = vec![
        Region::at(&page, "chips", |name| {
            html! {
                nav.chips data-live=(name) aria-label="Statuses" {
                    (summary.chips(context.state, &RenderQuery::default(), board.status))
                }
            }
        }),
        Region::at(
            &page,
            "banner",
            |name| html! { div data-live=(name) { (summary.banner(context.state)) } },
        ),
    ];
    let rows = |records: &[RenderRecord]| -> Vec<Row> {
        records.iter().map(|record| row(context, record, Ahead::Exactly(0))).collect()
    };
    if board.status.is_none_or(Status::is_active) {
        let empty = html! { "No active renders." };
        regions.push(body(&page, "at-work", "Active", rows(&board.at_work), &empty, html! {}));
    }
    if board.status.is_none_or(|status| status == Status::Pending) {
        let empty = html! {
            @if summary.is_empty() {
                "No renders yet. Order the first one: "
                (command("tidemill render submit data.json --cue-item cue-1"))
            } @else { "No waiting renders." }
        };
        let below = more(context, summary.count(Status::Pending), board);
        let rows = queue(context, &board.waiting);
        regions.push(body(&page, "waiting", "Waiting, in queue order", rows, &empty, below));
    }
    if board.status.is_none_or(Status::is_terminal) {
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX).min(board.ended.len());
        let ended = board.ended.get(..shown).unwrap_or_default();
        let heading = if board.status.is_none() { "Recently ended" } else { "Ended" };
        let empty = html! { "No ended renders." };
        regions.push(body(&page, "ended", heading, rows(ended), &empty, html! {}));
    }
    regions
}

/// A part of the table with its own heading.
fn body(page: &Page, what: &str, heading: &str, rows: Vec<Row>, empty: &Markup, below: Markup) -> Region {
    let heading = html! { tr.group role="row" { th role="rowheader" scope="rowgroup" colspan=(COLUMNS.len()) { (heading) } } };
    let without = html! { (heading) (empty_row(COLUMNS.len(), empty)) };
    let (has_rows, name) = (!rows.is_empty(), format!("{what}@{}", page.word()));
    let mut region = Region::table_body(&name, Audience::At(page.clone()), rows, without, below);
    if has_rows {
        region.opening.push_str(&heading.into_string());
    }
    region
}

/// Waiting renders, each with the number of renders ahead of it.
fn queue(context: &RowContext<'_>, records: &[RenderRecord]) -> Vec<Row> {
    let mut ahead = 0;
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        rows.push(row(context, record, Ahead::Exactly(ahead)));
        ahead += u64::from(record.render.run_after <= context.times.now());
    }
    rows
}

fn more(context: &RowContext<'_>, count: Count, board: &Board) -> Markup {
    let shown = board.waiting.len();
    let is_all = matches!(count, Count::Exactly(count) if count <= shown as u64);
    html! {
        @if !is_all {
            tr {
                td.soft colspan=(COLUMNS.len()) {
                    "The first " (shown) " of " (count) ". "
                    @if board.status.is_none() { a href=(context.state.path("/render?status=pending")) { "Show more" } }
                }
            }
        }
    }
}
