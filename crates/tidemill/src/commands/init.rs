//! `tidemill init`: a folder with a commented configuration and a job that runs.

mod configuration;

use crate::output::write_stdout;
use crate::report::Failure;
use clap::Args;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tidemill_domain::code::{Code, Exit};

const JOB: &str = include_str!("init/payments.yaml");
const ROWS: &str = include_str!("init/payments.csv");

/// Write a commented configuration and an example job
#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Folder to write to; created if it does not exist
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Init) -> Result<Exit, Failure> {
    let folder = &arguments.folder;
    let configuration = configuration::text();
    let files =
        [("tidemill.toml", configuration.as_str()), ("jobs/payments.yaml", JOB), ("payments.csv", ROWS)];
    let mut options = OpenOptions::new();
    options.write(true);
    if arguments.force {
        options.create(true).truncate(true);
    } else {
        refuse_to_replace(folder, &files.map(|(name, _)| name))?;
        // Another program may create one of them after the check.
        options.create_new(true);
    }
    for (name, text) in files {
        let path = folder.join(name);
        write(&options, &path, text).map_err(|error| {
            let what = format!("cannot write {}", path.display());
            let fix = "choose a writable folder: `tidemill init FOLDER`";
            Failure::new(Code::OutputFailed, what, fix).because(&error.to_string())
        })?;
    }
    write_stdout(next_steps(folder, &files.map(|(name, _)| name)))
}

/// Lists all existing files at once, before anything is written.
fn refuse_to_replace(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    let exists = |name: &&&str| folder.join(name).symlink_metadata().is_ok();
    let existing: Vec<&str> = names.iter().filter(exists).copied().collect();
    if existing.is_empty() {
        return Ok(());
    }
    let what = format!("files already exist in {}: {}", folder.display(), existing.join(", "));
    let fix = "choose another folder, `tidemill init FOLDER`, or replace them with --force";
    Err(Failure::new(Code::FileInTheWay, what, fix).because("nothing was written"))
}

fn write(options: &OpenOptions, path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    options.open(path)?.write_all(text.as_bytes())
}

fn next_steps(folder: &Path, names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        let _infallible = writeln!(text, "wrote {}", folder.join(name).display());
    }
    text.push_str("\nNext:\n");
    if folder != Path::new(".") {
        let _infallible = writeln!(text, "  cd {}", quoted(&folder.display().to_string()));
    }
    text.push_str("  tidemill doctor\n  tidemill job run payments -p day=2026-11-15\n  tidemill serve\n");
    text
}

/// Quotes text for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_space_or_a_quote_is_one_word() {
        assert_eq!(quoted("batch/night-1"), "batch/night-1");
        assert_eq!(quoted("my batch"), "'my batch'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
