//! What is done with jobs all day long, on a short history and on a long one. It has to stay flat: the figures of the
//! long history are compared with those of the short one, on the same database in the same run.

mod deed;
mod report;

use anyhow::{Context, Result, bail, ensure};
use deed::{Deed, Stage};
use report::Report;
use std::process::Command;
use tidemill_store::Store;
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

/// Executions of the short history.
const SHORT: u64 = 10_000;

struct Options {
    executions: u64,
    rounds: usize,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { executions: 1_000_000, rounds: 31 };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number =
                || words.next().context("a number is missing")?.parse::<u64>().context("not a number");
            match *word {
                "--executions" => options.executions = number()?,
                "--rounds" => options.rounds = usize::try_from(number()?)?,
                other => bail!("cannot understand {other:?}; there are --executions N and --rounds N"),
            }
        }
        ensure!(options.executions >= SHORT, "a long history has at least {SHORT} executions");
        ensure!(options.rounds > 0, "without a round there is nothing to see");
        Ok(options)
    }
}

/// Runs the benchmark and prints its tables and its JSON; an error when something is not flat.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let settings = [("shared_buffers", "512MB"), ("max_wal_size", "8GB")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let postgres = PrivatePostgres::start(&PostgresOptions { standby: false, settings })?;
    let folder = tempfile::tempdir()?;
    let file = format!("sqlite://{}", folder.path().join("history.db").display());
    let mut missed = Vec::new();
    for (name, url) in [("PostgreSQL", postgres.url("postgres")), ("SQLite", file)] {
        let report = runtime.block_on(measure(name, &url, &options))?;
        print!("{}", report.table());
        println!("{}", report.json());
        missed.extend(report.missed().into_iter().map(|deed| format!("{deed} on {name}")));
    }
    ensure!(missed.is_empty(), "not flat: {}", missed.join("; "));
    Ok(())
}

async fn measure(name: &'static str, url: &str, options: &Options) -> Result<Report> {
    let store = Store::open(url.parse()?, &Default::default()).await?;
    store.initialise(tidemill_store::Init::Always).await?;
    let mut report = Report::new(name, SHORT, options.executions);
    let mut stage = Stage::new(store.clone()).await?;
    for executions in [SHORT, options.executions] {
        stage.fill(executions).await?;
        tidy(url)?;
        eprintln!("{name}: {executions} executions are there");
        for deed in Deed::ALL {
            let measured = stage.median(deed, options.rounds).await?;
            eprintln!("{name}: {} {measured:.2} ms", deed.name());
            report.add(deed, measured);
        }
    }
    stage.close().await?;
    store.close().await;
    Ok(report)
}

/// What PostgreSQL does by itself after a while. SQLite has nothing of the sort.
fn tidy(url: &str) -> Result<()> {
    if url.starts_with("sqlite") {
        return Ok(());
    }
    let vacuum = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "vacuum analyze", "-c", "checkpoint", "-d", url];
    ensure!(Command::new("psql").args(vacuum).status()?.success(), "psql failed");
    Ok(())
}
