//! A PgBouncer of a test's own, in front of a PostgreSQL on loopback.

use crate::account::{Account, find_program};
use crate::child::Guarded;
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::log::Log;
use crate::port;
use crate::postgres::USER;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(180);
const PORTS_TRIED_MAX: u32 = 5;

/// When a server connection goes back to the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// When the transaction ends: what a session remembers is not there in the next one.
    Transaction,
}

/// A running PgBouncer that dies with its value.
#[derive(Debug)]
pub struct PrivatePgbouncer {
    // Dropped in this order: the server before its folder.
    server: Guarded,
    port: u16,
    database: String,
    _folder: Folder,
}

/// The program, when it is installed.
pub fn find_binary() -> Option<PathBuf> {
    find_program("pgbouncer")
}

impl PrivatePgbouncer {
    /// Starts one that pools connections to `database` of the PostgreSQL at `postgres_port` on loopback.
    pub fn start(mode: PoolMode, postgres_port: u16, database: &str) -> Result<Self, ServerError> {
        let program = find_binary().ok_or_else(|| ServerError::new("pgbouncer was not found"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if database.is_empty() || !database.chars().all(plain) {
            return Err(ServerError::new(format!("{database:?} cannot be a database name in pgbouncer.ini")));
        }
        let account = Account::for_servers()?;
        let mut folder = Folder::create(account)?;
        for _ in 0..PORTS_TRIED_MAX {
            let port = port::free()?;
            let text = settings(mode, port, postgres_port, database, folder.path());
            match launch(&program, account, port, &text, folder)? {
                Ok((server, _folder)) => {
                    return Ok(Self { server, port, database: database.to_owned(), _folder });
                }
                Err(unused) => folder = unused,
            }
        }
        Err(ServerError::new(format!(
            "{PORTS_TRIED_MAX} ports in turn were taken before PgBouncer could listen"
        )))
    }

    /// The address of the database through the pool.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{}", self.port, self.database)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

fn settings(mode: PoolMode, port: u16, postgres_port: u16, database: &str, folder: &Path) -> String {
    let mode = match mode {
        PoolMode::Session => "session",
        PoolMode::Transaction => "transaction",
    };
    format!(
        "[databases]\n\
         {database} = host=127.0.0.1 port={postgres_port} dbname={database} user={USER}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {}\n\
         admin_users = {USER}\n\
         pool_mode = {mode}\n\
         default_pool_size = 5\n\
         server_round_robin = 0\n",
        folder.join("users.txt").display(),
    )
}

/// Starts it on one port. Gives the folder back when somebody else took the port first.
fn launch(
    program: &Path,
    account: Account,
    port: u16,
    settings: &str,
    folder: Folder,
) -> Result<Result<(Guarded, Folder), Folder>, ServerError> {
    let file = folder.path().join("pgbouncer.ini");
    let users = folder.path().join("users.txt");
    fs::write(&file, settings)
        .and_then(|()| account.give(&file))
        .and_then(|()| fs::write(&users, format!("\"{USER}\" \"\"\n")))
        .and_then(|()| account.give(&users))
        .map_err(|error| ServerError::caused("cannot configure a private PgBouncer", error))?;
    // It keeps nothing, so it may be killed.
    let mut command = account.server_command(program, "SIGKILL");
    command.arg(&file);
    let log = Log::attach(&folder.path().join("pgbouncer.log"), &mut command)?;
    let mut server =
        Guarded::spawn(command).map_err(|error| ServerError::caused("cannot run pgbouncer", error))?;

    let deadline = Deadline::after(READY_WITHIN);
    // Only its own word counts: a stranger on the same port would answer too.
    let listening = format!("listening on 127.0.0.1:{port}");
    while deadline.remaining().is_some() {
        let ended = server.wait_deadline(Duration::from_millis(10));
        let text = log.text();
        if text.contains("Address already in use") {
            return Ok(Err(folder));
        }
        if let Some(status) = ended {
            let text = format!("PgBouncer ended while it was starting ({status})");
            return Err(ServerError::new(text).with_log(log.tail()));
        }
        if text.contains(&listening) && port::answers(port) {
            return Ok(Ok((server, folder)));
        }
    }
    Err(ServerError::new(format!("PgBouncer was not ready within {READY_WITHIN:?}")).with_log(log.tail()))
}
