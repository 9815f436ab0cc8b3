//! What needs attention: the most severe first, then the oldest, with a link to each.

use super::outbox::Outbox;
use crate::dashboard::alert::rounded;
use crate::dashboard::instant::Times;
use crate::dashboard::page_context::home;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{Health, command, empty_row, plural, state as state_word};
use crate::dashboard::region::{Audience, Page, Region};
use crate::state::State;
use maud::{Markup, html};
use tidemill_domain::alert::{Severity, Subject};
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessState;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::InvalidJobFile;
use tidemill_store::alert::AlertRecord;
use tidemill_store::job::Failure;
use tidemill_store::pool::PoolLevel;

/// Maximum number of rows.
const SHOWN: usize = 10;

pub(super) const COLUMNS: &[&str] = &["Severity", "Object", "Problem", "Since"];

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
    /// None sorts last.
    since: Option<Timestamp>,
    object: String,
    problem: String,
    address: String,
}

impl Concern {
    fn new(weight: Weight, object: impl Into<String>, problem: impl Into<String>, address: String) -> Self {
        Self { weight, since: None, object: object.into(), problem: problem.into(), address }
    }

    fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }
}

/// Where concerns come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sources<'a> {
    pub(super) common: &'a PageSnapshot,
    pub(super) failures: &'a [Failure],
    pub(super) pools: &'a [PoolLevel],
    pub(super) outbox: &'a Outbox,
}

pub(super) fn region(state: &State, sources: &Sources<'_>, times: &Times) -> Region {
    let concerns = sorted(concerns(state, sources));
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
    html! {
        tr {
            td { (state_word(concern.weight.health(), concern.weight.as_str())) }
            th.long scope="row" { a href=(concern.address) { (concern.object) } }
            td.long { (concern.problem) }
            td { (times.maybe(concern.since, "unknown")) }
        }
    }
}

fn sorted(mut concerns: Vec<Concern>) -> Vec<Concern> {
    let age = |concern: &Concern| concern.since.unwrap_or(Timestamp::from_micros(i64::MAX));
    concerns.sort_by(|one, other| {
        (one.weight, age(one), &one.object).cmp(&(other.weight, age(other), &other.object))
    });
    concerns
}

fn concerns(state: &State, sources: &Sources<'_>) -> Vec<Concern> {
    let mut found = alerts(state, sources.common);
    found.extend(processes(state, sources.common));
    found.extend(leases(state, sources.common));
    found.extend(state.launcher().jobs().invalid().iter().map(|file| invalid(state, file)));
    found.extend(sources.failures.iter().map(|failure| failed(state, failure)));
    found.extend(sources.pools.iter().filter_map(|pool| full(state, pool)));
    found.extend(undelivered(state, sources));
    found
}

fn alerts(state: &State, common: &PageSnapshot) -> Vec<Concern> {
    common
        .firing()
        .map(|alert| {
            let (object, address) = (format!("Alert {}", alert.rule), state.path("/alerts"));
            Concern::new(alert.severity.into(), object, breach(state, alert), address)
                .since(alert.state.since())
        })
        .collect()
}

/// The condition of the rule, its subject and the current value.
fn breach(state: &State, alert: &AlertRecord) -> String {
    let rule = state.inner().parts.rules.iter().find(|rule| rule.name() == alert.rule);
    let what = rule.map(|rule| format!("{} {}", rule.signal(), rule.condition()));
    let what = what.unwrap_or_else(|| "the rule was removed".to_owned());
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
        .map(|process| {
            let object = format!("Process {}", process.identity.name);
            let problem = "No heartbeat; it will soon be marked as dead.";
            let address = format!("{}#processes", state.path("/settings"));
            Concern::new(Weight::Warning, object, problem, address).since(Some(process.heartbeat_at))
        })
        .collect()
}

fn leases(state: &State, common: &PageSnapshot) -> Vec<Concern> {
    let lapsed = common.leases.rows.iter().filter(|lease| !lease.is_live);
    lapsed
        .filter(|lease| matches!(lease.lease, Lease::Held { .. }))
        .map(|lease| {
            let (object, problem) = (format!("Lease {}", lease.key), "It has lapsed and has no new holder.");
            let address = format!("{}#leases", home(state));
            Concern::new(Weight::Info, object, problem, address).since(lease.acquired_at)
        })
        .collect()
}

fn invalid(state: &State, file: &InvalidJobFile) -> Concern {
    let problem = match file.problems.as_slice() {
        [first, others @ ..] if !others.is_empty() => format!("{first} (and {} more)", others.len()),
        problems => problems.concat(),
    };
    Concern::new(Weight::Critical, format!("Job file {} not loaded", file.path), problem, state.path("/jobs"))
}

fn failed(state: &State, failure: &Failure) -> Concern {
    let message = failure.message.lines().next().filter(|line| !line.trim().is_empty());
    let problem = message.unwrap_or("It failed without a message and was not restarted.");
    let object = format!("{} #{} failed", failure.job, failure.id);
    let address = state.path(&format!("/executions/{}", failure.id));
    Concern::new(Weight::Warning, object, problem, address).since(failure.ended_at)
}

fn full(state: &State, pool: &PoolLevel) -> Option<Concern> {
    let (name, level) = (&pool.settings.name, pool.level);
    let (weight, problem) = match &pool.settings.paused {
        _ if level.over_by() > 0 => (
            Weight::Warning,
            format!("{} in use above the maximum.", plural(level.over_by(), "unit", "units")),
        ),
        _ if pool.suspect > 0 => {
            let holders =
                plural(pool.suspect, "holder missed its heartbeat", "holders missed their heartbeat");
            (Weight::Warning, format!("{holders}."))
        }
        Some(pause) if pool.waiting > 0 => {
            let requests = plural(pool.waiting, "request waits", "requests wait");
            (Weight::Info, format!("Paused by {}; {requests}.", pause.by))
        }
        _ => return None,
    };
    let since = pool.settings.paused.as_ref().filter(|_| weight == Weight::Info).map(|pause| pause.at);
    let address = state.path(&format!("/pools/{name}"));
    Some(Concern::new(weight, format!("Pool {name}"), problem, address).since(since))
}

fn undelivered(state: &State, sources: &Sources<'_>) -> Vec<Concern> {
    let (outbox, mut found) = (sources.outbox, Vec::new());
    if outbox.is_stuck() {
        let problem = "Events wait, but no relay is running.";
        let concern = Concern::new(Weight::Critical, "Outbox", problem, state.path("/outbox"));
        found.push(concern.since(outbox.oldest()));
    }
    if let Some((count, since)) = outbox.parked() {
        let problem = match count.as_str() {
            "1" => "1 failed and is not retried.".to_owned(),
            count => format!("{count} failed and are not retried."),
        };
        let address = state.path("/outbox/failed");
        found.push(Concern::new(Weight::Warning, "Parked events", problem, address).since(since));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concern(weight: Weight, since: Option<i64>, object: &str) -> Concern {
        Concern::new(weight, object, "", String::new()).since(since.map(Timestamp::from_micros))
    }

    #[test]
    fn the_most_severe_comes_first_and_then_the_oldest() {
        let found = sorted(vec![
            concern(Weight::Info, Some(1), "e"),
            concern(Weight::Critical, None, "b"),
            concern(Weight::Warning, Some(9), "d"),
            concern(Weight::Critical, Some(5), "a"),
            concern(Weight::Warning, Some(2), "c"),
        ]);

        assert_eq!(
            found.iter().map(|one| one.object.as_str()).collect::<Vec<_>>(),
            ["a", "b", "c", "d", "e"]
        );
    }
}
