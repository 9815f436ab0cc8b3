//! What the benchmark found: medians, their ratios, and whether each line was reached.

use super::case::{Case, Measured};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Most memory that a job may have resident, in MB.
const RESIDENT_MB_MAX: f64 = 64.0;

/// All measurements.
pub(super) struct Report {
    rows: u64,
    rounds: usize,
    measured: Vec<(Case, Measured)>,
    /// Statements on the tables of jobs per chunk.
    pub(super) statements: f64,
    /// A run over ten times the rows.
    pub(super) long: Option<Measured>,
}

impl Report {
    pub(super) fn new(rows: u64, rounds: usize) -> Self {
        Self { rows, rounds, measured: Vec::new(), statements: 0.0, long: None }
    }

    pub(super) fn add(&mut self, case: Case, measured: Measured) {
        self.measured.push((case, measured));
    }

    fn of(&self, case: Case) -> impl Iterator<Item = &Measured> {
        self.measured.iter().filter(move |(measured, _)| *measured == case).map(|(_, measured)| measured)
    }

    /// The median of rows per second.
    fn median(&self, case: Case) -> f64 {
        let mut rates: Vec<f64> = self.of(case).map(Measured::rows_per_second).collect();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(0.0)
    }

    fn resident_mb(&self, case: Case) -> Option<f64> {
        self.of(case).filter_map(|measured| measured.resident_mb).max_by(f64::total_cmp)
    }

    /// Share of what it is compared with, and the share that it has to reach.
    fn ratio(&self, case: Case) -> Option<(f64, f64)> {
        let (line, least) = case.target()?;
        Some((self.median(case) / self.median(line), least))
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{} rows x 7 columns, medians of {} rounds\n\n", self.rows, self.rounds);
        let _infallible =
            writeln!(text, "{:<46} {:>10} {:>7} {:>7} {:>6}", "case", "rows/s", "ratio", "wanted", "MB");
        for case in Case::ALL {
            let rate = self.median(case);
            let (ratio, wanted) = match self.ratio(case) {
                Some((ratio, least)) if least > 0.0 => (format!("{ratio:.2}"), format!(">={least}")),
                Some((ratio, _)) => (format!("{ratio:.2}"), String::new()),
                None => (String::new(), String::new()),
            };
            let memory = self.resident_mb(case).map_or_else(String::new, |mb| format!("{mb:.0}"));
            let _infallible =
                writeln!(text, "{:<46} {rate:>10.0} {ratio:>7} {wanted:>7} {memory:>6}", case.name());
        }
        let _infallible = writeln!(text, "\nmetadata statements per chunk: {:.2}", self.statements);
        if let Some(long) = &self.long {
            let mb = long.resident_mb.unwrap_or(0.0);
            let _infallible = writeln!(
                text,
                "{} rows: {:.0} rows/s, {mb:.0} MB resident (at most {RESIDENT_MB_MAX} wanted)",
                long.rows,
                long.rows_per_second()
            );
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = Case::ALL
            .into_iter()
            .map(|case| {
                let (ratio, wanted) = self.ratio(case).unzip();
                json!({
                    "case": case.name(),
                    "rows_per_second": self.median(case),
                    "ratio": ratio,
                    "wanted": wanted,
                    "resident_mb": self.resident_mb(case),
                })
            })
            .collect();
        json!({
            "benchmark": "jobs",
            "rows": self.rows,
            "rounds": self.rounds,
            "cases": cases,
            "metadata_statements_per_chunk": self.statements,
            "long": self.long,
        })
    }
}
