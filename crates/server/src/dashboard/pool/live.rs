//! What of the pages about pools changes by itself, for those that somebody looks at.

use super::list::{self, Look};
use super::page::{One, Regions};
use crate::dashboard::instant::Times;
use crate::dashboard::region::{Page, Region};
use crate::state::State;
use tidemill_store::{StoreError, Tx};

/// The regions of a page; none of one that is not about pools.
pub(crate) async fn regions(
    state: &State,
    tx: &mut Tx,
    page: &Page,
    times: &Times,
) -> Result<Vec<Region>, StoreError> {
    match page {
        Page::Pools(buttons) => {
            let pools = tx.pools().levels(list::SHOWN + 1).await?;
            Ok(vec![list::region(&Look { state, times, buttons: *buttons }, &pools)])
        }
        Page::Pool(page, buttons) => {
            let Some(name) = page.name() else { return Ok(Vec::new()) };
            // A pool that was removed stays on its page as it was last seen.
            let one = One::read(tx, &name, *page, times.now()).await?;
            let look = Look { state, times, buttons: *buttons };
            Ok(one.map_or_else(Vec::new, |one| Regions::new(&look, &one, *page).into_vec()))
        }
        _ => Ok(Vec::new()),
    }
}
