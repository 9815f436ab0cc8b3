//! `job work`: lends this process to jobs that others run.

use super::run::GRACE;
use crate::commands::shutdown::{self, Signals};
use crate::context::Context;
use crate::report::Failure;
use std::sync::Arc;
use tidemill_domain::code::{Code, Exit};
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{Launcher, recovery};
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tokio::task::JoinSet;

/// Works until told to stop; an error when the process ended by itself.
pub(super) async fn run(slots: u32, context: &Context) -> Result<Exit, Failure> {
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
