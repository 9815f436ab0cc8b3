//! `job backfill`: a job once for each date of a range, in this process and in order.

use super::Folder;
use super::run::{GRACE, Meant, with_launcher};
use crate::commands::shutdown::Signals;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use jiff::civil::Date;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::job::backfill::{self, Backfill, BadBackfill, Step};
use tidemill_domain::job::launch::{Launch, LaunchRefusal, LaunchRules};
use tidemill_domain::job::parameter::check;
use tidemill_domain::job::{BatchStatus, ExecutionId, JobParameters};
use tidemill_engine::job::{ExecutionEnd, Job, JobError, Launcher};
use tidemill_store::job::StepRecord;
use tidemill_store::{Store, StoreError};
use tokio::task::JoinSet;

/// Run a job once for each date of a range, in this process and in order
#[derive(Args, Debug)]
pub(crate) struct BackfillArguments {
    /// Its name, or a job file: what ends in .yaml or .yml, or has a / in it
    #[arg(value_name = "JOB|FILE")]
    pub(super) job: String,
    /// The parameter that gets the date
    #[arg(long, value_name = "NAME")]
    parameter: String,
    /// The first date, such as 2026-01-01
    #[arg(long, value_name = "DATE", value_parser = date)]
    from: Date,
    /// The last date
    #[arg(long, value_name = "DATE", value_parser = date)]
    to: Date,
    /// How far it is from one date to the next: days (1d), weeks (1w) or months (1mo)
    #[arg(long, value_name = "STEP", default_value = "1d")]
    every: String,
    /// Another parameter, the same for all dates: name=value, as for `job run`; may be repeated
    #[arg(short = 'p', long = "with", value_name = "NAME=VALUE")]
    given: Vec<String>,
    /// Run so many at once; they are still started in order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Go on with the other dates when one fails
    #[arg(long)]
    keep_going: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) folder: Folder,
}

/// Longest cause that is told of a date; the execution has all of it.
const CAUSE_CHARS_MAX: usize = 300;

fn date(text: &str) -> Result<Date, String> {
    let date = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| "a date is written as 2026-01-31".to_owned())
}

impl From<BadBackfill> for Failure {
    fn from(bad: BadBackfill) -> Self {
        Self::new(Code::BadBackfill, bad.to_string(), "see `tidemill job backfill --help`")
    }
}

/// What became of one date.
struct Line {
    date: Date,
    parameters: JobParameters,
    result: Done,
}

enum Done {
    NotStarted,
    PassedOver,
    Ended { execution: ExecutionId, status: BatchStatus, code: Option<Code>, cause: Option<String> },
    Refused { code: Code, why: String },
    Would(&'static str),
}

pub(super) async fn run(arguments: BackfillArguments, context: &Context) -> Result<Exit, Failure> {
    let meant = Meant::by(&arguments.job, context)?;
    let arguments = BackfillArguments { job: meant.job.clone(), ..arguments };
    let job = meant.definitions.jobs.get(&meant.job)?;
    let mut lines = plan(&arguments, &meant)?;
    if arguments.dry_run {
        preview(job, &mut lines, context).await?;
        return print(&arguments.job, &lines, context);
    }
    let mut signals = Signals::new()?;
    with_launcher(&meant.definitions, context, async |launcher| {
        work(&arguments, &mut lines, launcher, &mut signals, context).await;
        Ok(())
    })
    .await?;
    print(&arguments.job, &lines, context)
}

/// All dates with their parameters, in order.
fn plan(arguments: &BackfillArguments, meant: &Meant) -> Result<Vec<Line>, Failure> {
    let job = meant.definitions.jobs.get(&meant.job)?;
    let every: Step = arguments.every.parse()?;
    let dates = Backfill { from: arguments.from, to: arguments.to, every }.dates()?;
    let given = meant.parameters(&arguments.given)?;
    let name = &arguments.parameter;
    if given.get(name).is_some() {
        return Err(BadBackfill::Given { name: name.clone() }.into());
    }
    let mut lines = Vec::with_capacity(dates.len());
    for date in dates {
        let mut parameters = given.clone();
        let invalid = |error: tidemill_domain::job::parameter::ParameterError| {
            Failure::new(Code::BadBackfill, error.to_string(), "see `tidemill job backfill --help`")
        };
        parameters.insert(name, backfill::parameter(name, date, job.parameters())?).map_err(invalid)?;
        meant.definitions.check_given(&meant.job, &parameters)?;
        lines.push(Line { date, parameters, result: Done::NotStarted });
    }
    Ok(lines)
}

async fn preview(job: &Job, lines: &mut [Line], context: &Context) -> Result<(), Failure> {
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
            Ok(Launch::First) => Done::Would("would run"),
            Ok(Launch::Restart) => Done::Would("would go on"),
            Err(LaunchRefusal::AlreadyComplete) => Done::PassedOver,
            Err(refusal) => Done::Refused { code: refusal.code(), why: refusal.to_string() },
        };
    }
    Ok(())
}

/// Starts one date after the other, as many at once as is wanted, until all have ended or something says stop.
async fn work(
    arguments: &BackfillArguments,
    lines: &mut [Line],
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
            () = signals.next(), if is_stopped != Stop::Now => {
                stop(&mut is_stopped, launcher, context);
                continue;
            }
        };
        let Some(ended) = ended else { return };
        let Ok((index, done)) = ended else { continue };
        context.note(&format!("{}: {}", lines[index].date, done.with_cause()));
        if done.is_failure() && !arguments.keep_going && is_stopped == Stop::No {
            is_stopped = Stop::NoMore;
        }
        lines[index].result = done;
    }
}

/// Whether more dates are begun, and whether those that run go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// A date failed: those that run go on to their end.
    NoMore,
    /// A signal came: those that run end with their chunk.
    AtChunkEnd,
    /// Another one came.
    Now,
}

fn stop(is_stopped: &mut Stop, launcher: &Launcher, context: &Context) {
    let grace = if *is_stopped == Stop::AtChunkEnd { Duration::ZERO } else { GRACE };
    *is_stopped = if *is_stopped == Stop::AtChunkEnd { Stop::Now } else { Stop::AtChunkEnd };
    if *is_stopped == Stop::AtChunkEnd {
        context.note("stopping at the end of the chunk; once more to stop now");
    }
    let launcher = launcher.clone();
    tokio::spawn(async move { launcher.stop_all(grace).await });
}

async fn run_one(launcher: &Launcher, job: &str, parameters: &JobParameters, actor: &Actor) -> Done {
    let running = match launcher.launch(job, parameters, actor).await {
        Ok(running) => running,
        Err(JobError::Refused { refusal: LaunchRefusal::AlreadyComplete, .. }) => return Done::PassedOver,
        Err(error) => return Done::Refused { code: error.code(), why: error.to_string() },
    };
    match running.ended().await {
        Ok(end) => Done::Ended {
            execution: end.execution,
            status: end.status,
            code: end.code,
            cause: cause(&end, launcher.store()).await,
        },
        Err(error) => Done::Refused { code: error.code(), why: error.to_string() },
    }
}

/// Why an execution did not complete, on one line of bounded length: what its first step says that failed, or it itself.
async fn cause(end: &ExecutionEnd, store: &Store) -> Option<String> {
    if end.status == BatchStatus::Completed {
        return None;
    }
    // It has ended, whatever becomes of this look; then only less is told.
    let steps = steps_of(end.execution, store).await.unwrap_or_default();
    let failed = steps.iter().find(|step| step.status.is_unsuccessful());
    let text = failed.map_or(&end.exit.description, |step| &step.exit.description);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let short: String = line.chars().take(CAUSE_CHARS_MAX).collect();
    Some(if short.len() < line.len() { format!("{short}…") } else { short })
}

async fn steps_of(id: ExecutionId, store: &Store) -> Result<Vec<StepRecord>, StoreError> {
    let mut tx = store.read().await?;
    let steps = tx.jobs().steps(id).await?;
    Ok(steps)
}

impl Done {
    fn is_failure(&self) -> bool {
        match self {
            Self::Ended { status, .. } => *status != BatchStatus::Completed,
            Self::Refused { .. } => true,
            Self::NotStarted | Self::PassedOver | Self::Would(_) => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::NotStarted => "not started".to_owned(),
            Self::PassedOver => "passed over: already complete".to_owned(),
            Self::Ended { status, .. } => status.as_str().to_owned(),
            Self::Refused { code, why } => format!("refused ({code}): {why}"),
            Self::Would(what) => (*what).to_owned(),
        }
    }

    fn with_cause(&self) -> String {
        match self {
            Self::Ended { cause: Some(cause), .. } => format!("{}: {cause}", self.words()),
            _ => self.words(),
        }
    }
}

fn print(job: &str, lines: &[Line], context: &Context) -> Result<Exit, Failure> {
    let columns = &["date", "execution", "result"];
    let mut listing = Listing::new("tidemill.job_backfill/v1", columns, "There is no date.");
    for line in lines {
        let execution = match &line.result {
            Done::Ended { execution, .. } => Some(execution.get()),
            _ => None,
        };
        listing.push(vec![json!(line.date.to_string()), json!(execution), json!(line.result.words())]);
    }
    listing.print(context.output())?;
    verdict(job, lines)
}

/// As `job run` ends: by the first date that did not complete.
fn verdict(job: &str, lines: &[Line]) -> Result<Exit, Failure> {
    let failed = lines.iter().filter(|line| line.result.is_failure()).count();
    let open = lines.iter().filter(|line| matches!(line.result, Done::NotStarted)).count();
    let Some(first) = lines.iter().find(|line| line.result.is_failure()) else {
        if open == 0 {
            return Ok(Exit::Ok);
        }
        let what = format!("the backfill of job {job} was stopped before {open} of {} dates", lines.len());
        return Err(Failure::new(Code::ExecutionStopped, what, "run it again: it goes on where it was"));
    };
    let (code, exit) = match &first.result {
        Done::Ended { status: BatchStatus::Stopped, .. } => (Code::ExecutionStopped, Exit::ExecutionStopped),
        Done::Ended { status: BatchStatus::Abandoned, .. } => {
            (Code::ExecutionAbandoned, Exit::ExecutionAbandoned)
        }
        Done::Ended { code, .. } => (code.unwrap_or(Code::ExecutionFailed), Exit::ExecutionFailed),
        Done::Refused { code, .. } => (*code, code.exit()),
        Done::NotStarted | Done::PassedOver | Done::Would(_) => {
            (Code::ExecutionFailed, Exit::ExecutionFailed)
        }
    };
    let what =
        format!("{failed} of {} dates of job {job} did not complete, {open} were not started", lines.len());
    let look = match &first.result {
        Done::Ended { execution, .. } => format!(" (see `tidemill executions {execution}`)"),
        _ => String::new(),
    };
    let fix = format!(
        "mend the cause{look}, and run it again: what is complete is passed over, what failed goes on"
    );
    let why = format!("{}: {}", first.date, first.result.with_cause());
    Err(Failure::new(code, what, fix).because(&why).ending(exit))
}
