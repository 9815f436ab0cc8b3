//! The commands, one file each. A command gets its arguments and the context, prints its result, and returns its exit code.

#[cfg(windows)]
mod absent;
mod alert;
mod audit;
mod config;
mod db;
#[cfg(unix)]
mod demo;
mod doctor;
mod explain;
mod hint;
mod init;
mod job;
mod logs;
mod man;
mod outbox;
mod pool;
mod process;
pub(crate) mod relay;
mod render;
#[cfg(unix)]
mod run;
mod schedule;
mod serve;
mod shutdown;
mod status;
mod token;
mod why;

use crate::declared::Parameters;
#[cfg(windows)]
use absent::{demo, run};
use prelude::*;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tidemill_store::Tx;

/// What nearly every command uses.
mod prelude {
    pub(super) use crate::context::Context;
    pub(super) use crate::output::{Listing, write_stdout};
    pub(super) use crate::report::{Failure, Result};
    pub(super) use clap::{Args, Subcommand};
    pub(super) use serde_json::json;
    pub(super) use tidemill_domain::code::{Code, Exit};
}

/// The content of a file, or of standard input if it is `-`. Reads at most one byte more than `most`.
fn read_input(file: &Path, most: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let input: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file)?),
    };
    let mut bytes = Vec::new();
    input.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Commits, or rolls back a dry run.
async fn finish(tx: Tx, is_dry: bool) -> Result<()> {
    if is_dry {
        tx.rollback().await?
    } else {
        tx.commit().await?
    }
    Ok(())
}

/// The end of the help of a command group.
fn examples(commands: &[&str]) -> String {
    let lines = commands.iter().map(|command| format!("\n  tidemill {command}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show the state of the whole installation on one screen
    Status,
    /// Database schema and migrations
    #[command(subcommand, after_help = examples(&["db status", "db migrate"]))]
    Db(db::Db),
    /// Show and check the configuration
    #[command(subcommand, after_help = examples(&["config show --origin", "config check"]))]
    Config(config::Config),
    /// Audit log: who changed what, when and why
    #[command(subcommand, after_help = examples(&[
        "audit list --object pool/ADW",
        "audit list --action pool.pause --since 2026-11-15T00:00:00Z",
    ]))]
    Audit(audit::Audit),
    /// Run, inspect and operate jobs
    #[command(subcommand, after_help = examples(&[
        "job run jobs/payments.yaml -p date=2026-11-15",
        "job list --jobs jobs",
        "job restart 7",
        "job stop 7 --reason maintenance",
        "job delete --older-than 90d --dry-run",
    ]))]
    Job(job::JobCommand),
    /// List executions, newest first, or show one
    Executions(job::Executions),
    /// Print the output of the command and Spark steps of an execution
    Logs(logs::Logs),
    /// Schedules that launch jobs
    #[command(subcommand, after_help = examples(&[
        "schedule list",
        "schedule next nightly",
        "schedule pause nightly --reason maintenance",
    ]))]
    Schedule(schedule::ScheduleCommand),
    /// Create, inspect and operate pools
    #[command(subcommand, after_help = examples(&[
        "pool create ADW --max 95",
        "pool list --watch",
        "pool queue ADW",
        "pool pause ADW --reason maintenance",
        "pool breaker open ADW --reason maintenance",
    ]))]
    Pool(pool::PoolCommand),
    /// Inspect and operate the outbox
    #[command(subcommand, after_help = examples(&[
        "outbox stats",
        "outbox failed",
        "outbox replay --all --dry-run --reason fixed",
    ]))]
    Outbox(outbox::OutboxCommand),
    /// Publish events of the outbox until stopped
    Relay(relay::RelayArguments),
    /// Renders: order, inspect and operate them, and run workers
    #[command(subcommand, after_help = examples(&[
        "render submit data.json",
        "render list --status failed",
        "render retry 7 --reason fixed",
    ]))]
    Render(render::RenderCommand),
    /// Explain why a run waits for units, or what it was granted
    Why(why::Why),
    /// Run a command with units of pools, and release them when it ends
    Run(run::Run),
    /// Processes that use this database
    #[command(subcommand, after_help = examples(&["process list"]))]
    Process(process::ProcessCommand),
    /// Read and lower the degree of Oracle hints
    #[command(subcommand, after_help = examples(&[
        "hint parse '/*+ PARALLEL(8) */'",
        "hint rewrite '/*+ PARALLEL(16) */' --to 8",
    ]))]
    Hint(hint::HintCommand),
    /// Leases of processes
    #[command(subcommand, after_help = examples(&["lease list"]))]
    Lease(process::LeaseCommand),
    /// Serve the API and the dashboard
    Serve(serve::Serve),
    /// API tokens
    #[command(subcommand, after_help = examples(&[
        "token create nightly --role operator --expires 30d",
        "token list",
        "token delete 0aB1cD2e",
    ]))]
    Token(token::TokenCommand),
    /// Alerts, their rules and silences
    #[command(subcommand, after_help = examples(&[
        "alert list",
        "alert silence database_slow --for 2h --reason reindex",
    ]))]
    Alert(alert::AlertCommand),
    /// Write a commented configuration and an example job
    Init(init::Init),
    /// Check configuration, database, schema, clocks, disk and configured services
    Doctor,
    /// Run and verify a demo on its own database
    Demo(demo::Demo),
    /// One worker of the demo
    #[command(hide = true)]
    DemoWorker(demo::worker::DemoWorker),
    /// One relay of the demo
    #[command(hide = true)]
    DemoRelay(relay::RelayArguments),
    /// Explain an error code, or list the exit codes
    Explain(explain::Explain),
    /// Print a completion script for a shell
    Completions(man::Completions),
    /// Print or write manual pages
    Man(man::Manual),
}

/// A flag that overrides a key of the configuration: key, flag, value.
pub(crate) type Flag = (&'static str, &'static str, String);

pub(crate) fn given<const N: usize>(flags: [(&'static str, &'static str, &Option<String>); N]) -> Vec<Flag> {
    flags.into_iter().filter_map(|(key, flag, value)| Some((key, flag, value.clone()?))).collect()
}

impl Command {
    /// Whether the command reads the configuration. The others work even if it is broken.
    pub(crate) fn needs_configuration(&self) -> bool {
        !matches!(self, Self::Init(_) | Self::Explain(_) | Self::Completions(_) | Self::Man(_))
    }

    /// Whether the command runs or shows jobs, so that the job files have to be loaded.
    pub(crate) fn needs_jobs(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            Self::Job(job) => job.needs_jobs(),
            _ => false,
        }
    }

    pub(crate) fn parameters(&self) -> Parameters {
        match self {
            Self::Job(job) => job.parameters(),
            _ => Parameters::Stored,
        }
    }

    /// The command's own flags that override keys of the configuration.
    pub(crate) fn as_flags(&self) -> Vec<Flag> {
        match self {
            Self::Serve(serve) => serve.as_flags(),
            Self::Job(job) => job.as_flags(),
            Self::Relay(relay) | Self::DemoRelay(relay) => relay.as_flags(),
            Self::Render(render) => render.as_flags(),
            _ => Vec::new(),
        }
    }
}

pub(crate) fn run_plain(command: Command) -> Result<Exit> {
    match command {
        Command::Explain(explain) => explain::run(&explain),
        Command::Completions(completions) => man::completions(&completions),
        Command::Init(init) => init::run(&init),
        Command::Man(manual) => man::run(&manual),
        other => {
            Err(Failure::new(Code::Unexpected, format!("{other:?} needs the configuration"), "report this"))
        }
    }
}

/// Runs a command, and returns its exit code.
pub(crate) async fn run(command: Command, context: &Context) -> Result<u8> {
    match command {
        // It ends with the exit code of the command that it runs.
        Command::Run(arguments) => run::run(arguments, context).await,
        other => run_ours(other, context).await.map(Exit::number),
    }
}

#[crate::boxed(?Send)]
async fn run_ours(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Status => status::run(context).await,
        Command::Db(db) => db::run(db, context).await,
        Command::Config(config) => config::run(&config, context),
        Command::Audit(audit) => audit::run(audit, context).await,
        Command::Job(job) => job::run(job, context).await,
        Command::Executions(executions) => job::executions(executions, context).await,
        Command::Logs(logs) => logs::run(&logs, context).await,
        Command::Schedule(schedule) => schedule::run(schedule, context).await,
        Command::Pool(pool) => pool::run(pool, context).await,
        Command::Outbox(outbox) => outbox::run(outbox, context).await,
        Command::Relay(_) => relay::run(context).await,
        Command::Render(render) => render::run(render, context).await,
        Command::Why(why) => why::run(&why, context).await,
        Command::Process(process) => process::run(&process, context).await,
        Command::Hint(hint) => hint::run(&hint, context),
        Command::Lease(lease) => process::leases(&lease, context).await,
        Command::Serve(_) => serve::run(context).await,
        Command::Token(token) => token::run(token, context).await,
        Command::Alert(alert) => alert::run(alert, context).await,
        Command::Doctor => doctor::run(context).await,
        Command::Demo(demo) => demo::run(&demo, context).await,
        Command::DemoWorker(worker) => demo::worker::run(&worker, context).await,
        Command::DemoRelay(_) => demo::relays::run(context).await,
        plain @ (Command::Explain(_)
        | Command::Completions(_)
        | Command::Init(_)
        | Command::Man(_)
        | Command::Run(_)) => run_plain(plain),
    }
}
