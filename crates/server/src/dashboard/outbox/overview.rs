//! Statistics of the outbox page. Unknown numbers are shown as unknown.

use crate::dashboard::instant::Times;
use crate::dashboard::part::{Health, state};
use maud::{Markup, html};
use tidemill_domain::outbox::{Count, LiveRelay, RelayId, missing_shares};
use tidemill_store::outbox::{AttachedStats, Backlog, FailedEventCounts, RelayDetail, SlotLag};
use tidemill_store::{StoreError, Tx};

/// Counts stop here: an open page counts every second.
pub(in crate::dashboard) const COUNT_MAX: u32 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct OutboxOverview {
    /// One for each slot; none if unknown.
    pub(super) lag: Option<Vec<SlotLag>>,
    pub(super) failed: FailedEventCounts,
    pub(super) relays: Vec<RelayDetail>,
    pub(super) attached: Vec<AttachedStats>,
    missing: Vec<u32>,
}

impl OutboxOverview {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let relays = tx.outbox().relays().await?;
        let live: Vec<LiveRelay> = relays.iter().map(|detail| detail.relay.clone()).collect();
        Ok(Self {
            lag: tx.outbox().lag(COUNT_MAX).await?,
            failed: tx.outbox().failed_event_counts(COUNT_MAX).await?,
            attached: tx.outbox().attached_stats(COUNT_MAX).await?,
            missing: missing_shares(&live),
            relays,
        })
    }

    /// None if the relay is not alive.
    pub(super) fn relay(&self, id: RelayId) -> Option<&LiveRelay> {
        self.relays.iter().map(|detail| &detail.relay).find(|relay| relay.id == id)
    }

    fn unpublished(&self) -> Option<Backlog> {
        Some(self.lag.as_deref().map(Backlog::of)?.plus(self.failed.open()))
    }

    /// Number of slots without a live relay; none if unknown.
    fn unowned(&self) -> Option<usize> {
        let has_owner = |slot: &&SlotLag| slot.owner.is_some_and(|owner| self.relay(owner).is_some());
        self.lag.as_ref().map(|slots| slots.len() - slots.iter().filter(has_owner).count())
    }

    fn published_per_second(&self) -> Option<f64> {
        let rates: Vec<f64> = self.relays.iter().filter_map(RelayDetail::published_per_second).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    }

    pub(super) fn markup(&self, times: &Times) -> Markup {
        let unpublished = self.unpublished();
        let has_work = unpublished.is_none_or(|backlog| backlog.rows.least() > 0);
        html! {
            dl {
                dt { "Unpublished" }
                dd { (unpublished.map_or_else(unknown, |backlog| events(backlog.rows))) }
                dt { "Oldest" } dd { (oldest(unpublished, times)) }
                dt { "Published" }
                dd {
                    @match self.published_per_second() {
                        Some(rate) => { (rounded(rate)) " events per second, since each relay joined" }
                        None => (unknown()),
                    }
                }
                dt { "Live relays" }
                dd {
                    @if self.relays.is_empty() && has_work {
                        (state(Health::Bad, "none")) span.soft { ", so nothing is published" }
                    } @else { (self.relays.len()) }
                }
                dt { "Slots with an owner" }
                dd {
                    @match self.unowned() {
                        None => (unknown()),
                        Some(0) => "256 of 256",
                        Some(free) => { (256_usize.saturating_sub(free)) " of 256; " (state(Health::Warn, "without owner")) " " (free) }
                    }
                }
                @if !self.missing.is_empty() {
                    dt { "Instances without a relay" }
                    dd { (state(Health::Bad, &self.missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))) }
                }
            }
            @if self.lag.is_none() {
                p { "The positions of the slots are unknown: the database was restored to another server, and no relay has run since." }
            }
        }
    }
}

pub(super) fn unknown() -> Markup {
    html! { span.soft { "unknown" } }
}

pub(super) fn count(count: Count) -> Markup {
    if count == Count::AtLeast(0) {
        unknown()
    } else {
        html! { (count_text(count)) }
    }
}

fn events(count: Count) -> Markup {
    match count {
        Count::AtLeast(0) => unknown(),
        Count::Exactly(1) => html! { "1 event" },
        count => html! { (count_text(count)) " events" },
    }
}

/// Such as `1000+`.
pub(in crate::dashboard) fn count_text(count: Count) -> String {
    match count {
        Count::AtLeast(least) if least > 0 => format!("{least}+"),
        count => count.to_string(),
    }
}

/// Age of the oldest event.
pub(in crate::dashboard) fn oldest(backlog: Option<Backlog>, times: &Times) -> Markup {
    match backlog {
        Some(Backlog { rows: Count::Exactly(0), .. }) => html! { span.soft { "none" } },
        Some(Backlog { oldest: Some(oldest), .. }) => times.length(oldest),
        _ => unknown(),
    }
}

pub(super) fn rounded(rate: f64) -> String {
    format!("{rate:.1}")
}
