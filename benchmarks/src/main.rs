//! Benchmarks. `cargo xtask bench NAME` builds this in release mode and runs it.
//!
//! Absolute figures depend on the machine. The targets are ratios between cases that are measured together.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

mod database;
mod history;
mod jobs;
mod lists;
mod options;
mod outbox;
mod pools;
mod renders;

use anyhow::{Result, bail};

/// The same allocator as in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["jobs", rest @ ..] => jobs::run(rest),
        ["jobs-child", case] => jobs::child(case),
        ["history", rest @ ..] => history::run(rest),
        ["lists", rest @ ..] => lists::run(rest),
        ["pools", rest @ ..] => pools::run(rest),
        ["outbox", rest @ ..] => outbox::run(rest),
        ["renders", rest @ ..] => renders::run(rest),
        _ => bail!(
            "usage: tidemill-bench jobs [--rows N] [--rounds N] [--long] | history [--executions N] [--rounds N] | \
             lists [--executions N] [--leases N] [--events N] [--rounds N] | \
             pools [--seconds N] [--clients N] [--leases N] [--pools N] | \
             outbox [--events N] [--rounds N] [--retained N] [--idle-seconds N] | \
             outbox --kafka [--events N] [--many N] [--rounds N] [--seconds N] | \
             renders [--workers N] [--renders N] [--pickups N]"
        ),
    }
}
