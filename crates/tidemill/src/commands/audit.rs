//! `tidemill audit`: who changed what, when and why.

use crate::commands::prelude::*;
use tidemill_api::audit::AuditEntry;
use tidemill_domain::time::Timestamp;
use tidemill_store::audit::AuditFilter;

#[derive(Subcommand, Debug)]
pub(crate) enum Audit {
    /// List entries, newest first
    List {
        /// Maximum number of entries
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Only entries with a lower id, for the next page
        #[arg(long, value_name = "ID")]
        before: Option<i64>,
        /// Only entries from this time on, such as 2026-11-15T02:00:00Z
        #[arg(long, value_name = "TIME", help_heading = "Filters")]
        since: Option<Timestamp>,
        /// Only entries of this actor
        #[arg(long, help_heading = "Filters")]
        actor: Option<String>,
        /// Only this action, such as process.dead
        #[arg(long, help_heading = "Filters")]
        action: Option<String>,
        /// Only entries about this object, such as process/ID
        #[arg(long, help_heading = "Filters")]
        object: Option<String>,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: Audit, context: &Context) -> Result<Exit> {
    let Audit::List { limit, before: before_id, since, actor, action, object } = arguments;
    let filter = AuditFilter { before_id, since, actor, action, object };
    let mut tx = context.read().await?;
    let records = tx.audit().entries(&filter, limit + 1).await?;
    let columns = "id?? at actor role?? action object from? to? reason request_id??";
    let (schema, empty) = ("tidemill.audit/v1", "No entries.");
    context.print_page::<AuditEntry, _>(schema, empty, &records, columns, limit, "--before")
}
