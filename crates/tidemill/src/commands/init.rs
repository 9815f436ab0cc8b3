//! `tidemill init`: a folder with a commented configuration and a job that runs.

use crate::commands::prelude::*;
use crate::config::Kind;
use crate::config::key::{self, Key};
use crate::system;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const JOB: &str = include_str!("init/payments.yaml");
const ROWS: &str = include_str!("init/payments.csv");

#[derive(Args, Debug)]
pub(crate) struct Init {
    /// Folder to write to; created if it does not exist
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

pub(super) fn run(arguments: &Init) -> Result<Exit> {
    let folder = &arguments.folder;
    let configuration = configuration();
    let files =
        [("tidemill.toml", configuration.as_str()), ("jobs/payments.yaml", JOB), ("payments.csv", ROWS)];
    let fix = "choose another folder, `tidemill init FOLDER`, or replace them with --force";
    write_new(folder, &files, arguments.force, fix)?;
    write_stdout(next_steps(folder, &files.map(|(name, _)| name)))
}

/// Writes files. If one of them exists, `force` replaces it; otherwise nothing is written, and `fix` says what to do.
pub(super) fn write_new(folder: &Path, files: &[(&str, &str)], force: bool, fix: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        refuse_to_replace(folder, &names, fix)?;
        // Another program may create one of them after the check.
        options.create_new(true);
    }
    for (name, text) in files {
        let path = folder.join(name);
        write(&options, &path, text).map_err(|error| {
            let what = format!("cannot write {}", path.display());
            Failure::new(Code::OutputFailed, what, "choose a writable folder").because(error)
        })?;
    }
    Ok(())
}

/// Lists all existing files at once, before anything is written.
pub(super) fn refuse_to_replace(folder: &Path, names: &[&str], fix: &str) -> Result<()> {
    let exists = |name: &&&str| folder.join(name).symlink_metadata().is_ok();
    let existing: Vec<&str> = names.iter().filter(exists).copied().collect();
    if existing.is_empty() {
        return Ok(());
    }
    let what = format!("files already exist in {}: {}", folder.display(), existing.join(", "));
    Err(Failure::new(Code::FileInTheWay, what, fix).because("nothing was written"))
}

/// Only its owner can read a file whose name ends with `.secret`.
fn write(options: &OpenOptions, path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = options.clone();
    let is_secret = path.extension().is_some_and(|ending| ending == "secret");
    if is_secret {
        system::create_private(&mut options);
    }
    let mut file = options.open(path)?;
    if is_secret {
        // The mode holds only for a file that did not exist.
        system::make_private(&file)?;
    }
    file.write_all(text.as_bytes())
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

fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The only key that is set, so that the job beside the file is a job of this folder.
const SET: (&str, &str) = ("jobs.folder", "jobs");

const HEAD: &str = "\
# Tidemill reads this configuration in every command that you run in this folder.
#
# Every key is here with its default, commented out: remove the # to set it. Environment variables such as
# TIDEMILL_DATABASE_URL override this file, and flags override both. Set secrets in the environment, or in a file that
# the environment names, never here.
#
#   tidemill config check            report the mistakes in this file
#   tidemill config show --origin    show every value and where it comes from
";

/// The configuration: every key with its description, and all defaults commented out. It is generated from the
/// declarations of the keys, so that no key is missing and none is wrong.
fn configuration() -> String {
    let mut text = HEAD.to_owned();
    // Keys that belong to no table have to come before all tables.
    let (in_tables, alone): (Vec<&Key>, Vec<&Key>) = key::all().partition(|key| key.path.contains('.'));
    for key in alone {
        entry(&mut text, key);
    }
    let mut table = "";
    for key in in_tables {
        let of_key = key.path.rsplit_once('.').map_or("", |(table, _)| table);
        if of_key != table {
            table = of_key;
            let _infallible = writeln!(text, "\n[{table}]");
        }
        entry(&mut text, key);
    }
    text
}

fn entry(text: &mut String, key: &Key) {
    let leaf = key.leaf();
    let _infallible = writeln!(text, "\n# {}", key.doc);
    if key.kind == Kind::Secret {
        let file = key.env_file_name().unwrap_or_default();
        let _infallible = writeln!(text, "# A secret: set {} or {file}.", key.env_name());
        return;
    }
    let allowed = key.kind.allowed();
    let mut letters = allowed.chars();
    let allowed: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    let _infallible = writeln!(text, "# {allowed}.");
    let _infallible = match (key.default, key.path == SET.0) {
        (_, true) => writeln!(text, "{leaf} = {:?}", SET.1),
        (Some(default), _) => writeln!(text, "#{leaf} = {}", value(key.kind, default)),
        (None, _) => writeln!(text, "#{leaf} ="),
    };
}

fn value(kind: Kind, default: &str) -> String {
    match kind {
        Kind::Number(..) | Kind::Decimal | Kind::Truth => default.to_owned(),
        _ => format!("{default:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Origin, Sources, load};

    #[test]
    fn a_folder_with_a_space_or_a_quote_is_one_word() {
        assert_eq!(quoted("batch/night-1"), "batch/night-1");
        assert_eq!(quoted("my batch"), "'my batch'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn every_key_is_in_the_file_once() {
        let text = configuration();

        for key in key::all() {
            assert_eq!(text.matches(&format!("# {}\n", key.doc)).count(), 1, "{}", key.path);
        }
    }

    #[test]
    fn every_default_can_be_uncommented_and_says_what_holds_anyway() {
        let uncommented: String = configuration()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if !rest.starts_with(' ') && !rest.ends_with('=') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tidemill.toml"), uncommented).unwrap();

        let loaded = load(&Sources {
            flags: Vec::new(),
            environment: Vec::new(),
            config_file: None,
            working_folder: folder.path().to_owned(),
            user_folder: None,
            system_file: "/nowhere/tidemill.toml".into(),
        })
        .unwrap();

        for value in loaded.values.iter().filter(|value| value.key.default.is_some()) {
            assert_ne!(value.origin, Origin::Default, "{} is missing", value.key.path);
            assert_eq!(Some(value.shown.as_str()), value.key.default, "{}", value.key.path);
        }
    }
}
