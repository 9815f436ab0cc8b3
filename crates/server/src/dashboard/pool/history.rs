//! What was decided about a pool, one after the other, as far back as the log is kept.

use super::address::{PoolPage, Range, Tab};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::part::{Health, empty_row, state, table};
use maud::{Markup, html};
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::event::{End, Event};
use tidemill_store::pool::{Decision, DecisionPlace};
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 50;

const COLUMNS: &[&str] = &["When", "Decision", "What", "Whose"];

/// A page of the log.
#[derive(Debug)]
pub(super) struct History {
    decisions: Vec<Decision>,
    before: Option<DecisionPlace>,
    has_more: bool,
}

/// The place in an address: version and number within it.
pub(super) fn place(text: &str) -> Option<DecisionPlace> {
    let (version, seq) = text.split_once('.')?;
    Some(DecisionPlace { version: version.parse().ok()?, seq: seq.parse().ok()? })
}

impl History {
    /// Looks, from before a place on.
    pub(super) async fn read(
        tx: &mut Tx,
        name: &PoolName,
        before: Option<DecisionPlace>,
    ) -> Result<Self, StoreError> {
        // One more than is shown tells whether there is a next page.
        let mut decisions = tx.pools().decisions(name, before, PAGE_ROWS + 1).await?;
        let has_more = decisions.len() > PAGE_ROWS as usize;
        decisions.truncate(PAGE_ROWS as usize);
        Ok(Self { decisions, before, has_more })
    }

    pub(super) fn markup(&self, visit: &PageContext, name: &PoolName, range: Range, times: &Times) -> Markup {
        let first = visit.state.path(&PoolPage::new(name, Tab::History, range).path());
        let last = self.decisions.last().filter(|_| self.has_more).map(|decision| decision.place);
        let rows = html! {
            tbody {
                @if self.decisions.is_empty() {
                    (empty_row(COLUMNS.len(), &html! { "Nothing older is known." }))
                }
                @for decision in &self.decisions { (row(decision, times)) }
            }
        };
        html! {
            (table("Decisions", COLUMNS, &rows))
            div.row.body {
                @if self.before.is_some() { a.button href={ (first) "#tab" } { "Newest" } }
                @if let Some(DecisionPlace { version, seq }) = last {
                    a.button href={ (first) "&before=" (version) "." (seq) "#tab" } { "Older" }
                }
                a href=(visit.state.path(&format!("/settings/audit?object=pool/{name}"))) { "Who changed it" }
            }
        }
    }
}

fn row(decision: &Decision, times: &Times) -> Markup {
    let (health, word) = named(&decision.event);
    html! {
        tr {
            td { (times.at(decision.at)) }
            th scope="row" { (state(health, word)) }
            td.long { (told(decision)) }
            td.long {
                @if let Some((dag, run)) = &decision.run { (dag) "/" (run) }
                @if let Some(ticket) = decision.ticket { br; code { (ticket) } }
            }
        }
    }
}

fn named(event: &Event) -> (Health, &'static str) {
    match event {
        Event::Configured { settings } if settings.paused.is_some() => (Health::Idle, "paused"),
        Event::Configured { .. } => (Health::Idle, "set"),
        Event::Snapshot { .. } => (Health::Idle, "snapshot"),
        Event::Enqueued { .. } => (Health::Idle, "asked"),
        Event::Asked { .. } => (Health::Idle, "asked again"),
        Event::Granted { .. } => (Health::Ok, "granted"),
        Event::Claimed { .. } => (Health::Ok, "claimed"),
        Event::Unclaimed { .. } => (Health::Warn, "unclaimed"),
        Event::Reacquired { .. } => (Health::Idle, "asked again"),
        Event::Resized { .. } => (Health::Ok, "resized"),
        Event::Wanted { .. } => (Health::Idle, "wants more"),
        Event::Doubted { .. } => (Health::Warn, "in doubt"),
        Event::Confirmed { .. } => (Health::Ok, "confirmed"),
        Event::Ended { end, .. } => ended(end),
    }
}

const fn ended(end: &End) -> (Health, &'static str) {
    match end {
        End::Released { failed: false } => (Health::Ok, "ended"),
        End::Released { failed: true } => (Health::Warn, "ended"),
        End::ByOperator { .. } | End::ByProbe | End::PoolRemoved => (Health::Warn, "released"),
        End::Unclaimed | End::HeldTooLong => (Health::Bad, "expired"),
        End::StoppedAsking | End::GaveUp | End::ExceedsPool => (Health::Warn, "left the queue"),
    }
}

/// In a sentence.
fn told(decision: &Decision) -> String {
    match &decision.event {
        Event::Configured { settings } => match &settings.paused {
            Some(pause) => format!("Paused by {}: {}", pause.by, pause.reason),
            None => format!(
                "{} units, of which {} % are given out; policy {}",
                settings.max_units, settings.threshold_percent, settings.policy
            ),
        },
        Event::Snapshot { .. } => "All that there is was written down".to_owned(),
        Event::Enqueued { ticket } => {
            format!("Wants {} units, {} at least", ticket.wanted(), ticket.weight.units(ticket.least))
        }
        Event::Asked { asked, least, .. } => format!("Wants PARALLEL({asked}), PARALLEL({least}) at least"),
        Event::Granted { parallel, .. } => format!("Units for PARALLEL({parallel}) are set aside"),
        Event::Claimed { .. } => "Its holder has heard of its units".to_owned(),
        Event::Unclaimed { .. } => "Its holder was gone before it could hear of them".to_owned(),
        Event::Reacquired { .. } => "The same holder asked again for what it has".to_owned(),
        Event::Resized { parallel, .. } => format!("It has PARALLEL({parallel}) now"),
        Event::Wanted { parallel: Some(parallel), .. } => format!("It would like PARALLEL({parallel})"),
        Event::Wanted { parallel: None, .. } => "It does not want more any longer".to_owned(),
        Event::Doubted { .. } => "It has not been heard of; its units still count".to_owned(),
        Event::Confirmed { .. } => "It was heard of again".to_owned(),
        Event::Ended { end, .. } => of_end(end),
    }
}

fn of_end(end: &End) -> String {
    match end {
        End::Released { failed: false } => "Its holder is done with it".to_owned(),
        End::Released { failed: true } => "Its holder is done with it, after a failure".to_owned(),
        End::ByOperator { by, reason } => format!("By {by}: {reason}"),
        End::ByProbe => "The probe saw no session of it".to_owned(),
        End::Unclaimed => "Nobody claimed its units in time".to_owned(),
        End::HeldTooLong => "It was held for longer than the pool allows".to_owned(),
        End::StoppedAsking => "Its holder no longer asked".to_owned(),
        End::GaveUp => "Its holder gave up".to_owned(),
        End::ExceedsPool => "The pool became too small for it".to_owned(),
        End::PoolRemoved => "Its pool was removed".to_owned(),
    }
}
