//! The results: medians, their ratios, and whether each target was met.

use super::case::{Case, Measured};
use super::idle::Idle;
use super::line::{Line, median};
use super::window::Late;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The minimum speed of our relays, as a multiple of the design that claims and marks rows.
const SPEED_LEAST: f64 = 2.0;

/// The minimum share of their speed that our relays keep while a session holds an old snapshot.
const PINNED_LEAST: f64 = 0.9;

/// The maximum bytes of WAL per event.
const WAL_MAX: f64 = 10.0;

/// The maximum number of dead row versions.
const DEAD_MAX: u64 = 0;

/// The maximum ratio between the times of a page with a late event and of one without.
const LATE_MAX: f64 = 3.0;

/// The maximum number of looks of an idle relay per second.
const LOOKS_MAX: f64 = 1.0;

/// All measurements.
pub(super) struct Report {
    events: u64,
    rounds: usize,
    measured: Vec<(Case, Measured)>,
    pub(super) late: Option<Late>,
    pub(super) idle: Option<Idle>,
}

impl Report {
    pub(super) fn new(events: u64, rounds: usize) -> Self {
        Self { events, rounds, measured: Vec::new(), late: None, idle: None }
    }

    pub(super) fn add(&mut self, case: Case, measured: Measured) {
        self.measured.push((case, measured));
    }

    fn figures(&self, case: Case, figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.measured.iter().filter(|(of, _)| *of == case).map(|(_, measured)| figure(measured)).collect()
    }

    fn speed(&self, case: Case) -> f64 {
        median(self.figures(case, Measured::events_per_second))
    }

    fn speed_ratio(&self, one: Case, other: Case) -> f64 {
        self.speed(one) / self.speed(other)
    }

    /// The worst of all rounds, with or without an old snapshot.
    fn worst_of_ours(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        let (free, pinned) = (self.figures(Case::OURS, &figure), self.figures(Case::OURS_PINNED, &figure));
        if free.is_empty() || pinned.is_empty() {
            return f64::NAN;
        }
        free.into_iter().chain(pinned).fold(f64::NEG_INFINITY, f64::max)
    }

    fn lines(&self) -> [Line; 7] {
        let late = |pair: fn(&Late) -> (f64, f64)| {
            self.late.as_ref().map_or(f64::NAN, |late| pair(late).1 / pair(late).0)
        };
        let looks = self.idle.as_ref().map_or(f64::NAN, |idle| idle.looks);
        [
            Line::least(
                "speed against claim + mark, 3 relays",
                self.speed_ratio(Case::OURS, Case::CLAIM),
                SPEED_LEAST,
            ),
            Line::least(
                "speed kept under an old snapshot",
                self.speed_ratio(Case::OURS_PINNED, Case::OURS),
                PINNED_LEAST,
            ),
            Line::most(
                "log of the server, bytes per event",
                self.worst_of_ours(Measured::wal_per_event),
                WAL_MAX,
            ),
            Line::most("dead rows", self.worst_of_ours(|measured| measured.dead as f64), DEAD_MAX as f64),
            Line::most("a late event in a whole window, times", late(|late| late.whole_ms), LATE_MAX),
            Line::most("a late event in a page, times", late(|late| late.page_ms), LATE_MAX),
            Line::most("looks of an idle relay per second", looks, LOOKS_MAX),
        ]
    }

    /// The missed targets.
    pub(super) fn missed(&self) -> Vec<&'static str> {
        self.lines().iter().filter(|line| !line.holds).map(|line| line.name).collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{} events, medians of {} rounds\n\n", self.events, self.rounds);
        let _infallible = writeln!(
            text,
            "{:<38} {:>10} {:>10} {:>9} {:>16} {:>10}",
            "", "events/s", "WAL B/ev", "dead", "statements/10k", "joining s"
        );
        for case in Case::ONCE.into_iter().chain(Case::COMPARED) {
            let of = |figure: fn(&Measured) -> f64| median(self.figures(case, figure));
            let _infallible = writeln!(
                text,
                "{:<38} {:>10.0} {:>10.1} {:>9.0} {:>16.1} {:>10.2}",
                case.name(),
                self.speed(case),
                of(Measured::wal_per_event),
                of(|measured| measured.dead as f64),
                of(Measured::statements_per_10_000),
                of(|measured| measured.joining_seconds),
            );
        }
        if let Some(late) = &self.late {
            let ((whole, whole_late), (page, page_late)) = (late.whole_ms, late.page_ms);
            let _infallible = writeln!(
                text,
                "\na late event among {}: a whole window {whole:.1} ms, with it {whole_late:.1} ms; a page {page:.1} ms, \
                 with it {page_late:.1} ms",
                late.retained
            );
        }
        if let Some(idle) = &self.idle {
            let _infallible = writeln!(
                text,
                "an idle relay: {:.2} looks/s, {:.2} statements/s with the keeping, {:.2} with the heartbeat of its process",
                idle.looks, idle.relay, idle.process
            );
        }
        text.push('\n');
        for line in self.lines() {
            let _infallible = writeln!(text, "{line}");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = Case::ONCE
            .into_iter()
            .chain(Case::COMPARED)
            .map(|case| {
                json!({
                    "case": case.name(),
                    "events_per_second": self.figures(case, Measured::events_per_second),
                    "wal_bytes_per_event": self.figures(case, Measured::wal_per_event),
                    "dead": self.figures(case, |measured| measured.dead as f64),
                    "statements_per_10000": self.figures(case, Measured::statements_per_10_000),
                    "joining_seconds": self.figures(case, |measured| measured.joining_seconds),
                })
            })
            .collect();
        let lines: Vec<Value> = self
            .lines()
            .iter()
            .map(|line| json!({ "what": line.name, "found": line.found, "wanted": line.wanted, "holds": line.holds }))
            .collect();
        json!({
            "benchmark": "outbox",
            "events": self.events,
            "rounds": self.rounds,
            "cases": cases,
            "claim_kept_under_an_old_snapshot": self.speed(Case::CLAIM_PINNED) / self.speed(Case::CLAIM),
            "late": self.late.map(|late| json!({
                "retained": late.retained,
                "whole_ms": late.whole_ms,
                "page_ms": late.page_ms,
            })),
            "idle_statements_per_second": self.idle.map(|idle| json!({
                "looks": idle.looks,
                "relay": idle.relay,
                "process": idle.process,
            })),
            "lines": lines,
            "missed": self.missed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(seconds: f64) -> Measured {
        Measured { events: 1_000, seconds, joining_seconds: 0.0, wal_bytes: 10_000.0, dead: 0, statements: 3 }
    }

    /// A report that just meets the targets.
    fn report() -> Report {
        let mut report = Report::new(1_000, 1);
        report.add(Case::CLAIM, measured(1.8));
        report.add(Case::OURS, measured(0.9));
        report.add(Case::OURS_PINNED, measured(1.0));
        report.late = Some(Late { retained: 1, whole_ms: (1.0, 3.0), page_ms: (2.0, 6.0) });
        report.idle = Some(Idle { looks: 1.0, relay: 2.0, process: 3.0 });
        report
    }

    fn changed(case: Case, change: impl Fn(&mut Measured)) -> Vec<&'static str> {
        let mut report = report();
        report.measured.iter_mut().filter(|(of, _)| *of == case).for_each(|(_, measured)| change(measured));
        report.missed()
    }

    #[test]
    fn what_is_just_as_wanted_passes() {
        assert_eq!(report().missed(), Vec::<&str>::new());
        assert!(!report().table().contains("FAIL"));
    }

    #[test]
    fn what_is_worse_fails_by_its_name() {
        assert_eq!(changed(Case::CLAIM, |m| m.seconds = 1.79), ["speed against claim + mark, 3 relays"]);
        assert_eq!(changed(Case::OURS_PINNED, |m| m.seconds = 1.01), ["speed kept under an old snapshot"]);
        assert_eq!(changed(Case::OURS, |m| m.wal_bytes += 1.0), ["log of the server, bytes per event"]);
        assert_eq!(changed(Case::OURS_PINNED, |m| m.dead = 1), ["dead rows"]);
    }

    #[test]
    fn what_was_not_measured_fails() {
        let report = Report::new(1_000, 1);

        assert_eq!(report.missed().len(), report.lines().len());
        assert_eq!(report.table().matches("FAIL").count(), report.lines().len());
    }
}
