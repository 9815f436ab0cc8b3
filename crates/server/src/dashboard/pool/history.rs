//! The decisions about a pool, as far back as the log is kept.

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

const COLUMNS: &[&str] = &["When", "Decision", "Details", "Holder"];

/// A page of the log.
#[derive(Debug)]
pub(super) struct History {
    decisions: Vec<Decision>,
    before: Option<DecisionPlace>,
    has_more: bool,
}

/// Reads a place in the log from an address: version and number.
pub(super) fn place(text: &str) -> Option<DecisionPlace> {
    let (version, seq) = text.split_once('.')?;
    Some(DecisionPlace { version: version.parse().ok()?, seq: seq.parse().ok()? })
}

impl History {
    pub(super) async fn read(
        tx: &mut Tx,
        name: &PoolName,
        before: Option<DecisionPlace>,
    ) -> Result<Self, StoreError> {
        // One row more than a page tells whether there is a next page.
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
                    (empty_row(COLUMNS.len(), &html! { "No older decisions." }))
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
                a href=(visit.state.path(&format!("/settings/audit?object=pool/{name}"))) { "Audit log" }
            }
        }
    }
}

fn row(decision: &Decision, times: &Times) -> Markup {
    let (health, word) = label(&decision.event);
    html! {
        tr {
            td { (times.at(decision.at)) }
            th scope="row" { (state(health, word)) }
            td.long { (sentence(decision)) }
            td.long {
                @if let Some((dag, run)) = &decision.run { (dag) "/" (run) }
                @if let Some(ticket) = decision.ticket { br; code { (ticket) } }
            }
        }
    }
}

fn label(event: &Event) -> (Health, &'static str) {
    match event {
        Event::Configured { settings } if settings.paused.is_some() => (Health::Idle, "paused"),
        Event::Configured { .. } => (Health::Idle, "changed"),
        Event::Snapshot { .. } => (Health::Idle, "snapshot"),
        Event::Enqueued { .. } => (Health::Idle, "requested"),
        Event::Asked { .. } => (Health::Idle, "repeated"),
        Event::Granted { .. } => (Health::Ok, "granted"),
        Event::Claimed { .. } => (Health::Ok, "claimed"),
        Event::Unclaimed { .. } => (Health::Warn, "unclaimed"),
        Event::Reacquired { .. } => (Health::Idle, "repeated"),
        Event::Resized { .. } => (Health::Ok, "resized"),
        Event::Wanted { .. } => (Health::Idle, "upgrade"),
        Event::Doubted { .. } => (Health::Warn, "suspect"),
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

fn sentence(decision: &Decision) -> String {
    match &decision.event {
        Event::Configured { settings } => match &settings.paused {
            Some(pause) => format!("Paused by {}: {}", pause.by, pause.reason),
            None => format!(
                "{} units, limit {} %, policy {}",
                settings.max_units, settings.threshold_percent, settings.policy
            ),
        },
        Event::Snapshot { .. } => "Snapshot of the pool".to_owned(),
        Event::Enqueued { ticket } => {
            format!("Requests {} units, at least {}", ticket.wanted(), ticket.weight.units(ticket.least))
        }
        Event::Asked { asked, least, .. } => {
            format!("Requests PARALLEL({asked}), at least PARALLEL({least})")
        }
        Event::Granted { parallel, .. } => format!("PARALLEL({parallel}) granted"),
        Event::Claimed { .. } => "The holder received its units".to_owned(),
        Event::Unclaimed { .. } => "The holder disconnected before it received its units".to_owned(),
        Event::Reacquired { .. } => "The holder repeated its request".to_owned(),
        Event::Resized { parallel, .. } => format!("Now has PARALLEL({parallel})"),
        Event::Wanted { parallel: Some(parallel), .. } => format!("Waits for PARALLEL({parallel})"),
        Event::Wanted { parallel: None, .. } => "No longer waits for more".to_owned(),
        Event::Doubted { .. } => "Heartbeats are missing; the units still count".to_owned(),
        Event::Confirmed { .. } => "Heartbeats arrive again".to_owned(),
        Event::Ended { end, .. } => of_end(end),
    }
}

fn of_end(end: &End) -> String {
    match end {
        End::Released { failed: false } => "Released by its holder".to_owned(),
        End::Released { failed: true } => "Released by its holder after a failure".to_owned(),
        End::ByOperator { by, reason } => format!("By {by}: {reason}"),
        End::ByProbe => "The probe found no session".to_owned(),
        End::Unclaimed => "The holder did not claim its units in time".to_owned(),
        End::HeldTooLong => "Held longer than the pool allows".to_owned(),
        End::StoppedAsking => "The holder stopped repeating its request".to_owned(),
        End::GaveUp => "The holder gave up waiting".to_owned(),
        End::ExceedsPool => "The pool became too small for the request".to_owned(),
        End::PoolRemoved => "The pool was removed".to_owned(),
    }
}
