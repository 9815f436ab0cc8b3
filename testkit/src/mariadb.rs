//! A MariaDB server of a test's own, which speaks for MySQL too: on loopback, and gone with its value.

use crate::account::{Account, find_program};
use crate::child::{Guarded, Signal};
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::log::Log;
use crate::port;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The user of every private server, who may do everything; it needs no password.
pub const USER: &str = "tidemill";

const READY_WITHIN: Duration = Duration::from_secs(180);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORTS_TRIED_MAX: u32 = 5;

/// A running MariaDB server that dies with its value, and its data folder with it.
#[derive(Debug)]
pub struct PrivateMariadb {
    // Dropped in this order: the server before the folder that it writes to.
    server: Guarded,
    port: u16,
    client: PathBuf,
    _folder: Folder,
}

/// The server's programs.
#[derive(Clone, Debug)]
pub struct Programs {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
}

/// The server's programs, when they are installed.
pub fn find_programs() -> Option<Programs> {
    Some(Programs {
        server: find_program("mariadbd")?,
        install: find_program("mariadb-install-db")?,
        client: find_program("mariadb")?,
    })
}

impl PrivateMariadb {
    /// Starts a server, and returns once it can be asked.
    pub fn start() -> Result<Self, ServerError> {
        let programs =
            find_programs().ok_or_else(|| ServerError::new("MariaDB's server programs were not found"))?;
        let account = Account::for_servers()?;
        let folder = Folder::create(account)?;
        install(&programs, account, folder.path())?;
        for _ in 0..PORTS_TRIED_MAX {
            let port = port::free()?;
            if let Some(server) = launch(&programs.server, account, port, folder.path())? {
                return Ok(Self { server, port, client: programs.client, _folder: folder });
            }
        }
        Err(ServerError::new(format!(
            "{PORTS_TRIED_MAX} ports in turn were taken before MariaDB could listen"
        )))
    }

    /// The address of one of its databases. `mysql` is always there.
    pub fn url(&self, database: &str) -> String {
        format!("mysql://{USER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Lets the client run `sql`, and returns the bare rows.
    pub fn ask(&self, sql: &str) -> Result<String, ServerError> {
        let mut command = Command::new(&self.client);
        command.args([
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--protocol=tcp",
            "--host=127.0.0.1",
        ]);
        command.args([&format!("--port={}", self.port), &format!("--user={USER}"), "--execute", sql]);
        let output = command.output().map_err(|error| ServerError::caused("cannot run mariadb", error))?;
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(ServerError::new(format!("mariadb failed: {}", complaint.trim())));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

impl Drop for PrivateMariadb {
    fn drop(&mut self) {
        // Fails only when it has ended by itself; what does not end in time is killed with the value.
        let _sent = self.server.signal(Signal::TERM);
        let _ended = self.server.wait_deadline(STOPPED_WITHIN);
    }
}

/// Makes the data folder, and the statements that make our user at each start.
fn install(programs: &Programs, account: Account, folder: &Path) -> Result<(), ServerError> {
    let failed = |error| ServerError::caused("cannot make the data folder of a private MariaDB", error);
    let users = folder.join("users.sql");
    let text = format!(
        "create user if not exists '{USER}'@'127.0.0.1';\n\
         grant all privileges on *.* to '{USER}'@'127.0.0.1' with grant option;\n"
    );
    fs::write(&users, text).and_then(|()| account.give(&users)).map_err(failed)?;
    let mut command = account.command(&programs.install);
    command.args(["--no-defaults", "--skip-test-db", "--skip-name-resolve"]);
    command.args(["--auth-root-authentication-method=normal"]);
    command.arg(format!("--datadir={}", folder.join("data").display()));
    let output = command.output().map_err(failed)?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(ServerError::new("mariadb-install-db failed").with_log(complaint.trim()));
    }
    Ok(())
}

/// Starts it on one port; none when somebody else took the port first.
fn launch(
    program: &Path,
    account: Account,
    port: u16,
    folder: &Path,
) -> Result<Option<Guarded>, ServerError> {
    // It is only read from in tests of ours, so it may be killed when nobody is left to stop it.
    let mut command = account.server_command(program, "SIGKILL");
    command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"]);
    command.args(["--innodb-buffer-pool-size=64M", "--character-set-server=utf8mb4"]);
    command.arg(format!("--port={port}"));
    for (option, file) in [
        ("datadir", "data"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("init-file", "users.sql"),
        ("tmpdir", ""),
    ] {
        command.arg(format!("--{option}={}", folder.join(file).display()));
    }
    let log = Log::attach(&folder.join("mariadb.log"), &mut command)?;
    let mut server =
        Guarded::spawn(command).map_err(|error| ServerError::caused("cannot run mariadbd", error))?;

    let deadline = Deadline::after(READY_WITHIN);
    while deadline.remaining().is_some() {
        let ended = server.wait_deadline(Duration::from_millis(10));
        let text = log.text();
        if text.contains("Address already in use") {
            return Ok(None);
        }
        if let Some(status) = ended {
            let text = format!("MariaDB ended while it was starting ({status})");
            return Err(ServerError::new(text).with_log(log.tail()));
        }
        // Only its own word counts: a stranger on the same port would answer too.
        if text.contains("ready for connections") && port::answers(port) {
            return Ok(Some(server));
        }
    }
    Err(ServerError::new(format!("MariaDB was not ready within {READY_WITHIN:?}")).with_log(log.tail()))
}
