//! Signals of the outbox. Values of attached tables have the subject `table/SCHEMA.NAME`. All are read from the
//! database, so any process can evaluate them.

use super::{Observation, Observing, Signal, number, whole};
use crate::EngineError;
use tidemill_domain::alert::Subject;
use tidemill_domain::outbox::attached::TableName;
use tidemill_store::outbox::Backlog;
use tidemill_store::{Store, Tx};

tidemill_domain::words! {
    pub enum OutboxSignal {
        /// Age of the oldest event not yet read by a relay, or of the oldest due row of an attached table.
        LagSeconds = "outbox_lag_seconds",
        /// Parked events, or parked rows of an attached table.
        Parked = "outbox_parked",
        DefaultRows = "outbox_default_rows",
        /// Slots without a live relay, while the outbox is in use.
        UnownedSlots = "outbox_unowned_slots",
        /// Fixed shares without a live relay.
        MissingShares = "outbox_missing_shares",
    }
}

/// Counting stops here.
const COUNT_MAX: u32 = 1_000;

impl Signal for OutboxSignal {
    fn name(&self) -> &'static str {
        self.as_str()
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async { self.values(&mut store.read().await?).await })
    }
}

impl OutboxSignal {
    async fn values(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        let mut seen = whole(match self {
            Self::LagSeconds => {
                let now = tx.now().await?;
                let backlog = backlog(tx).await?;
                let age =
                    |backlog: Backlog| backlog.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64());
                backlog.map_or(f64::NAN, age)
            }
            Self::Parked => number(tx.outbox().failed_event_counts(COUNT_MAX).await?.parked.rows.least()),
            // A database without partitions has no value.
            Self::DefaultRows => match tx.outbox().default_rows(COUNT_MAX).await? {
                Some(count) => number(count.least()),
                None => return Ok(Vec::new()),
            },
            Self::UnownedSlots => {
                let unowned = tx.outbox().unowned_slots().await?;
                // If no events are written, no relay is needed.
                let is_used = tx.outbox().relays_alive().await?.0 > 0
                    || backlog(tx).await?.is_none_or(|backlog| backlog.rows.least() > 0);
                if is_used { number(unowned) } else { 0.0 }
            }
            Self::MissingShares => number(tx.outbox().relays_alive().await?.1.len() as u64),
        });
        seen.extend(self.attached_values(tx).await?);
        Ok(seen)
    }

    /// A value for each attached table; NaN if it is unknown.
    async fn attached_values(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        let values: Vec<(TableName, Option<f64>)> = match self {
            Self::LagSeconds => {
                let waits = tx.outbox().attached_waits().await?.into_iter();
                waits.map(|(table, wait)| (table, wait.map(|wait| wait.as_secs_f64()))).collect()
            }
            Self::Parked => {
                let parked = tx.outbox().attached_parked(COUNT_MAX).await?.into_iter();
                parked.map(|(table, rows)| (table, rows.map(|rows| number(rows.least())))).collect()
            }
            Self::DefaultRows | Self::UnownedSlots | Self::MissingShares => Vec::new(),
        };
        let observation = |(table, value): (TableName, Option<f64>)| {
            let subject = Subject::new(&format!("table/{table}")).ok()?;
            Some(Observation::new(subject, value.unwrap_or(f64::NAN)))
        };
        Ok(values.into_iter().filter_map(observation).collect())
    }
}

async fn backlog(tx: &mut Tx) -> Result<Option<Backlog>, EngineError> {
    Ok(tx.outbox().lag(COUNT_MAX).await?.as_deref().map(Backlog::of))
}
