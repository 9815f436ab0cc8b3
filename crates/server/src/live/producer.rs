//! The task that reads the database for all live pages, renders their regions and sends what changed.

use crate::dashboard::execution::list::Executions;
use crate::dashboard::execution::page_data::PageData;
use crate::dashboard::instant::Times;
use crate::dashboard::job::list::Jobs;
use crate::dashboard::outbox::page::OutboxOverview;
use crate::dashboard::overview::page::{Snapshot, regions as overview_regions};
use crate::dashboard::region::{Page, Region};
use crate::dashboard::render::board::{Board, RenderSummary, address};
use crate::dashboard::{alert, execution, outbox, page_snapshot, pool, render};
use crate::state::State;
use std::time::Duration;
use tidemill_engine::clock::jitter_unit;
use tidemill_store::StoreError;
use tidemill_store::process::PROCESS_ENDED;
use tidemill_store::wakeup::Woken;
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(1);
/// Joins wake-ups that come at the same time.
const WOKEN_PAUSE: Duration = Duration::from_millis(100);
/// Most pages with their own regions that are rendered per turn.
const PAGES_AT_ONCE: usize = 20;

/// Runs while a page is open, until `shutdown` is true; then ends all streams.
pub async fn run(state: State, mut shutdown: watch::Receiver<bool>) {
    let mut wakeup = state.store().wakeup(PROCESS_ENDED);
    let (mut is_down, mut turn) = (false, 0);
    let updating = async {
        loop {
            state.inner().live.wait_for_listener().await;
            is_down = update(&state, is_down, turn).await;
            turn = turn.wrapping_add(1);
            // A little more than a second, so that the rate limit of a region has passed.
            let pause = EVERY.mul_f64(0.1f64.mul_add(jitter_unit(), 1.0));
            if wakeup.wait(pause).await == Woken::Called {
                tokio::time::sleep(WOKEN_PAUSE).await;
            }
        }
    };
    tokio::select! {
        // A dropped sender means that the server has stopped.
        _ = shutdown.wait_for(|is_stopping| *is_stopping) => {}
        () = updating => {}
    }
    state.inner().live.close();
}

/// One turn; true if the database did not answer.
async fn update(state: &State, was_down: bool, turn: usize) -> bool {
    let snapshot = Snapshot::read(state).await;
    let now = state.inner().parts.clock.monotonic();
    match snapshot {
        Ok(snapshot) => {
            let times = Times::shared(snapshot.common.now);
            let mut regions = page_snapshot::regions(state, Some(&snapshot.common));
            regions.extend(overview_regions(state, &snapshot, &times));
            regions.push(alert::region(state, &snapshot.common, &times));
            regions.extend(particular(state, turn, &times).await);
            state.inner().live.publish(regions, now);
            false
        }
        Err(error) => {
            if !was_down {
                tracing::warn!(%error, "live pages show old values, the database does not answer");
            }
            // Pages keep their old values, and the status line says why.
            state.inner().live.publish(page_snapshot::regions(state, None), now);
            true
        }
    }
}

/// The regions of open pages that have their own. If there are many, each turn renders some of them.
async fn particular(state: &State, turn: usize, times: &Times) -> Vec<Region> {
    let pages = state.inner().live.particular_pages();
    let first = (turn * PAGES_AT_ONCE).checked_rem(pages.len()).unwrap_or(0);
    let mut regions = Vec::new();
    for page in pages.iter().cycle().skip(first).take(pages.len().min(PAGES_AT_ONCE)) {
        match regions_of(state, page, times).await {
            Ok(found) => regions.extend(found),
            // The page keeps its old values until the next turn.
            Err(error) => tracing::warn!(%error, "a live page could not be rendered"),
        }
    }
    regions
}

async fn regions_of(state: &State, page: &Page, times: &Times) -> Result<Vec<Region>, StoreError> {
    let mut tx = state.read().await?;
    let render_times = &times.in_zone(&state.inner().parts.render.zone);
    let regions = match page {
        Page::Jobs(view) => {
            let jobs = Jobs::read(state, &mut tx, view, times.now()).await?;
            vec![jobs.region(state, times)]
        }
        Page::Executions(view) => vec![Executions::read(&mut tx, view).await?.region(state, times)],
        Page::Execution(id) => {
            let data = PageData::read(state, &mut tx, *id).await?;
            data.map_or_else(Vec::new, |data| execution::page::regions(state, &data, times))
        }
        Page::Pools(buttons) => {
            let pools = tx.pools().levels(pool::list::SHOWN + 1).await?;
            let context = pool::list::RowContext { state, times, buttons: *buttons };
            vec![pool::list::region(&context, &pools)]
        }
        Page::Pool(page, buttons) => {
            // A pool that was removed stays on its page as it was last seen.
            let pool = pool::page::PoolData::read(&mut tx, page, times.now()).await?;
            let context = pool::list::RowContext { state, times, buttons: *buttons };
            pool.map_or_else(Vec::new, |pool| pool::page::regions(&context, &pool, page))
        }
        Page::Outbox => outbox::page::regions(state, &OutboxOverview::read(&mut tx).await?, times),
        Page::FailedEvents => outbox::failed_event::list::count_regions(&mut tx).await?,
        Page::Renders(status, buttons) => {
            let (summary, board) =
                (RenderSummary::read(&mut tx).await?, Board::read(&mut tx, *status).await?);
            let back = address(state, *status);
            let context = summary.context(state, render_times, *buttons, &back);
            render::board::regions(&context, &summary, &board)
        }
        Page::Render(id, buttons) => {
            let summary = RenderSummary::read(&mut tx).await?;
            let Some(one) = render::one::RenderPage::read(&mut tx, *id).await? else { return Ok(Vec::new()) };
            let back = state.path(&format!("/render/{id}"));
            let context = summary.context(state, render_times, *buttons, &back);
            render::one::regions(&context, &summary, &one)
        }
        Page::RenderBatch(id, buttons) => {
            let summary = RenderSummary::read(&mut tx).await?;
            let Some(one) = render::batch::BatchPage::read(&mut tx, *id).await? else {
                return Ok(Vec::new());
            };
            let back = render::batch::address(state, *id);
            let context = summary.context(state, render_times, *buttons, &back);
            Vec::from(render::batch::regions(&context, &one))
        }
        Page::RenderWorkers => {
            let list = render::worker::WorkerList::read(&mut tx).await?;
            vec![render::worker::region(state, &list, render_times)]
        }
        Page::Overview | Page::Alerts | Page::Settings | Page::Other => Vec::new(),
    };
    Ok(regions)
}
