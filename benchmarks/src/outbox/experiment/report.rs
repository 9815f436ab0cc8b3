//! The results of the experiment, and whether they meet the targets.

use super::latency::Latency;
use super::{Measured, Way};
use crate::outbox::line::{Line, median};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The minimum speed of our relays, as a multiple of the designs that await each record.
const SPEED_LEAST: f64 = 10.0;

/// The same with many events, as a multiple of the design that claims rows and sends a batch at once.
const MANY_LEAST: f64 = 2.0;

/// The maximum number of our statements for 10,000 events.
const QUERIES_MAX: f64 = 40.0;

/// The goal for the latency. It depends on the machine, so it is reported but not required.
const P99_AIM: f64 = 150.0;

#[derive(Debug, Default)]
pub(super) struct Report {
    rounds: usize,
    pub(super) few: Vec<(Way, Measured)>,
    pub(super) many: Vec<(Way, Measured)>,
    pub(super) latency: Option<Latency>,
}

impl Report {
    pub(super) fn new(rounds: usize) -> Self {
        Self { rounds, ..Self::default() }
    }

    fn lines(&self) -> [Line; 5] {
        let seconds =
            |all: &[(Way, Measured)], way| median(of(all, way).map(|found| found.seconds).collect());
        let speed = |way| seconds(&self.few, way) / seconds(&self.few, Way::Ours);
        let ours = || of(&self.few, Way::Ours).chain(of(&self.many, Way::Ours));
        let worst = |figures: Vec<f64>| figures.into_iter().reduce(f64::max).unwrap_or(f64::NAN);
        let queries = of(&self.few, Way::Ours)
            .map(|found| found.queries as f64 * 10_000.0 / found.events as f64)
            .collect();
        [
            Line::least("speed against (a)", speed(Way::Alone), SPEED_LEAST),
            Line::least("speed against (b)", speed(Way::Modulo), SPEED_LEAST),
            Line::most("statements for 10,000 events", worst(queries), QUERIES_MAX),
            Line::most(
                "aggregates out of order",
                worst(ours().map(|found| found.disordered as f64).collect()),
                0.0,
            ),
            Line::least(
                "speed against (c), many events",
                seconds(&self.many, Way::Pipelined) / seconds(&self.many, Way::Ours),
                MANY_LEAST,
            ),
        ]
    }

    /// The missed targets.
    pub(super) fn missed(&self) -> Vec<&'static str> {
        self.lines().into_iter().filter(|line| !line.holds).map(|line| line.name).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("\nmedians of {} rounds\n\n", self.rounds);
        let _infallible = writeln!(
            text,
            "{:<40} {:>8} {:>10} {:>10} {:>8} {:>9}  {:>9}",
            "", "events", "ms", "events/s", "queries", "WAL B/ev", "disorder"
        );
        for all in [&self.few, &self.many] {
            for way in Way::ALL {
                self.row(&mut text, all, way);
            }
        }
        if let Some(latency) = &self.latency {
            let _infallible = writeln!(
                text,
                "\ncommit to acknowledged, {} events at 2,000/s: median {:.1} ms, p99 {:.1} ms (aim {P99_AIM:.0}), worst {:.1} ms",
                latency.events, latency.median, latency.p99, latency.worst
            );
        }
        text.push('\n');
        for line in self.lines() {
            let _infallible = writeln!(text, "{line}");
        }
        text
    }

    fn row(&self, text: &mut String, all: &[(Way, Measured)], way: Way) {
        let found: Vec<&Measured> = of(all, way).collect();
        let Some(last) = found.last() else { return };
        let middle = |figure: fn(&Measured) -> f64| median(found.iter().map(|one| figure(one)).collect());
        let seconds = middle(|one| one.seconds);
        let _infallible = writeln!(
            text,
            "{:<40} {:>8} {:>10.0} {:>10.0} {:>8.0} {:>9.1}  {:>9.0}  by {:?}",
            way.name(),
            last.events,
            seconds * 1_000.0,
            last.events as f64 / seconds,
            middle(|one| one.queries as f64),
            middle(|one| one.wal_bytes / one.events as f64),
            middle(|one| one.disordered as f64),
            last.shares,
        );
    }

    pub(super) fn json(&self) -> Value {
        let rows = |all: &[(Way, Measured)]| -> Vec<Value> {
            all.iter()
                .map(|(way, found)| {
                    json!({
                        "way": way.name(), "events": found.events, "seconds": found.seconds,
                        "queries": found.queries, "wal_bytes": found.wal_bytes, "shares": found.shares,
                        "disordered": found.disordered,
                    })
                })
                .collect()
        };
        let latency = self.latency.map(|found| {
            json!({ "events": found.events, "median_ms": found.median, "p99_ms": found.p99, "worst_ms": found.worst })
        });
        json!({
            "benchmark": "outbox --kafka", "rounds": self.rounds, "few": rows(&self.few),
            "many": rows(&self.many), "latency": latency, "missed": self.missed(),
        })
    }
}

fn of(all: &[(Way, Measured)], way: Way) -> impl Iterator<Item = &Measured> {
    all.iter().filter(move |(other, _)| *other == way).map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(events: u64, seconds: f64) -> Measured {
        Measured { events, seconds, queries: 40, wal_bytes: 0.0, shares: Vec::new(), disordered: 0 }
    }

    /// A report that just meets the targets.
    fn report() -> Report {
        Report {
            few: vec![
                (Way::Alone, measured(10_000, 2.0)),
                (Way::Modulo, measured(10_000, 2.0)),
                (Way::Ours, measured(10_000, 0.2)),
            ],
            many: vec![(Way::Pipelined, measured(300_000, 6.0)), (Way::Ours, measured(300_000, 3.0))],
            ..Report::new(1)
        }
    }

    #[test]
    fn what_is_just_as_wanted_passes() {
        assert_eq!(report().missed(), Vec::<&str>::new());
        assert!(!report().table().contains("FAIL"));
    }

    #[test]
    fn what_is_worse_fails_by_its_name() {
        let changed = |change: fn(&mut Report)| {
            let mut report = report();
            change(&mut report);
            report.missed()
        };

        assert_eq!(changed(|report| report.few[0].1.seconds = 1.99), ["speed against (a)"]);
        assert_eq!(changed(|report| report.few[1].1.seconds = 1.99), ["speed against (b)"]);
        assert_eq!(changed(|report| report.few[2].1.queries = 41), ["statements for 10,000 events"]);
        assert_eq!(changed(|report| report.many[1].1.disordered = 1), ["aggregates out of order"]);
        assert_eq!(changed(|report| report.many[0].1.seconds = 5.9), ["speed against (c), many events"]);
    }

    #[test]
    fn what_was_not_measured_fails() {
        assert_eq!(Report::new(1).missed().len(), 5);
    }
}
