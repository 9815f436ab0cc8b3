//! The development commands of Tidemill: `cargo xtask help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to its terminal")]

mod cache;
mod commands;
mod go;
mod jars;
mod kafka;
mod lambda;
mod memory;
mod nexrender;
mod process;
mod python;
mod report;
mod services;
mod spark;
mod stages;
mod summary;
mod supervise;
mod tool;

use std::env;
use std::process::ExitCode;

/// What `cargo xtask` exits with when it was not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        eprint!("{}", commands::help::TEXT);
        return ExitCode::from(USAGE);
    };
    match command.as_str() {
        "test" => {
            supervise::run_on(&arguments, memory::Memory::new, |cancel| commands::test::run(rest, cancel))
        }
        "ci" if rest.is_empty() => supervise::run(&arguments, commands::ci::run),
        "bench" => supervise::run(&arguments, |cancel| commands::bench::run(rest, cancel)),
        "chaos" => supervise::run(&arguments, |cancel| commands::chaos::run(rest, cancel)),
        "dist" => supervise::run(&arguments, |cancel| commands::dist::run(rest, cancel)),
        "size" if rest.is_empty() => commands::size::run(),
        "help" | "--help" | "-h" => commands::help::run(),
        _ => {
            eprintln!("xtask: cannot understand `{}`\n", arguments.join(" "));
            eprint!("{}", commands::help::TEXT);
            ExitCode::from(USAGE)
        }
    }
}
