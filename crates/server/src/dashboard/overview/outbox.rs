//! The outbox on the overview. Unknown numbers are shown as unknown.

use crate::dashboard::outbox::page::{COUNT_MAX, oldest};
use crate::dashboard::part::{Health, count_text, state};
use crate::dashboard::{Audience, Page, Region, Times};
use maud::{Markup, html};
use std::time::Duration;
use tidemill_domain::outbox::Count;
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::Backlog;
use tidemill_store::{StoreError, Tx};

/// An older unpublished event is a warning, as in the alert `outbox_lag`.
const LATE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outbox {
    /// None if unknown.
    pub(crate) unpublished: Option<Backlog>,
    pub(crate) parked: Backlog,
    pub(crate) relays: u64,
}

impl Outbox {
    pub(crate) async fn read(tx: &mut Tx) -> Result<Self, StoreError> {
        let failed = tx.outbox().failed_event_counts(COUNT_MAX).await?;
        let unread = tx.outbox().lag(COUNT_MAX).await?.as_deref().map(Backlog::of);
        Ok(Self {
            unpublished: unread.map(|unread| unread.plus(failed.open())),
            parked: failed.parked,
            relays: tx.outbox().relays_alive().await?.0,
        })
    }

    fn count(&self) -> String {
        self.unpublished.map_or_else(|| Count::AtLeast(0).to_string(), |backlog| count_text(backlog.rows))
    }

    /// Age of the oldest unpublished event.
    pub(super) fn lag(&self, times: &Times) -> Markup {
        match self.unpublished {
            Some(Backlog { rows: Count::Exactly(0), .. }) => html! { "none" },
            Some(Backlog { oldest: Some(oldest), .. }) => times.length(oldest),
            _ => html! { "unknown" },
        }
    }

    /// When the oldest unpublished event was written.
    pub(crate) fn oldest(&self) -> Option<Timestamp> {
        self.unpublished.and_then(|backlog| backlog.oldest)
    }

    /// Whether there are unpublished events and no relay.
    pub(super) fn is_stuck(&self) -> bool {
        self.relays == 0 && self.unpublished.is_some_and(|backlog| backlog.rows.least() > 0)
    }

    pub(crate) fn health(&self, now: Timestamp) -> Health {
        let Some(Backlog { oldest, .. }) = self.unpublished else { return Health::Idle };
        let is_late = oldest.is_some_and(|oldest| now.since(oldest) > LATE);
        match () {
            () if self.is_stuck() => Health::Bad,
            () if is_late || self.parked.rows.least() > 0 => Health::Warn,
            () if self.relays == 0 => Health::Idle,
            () => Health::Ok,
        }
    }
}

pub(super) fn region(outbox: &Outbox, times: &Times) -> Region {
    let markup = html! {
        div.body data-live="outbox" {
            dl {
                dt { "Unpublished" } dd { (outbox.count()) }
                dt { "Oldest" } dd { (oldest(outbox.unpublished, times)) }
                dt { "Live relays" } dd { (relays(outbox)) }
                dt { "Parked" }
                dd {
                    @match outbox.parked.rows {
                        Count::Exactly(0) => "0",
                        count => { (state(Health::Warn, &count_text(count))) span.soft { ", not retried any more" } }
                    }
                }
            }
        }
    };
    Region::whole("outbox", Audience::On(&[Page::Overview]), markup)
}

fn relays(outbox: &Outbox) -> Markup {
    let has_work = outbox.unpublished.is_none_or(|backlog| backlog.rows.least() > 0);
    match outbox.relays {
        0 if has_work => html! { (state(Health::Bad, "none")) span.soft { ", so nothing is published" } },
        0 => html! { span.soft { "none" } },
        relays => html! { (relays) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn outbox(rows: Count, seconds: u64, parked: u64, relays: u64) -> Outbox {
        let oldest = (rows != Count::Exactly(0)).then(|| NOW.minus(Duration::from_secs(seconds)));
        let unpublished = Some(Backlog { rows, oldest });
        let parked = Backlog { rows: Count::Exactly(parked), oldest: None };
        Outbox { unpublished, parked, relays }
    }

    #[test]
    fn its_health_is_told_by_what_waits_and_who_publishes() {
        let check = |outbox: Outbox, count: &str, health: Health| {
            assert_eq!((outbox.count().as_str(), outbox.health(NOW)), (count, health), "{outbox:?}");
        };

        check(outbox(Count::Exactly(0), 0, 0, 0), "0", Health::Idle);
        check(outbox(Count::Exactly(0), 0, 0, 1), "0", Health::Ok);
        check(outbox(Count::Exactly(3), 59, 0, 1), "3", Health::Ok);
        check(outbox(Count::Exactly(3), 61, 0, 1), "3", Health::Warn);
        check(outbox(Count::AtLeast(1000), 1, 1, 1), "1000+", Health::Warn);
        check(outbox(Count::Exactly(3), 1, 0, 0), "3", Health::Bad);
        check(Outbox { unpublished: None, parked: Backlog::NONE, relays: 1 }, "unknown", Health::Idle);
    }
}
