//! A server and its workers, really running on one database, and a browser that looks at them.

use crate::Stage;
use crate::serve::Served;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::FakeClock;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;
use tidemill_testkit::skip::require;
use tidemill_testkit::webdriver::find_programs;
use tidemill_testkit::{Browser, BrowserOptions, Guarded, Signal};

/// That of a worker: short, so that a killed one is soon found.
pub(super) const LEASE: Duration = Duration::from_secs(20);
/// For what a person would call at once, on a machine that is busy with other tests.
pub(super) const SOON: Duration = Duration::from_secs(120);
const STARTED_WITHIN: Duration = Duration::from_secs(120);

/// A database with the processes that share it. Dropped in this order: nobody writes to a removed file.
pub(super) struct Scene {
    browser: Browser,
    servers: Vec<(Served, Stage)>,
    database: Scratch,
}

/// How a scene differs from the usual one.
#[derive(Default)]
pub(super) struct Setting<'a> {
    /// The database; an SQLite file if none is given.
    pub(super) database: Option<Scratch>,
    /// Settings of the server, as variables.
    pub(super) variables: &'a [(&'a str, &'a str)],
    /// The files of the jobs that the server has.
    pub(super) jobs: &'a [(&'a str, &'a str)],
    /// What the browser is like.
    pub(super) browser: BrowserOptions,
}

impl Scene {
    /// A server with an empty database, and a browser; none when the tests of the browser are to be skipped.
    pub(super) fn set(setting: Setting<'_>) -> Option<Self> {
        require("chromium", find_programs())?;
        let database = setting.database.unwrap_or_else(Scratch::file);
        let stage = setting.variables.iter().fold(
            staged(&database, "keeper").with("TIDEMILL_DATABASE_INIT", "always"),
            |stage, (name, value)| stage.with(name, value),
        );
        let folder = stage.path("jobs");
        for (name, text) in setting.jobs {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        }
        let arguments: &[&str] = if setting.jobs.is_empty() { &[] } else { &["--jobs", "jobs"] };
        let servers = vec![(Served::start(&stage, arguments), stage)];
        let browser = Browser::start(&setting.browser).unwrap();
        Some(Self { browser, servers, database })
    }

    /// One with scripts and without a login, as most tests want it.
    pub(super) fn usual() -> Option<Self> {
        Self::set(Setting::default())
    }

    /// The same without scripts.
    pub(super) fn without_javascript() -> Option<Self> {
        Self::set(Setting { browser: BrowserOptions { javascript: false }, ..Setting::default() })
    }

    /// The usual one, where everybody has to log in.
    pub(super) fn closed() -> Option<Self> {
        let variables = &[("TIDEMILL_SERVER_AUTH", "required")];
        Self::set(Setting { variables, ..Setting::default() })
    }

    /// Writes a file into the folder that the server runs in.
    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.servers[0].1.path(name), text).unwrap();
    }

    /// Reads one of there.
    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.servers[0].1.path(name)).unwrap()
    }

    /// Sends a body of JSON to the server, which has to accept it.
    pub(super) fn post(&self, path: &str, body: &str) {
        let (status, answer) = self.servers[0].0.post(path, body);
        assert!((200..300).contains(&status), "{status}: {answer}");
    }

    /// The browser.
    pub(super) fn browser(&self) -> &Browser {
        &self.browser
    }

    /// The address of a page.
    pub(super) fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.servers[0].0.address)
    }

    /// Opens a page of the server.
    pub(super) fn visit(&self, path: &str) -> &Browser {
        self.browser.goto(&self.address(path)).unwrap();
        &self.browser
    }

    /// Where the browser is, as a path of the server.
    pub(super) fn path(&self) -> String {
        let url = self.browser.url().unwrap();
        url.strip_prefix(&self.address("")).unwrap_or(&url).to_owned()
    }

    /// Lets another server join, which wants a token and gets this one once; returns its address.
    pub(super) fn add_server_with_login(&mut self, token: &str) -> String {
        let stage = staged(&self.database, "porter").with("TIDEMILL_SERVER_AUTH", "required");
        let server = Served::start(&stage, &[]);
        assert_eq!(server.get("/api/v1/processes", Some(token)).0, 200);
        let address = format!("http://{}", server.address);
        self.servers.push((server, stage));
        address
    }

    /// Starts a worker that leases things and settles a piece of work every second or so.
    pub(super) fn add_worker(&self, name: &str) -> Worker {
        Worker::start(&self.database, name)
    }

    /// The database, by this clock.
    pub(super) async fn store(&self, clock: Arc<FakeClock>) -> Store {
        self.database.store(Some(clock)).await.unwrap()
    }

    /// The database, by its own clock.
    pub(super) async fn real_store(&self) -> Store {
        self.database.store(None).await.unwrap()
    }

    /// Runs the program on the same database; returns what it prints.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        staged(&self.database, "hand").run(arguments).succeeds().stdout.trim_end().to_owned()
    }
}

/// A worker that dies with its value.
pub(super) struct Worker {
    child: Guarded,
    _stage: Stage,
}

impl Worker {
    fn start(database: &Scratch, name: &str) -> Self {
        let stage = staged(database, name)
            .with("TIDEMILL_PROCESS_LEASE", &format!("{}s", LEASE.as_secs()))
            .with("TIDEMILL_LOG_LEVEL", "error");
        let mut command = stage.command(&["demo-worker", "--things", "2", "--work-ms", "1000"]);
        // The pipe stays open until the guard goes, and its end is the worker's own sign to end.
        command.stdin(Stdio::piped());
        let mut child = Guarded::spawn_reading(command).unwrap();
        child.next_line(STARTED_WITHIN).unwrap();
        Self { child, _stage: stage }
    }

    /// Ends it as a power cut does: nothing is given back, nobody is told.
    pub(super) fn kill(mut self) {
        self.child.signal(Signal::KILL).unwrap();
        self.child.wait_deadline(SOON).unwrap();
    }
}

/// Who stays until the end of the scene, however busy the machine is.
fn staged(database: &Scratch, name: &str) -> Stage {
    Stage::on(database.url()).with("TIDEMILL_PROCESS_NAME", name).with("TIDEMILL_PROCESS_LEASE", "10m")
}

/// An instant, in microseconds since 1970, as a statement for this database says it.
pub(super) fn instant(store: &Store, micros: i64) -> String {
    match store.dialect() {
        Dialect::Sqlite => micros.to_string(),
        Dialect::Postgres => format!("(timestamptz 'epoch' + {micros} * interval '1 microsecond')"),
    }
}
