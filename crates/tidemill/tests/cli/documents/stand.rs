//! A folder in which the commands of one document are run, as somebody would who follows it.

use super::page::{Page, Part};
use crate::{BINARY, Stage, workspace};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_testkit::{Guarded, Signal, postgres};

/// Where the server is in the documents.
const ADDRESS: &str = "127.0.0.1:7790";

/// Folders of the documents, which tests have in their own one.
const FOLDERS: [&str; 3] = ["/mnt/", "/var/spool/", "/etc/tidemill/"];

const PATIENCE: Duration = Duration::from_secs(180);

/// How often somebody looks meanwhile.
const LOOK: Duration = Duration::from_millis(50);

/// Where cargo leaves the program, and where it lies in every stand.
const BUILT: &str = "target/release/tidemill";

/// Hides a program that the machine of the test may have by chance.
const ABSENT: &str = "#!/bin/sh\necho 'tidemill: command not found' >&2\nexit 127\n";

/// What a block needs of the one before it: variables that were exported, and the folder.
const BEFORE: &str = "set -euo pipefail\n[ ! -f .exported ] || source .exported\n";
const AFTER: &str = "\nexport -p > .exported\n";

/// How a document calls the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Called {
    /// By its name, as once it is installed.
    ByName,
    /// By its name only after the document has said how; until then it is just where cargo has left it.
    AsTold,
}

/// Instead of building, which the tests have done.
fn cargo() -> String {
    format!(
        r#"#!/bin/sh
case "$*" in
  "run --release -- "*) shift 3; exec '{BINARY}' "$@" ;;
  *) echo "cargo $*: there is only cargo run --release -- here" >&2; exit 64 ;;
esac
"#
    )
}

/// A client of PostgreSQL that is at the right database; what only our own driver understands of a URL stands behind `?`.
fn psql(url: &str) -> String {
    let program = postgres::find_binaries().map_or("psql".into(), |folder| folder.join("psql"));
    let url = url.split('?').next().unwrap_or_default();
    format!("#!/bin/sh\nexec '{}' -v ON_ERROR_STOP=1 -d '{url}' \"$@\"\n", program.display())
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The place, and what runs in it until the end.
pub(super) struct Stand {
    stage: Stage,
    address: String,
    kept: Vec<(usize, Guarded)>,
}

impl Stand {
    /// On a database that has its schema already: a copy of this SQLite file, or what is at this URL.
    pub(super) fn new(database: &Path, url: Option<&str>, called: Called) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let mut stage = Stage::new().with("TIDEMILL_SERVER_LISTEN", &address);
        let programs = stage.path(".programs");
        fs::create_dir(&programs).unwrap();
        fs::create_dir_all(stage.path(BUILT).parent().unwrap()).unwrap();
        symlink(BINARY, stage.path(BUILT)).unwrap();
        match called {
            Called::ByName => symlink(BINARY, programs.join("tidemill")).unwrap(),
            Called::AsTold => write_program(&programs.join("tidemill"), ABSENT),
        }
        write_program(&programs.join("cargo"), &cargo());
        symlink(workspace().join("examples"), stage.path("examples")).unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(stage.path(folder.trim_start_matches('/'))).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        stage = stage.with("PATH", &path);
        if let Some(url) = url {
            stage = stage.with("TIDEMILL_DATABASE_URL", url);
            write_program(&programs.join("psql"), &psql(url));
        } else {
            fs::copy(database, stage.path("tidemill.db")).unwrap();
        }
        // The commands are tried, not the disk or anybody's patience.
        stage = stage
            .with("TIDEMILL_DATABASE_SQLITE_SYNCHRONOUS", "normal")
            .with("TIDEMILL_OUTBOX_POLL", "100ms");
        Self { stage, address, kept: Vec::new() }
    }

    /// Does all that a page says, and tells the first thing that does not work, with its line.
    pub(super) fn play(mut self, page: &Page) -> Result<(), String> {
        for part in &page.parts {
            match part {
                Part::File { name, text } => {
                    let path = self.stage.path(name);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, self.here(text)).unwrap();
                }
                Part::Run { line, script, exit } => self.run(*line, script, *exit)?,
                Part::Keep { line, script } => self.keep(*line, script)?,
                Part::Leave { .. } => {}
            }
        }
        self.end()
    }

    /// A text of the document with the addresses and folders that it has here.
    fn here(&self, text: &str) -> String {
        let folder = self.stage.folder.path().display().to_string();
        let moved =
            FOLDERS.iter().fold(text.to_owned(), |text, name| text.replace(name, &format!("{folder}{name}")));
        moved.replace(ADDRESS, &self.address)
    }

    fn bash(&self, script: &str) -> Command {
        let script = format!("{BEFORE}{}", self.here(script));
        self.stage.dress(Command::new("bash"), &["-c", &script])
    }

    fn run(&self, line: usize, script: &str, exit: i32) -> Result<(), String> {
        let mut command = self.bash(&format!("{script}{AFTER}"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        if output.status.code() == Some(exit) {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        Err(format!("line {line}: {}, not {exit}\n{script}\n{said}{complained}", output.status))
    }

    /// Starts what keeps running and waits until the database knows of it; of a server also until it listens.
    fn keep(&mut self, line: usize, script: &str) -> Result<(), String> {
        let before = self.living();
        let log = fs::File::create(self.stage.path(&format!(".log-{line}"))).unwrap();
        let mut command = self.bash(&format!("exec env {}", script.trim()));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.kept.push((line, Guarded::spawn(command).unwrap()));
        let is_server = script.contains("tidemill serve");
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if self.living() > before && (!is_server || TcpStream::connect(&self.address).is_ok()) {
                return Ok(());
            }
            let has_ended =
                self.kept.last_mut().is_some_and(|(_, child)| child.wait_deadline(LOOK).is_some());
            if has_ended {
                break;
            }
        }
        Err(format!("line {line}: it does not start\n{script}\n{}", self.log(line)))
    }

    /// How many processes count as alive.
    fn living(&self) -> usize {
        let listed = self.bash(&format!("exec {BUILT} process list -o csv")).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).matches(",live,").count()
    }

    fn log(&self, line: usize) -> String {
        fs::read_to_string(self.stage.path(&format!(".log-{line}"))).unwrap_or_default()
    }

    /// What keeps running ends in order when it is asked to.
    fn end(mut self) -> Result<(), String> {
        let mut kept = std::mem::take(&mut self.kept);
        for (line, running) in &mut kept {
            if running.signal(Signal::TERM).is_err() {
                return Err(format!("line {line}: it has ended before the end\n{}", self.log(*line)));
            }
        }
        for (line, running) in &mut kept {
            let ended = running.wait_deadline(PATIENCE).and_then(|status| status.code());
            if ended != Some(0) {
                return Err(format!("line {line}: it ended with {ended:?}\n{}", self.log(*line)));
            }
        }
        Ok(())
    }
}
