//! `tidemill why`: why a run waits, or why it got what it got.

mod explain;

use crate::config::Output;
use crate::context::Context;
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, printable};
use clap::Args;
use explain::{Explained, explain};
use serde_json::{Value, json};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::duration;
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::{Ticket, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

/// Why a run waits for units of a pool, or got what it got
#[derive(Args, Debug)]
pub(crate) struct Why {
    /// A run, DAG/RUN, or the id of a lease
    run: String,
    /// At most so many requests, the newest first
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: &Why, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let found = tickets(&mut tx, &arguments.run, arguments.limit).await?;
    let mut all = Vec::with_capacity(found.len());
    for record in found {
        all.push(explain(&mut tx, record, now).await?);
    }
    if all.is_empty() {
        let what =
            format!("no request of {:?} is known", arguments.run.chars().take(100).collect::<String>());
        let fix = "give a run, DAG/RUN, or the id of a lease; what has ended is kept for pools.history";
        return Err(Failure::new(Code::NotFound, what, fix));
    }
    match context.output() {
        Output::Table => {
            let texts: Vec<String> = all.iter().map(|explained| text(explained, now)).collect();
            write_stdout(printable(&texts.join("\n")))
        }
        output => listing(&all).print(output),
    }
}

/// The tickets that are meant: of a lease, of a run of any DAG, or of a run of one DAG.
async fn tickets(tx: &mut Tx, text: &str, limit: u32) -> Result<Vec<TicketRecord>, Failure> {
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

fn listing(all: &[Explained]) -> Listing {
    Listing::of("tidemill.why/v1", "Nothing is known of it.", all).columns(&[
        ("pool", |explained| json!(explained.record.pool)),
        ("lease", |explained| json!(explained.record.ticket.id)),
        ("holder", |explained| json!(explained.record.ticket.holder.to_string())),
        ("state", |explained| json!(explained.record.ticket.state.as_str())),
        ("class", |explained| json!(explained.record.ticket.class.as_str())),
        ("asked", |explained| json!(explained.record.ticket.asked)),
        ("min", |explained| json!(explained.record.ticket.least)),
        ("granted", |explained| json!(explained.record.ticket.granted)),
        ("units", |explained| json!(explained.record.units)),
        ("enqueued_at", |explained| json!(explained.record.ticket.enqueued_at.to_string())),
        ("ended_at", |explained| json!(explained.record.ended_at.map(|at| at.to_string()))),
        ("ending", |explained| json!(explained.record.ending)),
        ("position", |explained| json!(explained.place.as_ref().map(|place| place.position))),
        ("queue_length", |explained| json!(explained.place.as_ref().map(|place| place.queue_length))),
        ("reason", |explained| json!(explained.place.as_ref().map(|place| place.reason.as_str()))),
        ("why", |explained| json!(explained.place.as_ref().map(|place| place.reason.sentence()))),
        ("in_use", |explained| json!(explained.level.map(|level| level.usage))),
        ("limit", |explained| json!(explained.level.map(|level| level.limit))),
        ("ahead", |explained| json!(explained.place.as_ref().map(|place| all_of(&place.ahead)))),
        ("largest_holders", |explained| json!(explained.place.as_ref().map(|place| all_of(&place.holders)))),
        ("eta_seconds", |explained| json!(estimate(explained).map(|estimate| estimate.p50.as_secs()))),
        ("eta_p90_seconds", |explained| json!(estimate(explained).map(|estimate| estimate.p90.as_secs()))),
        ("would_start_with", |explained| {
            json!(explained.place.as_ref().and_then(|place| place.would_start_with))
        }),
        ("log", |explained| explained.log.iter().map(log).collect()),
    ])
}

fn estimate(explained: &Explained) -> Option<Estimate> {
    explained.place.as_ref()?.estimate
}

fn all_of(some: &[(Ticket, u64)]) -> Value {
    let one = |(ticket, units): &(Ticket, u64)| json!({ "lease": ticket.id, "holder": ticket.holder.to_string(), "units": units });
    some.iter().map(one).collect()
}

fn log((at, line): &(Timestamp, String)) -> Value {
    json!({ "at": at.to_string(), "what": line })
}

/// One ticket, for people.
fn text(explained: &Explained, now: Timestamp) -> String {
    let (record, ticket) = (&explained.record, &explained.record.ticket);
    let mut text = format!("{} in {}: {}", ticket.holder, record.pool, ticket.state);
    match (&explained.place, ticket.granted) {
        (Some(place), _) => {
            let waited = seconds(now.since(ticket.queued_since()));
            text.push_str(&format!(", place {} of {}, for {waited}", place.position, place.queue_length));
        }
        (None, Some(granted)) => text.push_str(&format!(" with {granted} of {}", ticket.asked)),
        (None, None) => {}
    }
    let mut line = |name: &str, value: String| text.push_str(&format!("\n  {name:<8} {value}"));
    line("lease", ticket.id.to_string());
    line("asked", format!("{}, at least {}; {}", ticket.asked, ticket.least, ticket.class));
    if let Some(level) = explained.level {
        line("pool", format!("{} of {} units in use", level.usage, level.limit));
    }
    if let Some(place) = &explained.place {
        line("why", format!("{}: {}", place.reason, place.reason.sentence()));
        line("ahead", people(&place.ahead, place.position.saturating_sub(1) as usize));
        line("holders", people(&place.holders, place.holders.len()));
        line(
            "likely",
            match place.estimate {
                Some(estimate) => format!(
                    "starts in {}; in nine of ten cases within {}",
                    seconds(estimate.p50),
                    seconds(estimate.p90)
                ),
                None => "nobody can say when it starts".to_owned(),
            },
        );
        line(
            "now",
            match place.would_start_with {
                Some(parallel) => format!("would start at once with PARALLEL({parallel})"),
                None => "would not start with less either".to_owned(),
            },
        );
    }
    for (at, what) in &explained.log {
        line("log", format!("{at} {what}"));
    }
    text.push('\n');
    text
}

fn people(some: &[(Ticket, u64)], of: usize) -> String {
    let mut texts: Vec<String> =
        some.iter().map(|(ticket, units)| format!("{} ({units} units)", ticket.holder)).collect();
    if of > some.len() {
        texts.push(format!("and {} more", of - some.len()));
    }
    if texts.is_empty() { "nobody".to_owned() } else { texts.join(", ") }
}

fn seconds(time: std::time::Duration) -> String {
    duration::show(std::time::Duration::from_secs(time.as_secs()))
}
