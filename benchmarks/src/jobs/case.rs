//! The cases, and their tables and files.

use super::cpu;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The columns of both tables.
pub(super) const COLUMNS: [&str; 7] = ["id", "account", "amount", "currency", "booked_at", "note", "is_open"];

/// Rows per commit in the baselines.
pub(super) const LINE_ROWS: usize = 1000;

/// A case of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Case {
    /// Baseline: COPY out into COPY in, with a commit every 1000 rows.
    CopyLine,
    /// Our job with the COPY writer.
    Copy { chunk: usize },
    /// Our job with the insert writer.
    Insert { chunk: usize },
    /// Baseline: `\copy` of a file that is split into pieces of 1000 rows.
    CsvLine,
    /// Our job, which reads the whole file.
    Csv { chunk: usize, threads: usize },
    /// The same job with a SQLite file as the target. The file is also the database of the job.
    CsvIntoSqlite { chunk: usize },
    /// The job of Spring Batch, from table to table.
    Spring { chunk: usize },
    /// The same from the file.
    SpringCsv { chunk: usize },
}

impl Case {
    pub(super) const ALL: [Self; 13] = [
        Self::CopyLine,
        Self::Copy { chunk: 1000 },
        Self::Copy { chunk: 100 },
        Self::Copy { chunk: 10 },
        Self::Insert { chunk: 1000 },
        Self::CsvLine,
        Self::Csv { chunk: 1000, threads: 1 },
        Self::Csv { chunk: 1000, threads: 2 },
        Self::CsvIntoSqlite { chunk: 1000 },
        Self::Spring { chunk: 1000 },
        Self::Spring { chunk: 100 },
        Self::Spring { chunk: 10 },
        Self::SpringCsv { chunk: 1000 },
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::CopyLine => "line: COPY out | COPY in, commit every 1000".into(),
            Self::Copy { chunk } => format!("job: cursor -> COPY, chunk {chunk}"),
            Self::Insert { chunk } => format!("job: cursor -> insert, chunk {chunk}"),
            Self::CsvLine => "line: \\copy of 1000-row pieces".into(),
            Self::Csv { chunk, threads: 1 } => format!("job: CSV -> COPY, chunk {chunk}"),
            Self::Csv { chunk, threads } => format!("job: CSV -> COPY, chunk {chunk}, {threads} threads"),
            Self::CsvIntoSqlite { chunk } => format!("job: CSV -> SQLite, chunk {chunk}"),
            Self::Spring { chunk } => format!("Spring Batch: cursor -> batch, chunk {chunk}"),
            Self::SpringCsv { chunk } => format!("Spring Batch: CSV -> batch, chunk {chunk}"),
        }
    }

    /// The baseline, and the minimum share of its speed that the case must reach.
    pub(super) fn target(self) -> Option<(Self, f64)> {
        match self {
            Self::CopyLine | Self::CsvLine | Self::CsvIntoSqlite { .. } => None,
            Self::Spring { .. } | Self::SpringCsv { .. } => None,
            Self::Copy { chunk: 1000 } => Some((Self::CopyLine, 0.5)),
            Self::Copy { chunk: 10 } => Some((Self::CopyLine, 0.0)),
            Self::Copy { .. } => Some((Self::CopyLine, 0.25)),
            Self::Insert { .. } => Some((Self::CopyLine, 0.0)),
            Self::Csv { .. } => Some((Self::CsvLine, 0.6)),
        }
    }

    /// The same job in Spring Batch, and how many times its speed the case must reach.
    pub(super) fn spring(self) -> Option<(Self, f64)> {
        match self {
            Self::Copy { chunk } => Some((Self::Spring { chunk }, if chunk < 1000 { 3.0 } else { 2.5 })),
            Self::Csv { chunk, .. } => Some((Self::SpringCsv { chunk }, 4.0)),
            _ => None,
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Copy { .. } | Self::Insert { .. } | Self::Csv { .. } | Self::CsvIntoSqlite { .. }
        )
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) rows: u64,
    pub(super) seconds: f64,
    /// Peak resident memory of the process of a job.
    pub(super) resident_mb: Option<f64>,
    /// CPU time of the process of a job.
    pub(super) cpu_seconds: Option<f64>,
    /// CPU time of the server.
    #[serde(default)]
    pub(super) server_seconds: f64,
}

impl Measured {
    /// Of a baseline.
    pub(super) fn line(rows: u64, seconds: f64) -> Self {
        Self { rows, seconds, resident_mb: None, cpu_seconds: None, server_seconds: 0.0 }
    }

    pub(super) fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds
    }
}

/// The instructions for one of our processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) case: Case,
    pub(super) url: String,
    pub(super) csv: PathBuf,
    pub(super) rows: u64,
}

/// Tables and files.
pub(super) struct Stage {
    pub(super) url: String,
    pub(super) rows: u64,
    pub(super) csv: PathBuf,
    pub(super) pieces: Vec<PathBuf>,
}

impl Stage {
    /// Creates the source, the target and the file.
    pub(super) fn prepare(url: String, folder: &Path, rows: u64) -> Result<Self> {
        let csv = folder.join("source.csv");
        let mut stage = Self { url, rows, csv, pieces: Vec::new() };
        let columns = "id bigint primary key, account uuid not null, amount numeric(12,2) not null, \
                       currency char(3) not null, booked_at timestamptz not null, note text, is_open boolean not null";
        stage.psql(&format!(
            "drop table if exists source, target;
             create extension if not exists pg_stat_statements;
             create table source ({columns});
             create table target ({columns});
             insert into source
             select n, md5(n::text)::uuid, (n % 100000) / 100.0, 'EUR',
                    timestamptz '2026-01-01 00:00:00Z' + n * interval '1 second', 'payment number ' || n, n % 3 = 0
             from generate_series(1, {rows}) n;
             vacuum analyze source;"
        ))?;
        stage.psql(&format!("\\copy source to '{}' csv header", stage.csv.display()))?;
        stage.cut()?;
        Ok(stage)
    }

    /// Splits the file into pieces, for the baseline.
    fn cut(&mut self) -> Result<()> {
        let folder = self.csv.with_extension("pieces");
        std::fs::create_dir_all(&folder)?;
        let lines = BufReader::new(File::open(&self.csv)?).lines().skip(1);
        let mut piece: Option<BufWriter<File>> = None;
        for (number, line) in lines.enumerate() {
            if number % LINE_ROWS == 0 {
                let path = folder.join(format!("{}.csv", self.pieces.len()));
                piece = Some(BufWriter::new(File::create(&path)?));
                self.pieces.push(path);
            }
            writeln!(piece.as_mut().context("a piece was begun")?, "{}", line?)?;
        }
        Ok(())
    }

    pub(super) fn task(&self, case: Case) -> Task {
        let url = match case {
            Case::CsvIntoSqlite { .. } => format!("sqlite://{}", self.csv.with_extension("db").display()),
            _ => self.url.clone(),
        };
        Task { case, url, csv: self.csv.clone(), rows: self.rows_of(case) }
    }

    /// Small chunks take long, so that a tenth of the rows is enough.
    pub(super) fn rows_of(&self, case: Case) -> u64 {
        match case {
            Case::Copy { chunk: 10 } | Case::Spring { chunk: 10 } => self.rows / 10,
            _ => self.rows,
        }
    }

    /// The CPU time of the server so far, in seconds.
    pub(super) fn server_seconds(&self) -> Result<f64> {
        let folder = self.psql("show data_directory")?;
        let first = std::fs::read_to_string(Path::new(folder.trim()).join("postmaster.pid"))?;
        cpu::family_seconds(first.lines().next().context("a process id")?.trim().parse()?)
    }

    pub(super) fn empty_target(&self) -> Result<()> {
        self.psql("truncate target; checkpoint; select pg_stat_statements_reset()").map(drop)
    }

    /// Checks that no row is missing, duplicate or changed.
    pub(super) fn check_target(&self, case: Case) -> Result<()> {
        let rows = self.rows_of(case);
        let answer = self.psql(&format!(
            "select count(*), (select count(*) from (select * from source where id <= {rows} except table target) missing)
             from target",
        ))?;
        ensure!(answer.trim() == format!("{rows}|0"), "the target is not the source: {answer}");
        Ok(())
    }

    /// Statements on the job tables per chunk, as counted by the server in one run with 1000 rows per chunk. Leaves out
    /// statements that do not run for every chunk, such as the launch.
    pub(super) fn statements_per_chunk(&self) -> Result<f64> {
        super::measure(self, Case::Copy { chunk: 1000 })?;
        // The last chunk is not full. It is empty if the number of rows is a multiple of 1000.
        let chunks = self.rows / 1000 + 1;
        let calls = self.psql(&format!(
            "select coalesce(sum(calls), 0) from pg_stat_statements \
             where calls >= {chunks} / 2 \
               and (query ilike '%batch_%' or query ilike '%tidemill_%') \
               and query not ilike 'copy %'"
        ))?;
        Ok(calls.trim().parse::<f64>()? / chunks as f64)
    }

    /// Runs this SQL with `psql`, and returns the rows without decoration.
    pub(super) fn psql(&self, sql: &str) -> Result<String> {
        let mut command = Command::new("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().context("psql reads")?.write_all(sql.as_bytes())?;
        let ran = child.wait_with_output()?;
        ensure!(ran.status.success(), "psql failed");
        Ok(String::from_utf8(ran.stdout)?)
    }
}
