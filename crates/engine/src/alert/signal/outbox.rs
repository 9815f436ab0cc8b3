//! The signals of the outbox; of what adopted tables share with it the subject is `table/SCHEMA.NAME`. All are read from the
//! rows, so it does not matter which process has the watch and which one relays.

use super::{Observation, Observing, Signal, whole};
use crate::error::EngineError;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::adopted::TableName;
use tidemill_store::outbox::Backlog;
use tidemill_store::{Store, Tx};

/// Age of the oldest event that no relay has read yet; for how long a row of an adopted table has been due.
pub const OUTBOX_LAG_SECONDS: &str = "outbox_lag_seconds";
/// Number of events, or of rows of an adopted table, that nobody tries to publish any more.
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
            Ok(seen)
        })
    }
}

impl What {
    async fn look(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        let mut seen = whole(match self {
            Self::LagSeconds => {
                let now = tx.now().await?;
                let backlog = backlog(tx).await?;
                let age =
                    |backlog: Backlog| backlog.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64());
                backlog.map_or(f64::NAN, age)
            }
            Self::Parked => super::number(tx.outbox().excepted(COUNT_MAX).await?.parked.rows.least()),
            // Where there are no partitions there is nothing to see.
            Self::DefaultRows => match tx.outbox().default_rows(COUNT_MAX).await? {
                Some(count) => super::number(count.least()),
                None => return Ok(Vec::new()),
            },
            Self::UnownedSlots => {
                let unowned = tx.outbox().unowned_slots().await?;
                // Where nobody writes events, nobody has to relay them.
                let is_used = tx.outbox().relays_alive().await?.0 > 0
                    || backlog(tx).await?.is_none_or(|backlog| backlog.rows.least() > 0);
                if is_used { super::number(unowned) } else { 0.0 }
            }
            Self::MissingShares => super::number(tx.outbox().relays_alive().await?.1.len() as u64),
        });
        seen.extend(self.look_at_adopted(tx).await?);
        Ok(seen)
    }

    /// Of each adopted table. What nobody knows of one is no number.
    async fn look_at_adopted(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        let values: Vec<(TableName, Option<f64>)> = match self {
            Self::LagSeconds => {
                let seconds = |(table, wait): (TableName, Option<Duration>)| {
                    (table, wait.map(|wait| wait.as_secs_f64()))
                };
                tx.outbox().adopted_waits().await?.into_iter().map(seconds).collect()
            }
            Self::Parked => {
                let number = |(table, rows): (TableName, Option<Count>)| {
                    (table, rows.map(|rows| super::number(rows.least())))
                };
                tx.outbox().adopted_parked(COUNT_MAX).await?.into_iter().map(number).collect()
            }
            Self::DefaultRows | Self::UnownedSlots | Self::MissingShares => Vec::new(),
        };
        let observation = |(table, value): (TableName, Option<f64>)| {
            let subject = Subject::new(&format!("table/{table}")).ok()?;
            Some(Observation { subject, value: value.unwrap_or(f64::NAN) })
        };
        Ok(values.into_iter().filter_map(observation).collect())
    }
}

async fn backlog(tx: &mut Tx) -> Result<Option<Backlog>, EngineError> {
    Ok(tx.outbox().lag(COUNT_MAX).await?.as_deref().map(Backlog::of))
}
