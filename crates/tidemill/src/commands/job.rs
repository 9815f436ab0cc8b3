//! `tidemill job` and `tidemill executions`: run jobs, list them, and act on their executions.

mod backfill;
mod check;
mod delete;
mod detail;
mod list;
mod operate;
mod progress;
mod run;
mod test;

use crate::commands::Flag;
use crate::commands::prelude::*;
use crate::declared::{Parameters, is_file};
use std::path::{Path, PathBuf};
use tidemill_domain::audit;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};

#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// List the jobs of this program and those that have run on this database
    List {
        /// Maximum number of jobs
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// Show a job: its steps, parameters and instances
    Show {
        /// Name of the job
        job: String,
        /// Maximum number of instances
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// Run a job in this process and wait until it ends
    Run {
        /// Name of a job, or path of a job file: ends in .yaml or .yml, or contains a /
        #[arg(value_name = "JOB|FILE")]
        job: String,
        /// Parameter as NAME=VALUE[,TYPE[,IDENTIFYING]]; can be repeated
        #[arg(short, long = "parameter", value_name = "NAME=VALUE")]
        parameters: Vec<String>,
        /// Resume an instance even if the definition of the job has changed
        #[arg(long)]
        accept_change: bool,
        /// Run a new instance with the next unused run.id; takes no other parameters from earlier runs
        #[arg(long)]
        next: bool,
        #[command(flatten)]
        folder: Folder,
    },
    /// Run a job once for each date of a range, in order, in this process
    Backfill(backfill::BackfillArguments),
    /// Check job files: print what they would run, or all errors; runs nothing
    Check {
        /// Job files, or folders of .yaml and .yml files
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Test job files: run them on sample inputs and compare what they write with what is expected
    Test(test::TestArguments),
    /// Restart an execution that failed or was stopped, in this process, and wait until it ends
    Restart {
        /// Id of the execution
        #[arg(value_parser = execution_id)]
        execution: ExecutionId,
        /// Restart even if the definition of the job has changed
        #[arg(long)]
        accept_change: bool,
        /// Job file that declares the job
        #[arg(long, value_name = "FILE", conflicts_with = "jobs")]
        file: Option<PathBuf>,
        #[command(flatten)]
        folder: Folder,
    },
    /// Work for jobs of other processes until stopped: run their partitions, restart jobs whose process died
    Work {
        /// Maximum number of partitions at once
        #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
        slots: u32,
        #[command(flatten)]
        folder: Folder,
    },
    /// Stop an execution after its current chunk, wherever it runs
    Stop {
        /// Id of the execution
        #[arg(value_parser = execution_id)]
        execution: ExecutionId,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Abandon an execution that did not complete: its instance can never be restarted
    Abandon(ExecutionAction),
    /// Mark an execution whose process is gone as failed, so that it can be restarted
    Recover(ExecutionAction),
    /// Delete old instances and their executions
    #[command(alias = "purge")]
    Delete(delete::Delete),
    /// List executions, the newest first, or show one
    Executions(Executions),
}

#[derive(Args, Debug)]
pub(crate) struct Folder {
    /// Also load the job files of this folder; overrides jobs.folder
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

    pub(super) fn parameters(&self) -> Parameters {
        match self {
            Self::Run { .. } | Self::Backfill(_) => Parameters::Given,
            _ => Parameters::Stored,
        }
    }

    /// Whether to load the folder of job files. A command that names a file needs only that file.
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

#[derive(Args, Debug)]
pub(crate) struct ExecutionAction {
    /// Id of the execution
    #[arg(value_parser = execution_id)]
    execution: ExecutionId,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Executions {
    /// Show the execution with this id
    #[arg(value_parser = execution_id, conflicts_with_all = ["job", "status", "instance", "before", "limit"])]
    id: Option<ExecutionId>,
    /// Also show the contexts of the execution and its steps
    #[arg(long, requires = "id")]
    context: bool,
    /// Only executions of this job
    #[arg(long, help_heading = "Filters")]
    job: Option<String>,
    /// Only executions in this status, such as FAILED
    #[arg(long, help_heading = "Filters")]
    status: Option<BatchStatus>,
    /// Only executions of this instance
    #[arg(long, value_parser = instance_id, help_heading = "Filters")]
    instance: Option<InstanceId>,
    /// Only executions with a lower id, for the next page
    #[arg(long, value_name = "ID", value_parser = execution_id)]
    before: Option<ExecutionId>,
    /// Maximum number of executions
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| "an id is a whole number greater than 0".to_owned())
}

pub(super) fn execution_id(text: &str) -> Result<ExecutionId, String> {
    number(text).map(ExecutionId::new)
}

fn instance_id(text: &str) -> Result<InstanceId, String> {
    number(text).map(InstanceId::new)
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    audit::reason(text).map(str::to_owned).map_err(|bad| format!("{bad}; {}", bad.fix()))
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: JobCommand, context: &Context) -> Result<Exit> {
    match command {
        JobCommand::List { limit, .. } => list::jobs(limit, context).await,
        JobCommand::Show { job, limit, .. } => list::one(&job, limit, context).await,
        JobCommand::Run { job, parameters, accept_change, next, .. } => {
            let options = run::LaunchOptions { accept_change, next };
            let launched = run::launch(&job, &parameters, options, context).await;
            launched.map_err(|failure| suggest_file(failure, &job))
        }
        JobCommand::Check { paths } => {
            let first = paths.first().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            check::run(&paths, context).map_err(|failure| suggest_file(failure, &first))
        }
        JobCommand::Test(arguments) => test::run(&arguments, context).await,
        JobCommand::Backfill(arguments) => backfill::run(arguments, context).await,
        JobCommand::Restart { execution, accept_change, file, .. } => {
            run::restart(execution, file.as_deref(), accept_change, context).await
        }
        JobCommand::Work { slots, .. } => run::work(slots, context).await,
        JobCommand::Stop { execution, reason } => operate::stop(execution, reason.as_deref(), context).await,
        JobCommand::Abandon(action) => operate::abandon(&action, context).await,
        JobCommand::Recover(action) => operate::recover(&action, context).await,
        JobCommand::Delete(arguments) => delete::run(arguments, context).await,
        JobCommand::Executions(arguments) => executions(arguments, context).await,
    }
}

/// Suggests the job file if only its folder or its ending is missing, as in `job run payments`.
fn suggest_file(failure: Failure, word: &str) -> Failure {
    if !matches!(failure.code, Code::UnknownJob | Code::BadJobFile) || Path::new(word).exists() {
        return failure;
    }
    let files =
        ["", "jobs/"].map(|folder| ["yaml", "yml"].map(|ending| format!("./{folder}{word}.{ending}")));
    match files.into_iter().flatten().find(|file| Path::new(file).is_file()) {
        Some(file) => failure.with_fix(format!("did you mean {file}?")),
        None => failure,
    }
}

#[crate::boxed(?Send)]
pub(super) async fn executions(arguments: Executions, context: &Context) -> Result<Exit> {
    match arguments.id {
        Some(id) => detail::show(id, arguments.context, context).await,
        None => list::executions(arguments, context).await,
    }
}
