//! `tidemill why`: explains why a run waits, or what it was granted.

use crate::commands::prelude::*;
use crate::config::Output;
use crate::report::printable;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_api::View;
use tidemill_api::pool::{PoolLease, PoolPlace};
use tidemill_domain::duration;
use tidemill_domain::pool::decide::OVERTAKES_MAX;
use tidemill_domain::pool::what_if::most_that_would_start;
use tidemill_domain::pool::{Ledger, PoolName, State, Ticket, TicketId, ticket_history};
use tidemill_domain::time::Timestamp;
use tidemill_domain::words::plural;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

#[derive(Args, Debug)]
pub(crate) struct Why {
    /// Run, DAG/RUN, or id of a lease
    run: String,
    /// Maximum number of requests, the newest first
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: &Why, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let mut all = Vec::new();
    for record in tickets(&mut tx, &arguments.run, arguments.limit).await? {
        all.push(explain(&mut tx, &record, now).await?);
    }
    if all.is_empty() {
        let run: String = arguments.run.chars().take(100).collect();
        let fix = "give a run, DAG/RUN, or the id of a lease; ended requests are kept for `pools.history`";
        return Err(Failure::new(Code::NotFound, format!("there is no request of {run:?}"), fix));
    }
    match context.output() {
        Output::Table => {
            let texts: Vec<String> = all.iter().map(text).collect();
            write_stdout(printable(&texts.join("\n")))
        }
        output => listing(&all).print(output),
    }
}

/// The tickets of a lease, of a run of any DAG, or of a run of one DAG.
async fn tickets(tx: &mut Tx, text: &str, limit: u32) -> Result<Vec<TicketRecord>> {
    if let Ok(id) = text.parse::<TicketId>()
        && let Some(found) = tx.pools().ticket(id).await?
    {
        return Ok(vec![found]);
    }
    let of_all = tx.pools().tickets_of_run(text, limit).await?;
    let Some((dag_id, run_id)) = text.split_once('/').filter(|_| of_all.is_empty()) else {
        return Ok(of_all);
    };
    let mut of_run = tx.pools().tickets_of_run(run_id, limit).await?;
    of_run.retain(|found| found.ticket.holder.dag_id() == dag_id);
    Ok(of_run)
}

fn listing(all: &[Explanation]) -> Listing {
    let columns = [PoolLease::FIELDS, &["in_use", "limit", "queue", "log"]].concat();
    let mut listing = Listing::new("tidemill.why/v1", &columns, "No requests.");
    for explanation in all {
        let fields = json!(explanation);
        listing.push(columns.iter().map(|name| fields[*name].clone()).collect());
    }
    listing
}

fn text(explanation: &Explanation) -> String {
    let lease = &explanation.lease;
    let mut text = format!("{} in {}: {}", lease.holder_name, lease.pool, lease.state);
    match (&explanation.queue, lease.parallel) {
        (Some(queue), _) => {
            let waited = seconds(queue.place.waited_seconds);
            text.push_str(&format!(", position {} of {}, for {waited}", queue.place.position, queue.length));
        }
        (None, Some(granted)) => text.push_str(&format!(" with {granted} of {}", lease.asked)),
        (None, None) => {}
    }
    let mut line = |name: &str, value: String| text.push_str(&format!("\n  {name:<9} {value}"));
    line("lease", lease.id.clone());
    line("asked", format!("{}, at least {}; {}", lease.asked, lease.min, lease.class));
    if let Some((in_use, limit)) = explanation.in_use.zip(explanation.limit) {
        line("pool", format!("{in_use} of {limit} units in use"));
    }
    if let Some(queue) = &explanation.queue {
        let PoolPlace { position, reason, message, overtaken, eta_p50, eta_p90, .. } = queue.place;
        line("reason", format!("{reason}: {message}"));
        line("ahead", list(&queue.ahead, position.saturating_sub(1) as usize));
        line("holders", list(&queue.largest_holders, queue.largest_holders.len()));
        let start =
            eta_p50.zip(eta_p90).map(|(p50, p90)| format!("expected at {p50}; 90 % start before {p90}"));
        line("start", start.unwrap_or_else(|| "unknown".to_owned()));
        if overtaken > 0 {
            let others = plural(overtaken, "later request", "later requests");
            line("overtaken", format!("by {others}; at most {OVERTAKES_MAX}"));
        }
        line(
            "now",
            match queue.would_start_with {
                Some(parallel) => format!("would start with PARALLEL({parallel})"),
                None => "would not start with less".to_owned(),
            },
        );
    }
    for entry in &explanation.log {
        line("log", format!("{} {}", entry.at, entry.message));
    }
    text.push('\n');
    text
}

/// The tickets, and how many more there are `of` them.
fn list(tickets: &[TicketUnits], of: usize) -> String {
    let text =
        |ticket: &TicketUnits| format!("{} ({})", ticket.holder_name, plural(ticket.units, "unit", "units"));
    let mut texts: Vec<String> = tickets.iter().map(text).collect();
    if of > tickets.len() {
        texts.push(format!("and {} more", of - tickets.len()));
    }
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn seconds(seconds: u64) -> String {
    duration::show(Duration::from_secs(seconds))
}

/// Maximum number of requests ahead and of holders that are listed.
const LISTED: usize = 5;

const RECORDS: u32 = 1_000;

#[derive(Serialize)]
struct Explanation {
    #[serde(flatten)]
    lease: PoolLease,
    /// Units in use in the pool; none when the ticket has ended.
    in_use: Option<u64>,
    limit: Option<u64>,
    /// None unless the ticket is in the queue.
    queue: Option<QueueExplanation>,
    log: Vec<LogEntry>,
}

#[derive(Serialize)]
struct QueueExplanation {
    #[serde(flatten)]
    place: PoolPlace,
    length: usize,
    /// The first requests in the queue, and the units they wait for.
    ahead: Vec<TicketUnits>,
    largest_holders: Vec<TicketUnits>,
    /// The largest degree with which it would start now.
    would_start_with: Option<NonZeroU32>,
}

#[derive(Serialize)]
struct TicketUnits {
    id: String,
    holder_name: String,
    units: u64,
}

#[derive(Serialize)]
struct LogEntry {
    at: Timestamp,
    message: String,
}

async fn explain(tx: &mut Tx, record: &TicketRecord, now: Timestamp) -> Result<Explanation> {
    let records = tx.pools().ticket_log(record.ticket.id, RECORDS).await?;
    let entries = records.iter().filter_map(|decided| {
        let message = ticket_history::line(decided.at, &decided.event, &record.ticket)?;
        Some(LogEntry { at: decided.at, message })
    });
    let log = entries.collect();
    let mut explanation = Explanation { lease: record.into(), in_use: None, limit: None, queue: None, log };
    if record.ticket.state.has_ended() {
        return Ok(explanation);
    }
    let mut ledgers = BTreeMap::new();
    for pool in record.ticket.with.iter().chain([&record.pool]) {
        if let Some(ledger) = tx.pools().ledger(pool).await? {
            ledgers.insert(pool.clone(), ledger);
        }
    }
    if let Some(ledger) = ledgers.get(&record.pool) {
        explanation.in_use = Some(ledger.usage());
        explanation.limit = Some(ledger.level_at(now).limit);
        explanation.queue = explain_queue(ledger, &ledgers, record, now);
    }
    Ok(explanation)
}

fn explain_queue(
    ledger: &Ledger,
    ledgers: &BTreeMap<PoolName, Ledger>,
    record: &TicketRecord,
    now: Timestamp,
) -> Option<QueueExplanation> {
    let places = PoolPlace::queue(ledger, now, usize::MAX);
    let id = record.ticket.id.to_string();
    let index = places.iter().position(|place| place.id == id)?;
    let (before, place) = (places.get(..index)?, places.get(index)?);
    let units = |place: &PoolPlace| TicketUnits {
        id: place.id.clone(),
        holder_name: place.holder_name.clone(),
        units: place.units,
    };
    Some(QueueExplanation {
        place: place.clone(),
        length: places.len(),
        ahead: before.iter().take(LISTED).map(units).collect(),
        largest_holders: largest_holders(ledger),
        would_start_with: match record.ticket.state {
            State::Waiting => most_that_would_start(ledgers, &record.pool, record.ticket.id, now),
            _ => None,
        },
    })
}

fn largest_holders(ledger: &Ledger) -> Vec<TicketUnits> {
    let mut holders: Vec<&Ticket> = ledger.tickets().filter(|ticket| ticket.state.counts()).collect();
    holders.sort_by_key(|ticket| Reverse(ticket.units()));
    let units = |ticket: &Ticket| TicketUnits {
        id: ticket.id.to_string(),
        holder_name: ticket.holder.to_string(),
        units: ticket.units(),
    };
    holders.into_iter().take(LISTED).map(units).collect()
}
