//! The results: medians, their ratios, and whether each target was met.

use super::case::{Case, Measured};
use super::verdict::{GROWTH_MAX, RESIDENT_MB_MAX, SERVER_SHARE_MAX, STATEMENTS, Verdict};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The case that also runs over ten times the rows.
pub(super) const LONG: Case = Case::Copy { chunk: 1000 };

/// All measurements.
pub(super) struct Report {
    rows: u64,
    rounds: usize,
    measured: Vec<(Case, Measured)>,
    /// Statements on the job tables per chunk.
    pub(super) statements: f64,
    /// A run of [`LONG`] over ten times the rows.
    pub(super) long: Option<Measured>,
    /// The peak resident memory of the program that is released, in MB.
    pub(super) program: Vec<(Case, f64)>,
}

impl Report {
    pub(super) fn new(rows: u64, rounds: usize) -> Self {
        Self { rows, rounds, measured: Vec::new(), statements: 0.0, long: None, program: Vec::new() }
    }

    pub(super) fn add(&mut self, case: Case, measured: Measured) {
        self.measured.push((case, measured));
    }

    fn of(&self, case: Case) -> impl Iterator<Item = &Measured> {
        self.measured.iter().filter(move |(measured, _)| *measured == case).map(|(_, measured)| measured)
    }

    /// The median of the rows per second.
    fn median(&self, case: Case) -> f64 {
        median(self.of(case).map(Measured::rows_per_second).collect())
    }

    /// The measured cases, in order: Spring Batch may be missing.
    fn cases(&self) -> impl Iterator<Item = Case> {
        Case::ALL.into_iter().filter(|case| self.of(*case).next().is_some())
    }

    fn resident_mb(&self, case: Case) -> Option<f64> {
        self.of(case).filter_map(|measured| measured.resident_mb).max_by(f64::total_cmp)
    }

    /// The share of the baseline, and the share that the case must reach.
    fn ratio(&self, case: Case) -> Option<(f64, f64)> {
        let (line, least) = case.target()?;
        Some((self.median(case) / self.median(line), least))
    }

    /// Whether the case meets its target for speed, if it has one.
    fn speed_verdict(&self, case: Case) -> Option<Verdict> {
        let (ratio, least) = self.ratio(case)?;
        (least > 0.0).then(|| Verdict::of_ratio(ratio, least))
    }

    /// Whether the case meets the target for memory, if it is one of ours.
    fn memory_verdict(&self, case: Case) -> Option<Verdict> {
        case.is_ours().then(|| Verdict::of_memory(self.resident_mb(case)))
    }

    /// How many times as fast as Spring Batch, and the wanted number; none if it was not measured.
    fn spring_ratio(&self, case: Case) -> Option<(f64, f64)> {
        let (spring, least) = case.spring()?;
        self.of(spring).next()?;
        Some((self.median(case) / self.median(spring), least))
    }

    fn spring_verdict(&self, case: Case) -> Option<Verdict> {
        self.spring_ratio(case).map(|(ratio, least)| Verdict::of_ratio(ratio, least))
    }

    /// The median of the CPU seconds of the process and of the server.
    fn cpu(&self, case: Case) -> (f64, f64) {
        let own = self.of(case).filter_map(|measured| measured.cpu_seconds).collect();
        (median(own), median(self.of(case).map(|measured| measured.server_seconds).collect()))
    }

    /// The CPU seconds of the server for our job and for that of Spring Batch, if that was measured. Only with small chunks:
    /// with large ones most of it is for the rows.
    fn server(&self, case: Case) -> Option<(f64, f64, Verdict)> {
        let (spring, _) = case.spring().filter(|_| case == Case::Copy { chunk: 10 })?;
        self.of(spring).next()?;
        let (ours, its) = (self.cpu(case).1, self.cpu(spring).1);
        Some((ours, its, Verdict::of_server_share(ours / its)))
    }

    /// Whether a run over ten times the rows needs no more memory, if it was measured.
    fn growth_verdict(&self) -> Option<Verdict> {
        let long = self.long.as_ref()?;
        Some(Verdict::of_growth(self.resident_mb(LONG), long.resident_mb))
    }

    /// The missed targets.
    pub(super) fn missed(&self) -> Vec<String> {
        let of_case = Case::ALL.into_iter().flat_map(|case| {
            [
                ("speed", self.speed_verdict(case)),
                ("memory", self.memory_verdict(case)),
                ("speed against Spring Batch", self.spring_verdict(case)),
                ("server CPU against Spring Batch", self.server(case).map(|(.., verdict)| verdict)),
            ]
            .map(|(what, verdict)| (format!("{what} of {}", case.name()), verdict))
        });
        let of_all = [
            ("metadata statements per chunk".to_owned(), Some(Verdict::of_statements(self.statements))),
            ("flat memory".to_owned(), self.growth_verdict()),
        ];
        let of_program = self.program.iter().map(|(case, mb)| {
            (format!("memory of the program, {}", case.name()), Some(Verdict::of_memory(Some(*mb))))
        });
        let is_missed = |verdict: &Option<Verdict>| *verdict == Some(Verdict::Missed);
        of_case
            .chain(of_all)
            .chain(of_program)
            .filter(|(_, verdict)| is_missed(verdict))
            .map(|(what, _)| what)
            .collect()
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{} rows x 7 columns, medians of {} rounds\n\n", self.rows, self.rounds);
        let _infallible = writeln!(
            text,
            "{:<46} {:>10} {:>7} {:>7} {:<7} {:>4} {:>6}",
            "case", "rows/s", "ratio", "wanted", "verdict", "MB", "verdict"
        );
        for case in self.cases() {
            let _infallible = writeln!(text, "{}", self.line(case).trim_end());
        }
        let _infallible = writeln!(text, "\nat most {RESIDENT_MB_MAX} MB are wanted of each job");
        let _infallible = writeln!(
            text,
            "metadata statements per chunk: {:.2} ({STATEMENTS:.2} wanted) {}",
            self.statements,
            Verdict::of_statements(self.statements)
        );
        text + &self.long_line() + &self.spring_table() + &self.sentences()
    }

    /// One line for each figure that is compared with one number.
    fn sentences(&self) -> String {
        let mut text = String::from("\n");
        for case in self.cases() {
            let Some((ours, its, verdict)) = self.server(case) else { continue };
            let _infallible = writeln!(
                text,
                "server CPU, {}: {ours:.1} s, Spring Batch {its:.1} s (at most {SERVER_SHARE_MAX:.2} of it wanted, \
                 it is {:.2}): {}",
                case.name(),
                ours / its,
                verdict.sentence(),
            );
        }
        for (case, mb) in &self.program {
            let _infallible = writeln!(
                text,
                "peak memory of the program, {}: {mb:.1} MB (at most {RESIDENT_MB_MAX} MB wanted): {}",
                case.name(),
                Verdict::of_memory(Some(*mb)).sentence(),
            );
        }
        text
    }

    /// The same jobs in Spring Batch.
    fn spring_table(&self) -> String {
        let mut text =
            String::from("\nagainst Spring Batch, with CPU seconds of the process + of the server\n\n");
        for case in self.cases() {
            let (Some((spring, _)), Some((ratio, least))) = (case.spring(), self.spring_ratio(case)) else {
                continue;
            };
            let ((own, server), (its, its_server)) = (self.cpu(case), self.cpu(spring));
            let verdict = Verdict::of_ratio(ratio, least);
            let _infallible = writeln!(
                text,
                "{:<36} {ratio:>5.2} x (>={least} wanted) {verdict:<6} {own:.1} + {server:.1} against {its:.1} + {its_server:.1}",
                case.name(),
            );
        }
        if !text.contains(" wanted)") {
            text.push_str("not measured: Spring Batch needs Java and Maven\n");
        }
        text
    }

    fn line(&self, case: Case) -> String {
        let or_blank = |verdict: Option<Verdict>| verdict.map_or_else(String::new, |known| known.to_string());
        let (ratio, wanted) = match self.ratio(case) {
            Some((ratio, least)) if least > 0.0 => (format!("{ratio:.2}"), format!(">={least}")),
            Some((ratio, _)) => (format!("{ratio:.2}"), String::new()),
            None => (String::new(), String::new()),
        };
        format!(
            "{:<46} {:>10.0} {ratio:>7} {wanted:>7} {:<7} {:>4} {}",
            case.name(),
            self.median(case),
            or_blank(self.speed_verdict(case)),
            megabytes(self.resident_mb(case)),
            or_blank(self.memory_verdict(case)),
        )
    }

    fn long_line(&self) -> String {
        let (Some(long), Some(verdict)) = (&self.long, self.growth_verdict()) else { return String::new() };
        let word = if verdict == Verdict::Ok { "flat".to_owned() } else { verdict.to_string() };
        format!(
            "{}: {} rows {} MB, {} rows {} MB and {:.0} rows/s (at most {GROWTH_MAX} x and {RESIDENT_MB_MAX} MB \
             wanted) {word}\n",
            LONG.name(),
            self.rows,
            megabytes(self.resident_mb(LONG)),
            long.rows,
            megabytes(long.resident_mb),
            long.rows_per_second(),
        )
    }

    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = self
            .cases()
            .map(|case| {
                let (ratio, wanted) = self.ratio(case).unzip();
                let (spring_ratio, spring_wanted) = self.spring_ratio(case).unzip();
                let (cpu_seconds, server_seconds) = self.cpu(case);
                json!({
                    "case": case.name(),
                    "rows_per_second": self.median(case),
                    "ratio": ratio,
                    "wanted": wanted,
                    "resident_mb": self.resident_mb(case),
                    "cpu_seconds": cpu_seconds,
                    "server_cpu_seconds": server_seconds,
                    "spring_ratio": spring_ratio,
                    "spring_wanted": spring_wanted,
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
            "program_resident_mb": self
                .program
                .iter()
                .map(|(case, mb)| json!({ "case": case.name(), "resident_mb": mb }))
                .collect::<Vec<_>>(),
            "missed": self.missed(),
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn megabytes(resident_mb: Option<f64>) -> String {
    resident_mb.map_or_else(String::new, |mb| format!("{mb:.0}"))
}

#[cfg(test)]
mod tests;
