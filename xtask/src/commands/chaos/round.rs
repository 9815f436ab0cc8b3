//! One round: a copy on an empty database, killed at random times until it is complete, and then looked at.

use super::Limits;
use super::ledger::{self, Entry, Wanted};
use crate::stages::now;
use fastrand::Rng;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, fs, thread};
use tempfile::TempDir;
use tidemill_testkit::{Guarded, PrivatePostgres, Signal};

/// How long the word of a process that copies counts.
const LEASE: Duration = Duration::from_secs(1);

/// How much later than that a dead process must have been found.
const GRACE: Duration = Duration::from_secs(5);

/// A process is killed at some time before it is so old. Starting takes about a tenth of it.
const AGE_MILLIS_MAX: u64 = 900;

/// About so many rows are refused by the target: the chunk around each is written row by row, and killed there, too.
/// It divides neither rows nor chunks, so that they are at different places of their chunks.
const REFUSED: u64 = 11;

/// A run that nobody kills must have ended within this.
const UNDISTURBED: Duration = Duration::from_secs(300);

/// What a process ends with when the job still counts as running, or when it no longer counts itself.
const CONFLICT: i32 = 5;
const STILL_RUNNING: &str = "error[TM1003]";
const LEASE_LOST: &str = "error[TM030";

/// What the last copy has said.
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

/// What was dealt, and what came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dealt {
    pub(super) kills: u32,
    /// Executions that did not come to their end; the other kills came before they had begun.
    hits: u32,
    /// Processes that gave themselves up.
    lost: u32,
    rows: u64,
    /// When the last process was gone.
    gone: Option<Instant>,
}

impl Dealt {
    pub(super) fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.hits += other.hits;
        self.rows += other.rows;
        self.lost += other.lost;
    }
}

impl fmt::Display for Dealt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, hits, lost, rows, .. } = self;
        write!(f, "{kills} kills and {lost} lost leases, {hits} executions cut short, {rows} rows")
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
struct Stand<'a> {
    program: &'a Program,
    folder: TempDir,
    url: String,
    limits: Limits<'a>,
}

/// Plays one round, with at most so many kills.
pub(super) fn play(
    place: Place<'_>,
    round: u32,
    program: &Program,
    kills: u32,
    rows: u64,
    chance: &mut Rng,
    limits: Limits<'_>,
) -> Result<Dealt, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder for a round: {error}"))?;
    let url = place.fresh(&folder, round)?;
    let stand = Stand { program, folder, url, limits };
    let every = (rows / REFUSED).max(1);
    let refused = format!("refused={every}");
    stand.succeed(&["job", "run", "prepare", "-p", &format!("rows={rows}"), "-p", &refused])?;
    let mut dealt = Dealt { rows, ..Dealt::default() };
    let mut is_complete = false;
    while dealt.kills < kills && !is_complete {
        is_complete = stand.kill_one(chance, &mut dealt)?;
    }
    if !is_complete {
        stand.finish(&mut dealt)?;
    }
    stand.succeed(&["job", "run", "verify"])?;
    let entries = stand.entries()?;
    dealt.hits = entries.iter().map(|entry| u32::from(entry.status == "FAILED")).sum();
    let faults = ledger::faults(&entries, Wanted { rows, refused: rows / every });
    if faults.is_empty() { Ok(dealt) } else { Err(faults.join("; ")) }
}

impl Stand<'_> {
    /// Runs the copy and kills it at some time; true when it was complete before that.
    fn kill_one(&self, chance: &mut Rng, dealt: &mut Dealt) -> Result<bool, String> {
        let age = Duration::from_millis(chance.u64(..AGE_MILLIS_MAX));
        let mut child = self.start_copy()?;
        if let Some(ended) = child.wait_deadline(age) {
            return self.ended_by_itself(ended, dealt);
        }
        // Fails only when it has ended in this very moment.
        dealt.kills += u32::from(child.signal(Signal::KILL).is_ok());
        let _reaped = child.wait_deadline(GRACE);
        dealt.gone = Some(now());
        // Nobody can go on before that.
        thread::sleep(LEASE);
        Ok(false)
    }

    /// Whether a copy that nobody killed is complete; an error when it should not have ended.
    fn ended_by_itself(&self, ended: ExitStatus, dealt: &mut Dealt) -> Result<bool, String> {
        self.limits.check()?;
        let said = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        match ended.code() {
            Some(0) => Ok(true),
            Some(CONFLICT) if said.contains(STILL_RUNNING) => {
                let gone = dealt.gone.map_or(Duration::ZERO, |gone| now().duration_since(gone));
                if gone > LEASE + GRACE {
                    return Err(format!("a dead process was not found within {gone:?}"));
                }
                thread::sleep(LEASE / 10);
                Ok(false)
            }
            // The machine was too slow for so short a lease. It is a death like any other.
            Some(CONFLICT) if said.contains(LEASE_LOST) => {
                dealt.gone = Some(now());
                dealt.lost += 1;
                Ok(false)
            }
            _ => Err(format!("the copy ended by itself ({ended}): {said}")),
        }
    }

    /// Lets the copy come to its end.
    fn finish(&self, dealt: &mut Dealt) -> Result<(), String> {
        loop {
            let mut child = self.start_copy()?;
            let ended = child.wait_deadline(UNDISTURBED).ok_or("the copy does not come to its end")?;
            if self.ended_by_itself(ended, dealt)? {
                return Ok(());
            }
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, String> {
        let listed = self.output(&["executions", "--job", "copy", "--limit", "10000", "-o", "csv"])?;
        let ids = ledger::column(&listed, "execution")?;
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

    /// Starts the copy, with so short a lease that its death is soon found.
    fn start_copy(&self) -> Result<Guarded, String> {
        let cannot = |error| format!("cannot run the copy: {error}");
        let mut command = self.program.command(&self.url, &self.folder, &["job", "run", "copy"]);
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

    fn succeed(&self, arguments: &[&str]) -> Result<(), String> {
        self.output(arguments).map(drop)
    }
}
