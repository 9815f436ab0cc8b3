//! A database, and the program that is run on it.

use super::Limits;
use super::ledger::{self, Entry};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_testkit::{Guarded, PrivatePostgres};

/// How long the word of a process that copies counts: so short that its death is soon found.
pub(super) const LEASE: Duration = Duration::from_secs(1);

/// What the process that was started last has said.
const LOG: &str = "copy.log";

/// Which database.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Sqlite,
    Postgres(&'a Mutex<PrivatePostgres>),
}

impl Place<'_> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// The address of an empty database.
    fn fresh(self, folder: &TempDir, round: u32) -> Result<String, String> {
        match self {
            Self::Sqlite => Ok(format!("sqlite://{}/chaos.db", folder.path().display())),
            Self::Postgres(server) => {
                let server = server.lock().unwrap_or_else(PoisonError::into_inner);
                let name = format!("chaos_{round}");
                let made = server.psql("postgres", &format!("create database {name}"));
                made.map(|_| server.url(&name)).map_err(|error| format!("no database: {error:?}"))
            }
        }
    }
}

/// The example program.
#[derive(Debug)]
pub(super) struct Program(PathBuf);

impl Program {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn command(&self, url: &str, folder: &TempDir, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(arguments).current_dir(folder).stdin(Stdio::null());
        // The caller's own settings must not decide what is tried here.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TIDEMILL_") {
                command.env_remove(name);
            }
        }
        command.env("TIDEMILL_DATABASE_URL", url).env("TIDEMILL_DATABASE_INIT", "always");
        command
    }
}

/// A database and the program on it.
pub(super) struct Stand<'a> {
    program: &'a Program,
    folder: TempDir,
    url: String,
    limits: Limits<'a>,
}

impl<'a> Stand<'a> {
    /// An empty database.
    pub(super) fn new(
        place: Place<'_>,
        round: u32,
        program: &'a Program,
        limits: Limits<'a>,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no folder for a round: {error}"))?;
        let url = place.fresh(&folder, round)?;
        Ok(Self { program, folder, url, limits })
    }

    /// Refuses to go on when it has taken too long, or nobody wants it any more.
    pub(super) fn check(&self) -> Result<(), String> {
        self.limits.check()
    }

    /// What the process that was started last has said.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default()
    }

    /// The executions of the copy, with what their steps have counted.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, String> {
        let listed = self.output(&["executions", "--job", "copy", "--limit", "10000", "-o", "csv"])?;
        let ids = ledger::column(&listed, "id")?;
        let statuses = ledger::column(&listed, "status")?;
        let entry = |(id, status): (String, String)| {
            let steps = self.output(&["executions", &id, "-o", "csv"])?;
            let sum = |name| {
                let counts = ledger::column(&steps, name)?.into_iter().map(|count| count.parse::<u64>());
                counts.sum::<Result<u64, _>>().map_err(|error| format!("{steps:?}: {error}"))
            };
            Ok(Entry { written: sum("write")?, skipped: sum("write_skip")?, id, status })
        };
        ids.into_iter().zip(statuses).map(entry).collect()
    }

    /// The status of the newest execution of the copy.
    pub(super) fn newest_status(&self) -> Result<Option<String>, String> {
        let listed = self.output(&["executions", "--job", "copy", "--limit", "1", "-o", "csv"])?;
        Ok(ledger::column(&listed, "status")?.into_iter().next())
    }

    /// How many rows a step of an execution has counted as written.
    pub(super) fn written(&self, execution: &str, step: &str) -> Result<u64, String> {
        let steps = self.output(&["executions", execution, "-o", "csv"])?;
        let (names, counts) = (ledger::column(&steps, "step")?, ledger::column(&steps, "write")?);
        let found = names.iter().zip(counts).find(|(name, _)| *name == step);
        found
            .and_then(|(_, count)| count.parse().ok())
            .ok_or_else(|| format!("there is no step {step}: {steps}"))
    }

    /// Starts the program in the background.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Guarded, String> {
        let cannot = |error| format!("cannot run the copy: {error}");
        let mut command = self.program.command(&self.url, &self.folder, arguments);
        command.env("TIDEMILL_PROCESS_LEASE", format!("{}s", LEASE.as_secs()));
        let log = fs::File::create(self.folder.path().join(LOG)).map_err(cannot)?;
        command.stdout(Stdio::null()).stderr(log);
        Guarded::spawn(command).map_err(cannot)
    }

    /// Runs a command that has to succeed, and returns what it says.
    fn output(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.program.command(&self.url, &self.folder, arguments).output();
        let output = output.map_err(|error| format!("cannot run the copy: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` ended with {}: {said}", arguments.join(" "), output.status));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(super) fn succeed(&self, arguments: &[&str]) -> Result<(), String> {
        self.output(arguments).map(drop)
    }
}
