//! Measures frequent job operations on a short history and on a long one, in two databases. The times must not grow with
//! the history. The rounds alternate between the databases, so that other load on the machine affects both.

mod deed;
mod report;

use crate::database::{psql, roomy_postgres, tidy};
use crate::options::numbers;
use anyhow::{Result, ensure};
use deed::{Deed, Stage};
use report::Report;
use std::time::Duration;
use tidemill_store::Store;

/// Executions of the short history.
const SHORT: u64 = 10_000;

struct Options {
    executions: u64,
    rounds: usize,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let [executions, rounds] = numbers(words, [("--executions", 1_000_000), ("--rounds", 31)])?;
        let options = Self { executions, rounds: usize::try_from(rounds)? };
        ensure!(options.executions >= SHORT, "a long history has at least {SHORT} executions");
        ensure!(options.rounds > 0, "without a round there is nothing to see");
        Ok(options)
    }
}

/// Runs the benchmark and prints its tables and its JSON. Returns an error if a time grows with the history.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let postgres = roomy_postgres()?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    psql(&postgres.url("postgres"), &["create database short", "create database long"])?;
    let mut missed = Vec::new();
    for (name, short, long) in [
        ("PostgreSQL", postgres.url("short"), postgres.url("long")),
        ("SQLite", file("short.db"), file("long.db")),
    ] {
        let report = runtime.block_on(measure(name, &short, &long, &options))?;
        print!("{}", report.table());
        println!("{}", report.json());
        missed.extend(report.missed().into_iter().map(|deed| format!("{deed} on {name}")));
    }
    ensure!(missed.is_empty(), "not flat: {}", missed.join("; "));
    Ok(())
}

async fn measure(name: &'static str, short: &str, long: &str, options: &Options) -> Result<Report> {
    let mut short = open(name, short, SHORT).await?;
    let mut long = open(name, long, options.executions).await?;
    let mut report = Report::new(name, SHORT, options.executions);
    for deed in Deed::ALL {
        let (mut in_short, mut in_long) = (Vec::new(), Vec::new());
        // The first round is a warm-up and is not counted.
        for round in 0..=options.rounds {
            let took = (short.round(deed).await?, long.round(deed).await?);
            if round > 0 {
                in_short.push(took.0);
                in_long.push(took.1);
            }
        }
        report.add(deed, median(in_short), median(in_long));
        eprintln!("{name}: {}", deed.name());
    }
    short.close().await?;
    long.close().await?;
    Ok(report)
}

async fn open(name: &str, url: &str, executions: u64) -> Result<Stage> {
    let store = Store::open(url.parse()?, &Default::default()).await?;
    store.initialise(tidemill_store::Init::Always).await?;
    let stage = Stage::fill(store, executions).await?;
    tidy(url)?;
    eprintln!("{name}: {executions} executions are there");
    Ok(stage)
}

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1000.0
}
