//! What the page of the renders tells, and its parts that change by themselves: how many there are in each status, who
//! could render, what is at work, what waits and what has ended.

use super::filter::RenderQuery;
use super::row::{Ahead, COLUMNS, Look, row};
use crate::dashboard::instant::Times;
use crate::dashboard::part::{Count, Health, command, empty_row, state as state_word};
use crate::dashboard::region::{Audience, Buttons, Page, Region, Row};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::render::Status;
use tidemill_domain::render::wait::Hands;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_store::render::list::COUNTED_MAX;
use tidemill_store::render::{RenderCounts, RenderFilter, RenderRecord, WorkerRecord, WorkerState};
use tidemill_store::{StoreError, Tx};

/// Most rows of those at work; more than any farm has places.
const AT_WORK_MAX: u32 = 200;
/// Rows of those that wait or have ended, where they are not asked for alone.
const SHOWN: u32 = 20;
/// Rows where only one status is asked for.
pub(super) const PAGE_ROWS: u32 = 50;

/// How renders stand as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    counts: RenderCounts,
    workers: Vec<WorkerRecord>,
    pace: Option<Duration>,
}

impl Whole {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        Ok(Self {
            counts: tx.renders().counts().await?,
            workers: tx.renders().workers(WORKER_SEEN_WITHIN).await?,
            pace: tx.renders().pace().await?,
        })
    }

    pub(crate) fn hands(&self) -> Hands {
        let hands = self.workers.iter().fold(Hands::default(), |hands, worker| {
            hands.with(worker.state == WorkerState::Working, worker.capacity, worker.in_flight)
        });
        // A node that renders what was cancelled keeps its place until it is done.
        hands.without(self.counts.leftovers)
    }

    /// What all rows have in common.
    pub(crate) fn look<'a>(
        &self,
        state: &'a State,
        times: &'a Times,
        buttons: Buttons,
        back: &'a str,
    ) -> Look<'a> {
        Look { state, times, buttons, hands: self.hands(), pace: self.pace, back }
    }

    fn count(&self, status: Status) -> Count {
        let count = self.counts.by_status.get(&status).copied().unwrap_or_default();
        if count >= u64::from(COUNTED_MAX) { Count::AtLeast(count) } else { Count::Exactly(count) }
    }

    /// Whether nobody has ever ordered anything.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.by_status.is_empty()
    }

    /// What has to be said before anything else; nothing when all is well.
    pub(crate) fn banner(&self, state: &State) -> Markup {
        let (hands, waiting) = (self.hands(), self.count(Status::Pending));
        html! {
            @if !waiting.is_zero() && hands.workers == 0 {
                div.banner.bad {
                    (state_word(Health::Bad, "No worker runs"))
                    ", so nothing of what waits (" (waiting) ") is rendered. Start one: "
                    (command("tidemill render worker"))
                }
            } @else if !waiting.is_zero() && hands.working == 0 {
                div.banner {
                    (state_word(Health::Warn, "No worker takes renders"))
                    ": each is paused or about to end. " (command("tidemill doctor")) " tells what is to be mended. "
                    a href=(state.path("/render/workers")) { "Workers" }
                }
            }
        }
    }

    /// Each status with how many have it, leading to those.
    pub(super) fn chips(&self, state: &State, wanted: &RenderQuery, chosen: Option<Status>) -> Markup {
        let address = |status: &str| format!("{}{}", state.path("/render"), wanted.query(status, ""));
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

/// The address of the renders in a status, or of all.
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

/// The renders that a page shows, by what becomes of them.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    status: Option<Status>,
    at_work: Vec<RenderRecord>,
    waiting: Vec<RenderRecord>,
    ended: Vec<RenderRecord>,
}

impl Board {
    /// Looks for all, or for those in a status.
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
                // One more than is shown tells whether there is a next page.
                board.ended = tx.renders().list(&filter, None, rows + 1).await?;
            }
            Some(_) => {}
        }
        Ok(board)
    }

    /// The last one that is shown of those that have ended, if there are older ones.
    pub(super) fn next(&self) -> Option<&RenderRecord> {
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
        self.ended.get(shown).and_then(|_| self.ended.get(shown - 1))
    }
}

/// The parts that change by themselves. The page is put together from the very same.
#[derive(Debug)]
pub(crate) struct Regions {
    pub(super) chips: Region,
    pub(super) banner: Region,
    pub(super) bodies: Vec<Region>,
}

impl Regions {
    pub(crate) fn new(look: &Look<'_>, whole: &Whole, board: &Board) -> Self {
        let page = Page::Renders(board.status, look.buttons);
        let name = |what: &str| format!("{what}@{}", page.word());
        let (chips, banner) = (name("chips"), name("banner"));
        Self {
            chips: Region::whole(
                &chips,
                Audience::At(page.clone()),
                html! {
                    nav.chips data-live=(chips) aria-label="Statuses" {
                        (whole.chips(look.state, &RenderQuery::default(), board.status))
                    }
                },
            ),
            banner: Region::whole(
                &banner,
                Audience::At(page.clone()),
                html! { div data-live=(banner) { (whole.banner(look.state)) } },
            ),
            bodies: bodies(look, whole, board, &name),
        }
    }

    /// As a list, for those who compare and send.
    pub(crate) fn into_vec(self) -> Vec<Region> {
        [self.chips, self.banner].into_iter().chain(self.bodies).collect()
    }
}

fn bodies(look: &Look<'_>, whole: &Whole, board: &Board, name: &dyn Fn(&str) -> String) -> Vec<Region> {
    let audience = Audience::At(Page::Renders(board.status, look.buttons));
    let rows = |records: &[RenderRecord]| -> Vec<Row> {
        records.iter().map(|record| row(look, record, Ahead::Exactly(0))).collect()
    };
    let body = |what: &str, heading: &str, rows: Vec<Row>, without: &Markup, below: &Markup| {
        let heading = html! { tr.group role="row" { th role="rowheader" scope="rowgroup" colspan=(COLUMNS.len()) { (heading) } } };
        let stand_in = html! { (heading) (empty_row(COLUMNS.len(), without)) };
        let has_rows = !rows.is_empty();
        let mut region = Region::table_body(&name(what), audience.clone(), rows, stand_in, below.clone());
        if has_rows {
            region.opening.push_str(&heading.into_string());
        }
        region
    };
    let nothing = html! {};
    let mut bodies = Vec::new();
    if board.status.is_none_or(Status::is_active) {
        bodies.push(body(
            "at-work",
            "At work",
            rows(&board.at_work),
            &html! { "Nothing is at work." },
            &nothing,
        ));
    }
    if board.status.is_none_or(|status| status == Status::Pending) {
        let without = html! {
            @if whole.is_empty() {
                "Nothing was ever ordered. Order the first render: "
                (command("tidemill render submit data.json --cue-item cue-1"))
            } @else { "Nothing waits." }
        };
        let below = more(look, whole.count(Status::Pending), board);
        bodies.push(body(
            "waiting",
            "Waiting, in the order of claims",
            queue(look, &board.waiting),
            &without,
            &below,
        ));
    }
    if board.status.is_none_or(Status::is_terminal) {
        let shown = usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX).min(board.ended.len());
        let ended = board.ended.get(..shown).unwrap_or_default();
        let heading = if board.status.is_none() { "Ended last" } else { "Ended" };
        bodies.push(body("ended", heading, rows(ended), &html! { "Nothing has ended so yet." }, &nothing));
    }
    bodies
}

/// Those that wait, each with how many are claimed before it.
fn queue(look: &Look<'_>, records: &[RenderRecord]) -> Vec<Row> {
    let mut ahead = 0;
    let mut rows = Vec::with_capacity(records.len());
    for record in records {
        rows.push(row(look, record, Ahead::Exactly(ahead)));
        ahead += u64::from(record.render.run_after <= look.times.now());
    }
    rows
}

fn more(look: &Look<'_>, count: Count, board: &Board) -> Markup {
    let shown = board.waiting.len();
    let is_all = matches!(count, Count::Exactly(count) if count <= shown as u64);
    html! {
        @if !is_all {
            tr {
                td.soft colspan=(COLUMNS.len()) {
                    "The first " (shown) " of " (count) ". "
                    @if board.status.is_none() { a href=(look.state.path("/render?status=pending")) { "Show more" } }
                }
            }
        }
    }
}
