//! `pool verify`: the auditor follows the logs, and says whether anything does not fit.

use super::find;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};

/// More pools than anybody has.
const POOLS_MAX: u32 = 100_000;

pub(super) async fn run(pool: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let names = match pool {
        Some(pool) => vec![find(&mut tx, pool).await?.settings.name],
        None => tx.pools().list(POOLS_MAX).await?.into_iter().map(|record| record.settings.name).collect(),
    };
    let columns = &["pool", "decisions", "leases", "in_use", "peak", "violations"];
    let mut listing = Listing::new("tidemill.pool_audit/v1", columns, "There are no pools.");
    let (mut decisions, mut violations) = (0, Vec::new());
    for name in names {
        let Some(audited) = tx.pools().verify(&name).await? else { continue };
        listing.push(vec![
            json!(name),
            json!(audited.records),
            json!(audited.tickets),
            json!(audited.usage),
            json!(audited.peak),
            json!(audited.differences.len()),
        ]);
        decisions += audited.records;
        violations.extend(audited.differences.iter().map(|difference| format!("{name}: {difference}")));
    }
    listing.print(context.output())?;
    if violations.is_empty() {
        context.note(&format!("{decisions} decisions, 0 violations"));
        return Ok(Exit::Ok);
    }
    let what = format!("{decisions} decisions, {} violations", violations.len());
    let fix = "keep a copy of the database and report this; no other pool is affected";
    Err(Failure::new(Code::DamagedRow, what, fix).because(&violations.join("\n")))
}
