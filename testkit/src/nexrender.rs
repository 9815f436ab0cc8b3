//! A render farm of a test's own: the real server of nexrender on loopback, and render nodes made of its core, with a
//! program in the place of After Effects that writes real clips.
//!
//! Its packages are where [`HOME`] says; `cargo xtask test` fetches them and sets it.

use crate::account::{Account, find_program};
use crate::child::{Guarded, Signal};
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::log::Log;
use crate::port;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the folder that the packages of nexrender are in.
pub const HOME: &str = "TIDEMILL_TEST_NEXRENDER_HOME";

const LOOPBACK: &str = include_str!("../nexrender/loopback.cjs");
const NODE: &str = include_str!("../nexrender/worker.cjs");
const AERENDER: &str = include_str!("../nexrender/aerender");

/// A machine that compiles on all its cores meanwhile needs its time.
const READY_WITHIN: Duration = Duration::from_secs(180);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
const PORTS_TRIED_MAX: u32 = 5;

/// What the farm is to be like.
#[derive(Clone, Debug)]
pub struct NexrenderOptions {
    /// How many render nodes there are from the start.
    pub nodes: usize,
    /// What clients have to know.
    pub secret: String,
    /// How long a node waits for a renderer that says nothing more.
    pub silence: Duration,
}

impl Default for NexrenderOptions {
    fn default() -> Self {
        Self { nodes: 1, secret: "a secret of the tests".to_owned(), silence: Duration::from_secs(60) }
    }
}

/// A running farm that dies with its value, and its files with it.
#[derive(Debug)]
pub struct PrivateNexrender {
    // Dropped in this order: the processes before the folder that they write to.
    server: Option<Guarded>,
    nodes: Vec<Option<Guarded>>,
    node_program: PathBuf,
    account: Account,
    options: NexrenderOptions,
    port: u16,
    folder: Folder,
}

/// Why a launch did not succeed.
enum Refusal {
    /// Somebody took the port first; another one may do.
    PortTaken,
    Other(ServerError),
}

/// The folder of the packages, when somebody said where it is.
pub fn find_home() -> Option<PathBuf> {
    env::var_os(HOME).filter(|home| !home.is_empty()).map(PathBuf::from)
}

impl PrivateNexrender {
    /// Starts a server and its nodes, and returns once the server can be asked.
    pub fn start(options: &NexrenderOptions) -> Result<Self, ServerError> {
        let home =
            find_home().ok_or_else(|| ServerError::new(format!("{HOME} names no folder of packages")))?;
        let node_program = find_program("node").ok_or_else(|| ServerError::new("there is no node"))?;
        let account = Account::for_servers()?;
        let folder = Folder::create(account)?;
        let failed = |error| ServerError::caused("cannot make the folder of a private farm", error);
        furnish(&home, folder.path(), account).map_err(failed)?;
        let nodes = Vec::new();
        let options = options.clone();
        let mut farm = Self { server: None, nodes, node_program, account, options, port: 0, folder };
        for _ in 0..PORTS_TRIED_MAX {
            farm.port = port::free()?;
            match farm.launch() {
                Ok(()) => {
                    for _ in 0..farm.options.nodes {
                        farm.add_node()?;
                    }
                    return Ok(farm);
                }
                Err(Refusal::PortTaken) => {}
                Err(Refusal::Other(error)) => return Err(error),
            }
        }
        Err(ServerError::new(format!(
            "{PORTS_TRIED_MAX} ports in turn were taken before nexrender could listen"
        )))
    }

    /// Where its server is, without the path of the API; a restart keeps it.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What clients have to know.
    pub fn secret(&self) -> &str {
        &self.options.secret
    }

    /// The folder of the templates; `sample.aep` is one.
    pub fn templates(&self) -> PathBuf {
        self.folder.path().join("templates")
    }

    /// A folder that nodes can write to, and tests can read.
    pub fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// What the server has logged since it was first started.
    pub fn server_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
    }

    /// What a node has logged since it was first started.
    pub fn node_log(&self, number: usize) -> String {
        fs::read_to_string(self.folder.path().join(format!("node-{number}.log"))).unwrap_or_default()
    }

    /// The jobs that renderers have begun with since the start, in that order: one that was begun twice is there twice.
    pub fn renders(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("ae/renders.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Lets renderers go on that wait at this gate, now and later.
    pub fn open_gate(&self, name: &str) -> Result<(), ServerError> {
        fs::write(self.folder.path().join("gates").join(name), "")
            .map_err(|error| ServerError::caused("cannot open a gate of the farm", error))
    }

    /// Starts one more node; its number.
    pub fn add_node(&mut self) -> Result<usize, ServerError> {
        let number = self.nodes.len();
        self.nodes.push(None);
        self.start_node(number)?;
        Ok(number)
    }

    /// Starts a node, if it does not run.
    pub fn start_node(&mut self, number: usize) -> Result<(), ServerError> {
        let folder = self.folder.path();
        let mut command = self.account.server_command(&self.node_program, "SIGKILL");
        command.current_dir(folder).arg("worker.cjs");
        command.env("NODE_HOST", self.url()).env("NODE_SECRET", &self.options.secret);
        command.env("NODE_NAME", format!("node-{number}")).env("NODE_POLLING_MS", "500");
        command.env("NODE_BINARY", folder.join("ae/aerender")).env("NODE_WORKPATH", folder.join("work"));
        command.env("NEXRENDER_MAX_UPDATE_TIMEOUT", self.options.silence.as_secs().to_string());
        command.env("HOME", folder);
        let _log = Log::attach(&folder.join(format!("node-{number}.log")), &mut command)?;
        let node = Guarded::spawn(command).map_err(|error| ServerError::caused("cannot run node", error))?;
        match self.nodes.get_mut(number) {
            Some(place) if place.is_none() => *place = Some(node),
            _ => return Err(ServerError::new(format!("node {number} runs already, or there is none"))),
        }
        Ok(())
    }

    /// Ends a node at once, in the middle of what it does; its renderer ends with it or goes on, as it would.
    pub fn kill_node(&mut self, number: usize) {
        if let Some(mut node) = self.nodes.get_mut(number).and_then(Option::take) {
            // Fails only when it has ended by itself.
            let _sent = node.signal(Signal::KILL);
            let _ended = node.wait_deadline(STOPPED_WITHIN);
        }
    }

    /// Ends the server at once; nodes go on. It is not hit while it writes its jobs: it truncates their file first, so it
    /// would forget them all, and that is what [`Self::forget_jobs`] is for.
    pub fn kill_server(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let deadline = Deadline::after(STOPPED_WITHIN);
        while deadline.remaining().is_some() && server.signal(Signal::STOP).is_ok() {
            // It stops a moment after the signal.
            let _running = server.wait_deadline(Duration::from_millis(20));
            match fs::read_to_string(self.database()) {
                Ok(jobs) if !jobs.ends_with(']') => {}
                _ => break,
            }
            let _sent = server.signal(Signal::CONT);
        }
        let _sent = server.signal(Signal::KILL);
        let _ended = server.wait_deadline(STOPPED_WITHIN);
    }

    /// Starts the server again on the same port, with the jobs that it had.
    pub fn restart_server(&mut self) -> Result<(), ServerError> {
        self.kill_server();
        self.launch().map_err(|refusal| match refusal {
            Refusal::PortTaken => ServerError::new(format!("somebody else has taken port {}", self.port)),
            Refusal::Other(error) => error,
        })
    }

    /// Lets the server forget all its jobs; it has to be restarted to notice.
    pub fn forget_jobs(&self) -> Result<(), ServerError> {
        fs::remove_file(self.database())
            .map_err(|error| ServerError::caused("cannot remove the jobs of nexrender", error))
    }

    fn database(&self) -> PathBuf {
        self.folder.path().join("jobs.json")
    }

    fn launch(&mut self) -> Result<(), Refusal> {
        let folder = self.folder.path();
        // Whatever it has written is only of use to tests of ours, so it may be killed when nobody is left to stop it.
        let mut command = self.account.server_command(&self.node_program, "SIGKILL");
        command.current_dir(folder).env("HOME", folder).env("NEXRENDER_DATABASE", self.database());
        command.env("NEXRENDER_ORDERING", "priority");
        command.args(["--require", "./loopback.cjs", "node_modules/@nexrender/server/src/bin.js"]);
        command.args(["--port", &self.port.to_string(), "--secret", &self.options.secret]);
        let log = Log::attach(&folder.join("server.log"), &mut command).map_err(Refusal::Other)?;
        let server = Guarded::spawn(command)
            .map_err(|error| Refusal::Other(ServerError::caused("cannot run node", error)))?;
        let ready = wait_until_ready(self.server.insert(server), self.port, &log);
        if ready.is_err() {
            self.kill_server();
        }
        ready
    }
}

fn wait_until_ready(server: &mut Guarded, port: u16, log: &Log) -> Result<(), Refusal> {
    let deadline = Deadline::after(READY_WITHIN);
    while deadline.remaining().is_some() {
        let ended = server.wait_deadline(Duration::from_millis(20));
        let text = log.text();
        if text.contains("EADDRINUSE") {
            return Err(Refusal::PortTaken);
        }
        if let Some(status) = ended {
            let text = format!("nexrender ended while it was starting ({status})");
            return Err(Refusal::Other(ServerError::new(text).with_log(log.tail())));
        }
        // Only its own word counts: a stranger on the same port would answer too.
        if text.contains("starting nexrender-server") && port::answers(port) {
            return Ok(());
        }
    }
    let text = format!("nexrender was not ready within {READY_WITHIN:?}");
    Err(Refusal::Other(ServerError::new(text).with_log(log.tail())))
}

/// The folder of a farm: the packages, our own scripts, and what jobs need.
fn furnish(home: &Path, folder: &Path, account: Account) -> io::Result<()> {
    copy_tree(&home.join("node_modules"), &folder.join("node_modules"), account)?;
    for made in ["ae", "ae/Scripts", "ae/Scripts/Startup", "gates", "templates", "work", "output"] {
        fs::create_dir(folder.join(made))?;
        account.give(&folder.join(made))?;
    }
    let files = [
        ("loopback.cjs", LOOPBACK),
        ("worker.cjs", NODE),
        ("ae/aerender", AERENDER),
        // core patches this one of After Effects.
        ("ae/Scripts/Startup/commandLineRenderer.jsx", "// nothing\n"),
        ("templates/sample.aep", "RIFX"),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text)?;
        account.give(&file)?;
    }
    fs::set_permissions(folder.join("ae/aerender"), fs::Permissions::from_mode(0o755))
}

/// The account of servers may not reach the cache of the user, so the packages are brought to where it can.
fn copy_tree(from: &Path, to: &Path, account: Account) -> io::Result<()> {
    fs::create_dir(to)?;
    account.give(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, copy) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_tree(&entry.path(), &copy, account)?;
        } else if kind.is_file() {
            // Another name for the same file costs nothing; it needs the same file system.
            fs::hard_link(entry.path(), &copy).or_else(|_| fs::copy(entry.path(), &copy).map(drop))?;
        }
    }
    Ok(())
}
