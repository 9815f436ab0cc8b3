//! What of the pages about renders changes by itself, for those that somebody looks at.

use super::board::{Board, Regions, Whole, address};
use super::one::{self, One};
use super::worker::{self, Crew};
use crate::dashboard::instant::Times;
use crate::dashboard::region::{Page, Region};
use crate::state::State;
use tidemill_store::{StoreError, Tx};

/// The regions of a page; none of one that is not about renders.
pub(crate) async fn regions(
    state: &State,
    tx: &mut Tx,
    page: &Page,
    times: &Times,
) -> Result<Vec<Region>, StoreError> {
    match page {
        Page::Renders(status, buttons) => {
            let (whole, board) = (Whole::read(tx).await?, Board::read(tx, *status).await?);
            let back = address(state, *status);
            let look = whole.look(state, times, *buttons, &back);
            Ok(Regions::new(&look, &whole, &board).into_vec())
        }
        Page::Render(id, buttons) => {
            let (whole, one) = (Whole::read(tx).await?, One::read(tx, *id).await?);
            let back = state.path(&format!("/render/{id}"));
            let look = whole.look(state, times, *buttons, &back);
            Ok(one.into_iter().flat_map(|one| one::Regions::new(&look, &whole, &one).into_vec()).collect())
        }
        Page::RenderWorkers => {
            let crew = Crew::read(tx).await?;
            Ok(vec![worker::region(state, &crew, times)])
        }
        _ => Ok(Vec::new()),
    }
}
