//! What somebody has to look at: the worst first, and among equals what has waited longest. All of it is known elsewhere;
//! here it is in one place, with the way to it.

use super::outbox::Outbox;
use crate::dashboard::alert::list::rounded;
use crate::dashboard::instant::Times;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, empty_row, state as state_word};
use crate::dashboard::region::{Audience, Page, Region};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::alert::{AlertState, Severity, Subject};
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessState;
use tidemill_domain::time::Timestamp;
use tidemill_store::alert::AlertRecord;
use tidemill_store::job::Failure;
use tidemill_store::pool::PoolLevel;

/// Most rows.
const SHOWN: usize = 10;

/// What the columns are called.
pub(super) const COLUMNS: &[&str] = &["Severity", "What", "Why", "Since"];

tidemill_domain::words! {
    #[derive(PartialOrd, Ord)]
    enum Weight {
        Critical = "critical",
        Warning = "warning",
        Info = "info",
    }
}

impl Weight {
    const fn health(self) -> Health {
        match self {
            Self::Critical => Health::Bad,
            Self::Warning => Health::Warn,
            Self::Info => Health::Idle,
        }
    }
}

impl From<Severity> for Weight {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Critical => Self::Critical,
            Severity::Warning => Self::Warning,
            Severity::Info => Self::Info,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Concern {
    weight: Weight,
    /// None sorts as if it had just begun.
    since: Option<Timestamp>,
    what: String,
    why: String,
    address: String,
}

/// What is known that may need attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) common: &'a PageSnapshot,
    pub(super) failures: &'a [Failure],
    pub(super) pools: &'a [PoolLevel],
    pub(super) outbox: &'a Outbox,
}

pub(super) fn region(state: &State, known: &Known<'_>, times: &Times) -> Region {
    let concerns = sorted(concerns(state, known));
    let markup = html! {
        tbody data-live="attention" {
            @if concerns.is_empty() {
                (empty_row(COLUMNS.len(), &html! { "Nothing needs you. See whether all is well: " (command("tidemill doctor")) }))
            }
            @for concern in concerns.iter().take(SHOWN) { (row(concern, times)) }
            @if concerns.len() > SHOWN {
                tr { td.soft colspan=(COLUMNS.len()) { "The worst " (SHOWN) " of " (concerns.len()) "." } }
            }
        }
    };
    Region::whole("attention", Audience::On(&[Page::Overview]), markup)
}

fn row(concern: &Concern, times: &Times) -> Markup {
    html! {
        tr {
            td { (state_word(concern.weight.health(), concern.weight.as_str())) }
            th.long scope="row" { a href=(concern.address) { (concern.what) } }
            td.long { (concern.why) }
            td { (times.maybe(concern.since, "unknown")) }
        }
    }
}

fn sorted(mut concerns: Vec<Concern>) -> Vec<Concern> {
    let age = |concern: &Concern| concern.since.unwrap_or(Timestamp::from_micros(i64::MAX));
    concerns.sort_by(|one, other| {
        (one.weight, age(one), &one.what).cmp(&(other.weight, age(other), &other.what))
    });
    concerns
}

fn concerns(state: &State, known: &Known<'_>) -> Vec<Concern> {
    let mut found = alerts(state, known.common);
    found.extend(processes(state, known.common));
    found.extend(leases(state, known.common));
    found.extend(known.failures.iter().map(|failure| failed(state, failure)));
    found.extend(known.pools.iter().filter_map(|pool| full(state, pool)));
    found.extend(undelivered(state, known));
    found
}

fn alerts(state: &State, common: &PageSnapshot) -> Vec<Concern> {
    let firing = common.alerts.rows.iter().filter(|alert| alert.silence.is_none());
    let firing = firing.filter(|alert| matches!(alert.state, AlertState::Firing { .. }));
    firing
        .map(|alert| Concern {
            weight: alert.severity.into(),
            since: alert.state.since(),
            what: format!("Alert {}", alert.rule),
            why: breach(state, alert),
            address: state.path("/alerts"),
        })
        .collect()
}

/// What is as the rule says, where, and how much of it.
fn breach(state: &State, alert: &AlertRecord) -> String {
    let rule = state.inner().parts.rules.iter().find(|rule| rule.name() == alert.rule);
    let what = rule.map(|rule| format!("{} {}", rule.signal(), rule.condition()));
    let what = what.unwrap_or_else(|| "a rule that is no longer in force".to_owned());
    let of = if alert.subject == Subject::whole() { String::new() } else { format!(", {}", alert.subject) };
    let now = alert.value.map(|value| format!(", now {}", rounded(value))).unwrap_or_default();
    format!("{what}{of}{now}")
}

fn processes(state: &State, common: &PageSnapshot) -> Vec<Concern> {
    let is_silent = |process: &tidemill_domain::process::ProcessState| {
        matches!(process, ProcessState::Live { .. }) && !process.is_live(common.now)
    };
    let silent = common.processes.rows.iter().filter(|process| is_silent(&process.state));
    silent
        .map(|process| Concern {
            weight: Weight::Warning,
            since: Some(process.heartbeat_at),
            what: format!("Process {}", process.identity.name),
            why: "It is silent, and will soon be given up.".to_owned(),
            address: format!("{}#processes", state.path("/settings")),
        })
        .collect()
}

fn leases(state: &State, common: &PageSnapshot) -> Vec<Concern> {
    let lapsed = common.leases.rows.iter().filter(|lease| !lease.is_live);
    lapsed
        .filter(|lease| matches!(lease.lease, Lease::Held { .. }))
        .map(|lease| Concern {
            weight: Weight::Info,
            since: lease.acquired_at,
            what: format!("Lease {}", lease.key),
            why: "It has lapsed, and nobody has taken it yet.".to_owned(),
            address: format!("{}#leases", crate::dashboard::page_context::home(state)),
        })
        .collect()
}

fn failed(state: &State, failure: &Failure) -> Concern {
    let why = failure.message.lines().next().filter(|line| !line.trim().is_empty());
    Concern {
        weight: Weight::Warning,
        since: failure.ended_at,
        what: format!("{} #{} failed", failure.job, failure.id),
        why: why.unwrap_or("Nobody has said why, and nobody has gone on with it.").to_owned(),
        address: state.path(&format!("/executions/{}", failure.id)),
    }
}

fn full(state: &State, pool: &PoolLevel) -> Option<Concern> {
    let (name, level) = (&pool.settings.name, pool.level);
    let (weight, why) = match &pool.settings.paused {
        _ if level.over_by() > 0 => {
            (Weight::Warning, format!("{} more units are in use than may be.", level.over_by()))
        }
        _ if pool.suspect > 0 => {
            (Weight::Warning, format!("{} holders have not been heard of.", pool.suspect))
        }
        Some(pause) if pool.waiting > 0 => {
            (Weight::Info, format!("It is paused by {}, and {} requests wait.", pause.by, pool.waiting))
        }
        _ => return None,
    };
    let since = pool.settings.paused.as_ref().filter(|_| weight == Weight::Info).map(|pause| pause.at);
    Some(Concern {
        weight,
        since,
        what: format!("Pool {name}"),
        why,
        address: state.path(&format!("/pools/{name}")),
    })
}

fn undelivered(state: &State, known: &Known<'_>) -> Vec<Concern> {
    let (outbox, mut found) = (known.outbox, Vec::new());
    if outbox.is_stuck() {
        found.push(Concern {
            weight: Weight::Critical,
            since: outbox.oldest(),
            what: "Outbox".to_owned(),
            why: "Events are to be published, and no relay runs.".to_owned(),
            address: state.path("/outbox"),
        });
    }
    if let Some((count, since)) = outbox.parked() {
        found.push(Concern {
            weight: Weight::Warning,
            since,
            what: "Parked events".to_owned(),
            why: format!("{count} failed and are not tried again."),
            address: state.path("/outbox/failed"),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concern(weight: Weight, since: Option<i64>, what: &str) -> Concern {
        let since = since.map(Timestamp::from_micros);
        Concern { weight, since, what: what.into(), why: String::new(), address: String::new() }
    }

    #[test]
    fn the_worst_comes_first_and_then_the_oldest() {
        let found = sorted(vec![
            concern(Weight::Info, Some(1), "e"),
            concern(Weight::Critical, None, "b"),
            concern(Weight::Warning, Some(9), "d"),
            concern(Weight::Critical, Some(5), "a"),
            concern(Weight::Warning, Some(2), "c"),
        ]);

        assert_eq!(found.iter().map(|one| one.what.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    }
}
