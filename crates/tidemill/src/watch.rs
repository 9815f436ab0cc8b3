//! `--watch`: repeats a command that shows something, until Ctrl-C.

use crate::commands::{self, Command};
use crate::context::Context;
use crate::output::clear_before_output;
use crate::report::{Failure, Result};
use clap::{Arg, ArgMatches, value_parser};
use std::io::{IsTerminal, stdout};
use std::pin::pin;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};

/// Whether a command has `--watch`: those that only read, and end at once.
fn is_watched(name: &str) -> bool {
    matches!(name, "attached" | "events" | "executions" | "failed" | "holders" | "list" | "queue" | "relays")
        || matches!(name, "show" | "stats" | "status" | "ticks" | "why" | "workers")
}

/// Adds `--watch` to the commands that have it.
pub(crate) fn add(command: clap::Command) -> clap::Command {
    if command.has_subcommands() {
        return command.mut_subcommands(add);
    }
    if !is_watched(command.get_name()) {
        return command;
    }
    let flag = Arg::new("watch").long("watch").value_name("SECONDS").help_heading("Output options");
    // Without the `=`, the id in `executions --watch 7` would be taken for the seconds.
    let flag = flag.num_args(0..=1).require_equals(true).default_missing_value("2");
    let flag = flag.value_parser(value_parser!(u64).range(1..=3600));
    command.arg(flag.help("Repeat every 2 seconds, or every SECONDS, until Ctrl-C; needs a terminal"))
}

pub(crate) fn interval(matches: &ArgMatches) -> Option<Duration> {
    match matches.subcommand() {
        Some((_, inner)) => interval(inner),
        None => matches.try_get_one("watch").ok().flatten().copied().map(Duration::from_secs),
    }
}

/// `command` makes the command anew for each round.
pub(crate) async fn run(
    every: Duration,
    command: impl Fn() -> Result<Command>,
    context: &Context,
) -> Result<u8> {
    if !stdout().is_terminal() {
        let fix = "leave out --watch, or repeat the command in a loop of your shell";
        return Err(Failure::new(Code::Usage, "--watch needs a terminal", fix));
    }
    let mut stop = pin!(tokio::signal::ctrl_c());
    loop {
        clear_before_output();
        tokio::select! {
            ended = commands::run(command()?, context) => ended?,
            _ = &mut stop => return Ok(Exit::Ok.number()),
        };
        // Each round opens its own connections.
        context.close().await;
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = &mut stop => return Ok(Exit::Ok.number()),
        }
    }
}
