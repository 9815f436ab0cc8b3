//! What of the pages about renders changes by itself, for those that somebody looks at.

use super::board::{Board, Regions, Whole, address};
use super::one::{self, One};
use super::worker::{self, Crew};
use crate::dashboard::instant::Times;
use crate::dashboard::region::{Page, Region};
use crate::state::State;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::render::Status;
use tidemill_store::StoreError;

/// The regions of these pages; nothing is read when none of them is about renders.
pub(crate) async fn regions(
    state: &State,
    watched: &BTreeSet<Page>,
    times: &Times,
) -> Result<Vec<Region>, StoreError> {
    if !watched.iter().any(|page| page.is_of_renders()) {
        return Ok(Vec::new());
    }
    let mut tx = state.store().read().await?;
    let whole = Whole::read(&mut tx).await?;
    let mut boards: BTreeMap<Option<Status>, Board> = BTreeMap::new();
    let mut regions = Vec::new();
    for page in watched.iter().copied() {
        match page {
            Page::Renders(status, buttons) => {
                let board = match boards.remove(&status) {
                    Some(board) => board,
                    None => Board::read(&mut tx, status).await?,
                };
                let back = address(state, status);
                let look = whole.look(state, times, buttons, &back);
                regions.extend(Regions::new(&look, &whole, &board).into_vec());
                boards.insert(status, board);
            }
            Page::Render(id, buttons) => {
                let back = state.path(&format!("/render/{id}"));
                let look = whole.look(state, times, buttons, &back);
                let one = One::read(&mut tx, id).await?;
                regions.extend(
                    one.into_iter().flat_map(|one| one::Regions::new(&look, &whole, &one).into_vec()),
                );
            }
            Page::RenderWorkers => {
                let crew = Crew::read(&mut tx).await?;
                regions.push(worker::region(state, &crew, times));
            }
            Page::Overview | Page::Alerts | Page::Other => {}
        }
    }
    tx.rollback().await?;
    Ok(regions)
}
