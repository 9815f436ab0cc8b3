//! The results.

use serde_json::{Value, json};
use std::time::Duration;

/// From this commit time on, sharing commits must bring the higher ratio.
const SLOW_COMMIT: Duration = Duration::from_millis(2);

/// All measurements.
pub(super) struct Report {
    clients: u32,
    pub(super) commit: Duration,
    /// Pairs of acquire and release per second, in each turn.
    pub(super) classic: Vec<f64>,
    pub(super) passes: Vec<f64>,
    pub(super) leases: u32,
    pub(super) pools: u32,
    pub(super) decision: Duration,
    pub(super) restart: Duration,
}

impl Report {
    pub(super) fn new(clients: u32) -> Self {
        Self {
            clients,
            commit: Duration::ZERO,
            classic: Vec::new(),
            passes: Vec::new(),
            leases: 0,
            pools: 0,
            decision: Duration::ZERO,
            restart: Duration::ZERO,
        }
    }

    fn ratio(&self) -> f64 {
        median(&self.passes) / median(&self.classic)
    }

    /// The minimum ratio between requests per second with passes and without.
    fn least_ratio(&self) -> f64 {
        if self.commit >= SLOW_COMMIT { 10.0 } else { 3.0 }
    }

    pub(super) fn holds(&self) -> bool {
        self.ratio() >= self.least_ratio()
    }

    pub(super) fn table(&self) -> String {
        let verdict = if self.holds() { "holds" } else { "MISSED" };
        format!(
            "\nPostgreSQL, {} clients, acquire and release\n\n\
             median commit                        {:>12.2} ms\n\
             one transaction for each request     {:>12.0} pairs/s\n\
             passes                               {:>12.0} pairs/s\n\
             ratio                                {:>12.1} (>= {}: {verdict})\n\n\
             {} live leases over {} pools\n\n\
             median decision                      {:>12.2} ms\n\
             a server knows all of them again     {:>12.2} s\n",
            self.clients,
            millis(self.commit),
            median(&self.classic),
            median(&self.passes),
            self.ratio(),
            self.least_ratio(),
            self.leases,
            self.pools,
            millis(self.decision),
            self.restart.as_secs_f64(),
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "benchmark": "pools",
            "clients": self.clients,
            "commit_ms": millis(self.commit),
            "classic_pairs_per_second": self.classic,
            "passes_pairs_per_second": self.passes,
            "ratio": self.ratio(),
            "least_ratio": self.least_ratio(),
            "leases": self.leases,
            "pools": self.pools,
            "decision_ms": millis(self.decision),
            "restart_seconds": self.restart.as_secs_f64(),
            "holds": self.holds(),
        })
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(commit_ms: u64, classic: f64, passes: f64) -> Report {
        Report {
            commit: Duration::from_millis(commit_ms),
            classic: vec![classic; 3],
            passes: vec![passes; 3],
            ..Report::new(64)
        }
    }

    #[test]
    fn the_ratio_that_is_asked_for_depends_on_the_commit() {
        assert!(report(1, 100.0, 300.0).holds());
        assert!(!report(1, 100.0, 299.0).holds());
        assert!(report(2, 100.0, 1000.0).holds());
        assert!(!report(2, 100.0, 999.0).holds());
        assert!(!Report::new(64).holds(), "what was not measured does not hold");
    }
}
