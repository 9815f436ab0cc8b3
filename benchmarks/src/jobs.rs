//! Chunk jobs against bare COPY and against Spring Batch: from PostgreSQL to PostgreSQL, and from a CSV file.
//!
//! Each of our runs is a separate process, so that its memory can be measured. The runs alternate, so that other load on
//! the machine affects all of them.

mod case;
mod cpu;
mod line;
mod program;
mod report;
mod spring;
mod verdict;
mod work;

use anyhow::{Context, Result, bail, ensure};
use case::{Case, Measured, Stage};
use report::{LONG, Report};
use std::process::Command;
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

struct Options {
    rows: u64,
    rounds: usize,
    is_long: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { rows: 1_000_000, rounds: 3, is_long: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--rows" => options.rows = words.next().context("--rows needs a number")?.parse()?,
                "--rounds" => options.rounds = words.next().context("--rounds needs a number")?.parse()?,
                "--long" => options.is_long = true,
                other => bail!("cannot understand {other:?}; there are --rows N, --rounds N and --long"),
            }
        }
        Ok(options)
    }
}

/// Runs the benchmark and prints its table and its JSON. Returns an error if a target is missed.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let settings = [
        ("shared_buffers", "512MB"),
        ("max_wal_size", "8GB"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let postgres = PrivatePostgres::start(&PostgresOptions { standby: false, settings })?;
    let folder = tempfile::tempdir()?;
    let stage = Stage::prepare(postgres.url("postgres"), folder.path(), options.rows)?;
    let mut report = Report::new(options.rows, options.rounds);
    for round in 1..=options.rounds {
        let is_possible = |case: &Case| {
            spring::home().is_some() || !matches!(case, Case::Spring { .. } | Case::SpringCsv { .. })
        };
        for case in Case::ALL.into_iter().filter(is_possible) {
            let measured = measure(&stage, case)?;
            eprintln!("round {round}: {} {:.0} rows/s", case.name(), measured.rows_per_second());
            report.add(case, measured);
        }
    }
    report.statements = stage.statements_per_chunk()?;
    for case in program::CASES {
        report.program.push((case, program::resident_mb(&stage, case)?));
    }
    if options.is_long {
        let long = Stage::prepare(postgres.url("postgres"), folder.path(), options.rows * 10)?;
        report.long = Some(measure(&long, LONG)?);
    }
    print!("{}", report.table());
    println!("{}", report.json());
    let missed = report.missed();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

fn measure(stage: &Stage, case: Case) -> Result<Measured> {
    stage.empty_target()?;
    let before = stage.server_seconds()?;
    let mut measured: Measured = match case {
        Case::CopyLine => line::copy(stage)?,
        Case::CsvLine => line::csv(stage)?,
        Case::Spring { chunk } | Case::SpringCsv { chunk } => spring::run(stage, case, chunk)?,
        Case::Copy { .. } | Case::Insert { .. } | Case::Csv { .. } | Case::CsvIntoSqlite { .. } => {
            let mut command = Command::new(std::env::current_exe()?);
            let ran = command.args(["jobs-child", &serde_json::to_string(&stage.task(case))?]).output()?;
            if !ran.status.success() {
                bail!("{} failed: {}", case.name(), String::from_utf8_lossy(&ran.stderr));
            }
            serde_json::from_slice(&ran.stdout)?
        }
    };
    measured.server_seconds = stage.server_seconds()? - before;
    if !matches!(case, Case::CsvIntoSqlite { .. }) {
        stage.check_target(case)?;
    }
    Ok(measured)
}

/// Runs our job once, in a separate process.
pub(crate) fn child(task: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measured = runtime.block_on(work::run(&serde_json::from_str(task)?))?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}
