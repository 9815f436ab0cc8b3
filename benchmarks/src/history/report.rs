//! The results: medians on both histories, their ratio, and whether the ratio is within the limit.

use super::deed::Deed;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The maximum ratio between the times on the long and on the short history.
const RATIO_MAX: f64 = 3.0;

/// All measurements on one database.
pub(super) struct Report {
    database: &'static str,
    short: u64,
    long: u64,
    /// In milliseconds, on the short history and on the long one.
    measured: Vec<(Deed, f64, f64)>,
}

impl Report {
    pub(super) fn new(database: &'static str, short: u64, long: u64) -> Self {
        Self { database, short, long, measured: Vec::new() }
    }

    pub(super) fn add(&mut self, deed: Deed, short: f64, long: f64) {
        self.measured.push((deed, short, long));
    }

    /// Both medians and their ratio, or `None` if the operation was not measured.
    fn of(&self, deed: Deed) -> Option<(f64, f64, f64)> {
        let (_, short, long) = *self.measured.iter().find(|(measured, ..)| *measured == deed)?;
        Some((short, long, long / short))
    }

    /// The operations above the limit, and those that were not measured.
    pub(super) fn missed(&self) -> Vec<&'static str> {
        let holds = |deed: &Deed| self.of(*deed).is_some_and(|(.., ratio)| ratio <= RATIO_MAX);
        Deed::ALL.iter().filter(|deed| !holds(deed)).map(|deed| deed.name()).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{}, medians in milliseconds\n\n", self.database);
        let _infallible = writeln!(
            text,
            "{:<36} {:>10} {:>10} {:>7} {:>7}",
            "",
            self.short,
            self.long,
            "ratio",
            format!("<={RATIO_MAX}")
        );
        for deed in Deed::ALL {
            let Some((short, long, ratio)) = self.of(deed) else { continue };
            let verdict = if ratio <= RATIO_MAX { "flat" } else { "MISSED" };
            let _infallible =
                writeln!(text, "{:<36} {short:>10.2} {long:>10.2} {ratio:>7.2} {verdict:>7}", deed.name());
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let deeds: Vec<Value> = Deed::ALL
            .into_iter()
            .filter_map(|deed| {
                let (short, long, ratio) = self.of(deed)?;
                Some(json!({ "deed": deed.name(), "short_ms": short, "long_ms": long, "ratio": ratio }))
            })
            .collect();
        json!({
            "benchmark": "history",
            "database": self.database,
            "short_executions": self.short,
            "long_executions": self.long,
            "deeds": deeds,
            "missed": self.missed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(long: f64) -> Report {
        let mut report = Report::new("SQLite", 10, 100);
        for deed in Deed::ALL {
            report.add(deed, 2.0, long);
        }
        report
    }

    #[test]
    fn what_takes_more_than_three_times_as_long_is_not_flat() {
        assert!(report(6.0).missed().is_empty());
        assert_eq!(report(6.1).missed().len(), Deed::ALL.len());
        assert!(report(6.1).table().contains("MISSED"));
    }

    #[test]
    fn what_was_not_measured_is_not_flat() {
        let mut one = Report::new("SQLite", 10, 100);
        one.add(Deed::List, 2.0, 2.0);

        assert_eq!(one.missed().len(), Deed::ALL.len() - 1);
    }
}
