//! The decisions about a pool, as far back as the log is kept.

use super::address::{PoolPage, Range, Tab};
use crate::dashboard::part::{Health, list_table, pager, plural, sentence, state};
use crate::dashboard::{Rows, Times};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::pool::PoolName;
use tidemill_domain::pool::decide::why_started;
use tidemill_domain::pool::event::{End, Event};
use tidemill_domain::pool::event_summary::of_breaker;
use tidemill_store::pool::{Decision, DecisionPlace};
use tidemill_store::{StoreError, Tx};

const PAGE_ROWS: u32 = 50;

const COLUMNS: &[&str] = &["When", "Decision", "Details", "Holder"];

/// Reads a place in the log from an address: version and number.
pub(super) fn place(text: &str) -> Option<DecisionPlace> {
    let (version, seq) = text.split_once('.')?;
    Some(DecisionPlace { version: version.parse().ok()?, seq: seq.parse().ok()? })
}

/// A page of the log.
pub(super) async fn markup(
    tx: &mut Tx,
    state: &State,
    name: &PoolName,
    range: Range,
    before: Option<DecisionPlace>,
    times: &Times,
) -> Result<Markup, StoreError> {
    let decisions = Rows::new(tx.pools().decisions(name, before, PAGE_ROWS + 1).await?, PAGE_ROWS);
    let first = state.path(&PoolPage::new(name, Tab::History, range).path());
    let last = decisions.last_of_more().map(|decision| decision.place);
    let last = last.map(|DecisionPlace { version, seq }| format!("{first}&before={version}.{seq}#tab"));
    let audit = state.path(&format!("/settings/audit?object=pool/{name}"));
    let rows = decisions.rows.iter().map(|decision| row(decision, times));
    Ok(html! {
        (list_table("Decisions", COLUMNS, rows, &html! { "No older decisions." }))
        (pager(before.map(|_| format!("{first}#tab")), last, &html! { a href=(audit) { "Audit log" } }))
    })
}

fn row(decision: &Decision, times: &Times) -> Markup {
    let (health, label, details) = describe(decision);
    let start = if let Event::Estimated { eta, .. } = &decision.event { Some(eta.p50) } else { None };
    html! {
        tr {
            td { (times.at(decision.at)) }
            th scope="row" { (state(health, label)) }
            td.long { (details) @if let Some(start) = start { (times.at(start)) } }
            td.long {
                @if let Some((dag, run)) = &decision.run { (dag) "/" (run) }
                @if let Some(ticket) = decision.ticket { br; code { (ticket) } }
            }
        }
    }
}

/// A label and a sentence.
fn describe(decision: &Decision) -> (Health, &'static str, String) {
    use Health::{Idle, Ok, Warn};
    match &decision.event {
        Event::Configured { settings, .. } => {
            let label = if settings.paused.is_some() { "paused" } else { "changed" };
            (Idle, label, decision.summary.clone().unwrap_or_else(|| "Settings changed".to_owned()))
        }
        Event::Breaker { breaker } => {
            let health = if breaker.is_open() { Warn } else { Ok };
            (health, "breaker", sentence(&of_breaker(breaker)))
        }
        Event::Snapshot { .. } => (Idle, "snapshot", "Snapshot of the pool".to_owned()),
        Event::Enqueued { ticket } => {
            let least = ticket.weight.units(ticket.least);
            let units = plural(ticket.wanted(), "unit", "units");
            (Idle, "requested", format!("Requests {units}, at least {least}"))
        }
        Event::Asked { asked, least, .. } => {
            (Idle, "repeated", format!("Requests PARALLEL({asked}), at least PARALLEL({least})"))
        }
        Event::Granted { parallel, turn, size, .. } => {
            (Ok, "granted", format!("PARALLEL({parallel}) granted: {}", why_started(*turn, *size)))
        }
        Event::Estimated { .. } => (Idle, "estimated", "Expected start: ".to_owned()),
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
        Event::Ended { end, .. } => describe_end(end),
    }
}

fn describe_end(end: &End) -> (Health, &'static str, String) {
    use Health::{Bad, Ok, Warn};
    let (health, label, details) = match end {
        End::Released { failed: false } => (Ok, "ended", "Released by its holder"),
        End::Released { failed: true } => (Warn, "ended", "Released by its holder after a failure"),
        End::Refused { reason } => {
            return (Warn, "ended", format!("Released by its holder: the database refused it ({reason})"));
        }
        End::ByOperator { by, reason } => return (Warn, "released", format!("By {by}: {reason}")),
        End::ByProbe => (Warn, "released", "The probe found no session"),
        End::PoolRemoved => (Warn, "released", "The pool was removed"),
        End::Unclaimed => (Bad, "expired", "The holder did not claim its units in time"),
        End::HeldTooLong => (Bad, "expired", "Held longer than the pool allows"),
        End::StoppedAsking => (Warn, "left the queue", "The holder stopped repeating its request"),
        End::GaveUp => (Warn, "left the queue", "The holder gave up waiting"),
        End::ExceedsPool => (Warn, "left the queue", "The pool became too small for the request"),
    };
    (health, label, details.to_owned())
}
