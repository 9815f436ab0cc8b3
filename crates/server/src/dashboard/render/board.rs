//! The live list of renders: counts by status, a warning without workers, and active, waiting and ended renders.

use super::page::RenderQuery;
use super::row::{COLUMNS, RowContext, row};
use crate::dashboard::part::{Health, command, count_text, count_up_to, state as state_word};
use crate::dashboard::{Buttons, Page, Region, Row, Rows, Times};
use crate::state::State;
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::outbox::Count;
use tidemill_domain::render::wait::WorkerCapacity;
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;
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
        // The worker counts the places of cancelled jobs that a node still renders, too.
        self.workers.iter().fold(WorkerCapacity::default(), |capacity, worker| {
            capacity.with(worker.state == WorkerState::Working, worker.capacity, worker.in_flight)
        })
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
        count_up_to(COUNTED_MAX.into(), self.counts.of(status))
    }

    /// Whether no render was ever ordered.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.by_status.is_empty()
    }

    /// A warning when no worker can take the waiting renders.
    pub(crate) fn banner(&self, state: &State) -> Markup {
        let waiting = count_up_to(COUNTED_MAX.into(), self.counts.waiting_for_worker());
        let capacity = self.capacity();
        let has_waiting = waiting != Count::Exactly(0);
        let wait = if waiting == Count::Exactly(1) { "render waits" } else { "renders wait" };
        html! {
            @if has_waiting && capacity.workers == 0 {
                div.banner.bad {
                    (state_word(Health::Bad, "No worker is running"))
                    ", so " (count_text(waiting)) " " (wait) ". Start one: "
                    (command("tidemill render worker"))
                }
            } @else if has_waiting && capacity.working == 0 {
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
                    (state_word(health(status, count), status.as_str())) " " b { (count_text(count)) }
                }
            }
        }
    }
}

pub(crate) fn address(state: &State, status: Option<Status>) -> String {
    let status = status.map_or("", Status::as_str);
    format!("{}{}", state.path("/render"), RenderQuery::default().query(status, ""))
}

pub(super) fn health(status: Status, count: Count) -> Health {
    match status {
        _ if count == Count::Exactly(0) => Health::Idle,
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
    pub(super) ended: Rows<RenderRecord>,
    previews: BTreeMap<RenderId, String>,
}

impl Board {
    pub(crate) async fn read(tx: &mut Tx, status: Option<Status>) -> Result<Self, StoreError> {
        let rows = if status.is_some() { PAGE_ROWS } else { SHOWN };
        let (mut at_work, mut waiting) = (Vec::new(), Vec::new());
        if status.is_none_or(Status::is_active) {
            at_work = tx.renders().at_work(AT_WORK_MAX).await?;
            at_work.retain(|record| status.is_none_or(|status| record.render.status == status));
        }
        if status.is_none_or(|status| status == Status::Pending) {
            waiting = tx.renders().waiting(rows).await?;
        }
        let ended = match status {
            None => tx.renders().ended(rows).await?,
            Some(status) if status.is_terminal() => {
                let filter = RenderFilter { status: Some(status), ..RenderFilter::default() };
                tx.renders().list(&filter, None, rows + 1).await?
            }
            Some(_) => Vec::new(),
        };
        let ended = Rows::new(ended, rows);
        let shown: Vec<_> = at_work.iter().chain(&waiting).chain(&ended.rows).collect();
        let previews = tx.renders().previews(&shown).await?;
        Ok(Self { status, at_work, waiting, ended, previews })
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
    let preview = |record: &RenderRecord| board.previews.get(&record.id()).map_or("", String::as_str);
    let plain = |record: &RenderRecord| row(context, record, preview(record), Count::Exactly(0));
    if board.status.is_none_or(Status::is_active) {
        let (rows, empty) = (board.at_work.iter().map(plain), html! { "No active renders." });
        regions.push(body(&page, "at-work", "Active", rows, &empty, None));
    }
    if board.status.is_none_or(|status| status == Status::Pending) {
        let empty = html! {
            @if summary.is_empty() {
                "No renders yet. Order the first one: "
                (command("tidemill render submit data.json --cue-item cue-1"))
            } @else { "No waiting renders." }
        };
        let places = queue(&board.waiting, context.times.now());
        let rows = places.map(|(record, ahead)| row(context, record, preview(record), Count::Exactly(ahead)));
        let note = more(context, summary.count(Status::Pending), board);
        regions.push(body(&page, "waiting", "Waiting, in queue order", rows, &empty, note));
    }
    if board.status.is_none_or(Status::is_terminal) {
        let heading = if board.status.is_none() { "Recently ended" } else { "Ended" };
        let (rows, empty) = (board.ended.rows.iter().map(plain), html! { "No ended renders." });
        regions.push(body(&page, "ended", heading, rows, &empty, None));
    }
    regions
}

/// A part of the table with its own heading.
fn body(
    page: &Page,
    what: &str,
    heading: &str,
    rows: impl Iterator<Item = Row>,
    empty: &Markup,
    note: Option<Markup>,
) -> Region {
    let heading = html! { tr.group role="row" { th role="rowheader" scope="rowgroup" colspan=(COLUMNS.len()) { (heading) } } };
    let mut region = Region::rows_at(page, what, COLUMNS, rows, empty, note);
    let after_tag = region.opening.find('>').map_or(0, |end| end + 1);
    region.opening.insert_str(after_tag, &heading.into_string());
    region
}

/// Waiting renders, each with the number of renders ahead of it.
pub(super) fn queue(records: &[RenderRecord], now: Timestamp) -> impl Iterator<Item = (&RenderRecord, u64)> {
    records.iter().scan(0, move |ahead, record| {
        let place = *ahead;
        *ahead += u64::from(record.render.run_after <= now && !record.render.awaits_approval());
        Some((record, place))
    })
}

fn more(context: &RowContext<'_>, count: Count, board: &Board) -> Option<Markup> {
    let shown = board.waiting.len();
    let is_all = matches!(count, Count::Exactly(count) if count <= shown as u64);
    let all = context.state.path("/render?status=pending");
    (!is_all).then(|| {
        html! {
            "The first " (shown) " of " (count_text(count)) ". "
            @if board.status.is_none() { a href=(all) { "Show more" } }
        }
    })
}
