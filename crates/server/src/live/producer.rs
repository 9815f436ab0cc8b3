//! The one task that looks at the database for all who listen, renders what pages render, and sends what changed.

use crate::dashboard::execution::list::Executions;
use crate::dashboard::execution::page::Regions as Execution;
use crate::dashboard::instant::Times;
use crate::dashboard::job::list::Jobs;
use crate::dashboard::overview::page::{Regions, Snapshot};
use crate::dashboard::region::{Page, Region};
use crate::dashboard::render::board::{Board, Whole, address};
use crate::dashboard::{alert, outbox, page_snapshot, pool, render};
use crate::state::State;
use std::time::Duration;
use tidemill_engine::clock::jitter_unit;
use tidemill_store::StoreError;
use tidemill_store::process::PROCESS_ENDED;
use tidemill_store::wakeup::Woken;
use tokio::sync::watch;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon it looks again when it is called, so that many calls at once are one look.
const CALLED_PAUSE: Duration = Duration::from_millis(100);
/// At so many pages about something particular it looks each time.
const PAGES_AT_ONCE: usize = 20;

/// Looks while somebody listens, until `shutdown` says true; then ends all streams.
pub async fn run(state: State, mut shutdown: watch::Receiver<bool>) {
    let mut wakeup = state.store().wakeup(PROCESS_ENDED);
    let (mut is_down, mut turn) = (false, 0);
    let looking = async {
        loop {
            state.inner().live.listened().await;
            is_down = look(&state, is_down, turn).await;
            turn = turn.wrapping_add(1);
            // A little more than a second, so that what was sent at the last look may be sent again.
            let pause = LOOK_EVERY.mul_f64(0.1f64.mul_add(jitter_unit(), 1.0));
            if wakeup.wait(pause).await == Woken::Called {
                tokio::time::sleep(CALLED_PAUSE).await;
            }
        }
    };
    tokio::select! {
        // A sender that is gone is a server that is gone.
        _ = shutdown.wait_for(|is_stopping| *is_stopping) => {}
        () = looking => {}
    }
    state.inner().live.close();
}

/// Looks once; whether the database was silent.
async fn look(state: &State, was_down: bool, turn: usize) -> bool {
    let snapshot = Snapshot::read(state).await;
    let now = state.inner().parts.clock.monotonic();
    match snapshot {
        Ok(snapshot) => {
            let times = Times::for_everybody(snapshot.common.now);
            let mut regions = page_snapshot::regions(state, Some(&snapshot.common));
            regions.extend(Regions::new(state, &snapshot, &times).into_vec());
            regions.push(alert::list::region(state, &snapshot.common, &times));
            regions.extend(particular(state, turn, &times).await);
            state.inner().live.publish(regions, now);
            false
        }
        Err(error) => {
            if !was_down {
                tracing::warn!(%error, "live pages show old values, the database does not answer");
            }
            // The rest stays as it was, and the status line says why.
            state.inner().live.publish(page_snapshot::regions(state, None), now);
            true
        }
    }
}

/// The regions of the pages about something particular that somebody looks at. When they are many, some at each turn.
async fn particular(state: &State, turn: usize, times: &Times) -> Vec<Region> {
    let pages = state.inner().live.particular_pages();
    let first = (turn * PAGES_AT_ONCE).checked_rem(pages.len()).unwrap_or(0);
    let mut regions = Vec::new();
    for page in pages.iter().cycle().skip(first).take(pages.len().min(PAGES_AT_ONCE)) {
        match regions_of(state, page, times).await {
            Ok(found) => regions.extend(found),
            // The page stays as it was; the next turn looks again.
            Err(error) => tracing::warn!(%error, "a live page could not be rendered"),
        }
    }
    regions
}

async fn regions_of(state: &State, page: &Page, times: &Times) -> Result<Vec<Region>, StoreError> {
    let mut tx = state.read().await?;
    let regions = match page {
        Page::Jobs(view) => {
            let jobs = Jobs::read(state, &mut tx, view, times.now()).await?;
            vec![jobs.region(state, times)]
        }
        Page::Executions(view) => vec![Executions::read(&mut tx, view).await?.region(state, times)],
        Page::Execution(id) => Execution::read(state, &mut tx, *id, times).await?,
        Page::Pools(buttons) => {
            let pools = tx.pools().levels(pool::list::SHOWN + 1).await?;
            let context = pool::list::RowContext { state, times, buttons: *buttons };
            vec![pool::list::region(&context, &pools)]
        }
        Page::Pool(page, buttons) => {
            // A pool that was removed stays on its page as it was last seen.
            let pool = pool::page::PoolData::read(&mut tx, page, times.now()).await?;
            let context = pool::list::RowContext { state, times, buttons: *buttons };
            pool.map_or_else(Vec::new, |pool| pool::page::Regions::new(&context, &pool, page).into_vec())
        }
        Page::Outbox => {
            let overview = outbox::overview::OutboxOverview::read(&mut tx).await?;
            outbox::page::Regions::new(state, &overview, times).into_vec()
        }
        Page::FailedEvents => outbox::failed_event::list::count_regions(&mut tx).await?,
        Page::Renders(status, buttons) => {
            let (whole, board) = (Whole::read(&mut tx).await?, Board::read(&mut tx, *status).await?);
            let back = address(state, *status);
            let look = whole.look(state, times, *buttons, &back);
            render::board::Regions::new(&look, &whole, &board).into_vec()
        }
        Page::Render(id, buttons) => {
            let whole = Whole::read(&mut tx).await?;
            let Some(one) = render::one::One::read(&mut tx, *id).await? else { return Ok(Vec::new()) };
            let back = state.path(&format!("/render/{id}"));
            let look = whole.look(state, times, *buttons, &back);
            render::one::Regions::new(&look, &whole, &one).into_vec()
        }
        Page::RenderWorkers => {
            vec![render::worker::region(state, &render::worker::Crew::read(&mut tx).await?, times)]
        }
        Page::Overview | Page::Alerts | Page::Settings | Page::Other => Vec::new(),
    };
    Ok(regions)
}
