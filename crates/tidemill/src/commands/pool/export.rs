//! `pool export`: pools or tickets as items of the tables of an EMR Batch Agent.

use super::dynamo::{Item, typed};
use super::{limits, registry};
use crate::config::Output;
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::{Failure, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::State;
use tidemill_store::Tx;

/// More pools than anyone has.
const POOLS_MAX: u32 = 100_000;

/// More tickets of a pool than are kept.
const TICKETS_MAX: u32 = 1_000_000;

/// A table of the EMR Batch Agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Table {
    /// Pools
    Limits,
    /// Leases, and waiting and recently ended requests
    Registry,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The table to export
    #[arg(long, default_value = "limits")]
    table: Table,
    /// Only leases, without waiting and ended requests; for the registry
    #[arg(long)]
    running: bool,
}

pub(super) async fn run(export: &Export, context: &Context) -> Result<Exit> {
    if export.running && export.table == Table::Limits {
        let fix = "add --table registry, or leave out --running";
        return Err(Failure::new(Code::Usage, "--running applies only to the registry", fix));
    }
    let states: &[State] =
        if export.running { &[State::Granted, State::Running, State::Suspect] } else { &State::ALL };
    let mut tx = context.read().await?;
    let items = match export.table {
        Table::Limits => {
            tx.pools().list(POOLS_MAX).await?.iter().map(|record| limits::item(&record.settings)).collect()
        }
        Table::Registry => tickets(&mut tx, states).await?,
    };
    let items: Vec<Value> = items.into_iter().map(typed).collect();
    let text = match context.output() {
        // Like the answer of a scan.
        Output::Json => format!("{:#}\n", json!({ "Count": items.len(), "Items": items })),
        // Like an export to files, one item per line.
        Output::Jsonl | Output::Table | Output::Csv => {
            items.iter().map(|item| format!("{}\n", json!({ "Item": item }))).collect()
        }
    };
    write_stdout(text)
}

async fn tickets(tx: &mut Tx, states: &[State]) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for pool in tx.pools().list(POOLS_MAX).await? {
        let settings = &pool.settings;
        let tickets = tx.pools().tickets(&settings.name, states, TICKETS_MAX).await?;
        items.extend(tickets.iter().map(|found| registry::item(found, settings)));
    }
    Ok(items)
}
