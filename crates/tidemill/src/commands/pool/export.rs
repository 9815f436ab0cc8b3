//! `pool export`: pools or tickets as items of the document's tables.

use super::dynamo::{Item, typed};
use super::{limits, registry};
use crate::config::Output;
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::ValueEnum;
use serde_json::{Value, json};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::State;
use tidemill_store::Tx;

/// More pools than anybody has.
const POOLS_MAX: u32 = 100_000;

/// More tickets of a pool than are kept of a day.
const TICKETS_MAX: u32 = 1_000_000;

/// A table of the document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Table {
    /// The pools
    Limits,
    /// Who has units or waits, and who had some lately
    Registry,
}

/// What is to be exported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) table: Table,
    /// Only those that are `RUNNING` in the document's words.
    pub(super) running: bool,
}

impl Order {
    /// The states of the tickets that are meant.
    fn states(self) -> &'static [State] {
        if self.running { &[State::Granted, State::Running, State::Suspect] } else { &State::ALL }
    }
}

pub(super) async fn run(order: Order, context: &Context) -> Result<Exit, Failure> {
    if order.running && order.table == Table::Limits {
        let fix = "add --table registry, or leave out --running";
        return Err(Failure::new(Code::Usage, "pools do not run; --running is about the registry", fix));
    }
    let mut tx = context.read().await?;
    let items = match order.table {
        Table::Limits => {
            tx.pools().list(POOLS_MAX).await?.iter().map(|record| limits::item(&record.settings)).collect()
        }
        Table::Registry => tickets(&mut tx, order.states()).await?,
    };
    let items: Vec<Value> = items.into_iter().map(typed).collect();
    let text = match context.output() {
        // As a scan answers.
        Output::Json => format!("{:#}\n", json!({ "Count": items.len(), "Items": items })),
        // As an export to files has it, one item per line.
        Output::Jsonl | Output::Table | Output::Csv => {
            items.iter().map(|item| format!("{}\n", json!({ "Item": item }))).collect()
        }
    };
    write_stdout(text)
}

async fn tickets(tx: &mut Tx, states: &[State]) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for pool in tx.pools().list(POOLS_MAX).await? {
        let settings = &pool.settings;
        let tickets = tx.pools().tickets(&settings.name, states, TICKETS_MAX).await?;
        items.extend(tickets.iter().map(|found| registry::item(found, settings)));
    }
    Ok(items)
}
