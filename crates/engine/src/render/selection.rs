//! The renders that one action changes together: named by their ids, or all that match a filter.

use tidemill_domain::action::Action;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::order::possible;
use tidemill_domain::render::selection::{BadSelection, check_count, of_each, statuses, takes};
use tidemill_store::render::list::SEARCHED_MAX;
use tidemill_store::render::{RenderFilter, RenderRecord};
use tidemill_store::{StoreError, Tx};

#[derive(Clone, PartialEq, Debug)]
pub enum Selection {
    Ids(Vec<RenderId>),
    /// What a search finds.
    Matching {
        filter: RenderFilter,
        /// In the composition, the cue item or the error.
        text: Option<String>,
        /// Those that are late now.
        is_late: bool,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    #[error(transparent)]
    Selection(#[from] BadSelection),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Selection {
    /// Sorted, so that two changes at once lock in the same order. A filter finds only renders that `action` can change now.
    #[crate::boxed]
    pub async fn ids(&self, tx: &mut Tx, action: Action) -> Result<Vec<RenderId>, SelectionError> {
        let mut ids = match self {
            Self::Ids(ids) => ids.clone(),
            Self::Matching { filter, text, is_late } => {
                let (now, mut ids) = (tx.now().await?, Vec::new());
                let late_at = filter.late_at.or(is_late.then_some(now));
                let is_possible = |record: &&RenderRecord| {
                    possible(&record.render, now).contains(&of_each(action)) && takes(action, &record.render)
                };
                for status in statuses(action, filter.status)? {
                    let filter = RenderFilter { status: Some(status), late_at, ..filter.clone() };
                    let found = tx.renders().search(&filter, text.as_deref(), None, SEARCHED_MAX).await?;
                    ids.extend(found.records.iter().filter(is_possible).map(RenderRecord::id));
                }
                ids
            }
        };
        ids.sort_unstable();
        ids.dedup();
        check_count(ids.len())?;
        Ok(ids)
    }
}
