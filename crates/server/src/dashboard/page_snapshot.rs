//! What every page shows: processes, leases, alerts and the latency of the database.

use crate::dashboard::part::{Health, milliseconds, state as state_word};
use crate::dashboard::{Audience, Region};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::alert::AlertState;
use tidemill_domain::lease::{Lease, LeaseKey};
use tidemill_domain::outbox::Count;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;
use tidemill_store::alert::AlertRecord;
use tidemill_store::lease::LeaseRecord;
use tidemill_store::process::ProcessRecord;
use tidemill_store::{StoreError, Tx};

/// Maximum rows of each list; larger counts end in `+`.
const ROWS_MAX: u32 = 200;
/// The lease of the leader: the one server that evaluates alerts.
const LEADER: (&str, &str) = ("alert", "evaluator");

/// Rows, and whether there are more.
#[derive(Clone, Debug)]
pub(crate) struct Rows<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) is_cut: bool,
}

impl<T> Rows<T> {
    /// `rows` were read with one more than `limit`, which tells whether there are more.
    pub(crate) fn new(mut rows: Vec<T>, limit: u32) -> Self {
        let limit = limit as usize;
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        Self { rows, is_cut }
    }

    /// The last row, if there are more: the next page begins after it.
    pub(crate) fn last_of_more(&self) -> Option<&T> {
        self.rows.last().filter(|_| self.is_cut)
    }

    pub(crate) fn count(&self, meets: impl Fn(&T) -> bool) -> Count {
        let found = self.rows.iter().filter(|row| meets(row)).count() as u64;
        if self.is_cut { Count::AtLeast(found) } else { Count::Exactly(found) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PageSnapshot {
    pub(crate) now: Timestamp,
    /// Time of the first query.
    pub(crate) latency: Duration,
    /// Live ones first.
    pub(crate) processes: Rows<ProcessRecord>,
    /// Held ones first.
    pub(crate) leases: Rows<LeaseRecord>,
    leader: Option<LeaseRecord>,
    /// Firing ones first.
    pub(crate) alerts: Rows<AlertRecord>,
}

impl PageSnapshot {
    /// Also returns the transaction, so that the page reads on from the same snapshot.
    #[crate::boxed]
    pub(crate) async fn read(state: &State) -> Result<(Self, Tx), StoreError> {
        let clock = &state.inner().parts.clock;
        let began = clock.monotonic();
        let mut tx = state.read().await?;
        let now = tx.now().await?;
        let latency = clock.monotonic().since(began);
        let processes = Rows::new(tx.processes().list(ROWS_MAX + 1).await?, ROWS_MAX);
        let leases = Rows::new(tx.leases().list(ROWS_MAX + 1).await?, ROWS_MAX);
        let leader = match LeaseKey::new(LEADER.0, LEADER.1) {
            Ok(key) => tx.leases().find(&key).await?,
            Err(_) => None,
        };
        let alerts = Rows::new(tx.alerts().list(ROWS_MAX + 1).await?, ROWS_MAX);
        Ok((Self { now, latency, processes, leases, leader, alerts }, tx))
    }

    pub(crate) fn name_of(&self, id: ProcessId) -> Option<&str> {
        let process = self.processes.rows.iter().find(|process| process.id == id)?;
        Some(&process.identity.name)
    }

    /// Name of the leader, if there is one.
    fn leader(&self) -> Option<&str> {
        let led = self.leader.as_ref().filter(|lease| lease.is_live)?;
        let Lease::Held { fence, .. } = led.lease else { return None };
        self.name_of(fence.owner)
    }

    pub(crate) fn firing(&self) -> impl Iterator<Item = &AlertRecord> {
        self.alerts.rows.iter().filter(|alert| is_firing(alert))
    }
}

/// Whether the alert fires and is not silenced.
pub(crate) fn is_firing(alert: &AlertRecord) -> bool {
    matches!(alert.state, AlertState::Firing { .. }) && alert.silence.is_none()
}

/// Database, leader and version in the footer. Without `common` the database did not answer.
pub(crate) fn status(state: &State, common: Option<&PageSnapshot>) -> Markup {
    let leader = common.and_then(PageSnapshot::leader).unwrap_or("unknown");
    html! {
        span data-live="status" {
            @match common {
                Some(common) => { "database " (milliseconds(common.latency)) }
                None => (state_word(Health::Bad, "database does not answer")),
            }
            " · leader " (leader) " · v" (state.inner().parts.version)
        }
    }
}

/// The number of firing alerts in the navigation; nothing when there are none.
pub(crate) fn failing(common: &PageSnapshot) -> Markup {
    let count = common.firing().count();
    html! {
        span data-live="failing" {
            @if count > 0 { span.count { (count) span.unseen { " firing" } } }
        }
    }
}

/// The live regions of every page.
pub(crate) fn regions(state: &State, common: Option<&PageSnapshot>) -> Vec<Region> {
    let mut regions = vec![Region::whole("status", Audience::Everywhere, status(state, common))];
    regions.extend(common.map(|common| Region::whole("failing", Audience::Everywhere, failing(common))));
    regions
}
