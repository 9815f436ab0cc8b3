//! A PostgreSQL server of a test's own: real, durable, on loopback, and gone with its value.

mod binaries;
mod pause;
mod template;

use crate::account::Account;
use crate::child::{Guarded, Signal};
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::log::Log;
use crate::port;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use binaries::find_binaries;

/// The superuser of every private server; it needs no password.
pub const USER: &str = "tidemill";

const READY_WITHIN: Duration = Duration::from_secs(180);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORTS_TRIED_MAX: u32 = 5;

/// The settings of every private server. Durability is as in production, because crashes are tested.
const SETTINGS: [(&str, &str); 6] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("hot_standby", "on"),
    ("max_connections", "200"),
    ("shared_buffers", "128MB"),
    ("logging_collector", "off"),
];

/// How a private server differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// Stay in recovery, like a standby whose primary is away: everything can be read, nothing written.
    pub standby: bool,
    /// Further settings, which win over ours.
    pub settings: Vec<(String, String)>,
}

/// A running PostgreSQL server that dies with its value, and its data folder with it.
#[derive(Debug)]
pub struct PrivatePostgres {
    // Dropped in this order: the server before the folder that it writes to.
    server: Option<Guarded>,
    binaries: PathBuf,
    account: Account,
    port: u16,
    folder: Folder,
}

/// Why one launch came to nothing.
enum Refusal {
    /// Somebody took the port first; another one may do.
    PortTaken,
    Other(ServerError),
}

impl PrivatePostgres {
    /// Starts a server with the newest PostgreSQL of this machine, and returns once it can be asked.
    pub fn start(options: &PostgresOptions) -> Result<Self, ServerError> {
        let binaries =
            find_binaries().ok_or_else(|| ServerError::new("PostgreSQL's server programs were not found"))?;
        let account = Account::for_servers()?;
        let folder = Folder::create(account)?;
        let data = folder.path().join("data");
        let version = binaries::version(&binaries)?;
        template::copy_to(&data, &binaries, &version, account)?;
        configure(&data, &version, options)
            .and_then(|()| if options.standby { mark_as_standby(&data, account) } else { Ok(()) })
            .map_err(|error| ServerError::caused("cannot configure a private PostgreSQL", error))?;

        let mut postgres = Self { server: None, binaries, account, port: 0, folder };
        for _ in 0..PORTS_TRIED_MAX {
            postgres.port = port::free()?;
            match postgres.launch() {
                Ok(()) => return Ok(postgres),
                Err(Refusal::PortTaken) => {}
                Err(Refusal::Other(error)) => return Err(error),
            }
        }
        Err(ServerError::new(format!(
            "{PORTS_TRIED_MAX} ports in turn were taken before PostgreSQL could listen"
        )))
    }

    /// The address of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The port that it listens on; a restart keeps it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of its postmaster; none while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Guarded::pid)
    }

    /// Lets `psql` run `sql` in `database`, and returns the bare rows.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        let mut command = Command::new(self.binaries.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url(database), "-c", sql]);
        let output = command.output().map_err(|error| ServerError::caused("cannot run psql", error))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(ServerError::new(format!("psql failed: {}", complaint.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Ends it in order: sessions are cut off, transactions rolled back, a checkpoint is written.
    pub fn stop(&mut self) {
        self.end_by(&[Signal::INT, Signal::QUIT]);
    }

    /// Ends it at once, as a crash does: the next start has to recover from its log.
    pub fn crash(&mut self) {
        self.end_by(&[Signal::QUIT]);
    }

    /// Starts it again on the same data and the same port, after ending it if it still runs.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop();
        self.launch().map_err(|refusal| match refusal {
            Refusal::PortTaken => ServerError::new(format!("somebody else has taken port {}", self.port)),
            Refusal::Other(error) => error,
        })
    }

    /// Sends one signal after the other until it has ended. The last resort is the kill by [`Guarded`], which
    /// leaves a shared-memory segment behind.
    fn end_by(&mut self, signals: &[Signal]) {
        // During a pause it would hear nothing. Fails only when it has ended by itself.
        let _resumed = self.resume();
        let Some(mut server) = self.server.take() else { return };
        for signal in signals {
            // Fails only when it has ended by itself, and then the wait below returns at once.
            let _sent = server.signal(*signal);
            if server.wait_deadline(STOPPED_WITHIN).is_some() {
                return;
            }
        }
    }

    fn launch(&mut self) -> Result<(), Refusal> {
        let data = self.folder.path().join("data");
        // An immediate shutdown is the right end when nobody is left to ask for another one.
        let mut command = self.account.server_command(&self.binaries.join("postgres"), "SIGQUIT");
        command.arg("-D").arg(&data);
        command.args(["-c", "listen_addresses=127.0.0.1", "-c", &format!("port={}", self.port)]);
        command.arg("-c").arg(format!("unix_socket_directories={}", self.folder.path().display()));
        let log =
            Log::attach(&self.folder.path().join("postgres.log"), &mut command).map_err(Refusal::Other)?;
        let server = Guarded::spawn(command)
            .map_err(|error| Refusal::Other(ServerError::caused("cannot run postgres", error)))?;
        let server = self.server.insert(server);

        let isready = self.binaries.join("pg_isready");
        let ready = wait_until_ready(server, &data, &isready, self.port, &log);
        if ready.is_err() {
            self.crash();
        }
        ready
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.stop();
    }
}

fn wait_until_ready(
    server: &mut Guarded,
    data: &Path,
    isready: &Path,
    port: u16,
    log: &Log,
) -> Result<(), Refusal> {
    let deadline = Deadline::after(READY_WITHIN);
    while deadline.remaining().is_some() {
        if let Some(status) = server.wait_deadline(Duration::from_millis(10)) {
            if log.text().contains("could not create any TCP/IP sockets") {
                return Err(Refusal::PortTaken);
            }
            let text = format!("PostgreSQL ended while it was starting ({status})");
            return Err(Refusal::Other(ServerError::new(text).with_log(log.tail())));
        }
        if says_ready(data, server.pid()) && port::answers(port) && accepts(isready, port) {
            return Ok(());
        }
    }
    let text = format!("PostgreSQL was not ready within {READY_WITHIN:?}");
    Err(Refusal::Other(ServerError::new(text).with_log(log.tail())))
}

/// Whether the server of this data folder says so itself. Without this, a stranger who took the port could
/// answer for it.
fn says_ready(data: &Path, pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(data.join("postmaster.pid")) else { return false };
    let mut lines = text.lines().map(str::trim);
    lines.next() == Some(&pid.to_string()) && lines.nth(6) == Some("ready")
}

fn accepts(isready: &Path, port: u16) -> bool {
    let mut command = Command::new(isready);
    command.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string(), "-U", USER, "-d", "postgres", "-t", "5"]);
    command.status().is_ok_and(|status| status.success())
}

fn configure(data: &Path, version: &str, options: &PostgresOptions) -> std::io::Result<()> {
    let file = data.join("postgresql.conf");
    let mut text = fs::read_to_string(&file)?;
    text.push('\n');
    let ours = SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    // One call instead of one per file: the recovery of a small server is then a matter of milliseconds.
    let quick = (binaries::major(version) >= 14 && cfg!(target_os = "linux"))
        .then(|| ("recovery_init_sync_method".to_owned(), "syncfs".to_owned()));
    for (name, value) in ours.chain(quick).chain(options.settings.iter().cloned()) {
        let _infallible = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
    }
    fs::write(file, text)
}

fn mark_as_standby(data: &Path, account: Account) -> std::io::Result<()> {
    let signal = data.join("standby.signal");
    fs::write(&signal, "")?;
    account.give(&signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_status_of_the_own_postmaster_counts() {
        let data = tempfile::tempdir().unwrap();
        let text =
            |status: &str| format!("42\n/data\n1700000000\n5432\n/sockets\n127.0.0.1\n 1 2\n{status}\n");

        fs::write(data.path().join("postmaster.pid"), text("ready   ")).unwrap();
        assert!(says_ready(data.path(), 42));
        assert!(!says_ready(data.path(), 43));

        fs::write(data.path().join("postmaster.pid"), text("starting")).unwrap();
        assert!(!says_ready(data.path(), 42));
    }

    #[test]
    fn the_settings_of_a_test_come_after_ours_and_are_quoted() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("postgresql.conf"), "# from initdb").unwrap();
        let settings = vec![("application_name".to_owned(), "it's".to_owned())];

        configure(data.path(), "15.4", &PostgresOptions { settings, ..PostgresOptions::default() }).unwrap();

        let text = fs::read_to_string(data.path().join("postgresql.conf")).unwrap();
        assert!(text.contains("\nfsync = 'on'\n"), "{text}");
        assert!(text.ends_with("\napplication_name = 'it''s'\n"), "{text}");
    }
}
