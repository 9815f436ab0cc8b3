//! How a command that works for long begins and ends: the process that it registers, and the signals that stop it.

use crate::commands::prelude::*;
pub(super) use crate::system::Signals;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

/// The signals that ask this process to end.
pub(super) fn signals() -> Result<Signals> {
    received(Signals::to_end())
}

pub(super) fn received(signals: io::Result<Signals>) -> Result<Signals> {
    signals.map_err(|error| Failure::unexpected("signals cannot be received", &error))
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
