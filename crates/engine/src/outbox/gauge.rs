//! Gauges of the outbox for Prometheus. Read from the database, so that every server reports the same, including relays
//! that cannot be scraped. Unknown values are NaN, never 0.

use crate::{Service, metrics};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Count, RelayId, Tally};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::{AttachedStats, Backlog, OutboxStats};
use tidemill_store::{Store, StoreError};

const PAUSE: Duration = Duration::from_secs(15);

pub const COUNT_MAX: u32 = 10_000;

type Seen = (OutboxStats, Vec<AttachedStats>);

#[crate::boxed]
pub async fn run(store: Store) {
    let (mut before, mut tables) = (None, BTreeSet::new());
    let mut service = Service::new("measuring the outbox", PAUSE);
    while service.is_due().await {
        let looked = look(&store).await;
        let seen = looked.as_ref().ok();
        let now = seen.map(|(stats, _)| Tallies::of(stats));
        set_gauges(seen, now.as_ref().zip(before.as_ref()).and_then(|(now, before)| now.since(before)));
        tables = set_attached(seen, &tables);
        before = now;
        service.ended(looked.map(drop));
    }
}

async fn look(store: &Store) -> Result<Seen, StoreError> {
    let mut tx = store.read().await?;
    let stats = tx.outbox().stats(COUNT_MAX).await?;
    let attached = tx.outbox().attached_stats(COUNT_MAX).await?;
    Ok((stats, attached))
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

    /// What relays have done between two samples, and the time between them. A relay that was not there before has
    /// begun at zero. None without relays.
    fn since(&self, earlier: &Self) -> Option<(Tally, Duration)> {
        let before = |id: &RelayId| earlier.relays.get(id).copied().unwrap_or_default();
        let tally = self.relays.iter().map(|(id, tally)| tally.since(before(id))).reduce(Tally::plus)?;
        Some((tally, self.at.since(earlier.at)))
    }
}

/// `seen` is none after a failed sample; `done` is the work since the previous one.
fn set_gauges(seen: Option<&Seen>, done: Option<(Tally, Duration)>) {
    let found = |value: fn(&OutboxStats) -> f64| seen.map_or(f64::NAN, |(stats, _)| value(stats));
    metrics::outbox_lag().set(found(|stats| rows(stats.unread())));
    metrics::outbox_oldest().set(found(|stats| age(stats.unread(), stats.at)));
    metrics::outbox_unpublished().set(found(|stats| rows(stats.unpublished())));
    metrics::outbox_unpublished_oldest().set(found(|stats| age(stats.unpublished(), stats.at)));
    for state in StateWord::ALL {
        let failed = seen.map(|(stats, _)| stats.failed_events.of(state));
        metrics::outbox_failed_events(state.as_str()).set(rows(failed));
    }
    for state in StateWord::OPEN {
        let age = |(stats, _): &Seen| age(Some(stats.failed_events.of(state)), stats.at);
        metrics::outbox_failed_events_oldest(state.as_str()).set(seen.map_or(f64::NAN, age));
    }
    metrics::outbox_default_rows().set(found(|stats| stats.default_rows.map_or(f64::NAN, number)));
    metrics::outbox_relays().set(found(|stats| stats.relays.len() as f64));
    metrics::outbox_unowned().set(found(|stats| metrics::number(stats.unowned)));
    metrics::outbox_wal().set(found(|stats| stats.wal_bytes_per_event.unwrap_or(f64::NAN)));
    let known = |value: fn((Tally, Duration)) -> Option<f64>| done.and_then(value).unwrap_or(f64::NAN);
    metrics::outbox_published_per_second().set(known(|(tally, spent)| tally.published_per_second(spent)));
    metrics::outbox_empty_polls().set(known(|(tally, _)| tally.empty_poll_ratio()));
    metrics::outbox_queries_per_10000_events().set(known(|(tally, _)| tally.queries_per_10000_events()));
}

/// Returns the attached tables. Those of the previous sample that are no longer attached become unknown.
fn set_attached(seen: Option<&Seen>, before: &BTreeSet<TableName>) -> BTreeSet<TableName> {
    let attached: &[AttachedStats] = seen.map_or(&[], |(_, attached)| attached);
    let tables: BTreeSet<TableName> = attached.iter().map(|table| table.name.clone()).collect();
    let gone = before.difference(&tables).map(|table| (table, None));
    for (table, counts) in attached.iter().map(|table| (&table.name, table.counts)).chain(gone) {
        let table = table.to_string();
        for (status, count) in [
            ("pending", counts.map(|counts| counts.pending)),
            ("sending", counts.map(|counts| counts.sending)),
            ("failed", counts.map(|counts| counts.failed)),
        ] {
            metrics::outbox_attached_rows(&table, status).set(count.map_or(f64::NAN, number));
        }
        let oldest = seen.zip(counts).map_or(f64::NAN, |((stats, _), counts)| {
            age(Some(Backlog { rows: counts.pending, oldest: counts.oldest }), stats.at)
        });
        metrics::outbox_attached_oldest(&table).set(oldest);
    }
    tables
}

fn rows(backlog: Option<Backlog>) -> f64 {
    backlog.map_or(f64::NAN, |backlog| number(backlog.rows))
}

/// 0 if there are no rows.
fn age(backlog: Option<Backlog>, now: Timestamp) -> f64 {
    match backlog {
        Some(Backlog { oldest: Some(oldest), .. }) => now.since(oldest).as_secs_f64(),
        Some(Backlog { rows: Count::Exactly(0), .. }) => 0.0,
        _ => f64::NAN,
    }
}

fn number(count: Count) -> f64 {
    metrics::number(count.least())
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

        let (tally, spent) = after.since(&before).unwrap();

        assert_eq!((tally.published, spent), (50, Duration::from_secs(10)));
        assert_eq!(tally.published_per_second(spent), Some(5.0));
    }

    #[test]
    fn where_nobody_relays_nothing_is_said() {
        assert_eq!(tallies(10, &[]).since(&tallies(0, &[(1, 5)])), None);
    }
}
