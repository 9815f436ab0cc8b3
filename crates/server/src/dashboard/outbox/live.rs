//! What of the pages about the outbox changes by itself, for those that somebody looks at.

use super::failed_event::list::count_regions;
use super::overview::OutboxOverview;
use super::page::Regions;
use crate::dashboard::instant::Times;
use crate::dashboard::region::{Page, Region};
use crate::state::State;
use tidemill_store::{StoreError, Tx};

/// The regions of a page; none of one that is not about the outbox.
pub(crate) async fn regions(
    state: &State,
    tx: &mut Tx,
    page: &Page,
    times: &Times,
) -> Result<Vec<Region>, StoreError> {
    match page {
        Page::Outbox => Ok(Regions::new(state, &OutboxOverview::read(tx).await?, times).into_vec()),
        Page::FailedEvents => count_regions(tx).await,
        _ => Ok(Vec::new()),
    }
}
