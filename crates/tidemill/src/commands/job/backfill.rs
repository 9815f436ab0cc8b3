//! `job backfill`: runs a job once for each date of a range, in order, in this process.

use super::run::{GRACE, SelectedJob, with_launcher};
use super::{Folder, detail};
use crate::commands::prelude::*;
use crate::commands::shutdown::{Signals, signals};
use jiff::civil::Date;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::backfill::{self, Backfill, BadBackfill, Step};
use tidemill_domain::job::launch::{Launch, LaunchRefusal, LaunchRules};
use tidemill_domain::job::parameter::check;
use tidemill_domain::job::{BatchStatus, ExecutionId, JobParameters};
use tidemill_engine::job::{ExecutionEnd, Job, JobError, Launcher};
use tidemill_store::Store;
use tokio::task::JoinSet;

#[derive(Args, Debug)]
pub(crate) struct BackfillArguments {
    /// Name of a job, or path of a job file: ends in .yaml or .yml, or contains a /
    #[arg(value_name = "JOB|FILE")]
    pub(super) job: String,
    /// Parameter that receives the date
    #[arg(long, value_name = "NAME")]
    parameter: String,
    /// First date, such as 2026-01-01
    #[arg(long, value_name = "DATE", value_parser = date)]
    from: Date,
    /// Last date
    #[arg(long, value_name = "DATE", value_parser = date)]
    to: Date,
    /// Interval between dates: days (1d), weeks (1w) or months (1mo)
    #[arg(long, value_name = "STEP", default_value = "1d")]
    every: String,
    /// Another parameter for all dates, written as for `job run`; can be repeated
    #[arg(short = 'p', long = "with", value_name = "NAME=VALUE")]
    given: Vec<String>,
    /// Number of dates to run at once; they still start in order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Continue with the other dates when one fails
    #[arg(long)]
    keep_going: bool,
    /// Print what would be done, run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) folder: Folder,
}

/// Maximum length of the cause in the output; the execution has the whole text.
const CAUSE_CHARS_MAX: usize = 300;

fn date(text: &str) -> Result<Date, String> {
    let date = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| "a date is written as 2026-01-31".to_owned())
}

impl From<BadBackfill> for Failure {
    fn from(error: BadBackfill) -> Self {
        bad(&error)
    }
}

fn bad(error: &dyn std::error::Error) -> Failure {
    Failure::new(Code::BadBackfill, error.to_string(), "see `tidemill job backfill --help`")
}

struct DateRun {
    date: Date,
    parameters: JobParameters,
    result: DateResult,
}

enum DateResult {
    NotStarted,
    AlreadyComplete,
    Ended { execution: ExecutionId, status: BatchStatus, code: Option<Code>, cause: Option<String> },
    Refused { code: Code, why: String },
    Planned(&'static str),
}

pub(super) async fn run(arguments: BackfillArguments, context: &Context) -> Result<Exit> {
    let selected = SelectedJob::find(&arguments.job, context)?;
    let arguments = BackfillArguments { job: selected.job.clone(), ..arguments };
    let job = selected.definitions.jobs.get(&selected.job)?;
    let mut lines = plan(&arguments, &selected)?;
    if arguments.dry_run {
        preview(job, &mut lines, context).await?;
        return print(&arguments.job, &lines, context);
    }
    let mut signals = signals()?;
    with_launcher(&selected.definitions, context, async |launcher| {
        work(&arguments, &mut lines, launcher, &mut signals, context).await;
        Ok(())
    })
    .await?;
    print(&arguments.job, &lines, context)
}

fn plan(arguments: &BackfillArguments, selected: &SelectedJob) -> Result<Vec<DateRun>> {
    let job = selected.definitions.jobs.get(&selected.job)?;
    let every: Step = arguments.every.parse()?;
    let dates = Backfill { from: arguments.from, to: arguments.to, every }.dates()?;
    let given = selected.parameters(&arguments.given)?;
    let name = &arguments.parameter;
    if given.get(name).is_some() {
        return Err(BadBackfill::Given { name: name.clone() }.into());
    }
    let line = |date: Date| -> Result<DateRun> {
        let mut parameters = given.clone();
        let value = backfill::parameter(name, date, job.parameters())?;
        parameters.insert(name, value).map_err(|error| bad(&error))?;
        selected.definitions.check_given(&selected.job, &parameters)?;
        Ok(DateRun { date, parameters, result: DateResult::NotStarted })
    };
    dates.into_iter().map(line).collect()
}

async fn preview(job: &Job, lines: &mut [DateRun], context: &Context) -> Result<()> {
    let mut tx = context.read().await?;
    for line in lines {
        let rules = LaunchRules {
            is_restartable: job.is_restartable(),
            has_identifying: line.parameters.has_identifying(),
            has_changed: false,
        };
        let valid = check(&line.parameters, job.parameters());
        let preview =
            tx.jobs().preview_launch(job.name(), &line.parameters, job.definition(), rules, valid).await?;
        line.result = match preview {
            Ok(Launch::First) => DateResult::Planned("would run"),
            Ok(Launch::Restart) => DateResult::Planned("would resume"),
            Err(LaunchRefusal::AlreadyComplete(_)) => DateResult::AlreadyComplete,
            Err(refusal) => DateResult::Refused { code: refusal.code(), why: refusal.to_string() },
        };
    }
    Ok(())
}

/// Starts the dates in order, `parallel` at once, until all ended, one failed or a signal came.
async fn work(
    arguments: &BackfillArguments,
    lines: &mut [DateRun],
    launcher: &Launcher,
    signals: &mut Signals,
    context: &Context,
) {
    let (mut running, mut next, mut is_stopped) = (JoinSet::new(), 0, Stop::No);
    loop {
        while is_stopped == Stop::No && next < lines.len() && running.len() < usize::from(arguments.parallel)
        {
            let (launcher, actor) = (launcher.clone(), context.actor());
            let (job, parameters, index) = (arguments.job.clone(), lines[next].parameters.clone(), next);
            running.spawn(async move { (index, run_one(&launcher, &job, &parameters, &actor).await) });
            next += 1;
        }
        let ended = tokio::select! {
            ended = running.join_next() => ended,
            _signal = signals.next(), if is_stopped != Stop::Now => {
                stop(&mut is_stopped, launcher, context);
                continue;
            }
        };
        let Some(ended) = ended else { return };
        let Ok((index, done)) = ended else { continue };
        context.note(&format!("{}: {}", lines[index].date, done.with_cause()));
        if done.failure().is_some() && !arguments.keep_going && is_stopped == Stop::No {
            is_stopped = Stop::NoMore;
        }
        lines[index].result = done;
    }
}

/// Whether to start more dates, and whether running dates continue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// A date failed: running dates continue to their end.
    NoMore,
    /// A signal came: running dates stop after their chunk.
    AtChunkEnd,
    /// A second signal came.
    Now,
}

fn stop(is_stopped: &mut Stop, launcher: &Launcher, context: &Context) {
    let grace = if *is_stopped == Stop::AtChunkEnd { Duration::ZERO } else { GRACE };
    *is_stopped = if *is_stopped == Stop::AtChunkEnd { Stop::Now } else { Stop::AtChunkEnd };
    if *is_stopped == Stop::AtChunkEnd {
        context.note("stopping after the current chunk; send the signal once more to stop now");
    }
    let launcher = launcher.clone();
    tokio::spawn(async move { launcher.stop_all(grace).await });
}

async fn run_one(launcher: &Launcher, job: &str, parameters: &JobParameters, actor: &Actor) -> DateResult {
    let running = match launcher.launch(job, parameters, actor).await {
        Ok(running) => running,
        Err(JobError::Refused { refusal: LaunchRefusal::AlreadyComplete(_), .. }) => {
            return DateResult::AlreadyComplete;
        }
        Err(error) => return DateResult::Refused { code: error.code(), why: error.to_string() },
    };
    match running.ended().await {
        Ok(end) => DateResult::Ended {
            execution: end.execution,
            status: end.status,
            code: end.code,
            cause: cause(&end, launcher.store()).await,
        },
        Err(error) => DateResult::Refused { code: error.code(), why: error.to_string() },
    }
}

/// Why an execution did not complete, on one line of bounded length.
async fn cause(end: &ExecutionEnd, store: &Store) -> Option<String> {
    if end.status == BatchStatus::Completed {
        return None;
    }
    // A database error here only shortens the message.
    let steps = detail::read_steps(end.execution, store).await.unwrap_or_default();
    let line = detail::cause(end, &steps).lines().map(str::trim).find(|line| !line.is_empty())?;
    let short: String = line.chars().take(CAUSE_CHARS_MAX).collect();
    Some(if short.len() < line.len() { format!("{short}…") } else { short })
}

impl DateResult {
    /// The codes of a date that did not complete.
    fn failure(&self) -> Option<(Code, Exit)> {
        match self {
            Self::Ended { status: BatchStatus::Completed, .. } => None,
            Self::Ended { status: BatchStatus::Stopped, .. } => {
                Some((Code::ExecutionStopped, Exit::ExecutionStopped))
            }
            Self::Ended { status: BatchStatus::Abandoned, .. } => {
                Some((Code::ExecutionAbandoned, Exit::ExecutionAbandoned))
            }
            Self::Ended { code, .. } => Some((code.unwrap_or(Code::ExecutionFailed), Exit::ExecutionFailed)),
            Self::Refused { code, .. } => Some((*code, code.exit())),
            Self::NotStarted | Self::AlreadyComplete | Self::Planned(_) => None,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::NotStarted => "not started".to_owned(),
            Self::AlreadyComplete => "skipped: already complete".to_owned(),
            Self::Ended { status, .. } => status.as_str().to_owned(),
            Self::Refused { code, why } => format!("refused ({code}): {why}"),
            Self::Planned(what) => (*what).to_owned(),
        }
    }

    fn with_cause(&self) -> String {
        match self {
            Self::Ended { cause: Some(cause), .. } => format!("{}: {cause}", self.words()),
            _ => self.words(),
        }
    }
}

fn print(job: &str, lines: &[DateRun], context: &Context) -> Result<Exit> {
    let columns = &["date", "execution", "result"];
    let mut listing = Listing::new("tidemill.job_backfill/v1", columns, "No dates.");
    for line in lines {
        let execution = match &line.result {
            DateResult::Ended { execution, .. } => Some(execution.get()),
            _ => None,
        };
        listing.push(vec![json!(line.date.to_string()), json!(execution), json!(line.result.words())]);
    }
    listing.print(context.output())?;
    verdict(job, lines)
}

/// Fails with the codes of the first date that did not complete.
fn verdict(job: &str, lines: &[DateRun]) -> Result<Exit> {
    let failed = lines.iter().filter(|line| line.result.failure().is_some()).count();
    let open = lines.iter().filter(|line| matches!(line.result, DateResult::NotStarted)).count();
    let first = lines.iter().find_map(|line| Some((line, line.result.failure()?)));
    let Some((first, (code, exit))) = first else {
        if open == 0 {
            return Ok(Exit::Ok);
        }
        let what = format!("the backfill of job {job} was stopped before {open} of {} dates", lines.len());
        return Err(Failure::new(Code::ExecutionStopped, what, "run it again to continue"));
    };
    let what =
        format!("{failed} of {} dates of job {job} did not complete, {open} were not started", lines.len());
    let hint = match &first.result {
        DateResult::Ended { execution, .. } => format!(" (see `tidemill executions {execution}`)"),
        _ => String::new(),
    };
    let fix =
        format!("fix the cause{hint}, then run it again: completed dates are skipped, failed dates resume");
    let why = format!("{}: {}", first.date, first.result.with_cause());
    Err(Failure::new(code, what, fix).because(why).ending(exit.number()))
}
