//! `job run` and `job restart`: one execution, in this very process, until it ends. `job work`: executions of others.

use super::{operate, outcome, progress};
use crate::commands::shutdown::{self, Signals};
use crate::context::Context;
use crate::declared::{Definitions, Parameters, is_file};
use crate::report::Failure;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::parameter::{
    ParameterError, ParameterProblem, ParameterSpec, ParametersInvalid, parse_arguments,
};
use tidemill_domain::job::{ExecutionId, JobParameters};
use tidemill_domain::nearest::nearest;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{ExecutionEnd, JobError, Launcher, Running, recovery};
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tidemill_store::Store;
use tokio::task::JoinSet;

/// How long an execution may take to come to the end of its chunk once we are asked to stop.
pub(super) const GRACE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Go on although the definition of the job has changed.
    pub(super) accept_change: bool,
    pub(super) next: bool,
}

pub(super) async fn launch(
    job: &str,
    arguments: &[String],
    manner: Manner,
    context: &Context,
) -> Result<Exit, Failure> {
    let meant = Meant::by(job, context)?;
    let parameters = meant.parameters(arguments)?;
    meant.definitions.check_given(&meant.job, &parameters)?;
    let actor = context.actor();
    in_this_process(&meant.definitions, None, context, async |launcher| {
        let launcher = launcher.clone().accept_change(manner.accept_change);
        match manner.next {
            true => launcher.launch_next(&meant.job, &parameters, &actor).await,
            false => launcher.launch(&meant.job, &parameters, &actor).await,
        }
    })
    .await
}

/// The job that a command line means, with those that it can be run with.
pub(super) struct Meant {
    pub(super) definitions: Definitions,
    pub(super) job: String,
}

impl Meant {
    /// By its name, or by its file. Refused before the database is touched, so that a slip costs nothing.
    pub(super) fn by(job: &str, context: &Context) -> Result<Self, Failure> {
        let definitions = match is_file(job) {
            Some(path) => Definitions::of_file(&path, context.settings(), Parameters::Given)?,
            None => context.definitions().clone(),
        };
        let job = match is_file(job) {
            Some(_) => definitions.only().unwrap_or_default(),
            None => job.to_owned(),
        };
        definitions.jobs.get(&job)?;
        Ok(Self { definitions, job })
    }

    pub(super) fn parameters(&self, arguments: &[String]) -> Result<JobParameters, Failure> {
        let specs = self.definitions.jobs.get(&self.job)?.parameters();
        let parameters = parse_arguments(arguments.iter().map(String::as_str), specs);
        parameters.map_err(|error| {
            let which = arguments.iter().position(|argument| !argument.contains('='));
            let which = which.filter(|_| error == ParameterError::NoEqualsSign);
            let problems = vec![ParameterProblem::OutOfBounds(error)];
            let refusal = LaunchRefusal::ParametersInvalid(ParametersInvalid { problems });
            let failure = Failure::from(JobError::Refused { job: self.job.clone(), refusal });
            match which {
                Some(index) => failure.because(&without_value(index, &arguments[index], specs)),
                None => failure,
            }
        })
    }
}

/// Which argument has no value. Its text is told only if it seems to be a name: it may be the rest of a secret.
fn without_value(index: usize, argument: &str, specs: &[ParameterSpec]) -> String {
    let number = index + 1;
    match nearest(argument, specs.iter().map(|spec| spec.name.as_str())) {
        Some(name) => format!("it is number {number}, {argument:?}: write {name}=VALUE"),
        None => format!("it is number {number} of those that were given"),
    }
}

/// Goes on with an execution, of a job of this program or of a file.
pub(super) async fn restart(
    id: ExecutionId,
    file: Option<&Path>,
    accept_change: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let read = |path: &Path| Definitions::of_file(path, context.settings(), Parameters::Stored);
    let of_file = file.map(read).transpose()?;
    let definitions = of_file.as_ref().unwrap_or(context.definitions());
    let actor = context.actor();
    in_this_process(definitions, Some(id), context, async |launcher| {
        launcher.clone().accept_change(accept_change).restart(id, &actor).await
    })
    .await
}

/// Registers a process, starts what is to be started, waits for its end, and tells how it was. `goes_on` is the execution
/// that is gone on with, if somebody named one.
async fn in_this_process(
    definitions: &Definitions,
    goes_on: Option<ExecutionId>,
    context: &Context,
    start: impl AsyncFnOnce(&Launcher) -> Result<Running, JobError>,
) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    with_launcher(definitions, context, async |launcher| {
        let ended = match start(launcher).await {
            Ok(running) => Ok(wait(running, launcher, &mut signals, context).await),
            Err(error) => Err(error),
        };
        match ended {
            Ok((id, ended)) => outcome::tell(id, ended, launcher.store(), definitions, context).await,
            Err(error) => Err(refused(error, goes_on, launcher.store(), context).await),
        }
    })
    .await
}

/// Registers a process, does something with a launcher of it, and stops it.
pub(super) async fn with_launcher<T>(
    definitions: &Definitions,
    context: &Context,
    act: impl AsyncFnOnce(&Launcher) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let store = context.store().await?;
    let clock = Arc::new(SystemClock::new());
    let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
    // What was run by a process that is gone counts as failed from here on, so that this run can go on with it.
    if let Err(error) = reaper::run_once(&store).await {
        tracing::warn!(%error, "looking for dead processes failed; will try again");
    }
    let reaping = tokio::spawn(reaper::run(process.clone()));
    let launcher = Launcher::new(store.clone(), process.clone(), clock, definitions.jobs.clone());
    let done = act(&launcher).await;
    reaping.abort();
    shutdown::stop(&process).await;
    done
}

/// Waits for the end; meanwhile shows how far it is, and passes on signals.
async fn wait(
    running: Running,
    launcher: &Launcher,
    signals: &mut Signals,
    context: &Context,
) -> (ExecutionId, Result<ExecutionEnd, EngineError>) {
    let id = running.execution;
    let ended = tokio::select! {
        ended = running.ended() => ended,
        () = progress::show(id, launcher.store(), context) => pending().await,
        () = obey(signals, launcher, context) => pending().await,
    };
    (id, ended)
}

/// Stops at the end of the chunk at the first signal, and now at the second.
async fn obey(signals: &mut Signals, launcher: &Launcher, context: &Context) {
    signals.next().await;
    context.note("stopping at the end of the chunk; once more to stop now");
    tokio::select! {
        () = launcher.stop_all(GRACE) => {}
        () = async { signals.next().await; launcher.stop_all(Duration::ZERO).await } => {}
    }
    pending::<()>().await;
}

/// A refusal of a launch, with what helps against a process that has died, and the command that shows what stands in its
/// way.
async fn refused(error: JobError, goes_on: Option<ExecutionId>, store: &Store, context: &Context) -> Failure {
    let JobError::Refused { job, refusal } = &error else { return error.into() };
    let look = format!("`tidemill executions --job {job}` shows what there was");
    let mut fixes = vec![error.fix()];
    match refusal.code() {
        Code::JobAlreadyRunning => {
            let exactly = match goes_on {
                Some(id) => operate::advice_if_dead(id, store).await,
                None => None,
            };
            let lease = context.settings().process.lease;
            fixes.push(exactly.unwrap_or_else(|| operate::wait_for_lease("its process", lease)));
            fixes.push(look);
        }
        Code::JobAlreadyComplete | Code::JobOutcomeUnknown => fixes.push(look),
        _ => return error.into(),
    }
    Failure::new(error.code(), error.to_string(), fixes.join("; "))
}

/// `job work`: lends this process to jobs that others run, until told to stop; an error when the process ended by itself.
pub(super) async fn work(slots: u32, context: &Context) -> Result<Exit, Failure> {
    if context.jobs().is_empty() {
        let fix = "run it in a program that has jobs";
        return Err(Failure::new(Code::UnknownJob, "there is no job here to work for", fix));
    }
    let mut signals = Signals::new()?;
    let store = context.store().await?;
    let clock = Arc::new(SystemClock::new());
    let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
    let launcher = Launcher::new(store.clone(), process.clone(), clock, context.jobs().clone());
    let mut loops = JoinSet::new();
    loops.spawn(reaper::run(process.clone()));
    let restarting = loops.spawn(recovery::run(launcher.clone()));
    loops.spawn(run_worker(launcher.clone(), slots as usize));
    context.note("working; a signal ends it at the end of the chunks in hand");
    let was_told = tokio::select! {
        () = signals.next() => true,
        _ended = process.ended() => false,
    };
    restarting.abort();
    if was_told {
        tokio::select! {
            () = launcher.stop_all(GRACE) => {}
            () = signals.next() => {}
        }
    }
    loops.abort_all();
    shutdown::stop(&process).await;
    if was_told { Ok(Exit::Ok) } else { Err(EngineError::ProcessExpired { id: process.id() }.into()) }
}
