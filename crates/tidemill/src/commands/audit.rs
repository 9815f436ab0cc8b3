//! `tidemill audit`: who changed what, when and why.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::{Args, Subcommand};
use serde_json::json;
use tidemill_domain::code::Exit;
use tidemill_domain::time::Timestamp;
use tidemill_store::audit::AuditFilter;

/// Who changed what, when and why
#[derive(Subcommand, Debug)]
pub(crate) enum Audit {
    /// The log, newest first
    List(List),
}

#[derive(Args, Debug)]
pub(crate) struct List {
    /// At most so many entries
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only entries before this id, for the next page
    #[arg(long, value_name = "ID")]
    before: Option<i64>,
    /// Only entries from this instant on, such as 2026-11-15T02:00:00Z
    #[arg(long, value_name = "INSTANT")]
    since: Option<Timestamp>,
    /// Only what this actor did
    #[arg(long)]
    actor: Option<String>,
    /// Only this action, such as process.dead
    #[arg(long)]
    action: Option<String>,
    /// Only what was done to this object, such as process/ID
    #[arg(long)]
    object: Option<String>,
}

pub(super) async fn run(Audit::List(arguments): Audit, context: &Context) -> Result<Exit, Failure> {
    let filter = AuditFilter {
        before_id: arguments.before,
        since: arguments.since,
        actor: arguments.actor,
        action: arguments.action,
        object: arguments.object,
    };
    let store = context.store().await?;
    let records = store.read().await?.audit().entries(&filter, arguments.limit).await?;
    let columns = &["id", "at", "actor", "role", "action", "object", "from", "to", "reason", "request_id"];
    let mut listing = Listing::new("tidemill.audit/v1", columns, "No entries.");
    for record in records {
        let entry = record.entry;
        listing.push(vec![
            json!(record.id),
            json!(record.at.to_string()),
            json!(entry.actor.name),
            json!(entry.actor.role.as_str()),
            json!(entry.action),
            json!(entry.object),
            json!(entry.from),
            json!(entry.to),
            json!(entry.reason),
            json!(entry.actor.request_id),
        ]);
    }
    listing.print(context.output())?;
    Ok(Exit::Ok)
}
