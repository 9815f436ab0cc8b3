//! Command steps: a program supervised until it and everything it started have ended.

#[cfg(unix)]
mod group;
pub mod log;
mod output;
#[cfg(unix)]
mod previous_run;
#[cfg(windows)]
mod refused;
mod supervise;

use crate::environment::{is_secret, passed_on};
use crate::job::{Delivery, Outcome, Step, StepFailure, StepScope, StepTask};
use log::LogWriter;
use output::Output;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use supervise::{CommandEnd, Limits};
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::command::{
    CommandExit, ExitCodes, HINT_VARIABLE, PARALLELISM_VARIABLE, STEP_VARIABLES, UNITS_VARIABLE, variables,
};
use tidemill_domain::job::{BatchStatus, ExitStatus};
use tidemill_store::crash_point;
use tokio::process::Command;

#[cfg(unix)]
use group::signal_of;
#[cfg(unix)]
pub use group::{Group, Signal};
#[cfg(windows)]
pub use refused::{Group, Signal};
#[cfg(windows)]
use refused::{previous_run, signal_of};

const KILL_AFTER: Duration = Duration::from_secs(10);

/// A shorter value would also be found by chance.
const SECRET_BYTES_MIN: usize = 4;

/// Context key of the command's exit code.
const EXIT_CODE: &str = "command.exit_code";

impl Step {
    /// A step that runs a program and ends as it does. After a crash the program starts again: at least once.
    pub fn command(
        name: impl Into<String>,
        command: impl Fn(&StepScope) -> Result<CommandSpec, ItemError> + Send + Sync + 'static,
    ) -> Self {
        command_step(name.into(), "command", command)
    }
}

/// A program to run. It is never run through a shell, so arguments need no quoting.
///
/// ```
/// use std::time::Duration;
/// use tidemill_engine::job::{CommandExit, CommandSpec, Job, Step};
///
/// let report = Step::command("report", |scope| {
///     Ok(CommandSpec::new("./report.sh")
///         .arg(scope.text("date")?)
///         .timeout(Duration::from_secs(3600))
///         .exit_code(3, CommandExit::completed("NO_DATA")))
/// });
/// assert!(Job::new("nightly").step(report).check().is_ok());
/// ```
#[derive(Clone)]
#[must_use]
pub struct CommandSpec {
    pub(super) program: OsString,
    args: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    inherits: bool,
    passed: Vec<String>,
    folder: Option<PathBuf>,
    limits: Limits,
    exits: ExitCodes,
    log_file: Option<PathBuf>,
    values: Vec<String>,
    /// Whether the failure message leaves a line out.
    pub(super) is_chatter: fn(&str) -> bool,
}

impl CommandSpec {
    /// A program: a path, or a name to find in `PATH`. A relative path starts at the working folder.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
            inherits: true,
            passed: Vec::new(),
            folder: None,
            limits: Limits { timeout: None, kill_after: KILL_AFTER },
            exits: ExitCodes::default(),
            log_file: None,
            values: Vec::new(),
            is_chatter: |line| line.trim().is_empty(),
        }
    }

    tidemill_domain::setters! {
        /// Adds an argument.
        pub fn arg(self, arg: impl Into<OsString>) { self.args.push(arg.into()) }
        /// Adds arguments.
        pub fn args(self, args: impl IntoIterator<Item = impl Into<OsString>>) {
            self.args.extend(args.into_iter().map(Into::into))
        }
        /// Sets an environment variable.
        pub fn env(self, name: impl Into<String>, value: impl Into<OsString>) {
            self.environment.push((name.into(), value.into()))
        }
        /// Inherits nothing: the program gets only the variables of [`env`](Self::env) and [`env_pass`](Self::env_pass),
        /// and those that every command gets.
        pub fn env_clear(self) { self.inherits = false }
        /// Passes these variables of our environment on, if they are set: even after [`env_clear`](Self::env_clear), and
        /// even those that are withheld because they hold secrets.
        pub fn env_pass(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.passed.extend(names.into_iter().map(Into::into))
        }
        /// Sets the working folder; ours by default.
        pub fn folder(self, folder: impl Into<PathBuf>) { self.folder = Some(folder.into()) }
        /// Ends the program after this time; the step then fails.
        pub fn timeout(self, timeout: Duration) { self.limits.timeout = Some(timeout) }
        /// Time between SIGTERM and SIGKILL when the program has to end; 10 seconds by default.
        pub fn kill_after(self, grace: Duration) { self.limits.kill_after = grace }
        /// Sets what an exit code means for the step.
        pub fn exit_code(self, number: i32, meaning: CommandExit) { self.exits.set(number, meaning) }
        /// Appends the output to this file, which is created if needed. Tidemill also keeps the output itself; see
        /// `tidemill logs`.
        pub fn log_file(self, path: impl Into<PathBuf>) { self.log_file = Some(path.into()) }
        /// Keeps these values in the step's context when the program has completed. They are keys of the JSON object that
        /// is the last line of its standard output, at most 8 KiB; without it the step fails. See [`Step::promote`].
        pub fn values(self, names: impl IntoIterator<Item = impl Into<String>>) {
            self.values.extend(names.into_iter().map(Into::into))
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// The values of secret variables that are passed on.
    fn secrets(&self) -> Vec<Vec<u8>> {
        let values = self.passed.iter().filter(|name| is_secret(name)).filter_map(env::var_os);
        values.map(OsString::into_encoded_bytes).filter(|value| value.len() >= SECRET_BYTES_MIN).collect()
    }

    fn command(&self, scope: &StepScope) -> Result<Command, String> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(format!("its working folder {} does not exist", folder.display()));
        }
        let mut path = PathBuf::from(&self.program);
        // Made absolute, because systems differ in whether they resolve it before or after changing the folder.
        if let Some(folder) = &self.folder
            && path.is_relative()
            && path.components().count() > 1
        {
            let folder = std::path::absolute(folder);
            path = folder.map_err(|error| format!("there is no current folder: {error}"))?.join(path);
        }
        let mut command = Command::new(path);
        command
            .args(&self.args)
            .env_clear()
            .envs(environment(self, scope)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        Ok(command)
    }
}

/// Our environment without settings and secrets, what a pool granted, what the author adds, and what we always set.
fn environment(spec: &CommandSpec, scope: &StepScope) -> Result<BTreeMap<OsString, OsString>, String> {
    let mut told = variables(scope.parameters()).map_err(|same| same.to_string())?;
    // In the order of the names in `STEP_VARIABLES`.
    let values = [
        scope.job().to_owned(),
        scope.execution().to_string(),
        scope.step().to_owned(),
        scope.step_execution().to_string(),
        u8::from(scope.is_resumed()).to_string(),
    ];
    told.extend(STEP_VARIABLES.map(str::to_owned).into_iter().zip(values));
    let mut all = BTreeMap::new();
    if spec.inherits {
        all.extend(passed_on());
    }
    all.extend(spec.passed.iter().filter_map(|name| Some((name.into(), env::var_os(name)?))));
    if let Some(granted) = scope.granted() {
        // Both names, so that a program reads the same as under `tidemill run`.
        for name in [PARALLELISM_VARIABLE, UNITS_VARIABLE] {
            all.insert(name.into(), granted.units.to_string().into());
        }
        all.extend(granted.hint.as_ref().map(|hint| (HINT_VARIABLE.into(), hint.into())));
    }
    for (name, value) in &spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("{name:?} is not the name of a variable"));
        }
        if told.contains_key(name) {
            return Err(format!("the variable {name} is set for every command and cannot be another"));
        }
        all.insert(name.into(), value.clone());
    }
    all.extend(told.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(all)
}

/// Does not show arguments and variables, because they may be secrets.
impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandSpec({}, {} arguments)", self.name(), self.args.len())
    }
}

/// A step that runs the command that `make` returns for each run.
pub(super) fn command_step(
    name: String,
    type_word: &'static str,
    make: impl Fn(&StepScope) -> Result<CommandSpec, ItemError> + Send + Sync + 'static,
) -> Step {
    let make: Arc<MakeCommand> = Arc::new(make);
    Step::running(name, type_word, move |task| Box::pin(run(make.clone(), task)))
}

type MakeCommand = dyn Fn(&StepScope) -> Result<CommandSpec, ItemError> + Send + Sync;

async fn run(make: Arc<MakeCommand>, task: &mut StepTask) -> Result<Outcome, StepFailure> {
    previous_run::end(task).await?;
    if task.shall_stop() {
        return Ok(Outcome::stopped());
    }
    let spec = make(&task.scope)?;
    let failed = |why: String| failure(&spec, &why);
    task.record_plan(None, Delivery::AtLeastOnce).await?;
    let command = spec.command(&task.scope).map_err(failed)?;
    let mut output = Output::new(task.resources.clock.clone(), spec.log_file.as_deref()).map_err(failed)?;
    (output.log, output.secrets) = (begin_log(task), spec.secrets());
    let group =
        Group::form().await.map_err(|error| failed(format!("its guard cannot be started: {error}")))?;
    // Recorded before it runs, so that a restart after a crash can end it.
    previous_run::remember(task, group.id);
    task.commit_context().await?;
    task.check()?;
    crash_point!("command_before_start");
    let ended = match group.spawn(command) {
        Ok(child) => supervise::to_the_end(child, group, spec.limits, &task.resources.stop, &mut output)
            .await
            .map_err(|error| {
                StepFailure::failed(Code::CommandFailed, format!("cannot wait for the command: {error}"))
            })?,
        Err(error) => CommandEnd::NotStarted(error),
    };
    crash_point!("command_after_end");
    previous_run::forget(task);
    if let CommandEnd::Exited(number) = ended {
        task.context.put(EXIT_CODE, number);
    }
    let mut outcome = outcome(&spec, &ended, &output);
    if outcome.as_ref().is_ok_and(Outcome::is_completed)
        && let Err(why) = keep_values(task, &spec, &output)
    {
        let text = format!("the command {:?} has ended, but {why}", spec.name());
        outcome = Ok(Outcome::failed(Code::CommandFailed, text));
    }
    task.commit_context().await?;
    outcome
}

fn keep_values(task: &mut StepTask, spec: &CommandSpec, output: &Output) -> Result<(), String> {
    if spec.values.is_empty() {
        return Ok(());
    }
    let names = spec.values.join(", ");
    let object: Map<String, Value> = serde_json::from_slice(&output.last_line).map_err(|_| {
        format!("the last line of its standard output is no JSON object; it has to print one with {names}")
    })?;
    for name in &spec.values {
        let value = object.get(name);
        let value = value.ok_or_else(|| format!("the last line of its standard output has no {name:?}"))?;
        task.context.put(name, value.clone());
    }
    Ok(())
}

/// The command runs even if its output cannot be kept.
fn begin_log(task: &mut StepTask) -> Option<LogWriter> {
    let folder = task.resources.logs.clone()?;
    match folder.begin(task) {
        Ok(writer) => Some(writer),
        Err(error) => {
            tracing::warn!(%error, "the output of a command cannot be kept in {folder:?}");
            None
        }
    }
}

fn failure(spec: &CommandSpec, why: &str) -> StepFailure {
    StepFailure::failed(Code::CommandFailed, format!("the command {:?} was not run: {why}", spec.name()))
}

fn outcome(spec: &CommandSpec, ended: &CommandEnd, output: &Output) -> Result<Outcome, StepFailure> {
    let (why, code) = match ended {
        CommandEnd::Stopped => return Ok(Outcome::stopped()),
        CommandEnd::NotStarted(error) => return Err(failure(spec, &not_started(error))),
        CommandEnd::Exited(number) => match spec.exits.meaning(*number) {
            CommandExit::Completed(code) => return Ok(Outcome::completed(ExitStatus::new(code))),
            CommandExit::Failed(code) => (format!("ended with exit code {number}"), code),
        },
        CommandEnd::Killed(signal) => {
            (format!("was killed by signal {signal}"), ExitStatus::FAILED.to_owned())
        }
        CommandEnd::TimedOut(limit) => {
            (format!("did not end within {limit:?} and was ended"), ExitStatus::FAILED.to_owned())
        }
    };
    let said = output.excerpt(spec.is_chatter);
    let said =
        if said.is_empty() { "; it wrote nothing".to_owned() } else { format!("; its last lines:\n{said}") };
    let exit = ExitStatus::new(code).describe(format!("the command {:?} {why}{said}", spec.name()));
    Ok(Outcome { status: BatchStatus::Failed, exit, code: Some(Code::CommandFailed) })
}

fn not_started(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such program; check its name, its path and the working folder, and of a script the \
             program that its first line names"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("it may not be executed ({error}); `chmod +x` makes a file executable")
        }
        _ if error.raw_os_error() == Some(crate::system::NO_PROGRAM) => {
            "it is no program of this system; a script needs a first line such as #!/bin/sh".to_owned()
        }
        _ => error.to_string(),
    }
}
