//! The signals of pools; the subject is `pool/NAME`. All are read from the rows, so it does not matter which server has
//! the watch and which one decides.

use super::{Observation, Observing, Signal};
use crate::error::EngineError;
use crate::pool::gauge::POOLS_MAX;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::pool::PoolName;
use tidemill_store::{Store, Tx};

/// Units in use, in percent of those that there are.
pub const POOL_UTILIZATION_PERCENT: &str = "pool_utilization_percent";
/// How long those waited on average that had to wait and got units in the last five minutes.
pub const POOL_WAIT_SECONDS: &str = "pool_wait_seconds";
/// How long the oldest request of the queue has waited.
pub const POOL_OLDEST_WAIT_SECONDS: &str = "pool_oldest_wait_seconds";
/// Number of requests that left the queue without units in the last minute.
pub const POOL_TIMEOUTS: &str = "pool_timeouts";
/// Number of leases whose holders have not been heard of.
pub const POOL_SUSPECT_LEASES: &str = "pool_suspect_leases";

/// How far back waits count.
const WAITS_WITHIN: Duration = Duration::from_secs(300);

/// How far back timeouts are counted.
const TIMEOUTS_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn signals() -> Vec<Box<dyn Signal>> {
    use What::{OldestWait, SuspectLeases, Timeouts, Utilization, Wait};
    [Utilization, Wait, OldestWait, Timeouts, SuspectLeases]
        .map(|what| Box::new(what) as Box<dyn Signal>)
        .into()
}

#[derive(Clone, Copy, Debug)]
enum What {
    Utilization,
    Wait,
    OldestWait,
    Timeouts,
    SuspectLeases,
}

impl Signal for What {
    fn name(&self) -> &'static str {
        match self {
            Self::Utilization => POOL_UTILIZATION_PERCENT,
            Self::Wait => POOL_WAIT_SECONDS,
            Self::OldestWait => POOL_OLDEST_WAIT_SECONDS,
            Self::Timeouts => POOL_TIMEOUTS,
            Self::SuspectLeases => POOL_SUSPECT_LEASES,
        }
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async {
            let mut tx = store.read().await?;
            let values = self.values(&mut tx).await?;
            let observation = |(pool, value): (PoolName, f64)| {
                let subject = Subject::new(&format!("pool/{pool}")).ok()?;
                Some(Observation { subject, value })
            };
            Ok(values.into_iter().filter_map(observation).collect())
        })
    }
}

impl What {
    /// Of every pool, also of those to which nothing happened.
    async fn values(self, tx: &mut Tx) -> Result<BTreeMap<PoolName, f64>, EngineError> {
        let waits = match self {
            Self::Wait => tx.pools().waits(WAITS_WITHIN).await?,
            _ => BTreeMap::new(),
        };
        let timeouts = match self {
            Self::Timeouts => tx.pools().timeouts(TIMEOUTS_WITHIN).await?,
            _ => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for seen in tx.pools().levels(POOLS_MAX).await? {
            let pool = seen.settings.name;
            let value = match self {
                Self::Utilization => seen.level.percent(),
                Self::Wait => waits.get(&pool).map_or(0.0, Duration::as_secs_f64),
                Self::OldestWait => seen.oldest_wait.as_secs_f64(),
                Self::Timeouts => super::number(timeouts.get(&pool).copied().unwrap_or(0)),
                Self::SuspectLeases => super::number(seen.suspect),
            };
            values.insert(pool, value);
        }
        Ok(values)
    }
}
