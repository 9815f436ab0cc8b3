//! `tidemill completions`: a completion script for a shell.

use crate::app;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::Args;
use clap_complete::Shell;
use tidemill_domain::code::Exit;

/// A completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

pub(super) fn run(arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut app::command_line(), "tidemill", &mut script);
    write_stdout(&script)
}
