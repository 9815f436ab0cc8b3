//! Relays without a real sink, so that only the database is measured. Compares three designs: rows that are claimed and
//! marked, rows that the owner of their slot marks, and our relays, which never update rows. The designs alternate on one
//! server, so that other load on the machine affects all of them. Then measures them while an old snapshot keeps the server
//! from cleaning up, one late event among many that were read, and the cost of an idle relay.

mod case;
mod classic;
mod experiment;
mod idle;
mod line;
mod ours;
mod report;
mod stage;
mod window;

use crate::options::numbers;
use anyhow::{Result, ensure};
use case::{Case, Design, Measured};
use report::Report;
use stage::Stage;
use tidemill_testkit::{PostgresOptions, PrivatePostgres};

struct Options {
    events: u64,
    rounds: usize,
    retained: u64,
    idle_seconds: u64,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self> {
        let [events, rounds, retained, idle_seconds] = numbers(
            words,
            [("--events", 300_000), ("--rounds", 5), ("--retained", 1_000_000), ("--idle-seconds", 30)],
        )?;
        let options = Self { events, rounds: usize::try_from(rounds)?, retained, idle_seconds };
        ensure!((10_000..=900_000).contains(&options.events), "there are from 10000 to 900000 events");
        ensure!((1..=100).contains(&options.rounds), "there are from 1 to 100 rounds");
        ensure!(
            (10_000..=1_900_000).contains(&options.retained),
            "from 10000 to 1900000 events are retained"
        );
        ensure!((1..=600).contains(&options.idle_seconds), "a relay is watched from 1 to 600 seconds");
        Ok(options)
    }
}

/// Runs the benchmark and prints its tables and its JSON. Returns an error if a target is missed.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    if let ["--kafka", rest @ ..] = words {
        return experiment::run(rest);
    }
    let options = Options::parse(words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let postgres = server()?;
    let report = runtime.block_on(measure(&postgres, &options))?;
    print!("{}", report.table());
    println!("{}", report.json());
    let missed = report.missed();
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// The server for all measurements.
fn server() -> Result<PrivatePostgres> {
    let settings = [
        ("shared_buffers", "512MB"),
        // A checkpoint during a run would be counted for that run.
        ("max_wal_size", "2GB"),
        ("checkpoint_timeout", "1h"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Ok(PrivatePostgres::start(&PostgresOptions { standby: false, settings })?)
}

async fn measure(postgres: &PrivatePostgres, options: &Options) -> Result<Report> {
    let mut stage = Stage::prepare(postgres).await?;
    let mut report = Report::new(options.events, options.rounds);
    for case in Case::ONCE {
        report.add(case, one(&mut stage, case, options.events).await?);
    }
    for round in 0..options.rounds {
        let mut cases = Case::ROUND;
        cases.rotate_left(round % Case::ROUND.len());
        for case in cases {
            report.add(case, one(&mut stage, case, options.events).await?);
        }
        eprintln!("round {} of {}", round + 1, options.rounds);
    }
    report.late = Some(window::measure(&mut stage, options.retained).await?);
    report.idle = Some(idle::measure(&mut stage, options.idle_seconds).await?);
    Ok(report)
}

async fn one(stage: &mut Stage, case: Case, events: u64) -> Result<Measured> {
    let measured = match case.design {
        Design::Claim | Design::Flags => classic::run(stage, case, events).await?,
        Design::Ours => ours::run(stage, case, events).await?,
    };
    eprintln!("{}: {:.0} events/s", case.name(), measured.events_per_second());
    Ok(measured)
}
