//! How a command that works for long begins and ends: the process that it registers, and the signals that stop it.

use crate::commands::prelude::*;
use rustix::process::Signal;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tidemill_store::Store;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

/// Signals that this process receives.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// The signals that ask this process to end.
    pub(super) fn new() -> Result<Self> {
        Self::of(&[Signal::TERM, Signal::INT])
    }

    pub(super) fn of(signals: &[Signal]) -> Result<Self> {
        let receive = |signal: &Signal| Ok((*signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?));
        let all = signals.iter().map(receive).collect::<io::Result<_>>();
        all.map(Self).map_err(|error| Failure::unexpected("signals cannot be received", &error))
    }

    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|task| {
            let mut all = self.0.iter_mut();
            let received =
                all.find_map(|(signal, stream)| stream.poll_recv(task).is_ready().then_some(*signal));
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// How long the last word may take, of the 25 seconds in which everything of ours ends.
pub(super) const STOP_TIME: Duration = Duration::from_secs(2);

/// Registers a process, calls `act` while it cleans up after dead processes, and says that the process ends. Without
/// that the others find out later, when its lease has lapsed.
pub(super) async fn with_process<T>(
    context: &Context,
    clock: Arc<SystemClock>,
    act: impl AsyncFnOnce(&Store, &Process) -> Result<T>,
) -> Result<T> {
    let store = context.store().await?;
    let process = Process::start(store.clone(), clock, context.process_options()).await?;
    let reaping = tokio::spawn(reaper::run(process.clone()));
    let done = act(&store, &process).await;
    reaping.abort();
    let _lapses_otherwise = tokio::time::timeout(STOP_TIME, process.stop()).await;
    done
}

/// Waits until work ends by itself, or tells it to `stop` at a signal. It then has `grace`, unless a second signal comes;
/// the result is none if that was not enough. An error if the process expires: a supervisor has to start it again.
pub(super) async fn until_stopped<T>(
    mut work: JoinHandle<T>,
    stop: &watch::Sender<bool>,
    grace: Duration,
    process: &Process,
    signals: &mut Signals,
) -> Result<Option<Result<T, JoinError>>> {
    let is_signal = tokio::select! {
        ended = &mut work => return Ok(Some(ended)),
        _signal = signals.next() => true,
        _ended = process.ended() => false,
    };
    stop.send_replace(true);
    let ended = tokio::select! {
        ended = tokio::time::timeout(grace, &mut work) => ended.ok(),
        _signal = signals.next() => None,
    };
    work.abort();
    if is_signal { Ok(ended) } else { Err(EngineError::ProcessExpired { id: process.id() }.into()) }
}
