//! `pool simulate`, `replay` and `advise`.

use super::find;
use crate::commands::prelude::*;
use crate::commands::read_input;
use crate::config::Output;
use serde_json::{Map, Value};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tidemill_api::pool::PoolRefusal;
use tidemill_domain::pool::Policy;
use tidemill_domain::pool::ledger::Contradiction;
use tidemill_domain::pool::simulate::advice::{NIGHTS_LEAST, NIGHTS_MOST, Proposal, advise as propose};
use tidemill_domain::pool::simulate::model::{Scenario, workload};
use tidemill_domain::pool::simulate::past::{Course, OtherSettings, Past};
use tidemill_domain::pool::simulate::score::{compare, score};
use tidemill_domain::pool::simulate::{Score, Workload, file, simulate as play};
use tidemill_domain::time::Timestamp;
use tidemill_domain::words::plural;

/// Nights of one simulation.
const SEEDS_MAX: u64 = 10_000;

/// Records of a log to read: about a month of a large pool.
const RECORDS_MAX: usize = 1_000_000;

const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// busy, crisis, storm or a JSON file with pools and batches; may be repeated [default: all three]
    #[arg(long)]
    scenario: Vec<String>,
    /// Seeds of the nights, such as 1..30; a file has one night
    #[arg(long, default_value = "1..10", value_name = "FROM..TO", value_parser = seeds)]
    seeds: RangeInclusive<u64>,
    /// Decision policy; may be repeated [default: all]
    #[arg(long)]
    policy: Vec<Policy>,
}

fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number; use 1..30"));
    let (from, to) = (number(from)?, number(to)?);
    match to.checked_sub(from) {
        Some(more) if more < SEEDS_MAX => Ok(from..=to),
        Some(_) => Err(format!("these are more than {SEEDS_MAX} nights; use a shorter range")),
        None => Err(format!("{from} is more than {to}; use {to}..{from}")),
    }
}

pub(super) fn simulate(arguments: &Simulate, context: &Context) -> Result<Exit> {
    let policies = if arguments.policy.is_empty() { &Policy::ALL[..] } else { &arguments.policy };
    let all = Scenario::ALL.map(|scenario| scenario.to_string());
    let scenarios = if arguments.scenario.is_empty() { &all[..] } else { &arguments.scenario };
    let columns = [&["scenario", "policy", "nights", "seed"][..], Score::NAMES].concat();
    let shown = "scenario policy nights violations failures wait_mean wait_p95 wide_wait_p95? wait_max? flow_mean \
                 flow_ratio sla_misses downgrades? overtakes? eta_error? clear_hours?";
    let mut listing = Listing::new("tidemill.pool_simulation/v1", &columns, "No nights.").showing(shown);
    for scenario in scenarios {
        let (seeds, nights): (_, Box<dyn Fn(u64) -> Workload>) = match scenario.parse::<Scenario>() {
            Ok(model) => (arguments.seeds.clone(), Box::new(move |seed| workload(model, seed))),
            Err(unknown) => {
                let file = read_file(scenario, &unknown)?;
                (1..=1, Box::new(move |_| file.clone()))
            }
        };
        let nights_count = seeds.clone().count();
        for policy in policies {
            context.note(&format!("{scenario}, {policy}: {}", plural(nights_count, "night", "nights")));
            let mut scores = Vec::with_capacity(nights_count);
            for seed in seeds.clone() {
                let mut night = nights(seed);
                night.change(|settings| settings.policy = *policy);
                scores.push(score(&night, &play(&night).map_err(contradiction)?));
            }
            let mut push = |seed: Option<u64>, count: usize, score: &Score| {
                let mut row = vec![json!(scenario), json!(policy.as_str()), json!(count), json!(seed)];
                row.extend(score.values().map(|value| json!(readable(value, context))));
                listing.push(row);
            };
            if context.output() != Output::Table {
                seeds.clone().zip(&scores).for_each(|(seed, score)| push(Some(seed), 1, score));
            }
            push(None, nights_count, &Score::mean(&scores));
        }
    }
    listing.print(context.output())?;
    context.done("Means of the nights; times are in seconds.")
}

/// Tables show three significant digits.
fn readable(value: f64, context: &Context) -> f64 {
    match context.output() {
        Output::Table if value >= 100.0 => value.round(),
        Output::Table => (value * 100.0).round() / 100.0,
        _ => value,
    }
}

fn read_file(path: &str, unknown: &impl std::fmt::Display) -> Result<Workload> {
    let refused = |why: &dyn std::fmt::Display| {
        let what = format!("the scenario {path} cannot be simulated");
        let fix = "use busy, crisis, storm, or a file as in docs/guide/simulate.md";
        Failure::new(Code::Usage, what, fix).because(why)
    };
    let text = read_input(Path::new(path), FILE_BYTES_MAX)
        .map_err(|error| refused(&format!("{unknown}, and as a file: {error}")))?;
    file::read(&text).map_err(|bad| refused(&bad))
}

/// The decisions of a pool contradict each other: a bug, never the input.
fn contradiction(error: Contradiction) -> Failure {
    Failure::unexpected("the decisions contradict each other", &error)
}

#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// Name or external id of the pool
    pool: String,
    /// Units that may be in use, at any time
    #[arg(long, value_name = "UNITS")]
    limit: Option<u32>,
    /// Decision policy
    #[arg(long)]
    policy: Option<Policy>,
    /// Minimum number of units after a downgrade
    #[arg(long, value_name = "UNITS")]
    min: Option<NonZeroU32>,
    /// Replay from this time on, such as 2026-11-15T18:00:00Z, or for this long, such as 12h [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
}

#[derive(Clone, Copy, Debug)]
enum Since {
    At(Timestamp),
    Ago(Duration),
}

fn since(text: &str) -> Result<Since, String> {
    let ago = || super::period(text).map(Since::Ago);
    text.parse().map(Since::At).or_else(|_| ago()).map_err(|_| "use a time or a duration such as 12h".into())
}

async fn past(pool: &str, since: Since, context: &Context) -> Result<Past> {
    let mut tx = context.read().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    let now = tx.now().await?;
    let since = match since {
        Since::At(at) => at,
        Since::Ago(length) => now.minus(length),
    };
    let past = tx.pools().past(&name, since, RECORDS_MAX).await?;
    let past = past.ok_or_else(|| PoolRefusal::not_found(pool))?;
    if past.until < now {
        context.note(&format!("only the first {RECORDS_MAX} records were read, until {}", past.until));
    }
    Ok(past)
}

fn figures(score: &Score) -> Map<String, Value> {
    Score::NAMES.iter().map(|name| (*name).to_owned()).zip(score.values().map(Value::from)).collect()
}

pub(super) async fn replay(arguments: &Replay, context: &Context) -> Result<Exit> {
    let &Replay { limit, policy, min: min_units, .. } = arguments;
    let past = past(&arguments.pool, arguments.since.unwrap_or(Since::Ago(DAY)), context).await?;
    let was = past.as_it_was();
    let would_be =
        past.as_it_would_have_been(OtherSettings { limit, policy, min_units }).map_err(contradiction)?;
    if context.output() == Output::Json {
        let view = json!({
            "pool": past.present.name, "since": past.workload.begins_at, "until": past.until,
            "as_it_was": figures(&was.score), "as_it_would_have_been": figures(&would_be.score), "steps": steps(&was, &would_be),
        });
        return context.print_one("tidemill.pool_replay/v1", &view);
    }
    let columns = ["figure", "as_it_was", "as_it_would_have_been"];
    let empty = "No requests in this time. Use --since to replay a longer one.";
    let mut listing = Listing::new("tidemill.pool_replay/v1", &columns, empty);
    if was.score.batches == 0.0 {
        return listing.print(context.output());
    }
    for (name, was, would_be) in compare(&was.score, &would_be.score) {
        listing.push(vec![json!(name), json!(readable(was, context)), json!(readable(would_be, context))]);
    }
    listing.print(context.output())?;
    context.done("Times are in seconds.")
}

/// Usage and queue of both courses, in steps of five minutes.
fn steps(was: &Course, would_be: &Course) -> Vec<Value> {
    let both = was.usage.iter().zip(&would_be.usage);
    both.map(|(was, would_be)| {
        let [was_then, would_be_then] = [was, would_be]
            .map(|step| json!({ "in_use": step.total, "most": step.most, "waiting": step.most_waiting }));
        json!({ "at": was.at, "as_it_was": was_then, "as_it_would_have_been": would_be_then })
    })
    .collect()
}

pub(super) async fn advise(pool: &str, context: &Context) -> Result<Exit> {
    let past = past(pool, Since::Ago(DAY * NIGHTS_MOST as u32), context).await?;
    let progress = |number, count| context.note(&format!("proposal {number} of {count}"));
    let advice = propose(&past, progress).map_err(contradiction)?;
    let rounded = |value: f64| (value * 10.0).round() / 10.0;
    let item = |Proposal { text, dags, then }: &Proposal| {
        json!({
            "proposal": text, "dags": dags, "nights": advice.nights,
            "sla_misses_now": rounded(advice.now.sla_misses), "sla_misses": rounded(then.sla_misses),
            "wait_p95_now": rounded(advice.now.wait_p95), "wait_p95": rounded(then.wait_p95),
        })
    };
    let items: Vec<Value> = advice.proposals.iter().map(item).collect();
    let schema = "tidemill.pool_advice/v1";
    if context.output() == Output::Json {
        let view = json!({ "nights": advice.nights, "nights_needed": NIGHTS_LEAST, "items": items });
        context.print_one(schema, &view)?;
    } else {
        let columns =
            ["proposal", "dags", "sla_misses_now", "sla_misses", "wait_p95_now", "wait_p95", "nights"];
        let shown = "proposal sla_misses_now sla_misses wait_p95_now wait_p95 nights";
        let mut listing = Listing::new(schema, &columns, advice.without_proposals()).showing(shown);
        items.iter().for_each(|item| listing.push(columns.map(|name| item[name].clone()).into()));
        listing.print(context.output())?;
    }
    context.done(&advice.basis())
}
