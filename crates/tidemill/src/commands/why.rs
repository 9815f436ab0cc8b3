//! `tidemill why`: explains why a run waits, or what it was granted.

mod explain;

use crate::config::Output;
use crate::context::Context;
use crate::output::{Listing, write_stdout};
use crate::report::{Failure, Result, printable};
use clap::Args;
use explain::{Explanation, TicketUnits, explain};
use serde_json::json;
use std::time::Duration;
use tidemill_api::View;
use tidemill_api::pool::PoolLease;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::duration;
use tidemill_domain::pool::TicketId;
use tidemill_domain::words::plural;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

/// Explain why a run waits for units of a pool, or what it was granted
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

/// The text for people.
fn text(explanation: &Explanation) -> String {
    let lease = &explanation.lease;
    let mut text = format!("{} in {}: {}", lease.holder_name, lease.pool, lease.state);
    match (&explanation.queue, lease.parallel) {
        (Some(queue), _) => {
            let waited = seconds(queue.waited_seconds);
            text.push_str(&format!(", position {} of {}, for {waited}", queue.position, queue.length));
        }
        (None, Some(granted)) => text.push_str(&format!(" with {granted} of {}", lease.asked)),
        (None, None) => {}
    }
    let mut line = |name: &str, value: String| text.push_str(&format!("\n  {name:<8} {value}"));
    line("lease", lease.id.clone());
    line("asked", format!("{}, at least {}; {}", lease.asked, lease.min, lease.class));
    if let Some((in_use, limit)) = explanation.in_use.zip(explanation.limit) {
        line("pool", format!("{in_use} of {limit} units in use"));
    }
    if let Some(queue) = &explanation.queue {
        line("reason", format!("{}: {}", queue.reason, queue.message));
        line("ahead", list(&queue.ahead, queue.position.saturating_sub(1) as usize));
        line("holders", list(&queue.largest_holders, queue.largest_holders.len()));
        line(
            "start",
            match queue.eta_seconds.zip(queue.eta_p90_seconds) {
                Some((p50, p90)) => {
                    format!("expected in {}; 90 % start within {}", seconds(p50), seconds(p90))
                }
                None => "unknown".to_owned(),
            },
        );
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
