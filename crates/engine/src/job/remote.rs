//! Remote steps: work that another system runs. It is started once, polled until it ends, and cancelled when the step stops.
//!
//! The key of the work is committed before it starts. A run that died may have started it, so the next one starts with the
//! same key, by which the other system, or the adapter, recognises it. When the work has failed or was cancelled, the key is
//! removed, and a restart starts it anew.

use crate::job::{Delivery, Outcome, Step, StepFailure, StepScope, StepTask, Urgency};
use crate::{BoxFuture, jitter_unit};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExitStatus;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::crash_point;

/// Context keys, while the work may be running.
const KEY: &str = "remote.key";
const LABEL: &str = "remote.label";
const ID: &str = "remote.id";

/// Context key, set before the first request to end the work.
const ENDING: &str = "remote.ending";

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Nobody asks the other system without a pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How long the other system may be unreachable.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How long cancelled work may take to end.
const CANCELLED_WITHIN: Duration = Duration::from_secs(5 * 60);

/// Bytes of the hash in a key.
const KEY_BYTES: usize = 16;

/// Work that another system runs.
pub trait RemoteWork: fmt::Debug + Send + Sync {
    /// Starts the work, or finds the work that was started with this key, and returns its id.
    fn start<'a>(&'a self, key: &'a RemoteKey) -> BoxFuture<'a, Result<String, RemoteError>>;

    /// How it stands.
    fn state<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RemoteState, RemoteError>>;

    /// Asks for its end. The state tells when it has ended. Asking again does no harm.
    fn cancel<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), RemoteError>>;

    /// The name of the work, for people.
    fn name(&self, id: &str) -> String;
}

/// By which work is recognised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteKey {
    /// Letters, digits and `-`, at most 64. No other work has it, also of another database.
    pub token: String,
    /// For people: job, step and the execution that started it. The same in every restart that looks for it.
    pub label: String,
    /// Whether an earlier attempt may have started it.
    pub may_have_started: bool,
}

/// The state of remote work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemoteState {
    /// Waiting, running or being cancelled.
    Running,
    /// It has ended. The text is for people.
    Completed(String),
    /// It has failed, for this reason.
    Failed(String),
    /// It was cancelled, by us or by somebody else.
    Cancelled(String),
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct RemoteError {
    /// What follows from it.
    pub kind: RemoteErrorKind,
    /// What happened, and what to do.
    pub text: String,
}

/// What follows from a failed call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteErrorKind {
    /// The same call may succeed later.
    Temporary,
    /// The call is refused, such as for want of a permission. The work may run.
    Refused,
    /// The other system does not know the work.
    Gone,
}

/// Remote work, and how it is watched.
#[derive(Clone, Debug)]
#[must_use]
pub struct RemoteSpec {
    work: Arc<dyn RemoteWork>,
    timeout: Option<Duration>,
    longest_pause: Duration,
}

impl RemoteSpec {
    /// This work, without a timeout.
    pub fn new(work: impl RemoteWork + 'static) -> Self {
        Self { work: Arc::new(work), timeout: None, longest_pause: LONGEST_PAUSE }
    }

    tidemill_domain::setters! {
        /// Cancels the work after this time; the step then fails.
        pub fn timeout(self, timeout: Duration) { self.timeout = Some(timeout) }
        /// The longest pause between two looks at its state; 15 seconds by default, and at least 10 milliseconds.
        pub fn poll(self, pause: Duration) { self.longest_pause = pause.max(SHORTEST_PAUSE) }
    }
}

impl Step {
    /// A step that lets another system work. `type_word` is the kind of step, such as `emr`.
    pub fn remote(
        name: impl Into<String>,
        type_word: &'static str,
        make: impl Fn(&StepScope) -> Result<RemoteSpec, ItemError> + Send + Sync + 'static,
    ) -> Self {
        let make: Arc<MakeRemote> = Arc::new(make);
        Self::running(name, type_word, move |task| Box::pin(run(make.clone(), task)))
    }
}

type MakeRemote = dyn Fn(&StepScope) -> Result<RemoteSpec, ItemError> + Send + Sync;

async fn run(make: Arc<MakeRemote>, task: &mut StepTask) -> Result<Outcome, StepFailure> {
    // Work of a run before is looked for even then, because it has to be cancelled.
    if task.shall_stop() && task.context.get(KEY).is_none() {
        return Ok(Outcome::stopped());
    }
    let spec = make(&task.scope)?;
    task.record_plan(None, Delivery::AtLeastOnce).await?;
    loop {
        let key = key(task).await?;
        let id = match task.context.get_text(ID) {
            Some(id) => id.to_owned(),
            None => match start(task, &spec, key).await? {
                Started::With(id) => id,
                Started::Not(outcome) => return Ok(outcome),
            },
        };
        crash_point!("remote_after_start");
        // Without an outcome, an earlier run has cancelled it, and this one starts it anew.
        if let Some(outcome) = watch(task, &spec, &id).await? {
            return Ok(outcome);
        }
    }
}

/// The key of the run that died, or a new one, which is committed.
async fn key(task: &mut StepTask) -> Result<RemoteKey, StepFailure> {
    if let (Some(token), Some(label)) = (task.context.get_text(KEY), task.context.get_text(LABEL)) {
        return Ok(RemoteKey { token: token.to_owned(), label: label.to_owned(), may_have_started: true });
    }
    let scope = task.scope.clone();
    let label = format!("{} {} execution {}", scope.job(), scope.step(), scope.execution());
    let instance = scope.instance_key().await?;
    let digest = Sha256::digest(format!("{instance}/{}/{}", scope.step(), scope.step_execution()));
    let hash: String = digest.iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let token = format!("tidemill-{hash}");
    task.context.put(KEY, token.clone());
    task.context.put(LABEL, label.clone());
    task.commit_context().await?;
    Ok(RemoteKey { token, label, may_have_started: false })
}

enum Started {
    With(String),
    Not(Outcome),
}

async fn start(task: &mut StepTask, spec: &RemoteSpec, mut key: RemoteKey) -> Result<Started, StepFailure> {
    task.check()?;
    crash_point!("remote_before_start");
    let mut trouble = Trouble::new(task);
    loop {
        match spec.work.start(&key).await {
            Ok(id) => {
                crash_point!("remote_before_id");
                task.context.put(ID, id.clone());
                task.commit_context().await?;
                return Ok(Started::With(id));
            }
            Err(error) if trouble.may_retry(&error) => {
                key.may_have_started = true;
                let stop = task.resources.stop.clone();
                tokio::select! {
                    () = trouble.pause(spec.longest_pause) => {}
                    () = stop.asked(Urgency::AtChunkEnd) => {}
                }
            }
            // This run or an earlier one may have started it nevertheless, so the key stays.
            Err(error) => return Err(failed(error.text)),
        }
        task.check()?;
        if task.shall_stop() {
            let text = format!("it is not known whether the work {} has started; a restart looks", key.token);
            return Ok(Started::Not(Outcome::stopped().because(text)));
        }
    }
}

/// Why work is being cancelled.
enum Ending {
    Stopped,
    TimedOut(Duration),
}

/// Waits for the end of the work. None if it was cancelled by an earlier run.
async fn watch(task: &mut StepTask, spec: &RemoteSpec, id: &str) -> Result<Option<Outcome>, StepFailure> {
    let clock = task.resources.clock.clone();
    let begun = clock.monotonic();
    let passed = || clock.monotonic().since(begun);
    let mut trouble = Trouble::new(task);
    let was_ending = task.context.get(ENDING).is_some();
    // The reason, and when it was asked for.
    let mut ending: Option<(Ending, Duration)> = None;
    loop {
        task.check()?;
        if ending.is_none() {
            let timeout = spec.timeout.filter(|timeout| passed() >= *timeout);
            let why = if task.shall_stop() { Some(Ending::Stopped) } else { timeout.map(Ending::TimedOut) };
            if let Some(why) = why {
                if !was_ending {
                    // A restart finds the work cancelled, and must know by whom.
                    task.context.put(ENDING, true);
                    task.commit_context().await?;
                }
                ending = Some((why, passed()));
                trouble.polls = 0;
            }
        }
        match turn(spec, id, ending.is_some()).await {
            Ok(RemoteState::Running) => trouble.is_over(),
            Ok(state) => {
                // The key of completed work stays: this process may die before the end of the step is recorded, and then a
                // restart must not start it again. A step that runs again after its end has another context.
                if !matches!(state, RemoteState::Completed(_)) {
                    forget(task).await?;
                }
                crash_point!("remote_after_end");
                if was_ending && ending.is_none() && matches!(state, RemoteState::Cancelled(_)) {
                    return Ok(None);
                }
                return Ok(Some(outcome(state, ending.map(|(why, _)| why))));
            }
            Err(error) if trouble.may_retry(&error) => {}
            Err(error) if error.kind == RemoteErrorKind::Gone => {
                forget(task).await?;
                return Err(failed(format!("{} is gone: {}", spec.work.name(id), error.text)));
            }
            Err(error) => {
                let name = spec.work.name(id);
                let text = format!("{}; {name} may still run, and a restart goes on with it", error.text);
                return Err(failed(text));
            }
        }
        if ending.as_ref().is_some_and(|(_, since)| passed() > *since + CANCELLED_WITHIN) {
            let name = spec.work.name(id);
            let text = format!(
                "{name} was cancelled and has not ended within {CANCELLED_WITHIN:?}; a restart waits"
            );
            return Err(failed(text));
        }
        let stop = task.resources.stop.clone();
        tokio::select! {
            () = trouble.pause(spec.longest_pause) => {}
            () = stop.asked(Urgency::AtChunkEnd), if ending.is_none() => {}
        }
    }
}

/// Its state, and a request to end if it has to and runs.
async fn turn(spec: &RemoteSpec, id: &str, shall_end: bool) -> Result<RemoteState, RemoteError> {
    let state = spec.work.state(id).await?;
    if !shall_end || state != RemoteState::Running {
        return Ok(state);
    }
    let cancelled = spec.work.cancel(id).await;
    crash_point!("remote_after_cancel");
    let Err(refusal) = cancelled else { return Ok(state) };
    // It may have ended meanwhile.
    match spec.work.state(id).await? {
        RemoteState::Running if refusal.kind == RemoteErrorKind::Temporary => Err(refusal),
        RemoteState::Running => Err(RemoteError { kind: RemoteErrorKind::Refused, ..refusal }),
        ended => Ok(ended),
    }
}

fn outcome(state: RemoteState, ending: Option<Ending>) -> Outcome {
    let of_code = |text: String| Outcome::failed(Code::RemoteFailed, text);
    match (state, ending) {
        (RemoteState::Completed(text), _) => Outcome::completed(ExitStatus::completed()).because(text),
        (RemoteState::Cancelled(text), Some(Ending::Stopped)) => Outcome::stopped().because(text),
        (RemoteState::Cancelled(text), Some(Ending::TimedOut(limit))) => {
            of_code(format!("it did not end within {limit:?} and was cancelled; {text}"))
        }
        (RemoteState::Cancelled(text), None) => of_code(format!("somebody else cancelled it; {text}")),
        (RemoteState::Failed(text), _) => of_code(text),
        (RemoteState::Running, _) => of_code("it still runs".to_owned()),
    }
}

fn failed(text: String) -> StepFailure {
    StepFailure::failed(Code::RemoteFailed, text)
}

/// A restart starts it anew.
async fn forget(task: &mut StepTask) -> Result<(), StepFailure> {
    for key in [KEY, LABEL, ID, ENDING] {
        task.context.remove(key);
    }
    task.commit_context().await
}

/// Since when the other system does not answer, and how often it was asked.
struct Trouble {
    clock: Arc<dyn Clock>,
    since: Option<Monotonic>,
    polls: u32,
}

impl Trouble {
    fn new(task: &StepTask) -> Self {
        Self { clock: task.resources.clock.clone(), since: None, polls: 0 }
    }

    fn is_over(&mut self) {
        self.since = None;
    }

    /// Whether the call that failed is repeated. Logs the first failure in a row, because the step may wait for long.
    fn may_retry(&mut self, error: &RemoteError) -> bool {
        if error.kind != RemoteErrorKind::Temporary {
            return false;
        }
        if self.since.is_none() {
            tracing::warn!(%error, "a call about the work of a step failed; will try again");
        }
        let now = self.clock.monotonic();
        now.since(*self.since.get_or_insert(now)) < PATIENCE
    }

    async fn pause(&mut self, longest: Duration) {
        self.polls = self.polls.saturating_add(1);
        let backoff = Backoff::exponential(FIRST_PAUSE.min(longest), longest);
        tokio::time::sleep(backoff.delay(self.polls, jitter_unit())).await;
    }
}
