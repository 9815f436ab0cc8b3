//! `job run` and `job restart`: one execution in this process. `job work`: partitions and restarts for other processes.

use super::{detail, operate, progress};
use crate::commands::prelude::*;
use crate::commands::shutdown::{Signals, signals, with_process};
use crate::declared::{Definitions, Parameters, is_file};
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::parameter::{
    ParameterError, ParameterProblem, ParameterSpec, ParametersInvalid, parse_arguments,
};
use tidemill_domain::job::{ExecutionId, JobParameters};
use tidemill_domain::nearest::nearest;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{JobError, Launcher, Running, recovery, reload};
use tidemill_engine::{EngineError, SystemClock, reaper};
use tidemill_store::Store;
use tokio::task::JoinSet;

/// How long an execution may take to finish its chunk after a signal.
pub(super) const GRACE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchOptions {
    pub(super) accept_change: bool,
    pub(super) next: bool,
}

pub(super) async fn launch(
    job: &str,
    arguments: &[String],
    options: LaunchOptions,
    context: &Context,
) -> Result<Exit> {
    let selected = SelectedJob::find(job, context)?;
    let parameters = selected.parameters(arguments)?;
    selected.definitions.check_given(&selected.job, &parameters)?;
    let actor = context.actor();
    in_this_process(&selected.definitions, None, context, async |launcher| {
        let launcher = launcher.clone().accept_change(options.accept_change);
        match options.next {
            true => launcher.launch_next(&selected.job, &parameters, &actor).await,
            false => launcher.launch(&selected.job, &parameters, &actor).await,
        }
    })
    .await
}

pub(super) struct SelectedJob {
    pub(super) definitions: Definitions,
    pub(super) job: String,
}

impl SelectedJob {
    /// By name or by file. A typo is refused before the database is opened.
    pub(super) fn find(job: &str, context: &Context) -> Result<Self> {
        let (definitions, job) = match is_file(job) {
            Some(path) => {
                let of_file = Definitions::of_file(&path, context.settings(), Parameters::Given)?;
                let only = of_file.jobs.names().pop().unwrap_or_default();
                (of_file, only)
            }
            None => (context.definitions.clone(), job.to_owned()),
        };
        definitions.job(&job)?;
        Ok(Self { definitions, job })
    }

    pub(super) fn parameters(&self, arguments: &[String]) -> Result<JobParameters> {
        let specs = self.definitions.jobs.get(&self.job)?.parameters();
        let parameters = parse_arguments(arguments.iter().map(String::as_str), specs);
        parameters.map_err(|error| {
            let which = arguments.iter().position(|argument| !argument.contains('='));
            let which = which.filter(|_| error == ParameterError::NoEqualsSign);
            let problems = vec![ParameterProblem::OutOfBounds(error)];
            let refusal = LaunchRefusal::ParametersInvalid(ParametersInvalid { problems });
            let failure = Failure::from(JobError::Refused { job: self.job.clone(), refusal });
            match which {
                Some(index) => failure.because(without_value(index, &arguments[index], specs)),
                None => failure,
            }
        })
    }
}

/// Names the argument without a value. Shows its text only if it resembles a parameter: it may be part of a secret.
fn without_value(index: usize, argument: &str, specs: &[ParameterSpec]) -> String {
    let number = index + 1;
    match nearest(argument, specs.iter().map(|spec| spec.name.as_str())) {
        Some(name) => format!("argument {number} is {argument:?}: write {name}=VALUE"),
        None => format!("it is argument {number}"),
    }
}

pub(super) async fn restart(
    id: ExecutionId,
    file: Option<&Path>,
    accept_change: bool,
    context: &Context,
) -> Result<Exit> {
    let read = |path: &Path| Definitions::of_file(path, context.settings(), Parameters::Stored);
    let of_file = file.map(read).transpose()?;
    let definitions = of_file.as_ref().unwrap_or(&context.definitions);
    let actor = context.actor();
    in_this_process(definitions, Some(id), context, async |launcher| {
        launcher.clone().accept_change(accept_change).restart(id, &actor).await
    })
    .await
}

/// Registers a process, starts an execution, waits until it ends and reports it. `restarted` is the execution to restart.
async fn in_this_process(
    definitions: &Definitions,
    restarted: Option<ExecutionId>,
    context: &Context,
    start: impl AsyncFnOnce(&Launcher) -> Result<Running, JobError>,
) -> Result<Exit> {
    let mut signals = signals()?;
    with_launcher(definitions, context, async |launcher| {
        let store = launcher.store();
        let running = match start(launcher).await {
            Ok(running) => running,
            Err(error) => return Err(refused(error, restarted, store, context).await),
        };
        let id = running.execution;
        let ended = tokio::select! {
            ended = running.ended() => ended,
            () = progress::show(id, store, context) => pending().await,
            () = obey(&mut signals, launcher, context) => pending().await,
        };
        detail::report(id, ended, store, definitions, context).await
    })
    .await
}

/// Registers a process, calls `act` with its launcher, and stops the process.
pub(super) async fn with_launcher<T>(
    definitions: &Definitions,
    context: &Context,
    act: impl AsyncFnOnce(&Launcher) -> Result<T>,
) -> Result<T> {
    let clock = Arc::new(SystemClock::new());
    with_process(context, clock.clone(), async |store, process| {
        // Executions of dead processes become FAILED here, so that this run can resume them.
        if let Err(error) = reaper::run_once(store).await {
            tracing::warn!(%error, "could not check for dead processes, will try again");
        }
        let launcher = Launcher::new(store.clone(), process.clone(), clock, definitions.jobs.clone());
        act(&launcher.logs(context.log_folder()?)).await
    })
    .await
}

/// The first signal stops after the current chunk, the second at once.
async fn obey(signals: &mut Signals, launcher: &Launcher, context: &Context) {
    signals.next().await;
    context.note("stopping after the current chunk; send the signal once more to stop now");
    tokio::select! {
        () = launcher.stop_all(GRACE) => {}
        () = async { signals.next().await; launcher.stop_all(Duration::ZERO).await } => {}
    }
    pending::<()>().await;
}

/// A refused launch, with advice about a dead process and the command that lists earlier executions.
async fn refused(
    error: JobError,
    restarted: Option<ExecutionId>,
    store: &Store,
    context: &Context,
) -> Failure {
    let JobError::Refused { job, refusal } = &error else { return error.into() };
    let list = format!("list earlier executions with `tidemill executions --job {job}`");
    let mut fixes = vec![error.fix()];
    match refusal.code() {
        Code::JobAlreadyRunning => {
            let advice = match restarted {
                Some(id) => operate::advice_if_dead(id, store).await,
                None => None,
            };
            let lease = context.lease();
            fixes.push(advice.unwrap_or_else(|| operate::wait_for_lease("its process", lease)));
            fixes.push(list);
        }
        Code::JobAlreadyComplete | Code::JobOutcomeUnknown => fixes.push(list),
        _ => return error.into(),
    }
    Failure::new(error.code(), error.to_string(), fixes.join("; "))
}

/// `job work`: works for jobs of other processes until a signal; an error if the process expires before.
pub(super) async fn work(slots: u32, context: &Context) -> Result<Exit> {
    if context.definitions.jobs.is_empty() {
        let fix = "run it in a program that has jobs, or pass `--jobs DIR`";
        return Err(Failure::new(Code::UnknownJob, "this program has no jobs", fix));
    }
    let mut signals = signals()?;
    let clock = Arc::new(SystemClock::new());
    with_process(context, clock.clone(), async |store, process| {
        let launcher = Launcher::new(store.clone(), process.clone(), clock, context.definitions.jobs.clone())
            .logs(context.log_folder()?);
        // They end when the set is dropped.
        let mut loops = JoinSet::new();
        let restarting = loops.spawn(recovery::run(launcher.clone()));
        if let Some(folder) = context.job_folder.clone() {
            loops.spawn(reload::run(launcher.clone(), Arc::new(move || folder.reload())));
        }
        loops.spawn(run_worker(launcher.clone(), slots as usize));
        context.warn_of_invalid_files();
        context.note("working; a signal stops it after the current chunks");
        tokio::select! {
            _signal = signals.next() => {}
            _ended = process.ended() => return Err(EngineError::ProcessExpired { id: process.id() }.into()),
        }
        restarting.abort();
        tokio::select! {
            () = launcher.stop_all(GRACE) => {}
            _signal = signals.next() => {}
        }
        Ok(Exit::Ok)
    })
    .await
}
