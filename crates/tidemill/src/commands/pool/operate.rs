//! What operators do: `pool pause`, `resume`, `rm` and `release`.

use super::{done, find, unknown};
use crate::context::Context;
use crate::report::Failure;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::TicketId;
use tidemill_domain::pool::settings::Pause;
use tidemill_store::pool::PoolRecord;

pub(super) async fn pause(pool: &str, reason: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    let record = tx.pools().lock(&name).await?.ok_or_else(|| unknown(pool))?;
    let mut settings = record.settings.clone();
    let (by, at) = (context.actor().name, tx.now().await?);
    settings.paused = Some(Pause { by, reason: reason.to_owned(), at });
    settings.check()?;
    done(tx.pools().set(&settings, &context.actor(), Some(reason)).await?, &name)?;
    tx.commit().await?;
    context.note(&format!("{name} is paused: nothing starts; {}", holds(&record)));
    Ok(Exit::Ok)
}

fn holds(record: &PoolRecord) -> String {
    format!("{} leases keep their {} units, {} requests wait", record.active, record.usage, record.waiting)
}

pub(super) async fn resume(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    let mut settings = tx.pools().lock(&name).await?.ok_or_else(|| unknown(pool))?.settings;
    let was_paused = settings.paused.take().is_some();
    done(tx.pools().set(&settings, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    context.note(&match was_paused {
        true => format!("{name} goes on with its queue"),
        false => format!("{name} was not paused"),
    });
    Ok(Exit::Ok)
}

pub(super) async fn remove(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    done(tx.pools().remove(&name, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    context.note(&format!("the pool {name} is gone, with all that was known of its past"));
    Ok(Exit::Ok)
}

pub(super) async fn release(lease: TicketId, reason: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let found = tx.pools().ticket(lease).await?;
    let released = tx.pools().release_ticket(lease, &context.actor(), reason).await?;
    tx.commit().await?;
    let Some((pool, released)) = released else {
        let failure = Failure::new(
            Code::PoolLeaseGone,
            format!("there is no lease or request {lease} any more"),
            "see `tidemill pool holders POOL` and `tidemill pool queue POOL`",
        );
        let ending = found.and_then(|found| Some((found.ticket.holder, found.ended_at?, found.ending?)));
        return Err(match ending {
            Some((holder, at, ending)) => {
                failure.because(&format!("that of {holder} ended at {at}: {ending}"))
            }
            None => failure,
        });
    };
    let holder = found.map_or_else(String::new, |found| format!(" of {}", found.ticket.holder));
    let level = released.level;
    context.note(&match released.released {
        true => format!(
            "{} units{holder} are back in {pool}; {} of {} are in use",
            released.units, level.usage, level.limit
        ),
        false => format!("the request{holder} has left the queue of {pool}"),
    });
    Ok(Exit::Ok)
}
