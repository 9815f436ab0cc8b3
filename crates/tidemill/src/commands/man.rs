//! `tidemill man` and `tidemill completions`.

use crate::app;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use tidemill_domain::code::{Code, Exit};

/// Print or write manual pages
#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// Write a page for every command to this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Manual) -> Result<Exit, Failure> {
    match &arguments.out {
        Some(folder) => write_all(folder)?,
        None => {
            let mut page = Vec::new();
            Man::new(command_line()).render(&mut page).map_err(|error| Failure::output(&error))?;
            write_stdout(&page)?;
        }
    }
    Ok(Exit::Ok)
}

/// Without `help`, which has no page.
fn command_line() -> clap::Command {
    app::command_line().disable_help_subcommand(true)
}

fn write_all(folder: &Path) -> Result<(), Failure> {
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command_line(), folder));
    written.map_err(|error| {
        let what = format!("cannot write the manual pages to {}", folder.display());
        let fix = "choose a writable folder with space for a hundred files";
        Failure::new(Code::OutputFailed, what, fix).because(&error.to_string())
    })
}

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Name of the shell
    shell: Shell,
}

pub(super) fn completions(arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut app::command_line(), "tidemill", &mut script);
    write_stdout(&script)
}
