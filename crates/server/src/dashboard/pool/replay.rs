//! The past of a pool, simulated again with other settings: usage and queue as they were and as they would have been, and
//! advice.

use super::address::{PoolPage, Range, Tab};
use super::graph::{self, Past as Graph};
use crate::api::QueryString;
use crate::api::pool::{named, unknown};
use crate::dashboard::part::{command, given, list_table, plain_panel, sentence, span};
use crate::dashboard::{Frame, PageContext, PageResult, PageSnapshot, Section};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::pool::ledger::Contradiction;
use tidemill_domain::pool::simulate::advice::{Advice, NIGHTS_MOST, Proposal, advise};
use tidemill_domain::pool::simulate::past::{Course, OtherSettings};
use tidemill_domain::pool::simulate::score::compare;
use tidemill_domain::pool::usage::{STEP, step_of};
use tidemill_domain::pool::{Policy, PoolName, Settings};
use tidemill_domain::time::Timestamp;
use tokio::sync::Semaphore;

/// Records of the log to read: some seconds of simulation. The command reads more.
const RECORDS_MAX: usize = 30_000;

/// A simulation needs a processor for seconds: the others are for requests.
static SIMULATIONS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

const PATIENCE: Duration = Duration::from_secs(10);

/// Unknown words count as missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplayQuery {
    range: String,
    limit: String,
    policy: String,
    advice: String,
}

pub(crate) async fn page(
    visit: PageContext,
    Path(name): Path<String>,
    QueryString(query): QueryString<ReplayQuery>,
) -> PageResult {
    let name = named(&name)?;
    let range: Range = query.range.parse().unwrap_or_default();
    let other =
        OtherSettings { limit: query.limit.parse().ok(), policy: query.policy.parse().ok(), min_units: None };
    let wants_advice = given(&query.advice).is_some();
    let (common, mut tx) = PageSnapshot::read(&visit.state).await?;
    let times = visit.times(common.now);
    let since = step_of(common.now).minus(range.length()).plus(STEP);
    let past = tx.pools().past(&name, since, RECORDS_MAX).await?.ok_or_else(|| unknown(name.as_str()))?;
    let all = match wants_advice {
        true => {
            let month = common.now.minus(Range::Day.length() * NIGHTS_MOST as u32);
            tx.pools().past(&name, month, RECORDS_MAX).await?
        }
        false => None,
    };
    let known = tx.pools().settings_since(&name, since).await?;
    drop(tx);
    let (until, present) = (past.until, past.present.clone());
    let advised_until = all.as_ref().map(|all| all.until);
    let first = known.first().map_or(since, |(at, _)| step_of(*at).max(since));
    let (was, would_be, advice) = simulated(move || {
        let would_be = past.as_it_would_have_been(other)?;
        Ok((past.as_it_was(), would_be, all.map(|all| advise(&all, |_, _| {})).transpose()?))
    })
    .await?;
    let changed: Vec<(Timestamp, Settings)> = known
        .iter()
        .cloned()
        .map(|(at, mut settings)| {
            other.apply(&mut settings);
            (at, settings)
        })
        .collect();
    let plot = |course: &Course, known: &[(Timestamp, Settings)]| {
        graph::figure(&Graph::exact(since, range, first, &course.usage, known), &times)
    };
    let pool = visit.state.path(&PoolPage::new(&name, Tab::default(), range).path());
    let content = html! {
        h1 { "Replay of " a href=(pool) { (name) } }
        (plain_panel("settings", "Other settings", &form(&visit, &name, range, &query, &present)))
        @if until < common.now {
            p.banner { "The log is too long for this page: it was read until " (times.at(until)) ". Choose a shorter time." }
        }
        (plain_panel("was", "As it was", &html! { div.body { (plot(&was, &known)) } }))
        (plain_panel("would-be", "As it would have been", &html! { div.body { (plot(&would_be, &changed)) } }))
        (plain_panel("figures", "Figures", &figures(&was, &would_be)))
        @if advised_until.is_some_and(|until| until < common.now) {
            p.banner {
                "The log is too long for this page: the advice is based on nights until "
                (times.at(advised_until.unwrap_or(until))) ". " code { "tidemill pool advise " (name) } " reads more."
            }
        }
        @if let Some(advice) = &advice { (plain_panel("advice", "Advice", &advice_list(advice, &name))) }
    };
    Ok(Frame::new(&visit, &common, Section::Pools).titled(&format!("Replay of {name}")).render(&content))
}

/// Runs on a thread of its own, one at a time.
async fn simulated<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Contradiction> + Send + 'static,
) -> Result<T, Problem> {
    let waiting = tokio::time::timeout(PATIENCE, Arc::clone(&SIMULATIONS).acquire_owned());
    let Ok(Ok(turn)) = waiting.await else {
        let (detail, remedy) = ("another simulation is running", "try again in a few seconds");
        return Err(Problem::with_status(StatusCode::SERVICE_UNAVAILABLE, Code::NotNow, detail, remedy)
            .retry_after(5));
    };
    let working = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work().map_err(|contradiction| contradiction.to_string())
    });
    let done = working.await.unwrap_or_else(|panic| Err(panic.to_string()));
    done.map_err(|why| Problem::new(Code::Unexpected, why, "report this with the log of the pool"))
}

fn form(
    visit: &PageContext,
    name: &PoolName,
    range: Range,
    query: &ReplayQuery,
    present: &Settings,
) -> Markup {
    html! {
        form.body method="get" action=(visit.state.path(&format!("/pools/{name}/replay"))) {
            div.fields {
                label { "Limit (units, at any time)" input name="limit" type="number" min="0" max=(u32::MAX) value=(query.limit); }
                label {
                    "Policy"
                    select name="policy" {
                        option value="" { "as it was" }
                        @for policy in Policy::ALL {
                            option value=(policy) selected[query.policy == policy.as_str()] { (policy) }
                        }
                    }
                }
                label {
                    "Time"
                    select name="range" {
                        @for choice in Range::ALL {
                            option value=(choice) selected[choice == range] { "last " (span(choice.length())) }
                        }
                    }
                }
            }
            div.row {
                button.do { "Replay" } " " button name="advice" value="yes" { "Replay with advice" }
                span.soft { "Now: " (present.max_units) " units, limit " (present.threshold_percent) " %, " (present.policy) "." }
            }
        }
    }
}

fn figures(was: &Course, would_be: &Course) -> Markup {
    let row = |(name, was, would_be): (&str, f64, f64)| {
        html! {
            tr {
                th scope="row" { (sentence(&name.replace("sla_", "SLA ").replace('_', " "))) }
                td.number { (format!("{was:.0}")) }
                td.number { (format!("{would_be:.0}")) }
            }
        }
    };
    let rows = compare(&was.score, &would_be.score).map(row);
    let columns = &["Figure", "#As it was", "#As it would have been"];
    html! {
        (list_table("Figures", columns, rows, &html! {}))
        p.body.soft { "Waits and flow (from arrival to end) are in seconds." }
    }
}

fn advice_list(advice: &Advice, name: &PoolName) -> Markup {
    let row = |Proposal { text, dags, then }: &Proposal| {
        html! {
            tr {
                th.long scope="row" {
                    (sentence(text))
                    @if !dags.is_empty() { details { summary { "DAGs" } @for dag in dags { (dag) " " } } }
                }
                td.number { (format!("{:.1} → {:.1}", advice.now.sla_misses, then.sla_misses)) }
                td.number { (format!("{:.0} → {:.0}", advice.now.wait_p95, then.wait_p95)) }
            }
        }
    };
    let empty = html! { (advice.without_proposals()) };
    let columns = &["Proposal", "#SLA misses per night", "#p95 wait (s)"];
    html! {
        (list_table("Advice", columns, advice.proposals.iter().map(row), &empty))
        p.body.soft {
            (sentence(&advice.basis())) ". At the command line: "
            (command(&format!("tidemill pool advise {name}")))
        }
    }
}
