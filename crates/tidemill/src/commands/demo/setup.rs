//! How the processes of the demo are started: as this program again, knowing nothing of the reader's own configuration.

use crate::config::LogLevel;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Short, so that nobody has to wait for long: a relay that loses it to a busy machine joins anew.
const RELAY_LEASE: &str = "2s";

/// A relay ends with its process, and nobody starts another one before all is verified. So this one is not lost so soon.
const RELAY_PROCESS_LEASE: &str = "10s";

/// What the processes of the demo have in common.
pub(super) struct Setup {
    pub(super) url: String,
    pub(super) folder: PathBuf,
    pub(super) workers: usize,
    pub(super) things: u32,
    pub(super) lease: Duration,
    pub(super) log_level: LogLevel,
}

impl Setup {
    /// This program again, as another process that knows nothing of the reader's own configuration.
    pub(super) fn command(&self) -> std::io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["TIDEMILL_", "RELAY_", "NEXRENDER_"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(&*name);
            }
        }
        // That a process is lost is part of the play, and nobody needs to be warned of it.
        let is_told = matches!(self.log_level, LogLevel::Info | LogLevel::Debug | LogLevel::Trace);
        command
            .env("TIDEMILL_DATABASE_INIT", "embedded")
            .env("TIDEMILL_LOG_LEVEL", self.log_level.as_str())
            .env("XDG_CONFIG_HOME", &self.folder)
            .current_dir(&self.folder)
            // Its end is their sign that we are gone.
            .stdin(Stdio::piped())
            .stderr(if is_told { Stdio::inherit() } else { Stdio::null() })
            .kill_on_drop(true);
        Ok(command)
    }

    pub(super) fn worker(&self, number: usize, work: Duration) -> std::io::Result<Command> {
        let mut command = self.command()?;
        command
            .args(["demo-worker", "--database", &self.url])
            .args(["--things", &self.things.to_string(), "--workers", &self.workers.to_string()])
            // The dashboard, relays and importers are processes, too.
            .args(["--named", "worker-", "--work-ms", &work.as_millis().to_string()])
            .env("TIDEMILL_PROCESS_NAME", format!("worker-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", format!("{}ms", self.lease.as_millis()));
        Ok(command)
    }

    /// A relay that publishes to this sink, ready to be started.
    pub(super) fn relay(&self, number: usize, sink: &str) -> std::io::Result<Command> {
        let mut command = self.command()?;
        command
            .args(["demo-relay", "--database", &self.url, "--sink", sink])
            .env("TIDEMILL_PROCESS_NAME", format!("relay-{number}"))
            .env("TIDEMILL_PROCESS_LEASE", RELAY_PROCESS_LEASE)
            .env("TIDEMILL_OUTBOX_LEASE", RELAY_LEASE)
            .stdout(Stdio::null());
        Ok(command)
    }
}
