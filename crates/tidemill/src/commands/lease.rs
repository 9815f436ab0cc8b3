//! `tidemill lease`: who may act for what.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Subcommand;
use serde_json::{Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::lease::Lease;

/// Who may act for what
#[derive(Subcommand, Debug)]
pub(crate) enum LeaseCommand {
    /// The leases, the held first
    List {
        /// At most so many leases
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(
    LeaseCommand::List { limit }: &LeaseCommand,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let leases = tx.leases().list(*limit).await?;
    let columns = &["kind", "name", "state", "epoch", "owner", "acquired_at", "until"];
    let mut listing = Listing::new("tidemill.lease/v1", columns, "Nothing has been leased yet.");
    for record in leases {
        let (state, owner, until) = match record.lease {
            Lease::Free { .. } => ("free", Value::Null, Value::Null),
            Lease::Held { fence, until } => (
                if record.is_live { "held" } else { "lapsed" },
                json!(fence.owner.to_string()),
                json!(until.map(|until| until.to_string())),
            ),
        };
        listing.push(vec![
            json!(record.key.kind()),
            json!(record.key.name()),
            json!(state),
            json!(record.lease.epoch().get()),
            owner,
            json!(record.acquired_at.map(|at| at.to_string())),
            until,
        ]);
    }
    listing.print(context.output())
}
