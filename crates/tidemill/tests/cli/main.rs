//! The real binary, as a user meets it; and the rules of the house that only the whole workspace can break.
#![cfg(test)]

mod actions;
mod airflow;
mod alert;
mod architecture;
mod browser;
mod command;
mod compose;
mod configuration;
mod crash;
mod demo;
mod deploy;
mod doctor;
mod documents;
mod emf;
mod emr;
mod errors;
mod exact;
mod examples;
mod flood;
mod gauge;
mod ghost;
mod guarantees;
mod hint;
mod init;
mod job;
mod job_alert;
mod job_check;
mod job_delete;
mod job_file;
mod job_http;
mod job_kafka;
mod job_reach;
mod job_reload;
mod job_test;
mod logs;
mod manual;
mod metric_queries;
mod metrics;
mod openapi;
mod opentelemetry;
mod outbox_attached;
mod outbox_chaos;
mod outbox_failed_event;
mod outbox_kafka;
mod outbox_relay;
mod outbox_stats;
mod outbox_transactional;
mod outbox_verify;
mod output;
mod partitions;
mod pool;
mod pool_demand;
mod pool_run;
mod pool_simulate;
mod pool_step;
mod python;
mod reference;
mod render;
mod render_batch;
mod render_delete;
mod render_farm;
mod render_file;
mod render_init;
mod render_selection;
mod render_template;
mod render_worker;
mod runbook;
mod schedule;
mod serve;
mod spring;
mod tidy;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tidemill_store::Store;

const BINARY: &str = env!("CARGO_BIN_EXE_tidemill");

/// A folder of its own to run the program in, with nothing of the host's configuration.
struct Stage {
    folder: TempDir,
    environment: Vec<(String, String)>,
}

impl Stage {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    /// With the database at this URL, and the lease of SQLite: a process may freeze on a busy machine.
    fn on(url: &str) -> Self {
        Self::new().with("TIDEMILL_DATABASE_URL", url).with("TIDEMILL_PROCESS_LEASE", "15s")
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, ready to be started.
    fn command(&self, arguments: &[&str]) -> Command {
        self.dress(Command::new(BINARY), arguments)
    }

    /// Any program that gets these arguments, in this folder and environment.
    fn dress(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(&self.folder);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let is_ours = ["TIDEMILL_", "NEXRENDER_", "OTEL_", "SPRING_", "SUPABASE_"]
                .iter()
                .any(|start| name.starts_with(start));
            if is_ours || matches!(&*name, "NO_COLOR" | "CLICOLOR_FORCE" | "COLUMNS") {
                command.env_remove(name);
            }
        }
        command.env("XDG_CONFIG_HOME", self.path("user")).envs(self.environment.iter().map(|(n, v)| (n, v)));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Ends the lease of a process that is dead, as if it had run out. So nobody has to wait for that, and leases can be
    /// longer than a busy machine lets a process wait. Not for a process that is frozen: when it goes on, it would trust a
    /// lease that by its own clock has not ended.
    fn lapse(&self, pid: u32) {
        let is_it = format!("pid = {pid} and ended_at is null");
        self.change([
            format!("update tidemill_process set until = heartbeat_at where {is_it}"),
            format!("update tidemill_outbox_relay set until = joined_at where {is_it}"),
        ]);
    }

    /// Makes a process one of another machine, where nobody can see whether it is still there.
    fn move_away(&self, pid: u32) {
        self.change([format!("update tidemill_process set incarnation = null where pid = {pid}")]);
    }

    fn change<const N: usize>(&self, statements: [String; N]) {
        let url = self.environment.iter().find(|(name, _)| name == "TIDEMILL_DATABASE_URL");
        let url = url.expect("a database that is named").1.clone();
        let change = async move {
            let store = Store::connect(&url).await.unwrap();
            let mut tx = store.begin().await.unwrap();
            for sql in statements {
                tx.execute_for_test(&sql).await.unwrap();
            }
            tx.commit().await.unwrap();
            store.close().await;
        };
        // On a thread of its own, because tests with and without a runtime need it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || runtime.block_on(change)).join().unwrap();
    }
}

/// What a run left behind.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The run failed as it should: this code, this exit code, with a fix and without a panic.
    #[track_caller]
    fn fails(&self, code: &str, exit: i32) -> &Self {
        assert_eq!(self.code, Some(exit), "{self:#?}");
        assert!(self.stderr.contains(&format!("error[{code}]: ")), "{self:#?}");
        assert!(self.stderr.contains("\n  fix: "), "{self:#?}");
        assert!(!self.stderr.contains("panicked") && !self.stderr.contains("RUST_BACKTRACE"), "{self:#?}");
        self
    }

    /// The same with `-o json`.
    #[track_caller]
    fn fails_as_json(&self, code: &str, exit: i32) {
        let told: serde_json::Value = serde_json::from_str(&self.stderr).unwrap_or_default();
        assert_eq!((self.code, told["code"].as_str()), (Some(exit), Some(code)), "{self:#?}");
    }

    #[track_caller]
    fn succeeds(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
