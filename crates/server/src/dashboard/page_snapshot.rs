//! What every page knows of the whole: who runs, who holds what, what is wrong, how the database is doing.

use crate::dashboard::part::{Count, Health, state as state_word};
use crate::dashboard::region::{Audience, Region};
use crate::state::State;
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::alert::AlertState;
use tidemill_domain::lease::{Lease, LeaseKey};
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::Timestamp;
use tidemill_store::alert::AlertRecord;
use tidemill_store::lease::LeaseRecord;
use tidemill_store::process::ProcessRecord;
use tidemill_store::{StoreError, Tx};

/// Most rows that are read of anything; beyond, counts say "and more".
const ROWS_MAX: u32 = 200;
/// The lease whose owner does what only one of all servers does.
const LEADER: (&str, &str) = ("alert", "evaluator");

/// Rows as they were found, and whether there are more.
#[derive(Clone, Debug)]
pub(crate) struct Listed<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) is_cut: bool,
}

impl<T> Listed<T> {
    /// Of an answer to a question for one row more than `limit`.
    fn new(mut rows: Vec<T>, limit: u32) -> Self {
        let limit = limit as usize;
        let is_cut = rows.len() > limit;
        rows.truncate(limit);
        Self { rows, is_cut }
    }

    /// How many meet a condition.
    pub(crate) fn count(&self, meets: impl Fn(&T) -> bool) -> Count {
        Count::of(self.rows.iter().filter(|row| meets(row)).count(), self.is_cut)
    }
}

/// The whole at an instant.
#[derive(Clone, Debug)]
pub(crate) struct PageSnapshot {
    pub(crate) now: Timestamp,
    /// How long the database took to give its first answer.
    pub(crate) latency: Duration,
    /// The living first.
    pub(crate) processes: Listed<ProcessRecord>,
    /// The held first.
    pub(crate) leases: Listed<LeaseRecord>,
    /// That of the server that does what only one does.
    leader: Option<LeaseRecord>,
    /// The firing first.
    pub(crate) alerts: Listed<AlertRecord>,
}

impl PageSnapshot {
    /// Looks, and hands back the transaction so that the page can read on from the same snapshot.
    #[crate::boxed]
    pub(crate) async fn read(state: &State) -> Result<(Self, Tx), StoreError> {
        let clock = &state.inner().parts.clock;
        let began = clock.monotonic();
        let mut tx = state.read().await?;
        let now = tx.now().await?;
        let latency = clock.monotonic().since(began);
        let processes = Listed::new(tx.processes().list(ROWS_MAX + 1).await?, ROWS_MAX);
        let leases = Listed::new(tx.leases().list(ROWS_MAX + 1).await?, ROWS_MAX);
        let leader = match LeaseKey::new(LEADER.0, LEADER.1) {
            Ok(key) => tx.leases().find(&key).await?,
            Err(_) => None,
        };
        let alerts = Listed::new(tx.alerts().list(ROWS_MAX + 1).await?, ROWS_MAX);
        Ok((Self { now, latency, processes, leases, leader, alerts }, tx))
    }

    /// What people call a process.
    pub(crate) fn name_of(&self, id: ProcessId) -> Option<&str> {
        self.processes
            .rows
            .iter()
            .find(|process| process.id == id)
            .map(|process| process.identity.name.as_str())
    }

    /// What people call the server that does what only one does, if one does.
    fn leader(&self) -> Option<&str> {
        let led = self.leader.as_ref().filter(|lease| lease.is_live)?;
        match led.lease {
            Lease::Held { fence, .. } => self.name_of(fence.owner),
            Lease::Free { .. } => None,
        }
    }

    /// How many alerts fire that nobody has silenced.
    fn failing(&self) -> usize {
        let is_failing = |alert: &&AlertRecord| {
            matches!(alert.state, AlertState::Firing { .. }) && alert.silence.is_none()
        };
        self.alerts.rows.iter().filter(is_failing).count()
    }
}

/// The status line's share of the server: the database, the leader, the version. Without a common the database did
/// not answer.
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

/// How many things fail behind an entry of the navigation; nothing when none does.
pub(crate) fn failing(common: &PageSnapshot) -> Markup {
    let count = common.failing();
    html! {
        span data-live="failing" {
            @if count > 0 { span.count { (count) span.unseen { " firing" } } }
        }
    }
}

/// The parts of every page that change by themselves.
pub(crate) fn regions(state: &State, common: Option<&PageSnapshot>) -> Vec<Region> {
    let mut regions = vec![Region::whole("status", Audience::Everywhere, status(state, common))];
    regions.extend(common.map(|common| Region::whole("failing", Audience::Everywhere, failing(common))));
    regions
}

/// A short time, exact enough to see a trend.
pub(crate) fn milliseconds(time: Duration) -> String {
    match time.as_millis() {
        0 => "under 1 ms".to_owned(),
        time => format!("{time} ms"),
    }
}
