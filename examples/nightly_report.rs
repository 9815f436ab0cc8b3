//! A nightly report. SQL collects the data, and your script writes the report. The exit code of the script decides which
//! step runs next.
//!
//! ```text
//! printf '#!/bin/sh\necho "report of $1" > report.txt\n' > report.sh; chmod +x report.sh
//! cargo run --example nightly_report -- job run nightly -p date=2026-11-15,date
//! ```
//!
//! If the script exits with code 3, there is nothing to report, and the job completes without the last step.

use std::process::ExitCode;
use std::time::Duration;
use tidemill::prelude::*;

/// Creates the table and inserts a row, in one transaction.
fn collect() -> Step {
    Step::sql("collect", |scope| {
        Ok(SqlStatements::new([
            SqlQuery::new("create table if not exists report (day text primary key, state text not null)"),
            SqlQuery::new("insert into report (day, state) values ($1, 'collected')")
                .bind(scope.text("date")?),
        ]))
    })
}

/// Runs the script. It gets the date as its argument, and all parameters as environment variables.
fn report() -> Step {
    Step::command("report", |scope| {
        Ok(CommandSpec::new("./report.sh")
            .arg(scope.text("date")?)
            .timeout(Duration::from_secs(3600))
            .exit_code(3, CommandExit::completed("NO_DATA"))
            .log_file("report.log"))
    })
}

fn publish() -> Step {
    Step::sql("publish", |scope| {
        let update = SqlQuery::new("update report set state = 'published' where day = $1");
        Ok(SqlStatements::new([update.bind(scope.text("date")?)]))
    })
}

fn main() -> ExitCode {
    let nightly = Job::new("nightly")
        .step(collect())
        .step(report())
        .step(publish())
        .on("report", "NO_DATA", Target::End(Some("NOTHING_TO_REPORT".into())))
        .on("report", "COMPLETED", Target::Next)
        .on("report", "*", Target::Fail);
    App::new().job(nightly).run()
}
