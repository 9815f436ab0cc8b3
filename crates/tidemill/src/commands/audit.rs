//! `tidemill audit`: who changed what, when and why.

use crate::context::Context;
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

#[crate::boxed(?Send)]
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
    context.list("tidemill.audit/v1", "No entries.", &records).columns(&[
        ("id", |record| json!(record.id)),
        ("at", |record| json!(record.at.to_string())),
        ("actor", |record| json!(record.entry.actor.name)),
        ("role", |record| json!(record.entry.actor.role.as_str())),
        ("action", |record| json!(record.entry.action)),
        ("object", |record| json!(record.entry.object)),
        ("from", |record| json!(record.entry.from)),
        ("to", |record| json!(record.entry.to)),
        ("reason", |record| json!(record.entry.reason)),
        ("request_id", |record| json!(record.entry.actor.request_id)),
    ])
}
