//! `pool pause`, `resume`, `delete` and `release`.

use super::find;
use crate::context::Context;
use crate::report::{Failure, Result};
use tidemill_api::pool::PoolRefusal;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::TicketId;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::words::plural;
use tidemill_store::Tx;
use tidemill_store::pool::PoolRecord;

pub(super) async fn pause(pool: &str, reason: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let pause = Pause { by: context.actor().name, reason: reason.to_owned(), at: tx.now().await? };
    let PoolRecord { settings, active, usage, waiting, .. } =
        set_pause(tx, pool, Some(pause), Some(reason), context).await?;
    context.note(&format!(
        "{} is paused; {} {}, {}",
        settings.name,
        plural(active, "lease keeps its", "leases keep their"),
        plural(usage, "unit", "units"),
        plural(waiting, "request waits", "requests wait"),
    ));
    Ok(Exit::Ok)
}

pub(super) async fn resume(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit> {
    let tx = context.begin().await?;
    let before = set_pause(tx, pool, None, reason, context).await?.settings;
    context.note(&match before.paused {
        Some(_) => format!("{} has resumed", before.name),
        None => format!("{} was not paused", before.name),
    });
    Ok(Exit::Ok)
}

/// Returns the pool as it was before.
async fn set_pause(
    mut tx: Tx,
    pool: &str,
    paused: Option<Pause>,
    reason: Option<&str>,
    context: &Context,
) -> Result<PoolRecord> {
    let name = find(&mut tx, pool).await?.settings.name;
    let before = tx.pools().lock(&name).await?.ok_or_else(|| PoolRefusal::not_found(pool))?;
    let mut settings = before.settings.clone();
    settings.paused = paused;
    settings.check().map_err(PoolRefusal::from)?;
    PoolRefusal::check(tx.pools().set(&settings, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    Ok(before)
}

pub(super) async fn delete(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    PoolRefusal::check(tx.pools().remove(&name, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    context.note(&format!("deleted the pool {name} and its history"));
    Ok(Exit::Ok)
}

pub(super) async fn release(lease: TicketId, reason: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let record = tx.pools().ticket(lease).await?;
    let released = tx.pools().release_ticket(lease, &context.actor(), reason).await?;
    tx.commit().await?;
    let Some((pool, released)) = released else {
        let failure = Failure::new(
            Code::PoolLeaseGone,
            format!("the lease or request {lease} does not exist or has ended"),
            "see `tidemill pool holders POOL` and `tidemill pool queue POOL`",
        );
        let ending = record.and_then(|record| Some((record.ticket.holder, record.ended_at?, record.ending?)));
        return Err(match ending {
            Some((holder, at, ending)) => {
                failure.because(&format!("that of {holder} ended at {at}: {ending}"))
            }
            None => failure,
        });
    };
    let holder = record.map_or_else(String::new, |record| format!(" of {}", record.ticket.holder));
    let level = released.level;
    context.note(&match released.released {
        true => format!(
            "released {}{holder} in {pool}; {} of {} are in use",
            plural(released.units, "unit", "units"),
            level.usage,
            level.limit
        ),
        false => format!("the request{holder} left the queue of {pool}"),
    });
    Ok(Exit::Ok)
}
