//! `tidemill man` and `tidemill completions`.

use crate::app;
use crate::commands::prelude::*;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Manual {
    /// Write a page for every command to this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Manual) -> Result<Exit> {
    // Without `help`, which has no page.
    let commands = app::command_line().disable_help_subcommand(true);
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        Man::new(commands).render(&mut page).map_err(|error| Failure::output(&error))?;
        return write_stdout(&page);
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(commands, folder));
    written.map(|()| Exit::Ok).map_err(|error| {
        let what = format!("cannot write the manual pages to {}", folder.display());
        let fix = "choose a writable folder with space for a hundred files";
        Failure::new(Code::OutputFailed, what, fix).because(error)
    })
}

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Name of the shell
    shell: Shell,
}

pub(super) fn completions(arguments: &Completions) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut app::command_line(), "tidemill", &mut script);
    write_stdout(&script)
}
