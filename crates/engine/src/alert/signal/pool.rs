//! Signals of pools; the subject is `pool/NAME`. All are read from the database, so any process can evaluate them.

use crate::EngineError;
use crate::alert::{Observation, Observing, Signal};
use crate::pool::gauge::POOLS_MAX;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::alert::Subject;
use tidemill_domain::pool::Breaker;
use tidemill_domain::pool::command::Level;
use tidemill_store::{Store, Tx};

tidemill_domain::words! {
    pub enum PoolSignal {
        /// Units in use, in percent of the capacity.
        UtilizationPercent = "pool_utilization_percent",
        /// Units in use, in percent of the limit: a full pool has 100, whatever its threshold.
        LimitPercent = "pool_limit_percent",
        /// Average wait of the requests that got units in the last five minutes after waiting.
        WaitSeconds = "pool_wait_seconds",
        OldestWaitSeconds = "pool_oldest_wait_seconds",
        /// Requests that left the queue without units in the last minute.
        Timeouts = "pool_timeouts",
        /// Leases whose holders stopped their heartbeats.
        SuspectLeases = "pool_suspect_leases",
        /// 1 while the circuit breaker lets at most a probe start.
        BreakerOpen = "pool_breaker_open",
        /// Violations that the last nightly audit found.
        AuditViolations = "pool_audit_violations",
    }
}

const WAITS_WITHIN: Duration = Duration::from_secs(300);

pub const TIMEOUTS_WITHIN: Duration = Duration::from_secs(60);

impl Signal for PoolSignal {
    fn name(&self) -> &'static str {
        self.as_str()
    }

    fn observe<'a>(&'a self, store: &'a Store) -> Observing<'a> {
        Box::pin(async { self.values(&mut store.read().await?).await })
    }
}

impl PoolSignal {
    /// Includes idle pools.
    async fn values(self, tx: &mut Tx) -> Result<Vec<Observation>, EngineError> {
        let waits = match self {
            Self::WaitSeconds => tx.pools().waits(WAITS_WITHIN).await?,
            _ => BTreeMap::new(),
        };
        let timeouts = match self {
            Self::Timeouts => tx.pools().timeouts(TIMEOUTS_WITHIN).await?,
            _ => BTreeMap::new(),
        };
        let now = tx.now().await?;
        let mut values = Vec::new();
        for seen in tx.pools().levels(POOLS_MAX).await? {
            let violations = seen.violations();
            let pool = seen.settings.name.clone();
            let value = match self {
                Self::UtilizationPercent => seen.level.percent(),
                // Without the breaker: a pool that it has lowered is not full.
                Self::LimitPercent => {
                    Level::of(&seen.settings, &Breaker::default(), seen.level.usage, now).percent_of_limit()
                }
                Self::WaitSeconds => waits.get(&pool).map_or(0.0, Duration::as_secs_f64),
                Self::OldestWaitSeconds => seen.oldest_wait.as_secs_f64(),
                Self::Timeouts => super::number(timeouts.get(&pool).copied().unwrap_or(0)),
                Self::SuspectLeases => super::number(seen.suspect),
                Self::BreakerOpen => f64::from(u8::from(seen.breaker.is_open())),
                Self::AuditViolations => super::number(violations),
            };
            let subject = Subject::new(&format!("pool/{pool}")).ok();
            values.extend(subject.map(|subject| Observation::new(subject, value)));
        }
        Ok(values)
    }
}
