//! `demo-worker`: a process that leases things, works on them and settles each piece of work under the fence. It prints
//! JSON lines, and stops at SIGTERM, SIGINT or when its standard input ends.

use crate::commands::prelude::*;
use crate::commands::serve;
use crate::telemetry;
use serde_json::Value;
use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::poll::{Pace, PollResult};
use tidemill_engine::clock::jitter_unit;
use tidemill_engine::process::End;
use tidemill_engine::{EngineError, HeldLease, Process, SystemClock, reaper};
use tidemill_store::Store;
use tidemill_store::lease::freed_topic;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Kind of the leases, and audit action of settled work.
pub(super) const KIND: &str = "demo";
pub(super) const SETTLED: &str = "demo.settle";

const PACE: Pace = Pace { min: Duration::from_millis(100), max: Duration::from_millis(800) };

#[derive(Args, Debug, Clone)]
pub(crate) struct DemoWorker {
    /// Number of things
    #[arg(long, default_value_t = 6)]
    things: u32,
    /// Wait for this many workers before the first lease
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Prefix of the names of workers
    #[arg(long, default_value = "")]
    named: String,
    /// Duration of a piece of work in milliseconds
    #[arg(long, default_value_t = 200)]
    work_ms: u64,
}

pub(in crate::commands) async fn run(arguments: &DemoWorker, context: &Context) -> Result<Exit> {
    let store = context.store().await?;
    let metrics = telemetry::start_metrics();
    let (stop, stopped) = serve::shutdown()?;
    when_input_ends(move || {
        stop.send_replace(true);
    });
    let options = context.process_options();
    loop {
        let process = Process::start(store.clone(), Arc::new(SystemClock::new()), options.clone()).await?;
        report(&process, "registered", json!({}));
        let reaper = tokio::spawn(reaper::run(process.clone()));
        let end = work(arguments, &process, &store, stopped.clone()).await;
        reaper.abort();
        let Some(end) = end else {
            process.stop().await?;
            let text = metrics.as_ref().map(|metrics| metrics.render());
            report(&process, "metrics", json!({ "text": text }));
            store.close().await;
            return Ok(Exit::Ok);
        };
        report(&process, "ended", json!({ "how": format!("{end:?}") }));
    }
}

/// Works until the process ends, and returns why; none if it was stopped.
async fn work(
    arguments: &DemoWorker,
    process: &Process,
    store: &Store,
    mut stopped: watch::Receiver<bool>,
) -> Option<End> {
    let mut tasks = JoinSet::new();
    let mut mine: HashSet<u32> = HashSet::new();
    let mut wakeup = store.wakeup(&freed_topic(KIND));
    let mut pause = PACE.min;
    let end = loop {
        let had = mine.len();
        take(arguments, process, store, &mut mine, &mut tasks).await;
        let found = if mine.len() > had { PollResult::Work } else { PollResult::Nothing };
        pause = PACE.next(pause, found, jitter_unit());
        tokio::select! {
            end = process.ended() => break Some(end),
            _stopped = stopped.wait_for(|stop| *stop) => break None,
            Some(done) = tasks.join_next() => {
                if let Ok(thing) = done {
                    mine.remove(&thing);
                }
            }
            _woken = wakeup.wait(pause) => {}
        }
    };
    if end.is_none() {
        tasks.abort_all();
    }
    // Current work continues: the fence decides whether it counts.
    while tasks.join_next().await.is_some() {}
    end
}

/// Leases free things, up to an equal share.
async fn take(
    arguments: &DemoWorker,
    process: &Process,
    store: &Store,
    mine: &mut HashSet<u32>,
    tasks: &mut JoinSet<u32>,
) {
    let Ok(live) = live_workers(store, &arguments.named).await else { return };
    if mine.is_empty() && live < arguments.workers && !has_begun(store).await {
        return;
    }
    let share = arguments.things.div_ceil(u32::try_from(live.max(1)).unwrap_or(u32::MAX)) as usize;
    for thing in 1..=arguments.things {
        if mine.len() >= share || mine.contains(&thing) {
            continue;
        }
        let Ok(key) = LeaseKey::new(KIND, &thing.to_string()) else { continue };
        match process.acquire(&key, Term::Process).await {
            Ok(lease) => {
                report(process, "acquired", json!({ "thing": thing, "epoch": lease.fence().epoch.get() }));
                mine.insert(thing);
                tasks.spawn(settle(lease, thing, process.clone(), store.clone(), arguments.work_ms));
            }
            Err(EngineError::LeaseHeld { .. }) => {}
            // An expired process ends soon; an unreachable database may come back.
            Err(error) => tracing::warn!(%error, "thing {thing} could not be leased"),
        }
    }
}

async fn live_workers(store: &Store, named: &str) -> Result<usize, EngineError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let processes = tx.processes().list(1000).await?;
    let named = processes.iter().filter(|process| process.identity.name.starts_with(named));
    Ok(named.filter(|process| process.state.is_live(now)).count())
}

/// Whether any worker has a lease already: then there is no need to wait for the others.
async fn has_begun(store: &Store) -> bool {
    let listed = async { store.read().await?.leases().list(1000).await };
    matches!(listed.await, Ok(leases) if leases.iter().any(|lease| lease.key.kind() == KIND))
}

/// Works on one thing, piece by piece, until the lease ends.
async fn settle(lease: HeldLease, thing: u32, process: Process, store: Store, work_ms: u64) -> u32 {
    while lease.check().is_ok() {
        report(&process, "working", json!({ "thing": thing }));
        tokio::time::sleep(Duration::from_millis(work_ms)).await;
        let event = match settle_once(&lease, &store).await {
            Ok(()) => "settled",
            Err(EngineError::LeaseLost { .. }) => "refused",
            Err(error) => {
                tracing::warn!(%error, "a piece of work on thing {thing} was not settled");
                continue;
            }
        };
        report(&process, event, json!({ "thing": thing, "epoch": lease.fence().epoch.get() }));
    }
    report(&process, "lost", json!({ "thing": thing }));
    thing
}

/// Checks the fence and writes in one transaction.
async fn settle_once(lease: &HeldLease, store: &Store) -> Result<(), EngineError> {
    let fence = lease.fence();
    let actor = Actor { name: fence.owner.to_string(), role: Role::Worker, request_id: None };
    let entry =
        AuditEntry::new(actor, SETTLED, &lease.key().to_string()).from_to("", &fence.epoch.to_string());
    let mut tx = store.begin().await?;
    lease.confirm(&mut tx).await?;
    tx.audit().record(&entry).await?;
    tx.commit().await?;
    Ok(())
}

fn report(process: &Process, event: &str, mut more: Value) {
    more["event"] = json!(event);
    more["process"] = json!(process.id().to_string());
    let _reader_ended = write_stdout(format!("{more}\n"));
}

/// Acts when standard input ends, which happens whenever the demo ends.
pub(super) fn when_input_ends(act: impl FnOnce() + Send + 'static) {
    // A thread, because reading standard input cannot be cancelled.
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1..)) {}
        act();
    });
}
