//! The signals of the outbox. All are read from the rows, so it does not matter which process has the watch and which
//! one relays.

use super::{Observation, Observing, Signal, whole};
use crate::error::EngineError;
use tidemill_store::outbox::Backlog;
use tidemill_store::{Store, Tx};

/// Age of the oldest event that no relay has read yet.
pub const OUTBOX_LAG_SECONDS: &str = "outbox_lag_seconds";
/// Number of events that nobody tries to publish any more.
pub const OUTBOX_PARKED: &str = "outbox_parked";
/// Number of events in the default partition.
pub const OUTBOX_DEFAULT_ROWS: &str = "outbox_default_rows";
/// Number of slots that no live relay has, while the outbox is in use.
pub const OUTBOX_UNOWNED_SLOTS: &str = "outbox_unowned_slots";
/// Number of fixed shares that no live relay has.
pub const OUTBOX_MISSING_SHARES: &str = "outbox_missing_shares";

/// How far is counted; the oldest come first.
const COUNT_MAX: u32 = 1_000;

/// The signals of the outbox.
pub(super) fn signals() -> Vec<Box<dyn Signal>> {
    use What::{DefaultRows, LagSeconds, MissingShares, Parked, UnownedSlots};
    [LagSeconds, Parked, DefaultRows, UnownedSlots, MissingShares]
        .map(|what| Box::new(what) as Box<dyn Signal>)
        .into()
}

#[derive(Clone, Copy, Debug)]
enum What {
    LagSeconds,
    Parked,
    DefaultRows,
    UnownedSlots,
    MissingShares,
}

impl Signal for What {
    fn name(&self) -> &'static str {
        match self {
            Self::LagSeconds => OUTBOX_LAG_SECONDS,
            Self::Parked => OUTBOX_PARKED,
            Self::DefaultRows => OUTBOX_DEFAULT_ROWS,
            Self::UnownedSlots => OUTBOX_UNOWNED_SLOTS,
            Self::MissingShares => OUTBOX_MISSING_SHARES,
        }
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let mut tx = store.read().await?;
            let seen = self.look(&mut tx).await?;
            tx.rollback().await?;
            Ok(seen)
        })
    }
}

impl What {
    async fn look(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        Ok(whole(match self {
            Self::LagSeconds => {
                let now = tx.now().await?;
                let backlog = backlog(tx).await?;
                let age =
                    |backlog: Backlog| backlog.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64());
                backlog.map_or(f64::NAN, age)
            }
            Self::Parked => super::number(tx.outbox_excepted(COUNT_MAX).await?.parked.rows.least()),
            // Where there are no partitions there is nothing to see.
            Self::DefaultRows => match tx.outbox_default_rows(COUNT_MAX).await? {
                Some(count) => super::number(count.least()),
                None => return Ok(Vec::new()),
            },
            Self::UnownedSlots => {
                let unowned = tx.outbox_unowned_slots().await?;
                // Where nobody writes events, nobody has to relay them.
                let is_used = tx.outbox_relays_alive().await?.0 > 0
                    || backlog(tx).await?.is_none_or(|backlog| backlog.rows.least() > 0);
                if is_used { super::number(unowned) } else { 0.0 }
            }
            Self::MissingShares => super::number(tx.outbox_relays_alive().await?.1.len() as u64),
        }))
    }
}

async fn backlog(tx: &mut Tx) -> Result<Option<Backlog>, EngineError> {
    Ok(tx.outbox_lag(COUNT_MAX).await?.as_deref().map(Backlog::of))
}
