//! `tidemill job` and `tidemill executions`: run jobs, look at them, act on their executions.

mod backfill;
mod check;
mod detail;
mod list;
mod operate;
mod outcome;
mod progress;
mod purge;
mod run;
mod step;

use crate::commands::Flag;
use crate::context::Context;
use crate::declared::{Parameters, is_file};
use crate::report::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tidemill_domain::audit;
use tidemill_domain::code::Exit;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};

/// Jobs: run them, look at them, act on their executions
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// The jobs of this program, and those that this database knows
    List {
        /// At most so many jobs
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// One job: its steps and parameters, and its instances
    Show {
        /// Its name
        job: String,
        /// At most so many instances
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// Run a job in this process, and wait for its end
    Run {
        /// Its name, or a job file: what ends in .yaml or .yml, or has a / in it
        #[arg(value_name = "JOB|FILE")]
        job: String,
        /// A parameter: name=value, with ,type or ,type,identifying behind it; may be repeated
        #[arg(short, long = "parameter", value_name = "NAME=VALUE")]
        parameters: Vec<String>,
        /// Go on with an instance although the definition of the job has changed since
        #[arg(long)]
        accept_change: bool,
        /// Run the next instance: with a run.id that none had before, and nothing else from earlier runs
        #[arg(long)]
        next: bool,
        #[command(flatten)]
        folder: Folder,
    },
    /// Run a job once for each date of a range, in this process and in order
    Backfill(backfill::BackfillArguments),
    /// Read job files and say what they would run, or everything that is wrong with them; nothing runs
    Check {
        /// A file, or a folder with files that end in .yaml or .yml
        path: PathBuf,
    },
    /// Go on with an execution that failed or was stopped, in this process, and wait for its end
    Restart {
        /// Its id
        #[arg(value_parser = execution_id)]
        execution: ExecutionId,
        /// Go on although the definition of the job has changed since
        #[arg(long)]
        accept_change: bool,
        /// The job file that declares the job
        #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
        file: Option<PathBuf>,
        #[command(flatten)]
        folder: Folder,
    },
    /// Run partitions of jobs that other processes run, and restart those whose process died, until told to stop
    Work {
        /// At most so many partitions at once
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
        slots: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// Ask an execution to stop at the end of its chunk, wherever it runs
    Stop {
        /// Its id
        #[arg(value_parser = execution_id)]
        execution: ExecutionId,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Give up an execution that ended without success: its instance is never restarted
    Abandon(Order),
    /// Declare an execution over that nobody runs any more, so that it can be restarted
    Recover(Order),
    /// Forget instances that ended long ago, with their executions
    Purge(purge::Purge),
    /// The executions of jobs, the newest first; with an id, all about one
    Executions(Executions),
}

/// Where job files are.
#[derive(Args, Debug)]
pub(crate) struct Folder {
    /// The jobs of all job files of this folder too, overrides jobs.folder
    #[arg(long, value_name = "DIR")]
    jobs: Option<String>,
}

impl JobCommand {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        let folder = match self {
            Self::List { folder, .. }
            | Self::Show { folder, .. }
            | Self::Run { folder, .. }
            | Self::Restart { folder, .. }
            | Self::Work { folder, .. } => folder.jobs.clone(),
            Self::Backfill(arguments) => arguments.folder.jobs.clone(),
            _ => None,
        };
        folder.map(|folder| ("jobs.folder", "--jobs", folder)).into_iter().collect()
    }

    /// Where the parameters come from of the jobs that the command runs.
    pub(super) fn parameters(&self) -> Parameters {
        match self {
            Self::Run { .. } | Self::Backfill(_) => Parameters::Given,
            _ => Parameters::Stored,
        }
    }

    /// Whether the jobs of the folder of job files have to be there. A command that names a file needs only that.
    pub(super) fn needs_jobs(&self) -> bool {
        match self {
            Self::List { .. } | Self::Show { .. } | Self::Work { .. } => true,
            Self::Backfill(arguments) => is_file(&arguments.job).is_none(),
            Self::Run { job, .. } => is_file(job).is_none(),
            Self::Restart { file, .. } => file.is_none(),
            _ => false,
        }
    }
}

/// What an operator wants to happen to an execution, and why.
#[derive(Args, Debug)]
pub(crate) struct Order {
    /// Its id
    #[arg(value_parser = execution_id)]
    execution: ExecutionId,
    /// Why, for those who wonder later
    #[arg(long, value_parser = reason)]
    reason: String,
}

/// Which executions to show.
#[derive(Args, Debug)]
pub(crate) struct Executions {
    /// All about the execution with this id
    #[arg(value_parser = execution_id, conflicts_with_all = ["job", "status", "instance", "before", "limit"])]
    id: Option<ExecutionId>,
    /// Also what the execution and its steps remember
    #[arg(long, requires = "id")]
    context: bool,
    /// Only those of this job
    #[arg(long)]
    job: Option<String>,
    /// Only those in this status, such as FAILED
    #[arg(long, value_parser = status)]
    status: Option<BatchStatus>,
    /// Only those of the instance with this id
    #[arg(long, value_parser = instance_id)]
    instance: Option<InstanceId>,
    /// Only those older than the one with this id
    #[arg(long, value_name = "ID", value_parser = execution_id)]
    before: Option<ExecutionId>,
    /// At most so many executions
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| "an id is a whole number from 1 on".to_owned())
}

fn execution_id(text: &str) -> Result<ExecutionId, String> {
    number(text).map(ExecutionId::new)
}

fn instance_id(text: &str) -> Result<InstanceId, String> {
    number(text).map(InstanceId::new)
}

fn status(text: &str) -> Result<BatchStatus, String> {
    text.parse::<BatchStatus>().map_err(|error| error.to_string())
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    audit::reason(text).map(str::to_owned).map_err(|bad| format!("{bad}; {}", bad.fix()))
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: JobCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        JobCommand::List { limit, .. } => list::jobs(limit, context).await,
        JobCommand::Show { job, limit, .. } => list::one(&job, limit, context).await,
        JobCommand::Run { job, parameters, accept_change, next, .. } => {
            run::launch(&job, &parameters, run::Manner { accept_change, next }, context).await
        }
        JobCommand::Check { path } => check::run(&path, context),
        JobCommand::Backfill(arguments) => backfill::run(arguments, context).await,
        JobCommand::Restart { execution, accept_change, file, .. } => {
            run::restart(execution, file.as_deref(), accept_change, context).await
        }
        JobCommand::Work { slots, .. } => run::work(slots, context).await,
        JobCommand::Stop { execution, reason } => operate::stop(execution, reason.as_deref(), context).await,
        JobCommand::Abandon(order) => operate::abandon(&order, context).await,
        JobCommand::Recover(order) => operate::recover(&order, context).await,
        JobCommand::Purge(arguments) => purge::run(arguments, context).await,
        JobCommand::Executions(arguments) => executions(arguments, context).await,
    }
}

#[crate::boxed(?Send)]
pub(super) async fn executions(arguments: Executions, context: &Context) -> Result<Exit, Failure> {
    match arguments.id {
        Some(id) => detail::show(id, arguments.context, context).await,
        None => list::executions(arguments, context).await,
    }
}
