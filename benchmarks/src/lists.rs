//! Measures the time to the first byte of each list. The real program serves a database with a long history, and the
//! benchmark sends the requests of a browser and a script.

mod fill;
mod served;

use crate::database::{psql, roomy_postgres, tidy};
use crate::options::numbers;
use anyhow::{Result, ensure};
use fill::fill;
use served::Served;
use std::fmt::Write as _;
use std::time::Duration;
use tidemill_store::{Init, Store};

/// The requested pages and lists. The execution and the pages "before" are in the middle of the history.
const LISTS: [&str; 24] = [
    "/",
    "/jobs",
    "/jobs/load_3",
    "/jobs/load_3?status=FAILED",
    "/executions/{middle}",
    "/pools",
    "/outbox",
    "/outbox/failed",
    "/render",
    "/render/workers",
    "/alerts",
    "/settings",
    "/settings/audit",
    "/api/v1/processes",
    "/api/v1/leases",
    "/api/v1/audit",
    "/api/v1/jobs",
    "/api/v1/jobs/load_3/instances",
    "/api/v1/executions",
    "/api/v1/executions?job=load_3",
    "/api/v1/executions?status=FAILED",
    "/api/v1/outbox/events",
    "/api/v1/outbox/stats",
    "/api/v1/renders",
];

pub(super) struct Options {
    pub(super) executions: u64,
    pub(super) leases: u64,
    pub(super) events: u64,
    rounds: u64,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let defaults =
            [("--executions", 1_000_000), ("--leases", 100_000), ("--events", 1_000_000), ("--rounds", 11)];
        let [executions, leases, events, rounds] = numbers(words, defaults)?;
        ensure!((1_000..=10_000_000).contains(&executions), "there are from 1000 to 10000000 executions");
        ensure!(leases <= 10_000_000 && events <= 10_000_000, "there are at most 10000000 leases and events");
        ensure!((1..=1_000).contains(&rounds), "there are from 1 to 1000 rounds");
        Ok(Self { executions, leases, events, rounds })
    }
}

/// Runs the benchmark and prints its tables. It checks that every request succeeds, but not the absolute times.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let postgres = roomy_postgres()?;
    psql(&postgres.url("postgres"), &["create database lists"])?;
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite://{}", folder.path().join("lists.db").display());
    for (name, url) in [("PostgreSQL", postgres.url("lists")), ("SQLite", file)] {
        runtime.block_on(prepare(&url, &options))?;
        tidy(&url)?;
        eprintln!("{name}: filled");
        let served = Served::start(&url, folder.path())?;
        let title = format!(
            "{name}, {} executions, {} leases, {} events",
            options.executions, options.leases, options.events
        );
        println!("{}", table(&title, &measure(&served, &options)?));
    }
    Ok(())
}

async fn prepare(url: &str, options: &Options) -> Result<()> {
    let store = Store::open(url.parse()?, &Default::default()).await?;
    store.initialise(Init::Always).await?;
    let mut tx = store.begin().await?;
    fill(&mut tx, options, url.starts_with("sqlite")).await?;
    tx.commit().await?;
    store.close().await;
    Ok(())
}

struct Line {
    path: String,
    median: Duration,
    worst: Duration,
}

fn measure(served: &Served, options: &Options) -> Result<Vec<Line>> {
    let middle = (options.executions / 2).to_string();
    let mut lines = Vec::new();
    for path in LISTS {
        let path = path.replace("{middle}", &middle);
        served.first_byte(&path)?;
        let mut took = Vec::new();
        for _ in 0..options.rounds {
            took.push(served.first_byte(&path)?);
        }
        took.sort();
        let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
        eprintln!("{path}: {} ms", median.as_millis());
        lines.push(Line { path, median, worst });
    }
    Ok(lines)
}

fn table(title: &str, lines: &[Line]) -> String {
    let mut text =
        format!("\n{title}: milliseconds to the first byte\n\n{:<44}{:>10}{:>10}\n", "", "median", "worst");
    for Line { path, median, worst } in lines {
        let (median, worst) = (median.as_secs_f64() * 1000.0, worst.as_secs_f64() * 1000.0);
        let _infallible = writeln!(text, "{path:<44}{median:>10.1}{worst:>10.1}");
    }
    text
}
