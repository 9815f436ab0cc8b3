//! The decisions about a pool, as far back as the log is kept.

use super::address::{PoolPage, Range, Tab};
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::Rows;
use crate::dashboard::part::{Health, list_table, pager, plural, state};
use maud::{Markup, html};
use tidemill_domain::pool::event::{End, Event};
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_store::pool::{Decision, DecisionPlace};
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 50;

const COLUMNS: &[&str] = &["When", "Decision", "Details", "Holder"];

/// A page of the log.
#[derive(Debug)]
pub(super) struct History {
    decisions: Rows<Decision>,
    before: Option<DecisionPlace>,
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
        let decisions = tx.pools().decisions(name, before, PAGE_ROWS + 1).await?;
        Ok(Self { decisions: Rows::new(decisions, PAGE_ROWS), before })
    }

    pub(super) fn markup(&self, visit: &PageContext, name: &PoolName, range: Range, times: &Times) -> Markup {
        let first = visit.state.path(&PoolPage::new(name, Tab::History, range).path());
        let last = self.decisions.last_of_more().map(|decision| decision.place);
        let last = last.map(|DecisionPlace { version, seq }| format!("{first}&before={version}.{seq}#tab"));
        let audit = visit.state.path(&format!("/settings/audit?object=pool/{name}"));
        let audit = html! { a href=(audit) { "Audit log" } };
        let rows = self.decisions.rows.iter().map(|decision| row(decision, times));
        html! {
            (list_table("Decisions", COLUMNS, rows, &html! { "No older decisions." }))
            (pager(self.before.map(|_| format!("{first}#tab")), last, &audit))
        }
    }
}

fn row(decision: &Decision, times: &Times) -> Markup {
    let (health, label, details) = describe(&decision.event);
    html! {
        tr {
            td { (times.at(decision.at)) }
            th scope="row" { (state(health, label)) }
            td.long { (details) }
            td.long {
                @if let Some((dag, run)) = &decision.run { (dag) "/" (run) }
                @if let Some(ticket) = decision.ticket { br; code { (ticket) } }
            }
        }
    }
}

/// A label and a sentence.
fn describe(event: &Event) -> (Health, &'static str, String) {
    use Health::{Idle, Ok, Warn};
    match event {
        Event::Configured { settings } => match &settings.paused {
            Some(pause) => (Idle, "paused", format!("Paused by {}: {}", pause.by, pause.reason)),
            None => {
                let Settings { max_units, threshold_percent, policy, .. } = settings.as_ref();
                let units = plural(*max_units, "unit", "units");
                let details = format!("{units}, limit {threshold_percent} %, policy {policy}");
                (Idle, "changed", details)
            }
        },
        Event::Snapshot { .. } => (Idle, "snapshot", "Snapshot of the pool".to_owned()),
        Event::Enqueued { ticket } => {
            let least = ticket.weight.units(ticket.least);
            let units = plural(ticket.wanted(), "unit", "units");
            (Idle, "requested", format!("Requests {units}, at least {least}"))
        }
        Event::Asked { asked, least, .. } => {
            (Idle, "repeated", format!("Requests PARALLEL({asked}), at least PARALLEL({least})"))
        }
        Event::Granted { parallel, .. } => (Ok, "granted", format!("PARALLEL({parallel}) granted")),
        Event::Claimed { .. } => (Ok, "claimed", "The holder received its units".to_owned()),
        Event::Unclaimed { .. } => {
            (Warn, "unclaimed", "The holder disconnected before it received its units".to_owned())
        }
        Event::Reacquired { .. } => (Idle, "repeated", "The holder repeated its request".to_owned()),
        Event::Resized { parallel, .. } => (Ok, "resized", format!("Now has PARALLEL({parallel})")),
        Event::Wanted { parallel: Some(parallel), .. } => {
            (Idle, "upgrade", format!("Waits for PARALLEL({parallel})"))
        }
        Event::Wanted { parallel: None, .. } => (Idle, "upgrade", "No longer waits for more".to_owned()),
        Event::Doubted { .. } => {
            (Warn, "suspect", "Heartbeats are missing; the units still count".to_owned())
        }
        Event::Confirmed { .. } => (Ok, "confirmed", "Heartbeats arrive again".to_owned()),
        Event::Ended { end: End::ByOperator { by, reason }, .. } => {
            (Warn, "released", format!("By {by}: {reason}"))
        }
        Event::Ended { end, .. } => {
            let (health, label, details) = describe_end(end);
            (health, label, details.to_owned())
        }
    }
}

const fn describe_end(end: &End) -> (Health, &'static str, &'static str) {
    use Health::{Bad, Ok, Warn};
    match end {
        End::Released { failed: false } => (Ok, "ended", "Released by its holder"),
        End::Released { failed: true } => (Warn, "ended", "Released by its holder after a failure"),
        End::ByOperator { .. } => (Warn, "released", "Released by an operator"),
        End::ByProbe => (Warn, "released", "The probe found no session"),
        End::PoolRemoved => (Warn, "released", "The pool was removed"),
        End::Unclaimed => (Bad, "expired", "The holder did not claim its units in time"),
        End::HeldTooLong => (Bad, "expired", "Held longer than the pool allows"),
        End::StoppedAsking => (Warn, "left the queue", "The holder stopped repeating its request"),
        End::GaveUp => (Warn, "left the queue", "The holder gave up waiting"),
        End::ExceedsPool => (Warn, "left the queue", "The pool became too small for the request"),
    }
}
