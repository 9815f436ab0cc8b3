//! A render worker: claims renders, has them rendered, checks and publishes their files, and gives them back when it
//! stops.
//!
//! ```text
//!   claiming ──a task for each render──► task ──► farm, inspector, storage
//!   renewal  ──lost, cancelled─────────► task         every result goes through the database,
//!   reaping  ◄── what vanished workers leave          which decides by the rules what is next
//!   check    ──pause, resume──► claiming
//! ```

use super::{Backends, Health, Instruction, WorkerContext, WorkerOptions, claiming, reaping, renewal};
use crate::{Next, Service, transact};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::Trouble;
use tidemill_domain::render::polling::CHECK_PAUSE_FAILED;
use tidemill_domain::time::Clock;
use tidemill_domain::words::plural;
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// Cheap to clone; all clones are the same worker.
#[derive(Clone, Debug)]
pub struct Worker {
    context: Arc<WorkerContext>,
}

impl Worker {
    pub fn new(store: Store, clock: Arc<dyn Clock>, backends: Backends, options: WorkerOptions) -> Self {
        Self { context: Arc::new(WorkerContext::new(store, clock, backends, options)) }
    }

    pub fn poll(&self) {
        self.context.look_again.notify_one();
    }

    pub fn health(&self) -> Health {
        self.context.health()
    }

    /// Works until told to stop, then finishes publishing and gives back the rest: jobs continue at the farm, and the
    /// next worker adopts them. Dropping it leaves everything as it is. Run only one of the clones.
    #[crate::boxed]
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let context = &self.context;
        let (name, farm, capacity) = (&context.options.name, context.farm.name(), context.options.capacity);
        tracing::info!(worker = name, "render worker {name} works with {farm}, on {capacity} at once");
        // Before anything is claimed that would have to be given back.
        tokio::select! {
            _pause = check_once(context) => {}
            _told = stop.wait_for(|stop| *stop) => return,
        }
        let (mut loops, mut tasks) = (JoinSet::new(), JoinSet::new());
        loops.spawn(renewal::run(context.clone()));
        loops.spawn(reaping::run(context.clone()));
        loops.spawn(reaping::sweep_jobs(context.clone()));
        loops.spawn(reaping::sweep_files(context.clone()));
        loops.spawn(check(context.clone()));
        tokio::select! {
            () = claiming::run(context, &mut tasks, stop) => {}
            Some(ended) = loops.join_next() => {
                tracing::error!(?ended, "a loop of render worker {name} has ended; the worker stops");
            }
        }
        self.drain(&mut tasks).await;
        loops.shutdown().await;
        let process = context.options.process;
        let forgotten = transact(&context.store, async |tx| tx.renders().forget_worker(process).await);
        if let Err(error) = forgotten.await {
            tracing::warn!(%error, "that render worker {name} has stopped could not be written; its row lapses");
        }
        tracing::info!(worker = name, "render worker {name} has stopped");
    }

    /// Finishes what is about to be published, and gives back the rest.
    async fn drain(&self, tasks: &mut JoinSet<()>) {
        let context = &self.context;
        context.is_stopping.send_replace(true);
        for (told, limit) in
            [(Instruction::Stop, context.options.drain_for), (Instruction::StopNow, GIVE_BACK_MAX)]
        {
            context.registry.all().iter().for_each(|held| held.tell(told));
            let all_ended = async {
                while let Some(ended) = tasks.join_next().await {
                    claiming::warn_of_panic(ended);
                }
            };
            if tokio::time::timeout(limit, all_ended).await.is_ok() {
                return;
            }
        }
        let left = tasks.len();
        tracing::warn!(
            left,
            "{} could not be given back in time; other workers take over when the leases end",
            plural(left, "render", "renders")
        );
        tasks.shutdown().await;
    }
}

/// Checks nexrender, the NAS, ffprobe and the path map regularly, and at once when nexrender does not answer. A worker
/// claims nothing while no render can succeed.
async fn check(worker: Arc<WorkerContext>) {
    let mut service = Service::new("looking at the world", worker.options.check_pause).later();
    loop {
        tokio::select! {
            is_due = service.is_due() => if !is_due { return },
            () = worker.check_again.notified() => {}
        }
        service.ended(Ok::<_, Infallible>(check_once(&worker).await));
    }
}

/// Pauses or resumes after the check. When all is well again, the waits of renders end.
async fn check_once(worker: &WorkerContext) -> Next {
    let (farm, storage, inspector) = tokio::join!(
        worker.asking("check", worker.farm.check()),
        worker.storage.check(),
        worker.inspector.check()
    );
    let troubles = [farm.err(), storage.err(), inspector.err()];
    worker.vitals().checked = Some((worker.now(), troubles.clone()));
    let troubles: Vec<Trouble> =
        troubles.into_iter().chain([worker.options.places.check().err()]).flatten().collect();
    // Temporary trouble is left to the rules of each render.
    let lasting = |trouble: &&Trouble| worker.options.policy.patience.stops_claims(trouble.failure);
    match troubles.iter().find(lasting) {
        Some(trouble) => worker.pause(trouble.code, &trouble.message),
        // A paused worker resumes only when everything is fine.
        None if troubles.is_empty() => worker.resume(),
        None => {}
    }
    if !troubles.is_empty() {
        worker.vitals().has_ended_waits = false;
        return Next::AtMost(CHECK_PAUSE_FAILED);
    }
    // Before they are ended: one that begins meanwhile is left to the next check.
    let has_ended_waits = std::mem::replace(&mut worker.vitals().has_ended_waits, true);
    if !has_ended_waits {
        let name = &worker.options.name;
        match transact(&worker.store, async |tx| tx.renders().end_waits(name).await).await {
            Ok(0) => {}
            Ok(ended) => {
                let renders = plural(ended, "render", "renders");
                tracing::info!(ended, worker = name, "all is well again: the wait of {renders} ended");
                worker.look_again.notify_one();
            }
            Err(error) => {
                // The next check tries again.
                worker.vitals().has_ended_waits = false;
                tracing::warn!(%error, "the waits of renders could not be ended");
            }
        }
    }
    Next::Rest
}
