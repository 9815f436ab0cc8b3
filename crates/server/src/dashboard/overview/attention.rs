//! What needs attention: the most severe first, then the oldest, with a link to each.

use super::outbox::Outbox;
use super::page::Snapshot;
use crate::dashboard::alert::rounded;
use crate::dashboard::page_context::home;
use crate::dashboard::part::{Health, command, count_text, empty_row, plural, sentence, state as state_word};
use crate::dashboard::{Audience, Page, Region, Times};
use crate::state::State;
use maud::{Markup, html};
use std::cmp::Reverse;
use tidemill_domain::alert::{Rule, Severity, Subject};
use tidemill_domain::lease::Lease;
use tidemill_domain::outbox::Count;
use tidemill_domain::pool::event_summary::of_breaker;
use tidemill_domain::process::ProcessState;
use tidemill_domain::time::Timestamp;
use tidemill_engine::alert::signal::JobSignal;
use tidemill_engine::job::InvalidJobFile;
use tidemill_store::alert::AlertRecord;
use tidemill_store::job::Failure;
use tidemill_store::lease::LeaseRecord;
use tidemill_store::pool::PoolLevel;
use tidemill_store::process::ProcessRecord;
use tidemill_store::render::RenderCounts;

/// Maximum number of rows.
const SHOWN: usize = 10;

pub(super) const COLUMNS: &[&str] = &["Severity", "Object", "Problem", "Since"];

#[derive(Clone, PartialEq, Eq, Debug)]
struct Concern {
    severity: Severity,
    /// None sorts last.
    since: Option<Timestamp>,
    object: String,
    problem: String,
    address: String,
}

pub(super) fn region(state: &State, snapshot: &Snapshot, times: &Times) -> Region {
    let concerns = sorted(concerns(state, snapshot));
    let markup = html! {
        tbody data-live="attention" {
            @if concerns.is_empty() {
                (empty_row(COLUMNS.len(), &html! { "Nothing needs attention. Check the installation: " (command("tidemill doctor")) }))
            }
            @for concern in concerns.iter().take(SHOWN) { (row(concern, times)) }
            @if concerns.len() > SHOWN {
                tr { td.soft colspan=(COLUMNS.len()) { "The first " (SHOWN) " of " (concerns.len()) "." } }
            }
        }
    };
    Region::whole("attention", Audience::On(&[Page::Overview]), markup)
}

fn row(concern: &Concern, times: &Times) -> Markup {
    let health = match concern.severity {
        Severity::Critical => Health::Bad,
        Severity::Warning => Health::Warn,
        Severity::Info => Health::Idle,
    };
    html! {
        tr {
            td { (state_word(health, concern.severity.as_str())) }
            th.long scope="row" { a href=(concern.address) { (concern.object) } }
            td.long { (concern.problem) }
            td { (times.maybe(concern.since, "unknown")) }
        }
    }
}

fn sorted(mut concerns: Vec<Concern>) -> Vec<Concern> {
    let age = |concern: &Concern| concern.since.unwrap_or(Timestamp::from_micros(i64::MAX));
    concerns.sort_by_cached_key(|one| (Reverse(one.severity), age(one), one.object.clone()));
    concerns
}

fn concerns(state: &State, snapshot: &Snapshot) -> Vec<Concern> {
    let common = &snapshot.common;
    let is_silent = |process: &&ProcessRecord| {
        matches!(process.state, ProcessState::Live { .. }) && !process.state.is_live(common.now)
    };
    let has_lapsed = |lease: &&LeaseRecord| !lease.is_live && matches!(lease.lease, Lease::Held { .. });
    // Failed executions are items of their own, with a link to each.
    let is_failure = |alert: &&AlertRecord| {
        rule(state, alert).is_some_and(|rule| rule.signal() == JobSignal::Failures.as_str())
    };
    let alerts = common.firing().filter(|alert| !is_failure(alert));
    let mut found: Vec<Concern> = alerts.map(|alert| firing(state, alert)).collect();
    found.extend(common.processes.rows.iter().filter(is_silent).map(|process| Concern {
        severity: Severity::Warning,
        since: Some(process.heartbeat_at),
        object: format!("Process {}", process.identity.name),
        problem: "No heartbeat; it will soon be marked as dead.".to_owned(),
        address: state.path("/settings#processes"),
    }));
    found.extend(common.leases.rows.iter().filter(has_lapsed).map(|lease| Concern {
        severity: Severity::Info,
        since: lease.acquired_at,
        object: format!("Lease {}", lease.key),
        problem: "It has lapsed and has no new holder.".to_owned(),
        address: format!("{}#leases", home(state)),
    }));
    found.extend(state.launcher().jobs().invalid().iter().map(|file| invalid(state, file)));
    found.extend(snapshot.failures.iter().map(|failure| failed(state, failure)));
    found.extend(snapshot.totals.pools.iter().filter_map(|pool| full(state, pool)));
    found.extend(undelivered(state, &snapshot.totals.outbox));
    found.extend(unapproved(state, &snapshot.totals.renders));
    found
}

fn rule<'a>(state: &'a State, alert: &AlertRecord) -> Option<&'a Rule> {
    state.inner().parts.rules.iter().find(|rule| rule.name() == alert.rule)
}

/// The condition of the rule, its subject, the current value and the detail.
fn firing(state: &State, alert: &AlertRecord) -> Concern {
    let what = rule(state, alert).map(|rule| format!("{} {}", rule.signal(), rule.condition()));
    let what = what.unwrap_or_else(|| "the rule was removed".to_owned());
    let of = if alert.subject == Subject::whole() { String::new() } else { format!(", {}", alert.subject) };
    let now = alert.value.map(|value| format!(", now {}", rounded(value))).unwrap_or_default();
    let detail = alert.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
    Concern {
        severity: alert.severity,
        since: alert.state.since(),
        object: format!("Alert {}", alert.rule),
        problem: format!("{what}{of}{now}{detail}"),
        address: state.path("/alerts"),
    }
}

fn invalid(state: &State, file: &InvalidJobFile) -> Concern {
    Concern {
        severity: Severity::Critical,
        since: None,
        object: format!("Job file {} not loaded", file.path),
        problem: match file.problems.as_slice() {
            [first, others @ ..] if !others.is_empty() => format!("{first} (and {} more)", others.len()),
            problems => problems.concat(),
        },
        address: state.path("/jobs"),
    }
}

fn failed(state: &State, failure: &Failure) -> Concern {
    let message = failure.message.lines().next().filter(|line| !line.trim().is_empty());
    Concern {
        severity: Severity::Warning,
        since: failure.ended_at,
        object: format!("{} #{} failed", failure.job, failure.id),
        problem: message.unwrap_or("It failed without a message and was not restarted.").to_owned(),
        address: state.path(&format!("/executions/{}", failure.id)),
    }
}

fn full(state: &State, pool: &PoolLevel) -> Option<Concern> {
    let (name, over) = (&pool.settings.name, pool.level.over_by());
    let (severity, since, problem) = match &pool.settings.paused {
        _ if pool.breaker.is_open() => {
            (Severity::Warning, Some(pool.breaker.since), sentence(&of_breaker(&pool.breaker)))
        }
        _ if over > 0 => {
            (Severity::Warning, None, format!("{} in use above the maximum.", plural(over, "unit", "units")))
        }
        _ if pool.suspect > 0 => {
            let holders =
                plural(pool.suspect, "holder missed its heartbeat", "holders missed their heartbeat");
            (Severity::Warning, None, format!("{holders}."))
        }
        Some(pause) if pool.waiting > 0 => {
            let requests = plural(pool.waiting, "request waits", "requests wait");
            (Severity::Info, Some(pause.at), format!("Paused by {}; {requests}.", pause.by))
        }
        _ => return None,
    };
    let (object, address) = (format!("Pool {name}"), state.path(&format!("/pools/{name}")));
    Some(Concern { severity, since, object, problem, address })
}

fn undelivered(state: &State, outbox: &Outbox) -> impl Iterator<Item = Concern> {
    let stuck = outbox.is_stuck().then(|| Concern {
        severity: Severity::Critical,
        since: outbox.oldest(),
        object: "Outbox".to_owned(),
        problem: "Events wait, but no relay is running.".to_owned(),
        address: state.path("/outbox"),
    });
    let parked = outbox.parked;
    let parked = (parked.rows.least() > 0).then(|| Concern {
        severity: Severity::Warning,
        since: parked.oldest,
        object: "Parked events".to_owned(),
        problem: match parked.rows {
            Count::Exactly(1) => "1 failed and is not retried.".to_owned(),
            count => format!("{} failed and are not retried.", count_text(count)),
        },
        address: state.path("/outbox/failed"),
    });
    stuck.into_iter().chain(parked)
}

fn unapproved(state: &State, renders: &RenderCounts) -> Option<Concern> {
    let waiting = plural(renders.awaiting_approval, "render waits", "renders wait");
    renders.awaiting_since.map(|since| Concern {
        severity: Severity::Warning,
        since: Some(since),
        object: "Renders".to_owned(),
        problem: format!("{waiting} for approval."),
        address: state.path("/render?status=pending"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concern(severity: Severity, since: Option<i64>, object: &str) -> Concern {
        let (since, object) = (since.map(Timestamp::from_micros), object.to_owned());
        Concern { severity, since, object, problem: String::new(), address: String::new() }
    }

    #[test]
    fn the_most_severe_comes_first_and_then_the_oldest() {
        let found = sorted(vec![
            concern(Severity::Info, Some(1), "e"),
            concern(Severity::Critical, None, "b"),
            concern(Severity::Warning, Some(9), "d"),
            concern(Severity::Critical, Some(5), "a"),
            concern(Severity::Warning, Some(2), "c"),
        ]);

        assert_eq!(
            found.iter().map(|one| one.object.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c", "d", "e"]
        );
    }
}
