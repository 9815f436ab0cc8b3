//! Gauges of the outbox for Prometheus. Read from the database, so that every server reports the same, including relays
//! that cannot be scraped.

use super::metrics;
use crate::Service;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tidemill_domain::outbox::{RelayId, Tally};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::{AttachedStats, OutboxStats};
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_secs(15);

pub const COUNT_MAX: u32 = 10_000;

#[crate::boxed]
pub async fn run(store: Store) {
    let (mut before, mut tables) = (None, BTreeSet::new());
    let mut service = Service::new("measuring the outbox", PAUSE);
    while service.is_due().await {
        let seen = look(&store).await;
        if let Ok((stats, attached)) = &seen {
            let now = Tallies::of(stats);
            tables = metrics::attached(attached, stats.at, &tables);
            metrics::measured(Some(stats), before.as_ref().and_then(|before| now.since(before)));
            before = Some(now);
        } else {
            metrics::measured(None, None);
            metrics::nothing_attached(&tables);
            before = None;
        }
        service.ended(seen.map(drop));
    }
}

async fn look(store: &Store) -> Result<(OutboxStats, Vec<AttachedStats>), StoreError> {
    let mut tx = store.read().await?;
    let stats = tx.outbox().stats(COUNT_MAX).await?;
    let attached = tx.outbox().attached_stats(COUNT_MAX).await?;
    Ok((stats, attached))
}

/// What relays have done between two samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RelayWork {
    pub(super) tally: Tally,
    pub(super) spent: Duration,
}

/// What each live relay has done since it joined.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Tallies {
    at: Timestamp,
    relays: HashMap<RelayId, Tally>,
}

impl Tallies {
    fn of(stats: &OutboxStats) -> Self {
        let relays = stats.relays.iter().map(|detail| (detail.relay.id, detail.tally)).collect();
        Self { at: stats.at, relays }
    }

    /// A relay that was not there before has begun at zero. None without relays.
    fn since(&self, earlier: &Self) -> Option<RelayWork> {
        let before = |id: &RelayId| earlier.relays.get(id).copied().unwrap_or_default();
        let tally = self.relays.iter().map(|(id, tally)| tally.since(before(id))).reduce(Tally::plus)?;
        Some(RelayWork { tally, spent: self.at.since(earlier.at) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::outbox::Effort;

    fn tallies(seconds: i64, published: &[(u128, u64)]) -> Tallies {
        let tally = |published| Tally { published, effort: Effort::default() };
        let relay =
            |(id, published): &(u128, u64)| (RelayId::new(uuid::Uuid::from_u128(*id)), tally(*published));
        Tallies {
            at: Timestamp::from_micros(seconds * 1_000_000),
            relays: published.iter().map(relay).collect(),
        }
    }

    #[test]
    fn what_was_done_between_two_looks_is_that_of_old_and_new_relays() {
        let before = tallies(0, &[(1, 100), (2, 50)]);
        let after = tallies(10, &[(1, 130), (3, 20)]);

        let done = after.since(&before).unwrap();

        assert_eq!((done.tally.published, done.spent), (50, Duration::from_secs(10)));
        assert_eq!(done.tally.published_per_second(done.spent), Some(5.0));
    }

    #[test]
    fn where_nobody_relays_nothing_is_said() {
        assert_eq!(tallies(10, &[]).since(&tallies(0, &[(1, 5)])), None);
    }
}
