//! Commands: what they are told, what becomes of what they say, and how they end.

mod ending;
mod telling;

use super::Stand;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::JobParameters;
use tidemill_engine::job::{CommandSpec, Job, Launcher, Running, Step};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;

const PATIENCE: Duration = Duration::from_secs(120);

/// A database, and a folder to run commands in.
pub(super) struct Yard {
    pub(super) stand: Stand,
    pub(super) folder: TempDir,
}

impl Yard {
    pub(super) async fn new() -> Self {
        Self { stand: Stand::on(Scratch::file()).await, folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A script for the shell, which is the program here.
    pub(super) fn shell(&self, script: &str) -> CommandSpec {
        CommandSpec::new("sh").args(["-c", script]).folder(self.folder.path())
    }

    pub(super) async fn run(&self, spec: CommandSpec) -> TestRun {
        self.run_with(spec, &JobParameters::new()).await
    }

    async fn run_with(&self, spec: CommandSpec, parameters: &JobParameters) -> TestRun {
        let job = job(spec);
        let running = self.stand.bench.run(&job, parameters);
        tokio::time::timeout(PATIENCE, running).await.expect("it ends").unwrap()
    }

    async fn launch(&self, spec: CommandSpec) -> (Launcher, Running) {
        let launcher = self.stand.bench.launcher(&job(spec)).unwrap();
        let running = launcher.launch("commanded", &JobParameters::new(), &Actor::system()).await.unwrap();
        (launcher, running)
    }

    /// What a file of the folder holds, as soon as a whole line is there.
    pub(super) async fn line(&self, file: &str) -> String {
        let path = self.path(file);
        let looking = async {
            loop {
                match std::fs::read_to_string(&path) {
                    Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("nothing in {file}"))
    }

    /// The process whose number is in a file.
    pub(super) async fn process(&self, file: &str) -> i32 {
        self.line(file).await.parse().unwrap()
    }
}

fn job(spec: CommandSpec) -> Job {
    Job::new("commanded").step(Step::command("it", move |_| Ok(spec.clone())))
}

/// Whether a process still does something. One that is dead and not yet waited for does not.
pub(super) fn is_running(process: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a process is gone. A signal takes a moment to arrive.
pub(crate) async fn gone(process: i32) {
    let going = async {
        while is_running(process) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, going).await;
    assert!(waited.is_ok(), "process {process} is still there");
}
