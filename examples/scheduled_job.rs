//! A job that runs every night at 02:00, for the previous day.
//!
//! ```text
//! cargo run --example scheduled_job               # simulates three nights; the server is down for one of them
//! cargo run --example scheduled_job -- serve      # waits for two o'clock in Seoul
//! ```
//!
//! The simulation uses a database in memory and a test clock. You can test your own schedules in the same way.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it does")]

use std::process::ExitCode;
use std::time::Duration;
use tidemill::job::JobError;
use tidemill::prelude::*;
use tidemill::testing::JobBench;

fn job() -> Job {
    let write = Step::tasklet("write", |scope| async move {
        println!("  report for {}", scope.step().text("day")?);
        Ok(())
    });
    Job::new("report").required_date("day").step(write)
}

fn schedule() -> Schedule {
    Schedule::new("nightly", "report")
        .cron("0 2 * * *")
        .zone("Asia/Seoul")
        // A tick that did not fire within a minute is only recorded. `latest` or `all 7` would run it later.
        .missed(MissedRuns::Skip)
        .parameter("day", "${tick.date-1d}")
}

/// Simulates three nights in a second.
async fn rehearse() -> Result<(), JobError> {
    let bench = JobBench::new().await?;
    let launcher = bench.launcher(&job())?;
    // It is 11:00 in Seoul.
    bench.define(&launcher, [schedule()]).await?;
    for (night, hours) in [("first night", 15), ("third night, the server slept through the second", 48)] {
        bench.clock().advance(Duration::from_secs(hours * 3600));
        println!("{night}");
        bench.fire_due(&launcher).await?;
    }
    println!("what became of the ticks");
    for tick in bench.ticks("nightly").await? {
        println!("  {} {} {}", tick.tick, tick.outcome, tick.reason.unwrap_or_default());
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::args().len() > 1 {
        return App::new().job(job()).schedule(schedule()).run();
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    match runtime.block_on(rehearse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
