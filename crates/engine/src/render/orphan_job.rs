//! Jobs of the farm that are no longer needed: removed together with their files.

use super::WorkerContext;
use crate::transact;
use std::time::Duration;
use tidemill_domain::render::answer::RemoteJob;
use tidemill_domain::render::clock::Clocks;
use tidemill_domain::render::lifecycle::File;
use tidemill_domain::render::polling::leftover_pause;
use tidemill_domain::render::{Failure, Phase, Report, Status, Trouble, Uid, gfx, output};
use tidemill_domain::time::Monotonic;
use tidemill_store::StoreError;
use tidemill_store::render::OrphanJob;

const PER_TURN: u32 = 100;

/// How long a job is reserved for the worker that watches it.
const KEPT_FOR: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum DropResult {
    /// Removed, including its file if required.
    Gone,
    /// Removed and not rendering, but its file could not be deleted yet.
    FileLeft,
    /// A node renders it, which cannot be stopped.
    Running,
}

/// Observations of a job that is to be removed.
#[derive(Debug)]
pub(super) struct JobWatch {
    begun: Monotonic,
    /// How long it was watched before.
    before: Duration,
    silent_since: Monotonic,
    silent_before: Duration,
    last: Option<RemoteJob>,
}

impl JobWatch {
    /// `before` is how long other workers have watched it, `silent_before` how long it did not change.
    pub(super) fn new(now: Monotonic, before: Duration, silent_before: Duration) -> Self {
        Self { begun: now, before, silent_since: now, silent_before, last: None }
    }

    fn see(&mut self, job: RemoteJob, now: Monotonic) {
        if self.last.as_ref().is_some_and(|last| *last != job) {
            (self.silent_since, self.silent_before) = (now, Duration::ZERO);
        }
        self.last = Some(job);
    }

    /// Whether its node must have died.
    fn is_over(&self, clocks: &Clocks, now: Monotonic) -> bool {
        now.since(self.begun) + self.before >= clocks.max_render_time
            || now.since(self.silent_since) + self.silent_before >= clocks.stall_timeout
    }
}

/// Removes a job, unless a node renders it: then only the farm knows when it ends.
pub(super) async fn drop_once(
    worker: &WorkerContext,
    leftover: &OrphanJob,
    watching: &mut JobWatch,
) -> Result<DropResult, Trouble> {
    let name = leftover.remote_job.as_str();
    let job = worker.asking("look", worker.farm.look(name)).await?;
    // A job of another queue with this name is not ours.
    let staged = leftover.staged_path.as_deref();
    if let Some(job) = job.filter(|job| job.may_leave(staged)) {
        let is_running = is_running(&job.report);
        watching.see(job, worker.now());
        if is_running && !watching.is_over(&worker.options.clocks, worker.now()) {
            return Ok(DropResult::Running);
        }
        worker.asking("remove", worker.farm.remove(name)).await?;
    }
    let (render, epoch) = (leftover.render, leftover.epoch);
    if leftover.file == File::Delete
        && let Err(trouble) = discard(worker, leftover).await
    {
        // It will be tried again: the job is still recorded.
        tracing::warn!(render.id = %render, "the file of job {name} of render {render} could not be removed yet: {}", trouble.message);
        return Ok(DropResult::FileLeft);
    }
    let settled = transact(&worker.store, async |tx| tx.renders().settle_leftover(render, epoch).await);
    if let Err(error) = settled.await {
        // Removing it again does no harm.
        tracing::warn!(render.id = %render, %error, "that job {name} is out of nexrender could not be written");
    }
    Ok(DropResult::Gone)
}

fn is_running(report: &Report) -> bool {
    match report {
        Report::At { phase, .. } => *phase != Phase::WaitingForNode,
        Report::Unknown { .. } => true,
        Report::Finished | Report::Failed { .. } | Report::Cancelled | Report::Lost => false,
    }
}

async fn discard(worker: &WorkerContext, leftover: &OrphanJob) -> Result<(), Trouble> {
    let Some(path) = &leftover.staged_path else { return Ok(()) };
    // A file in another folder is out of reach, and waiting would not change that.
    if let Ok(Some(staged)) = worker.options.places.kept(path) {
        match worker.storage.discard(&staged.local).await {
            Err(trouble) if trouble.failure == Failure::PathNotMapped => {}
            discarded => discarded?,
        }
    }
    let read = async {
        let mut tx = worker.store.read().await?;
        let record = tx.renders().find(leftover.render).await?;
        let data = tx.renders().data(leftover.render).await?.unwrap_or_default();
        Ok::<_, StoreError>(record.map(|record| (record, data)))
    };
    let Ok(Some((record, data))) = read.await else { return Ok(()) };
    let in_data = gfx::read(&data).ok().and_then(|data| data.composition);
    let title = output::title(in_data, record.composition.clone());
    let (Some(title), Some(date)) = (title, record.broadcast_date) else { return Ok(()) };
    // A completed render has no part left.
    if record.render.status == Status::Completed {
        return Ok(());
    }
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let uid = Uid::new(leftover.render, leftover.epoch);
    let revision = record.output_revision;
    worker.storage.discard_part(&worker.options.places.output(uid, revision, &title, extension, date)).await
}

/// Reserves it for this worker for this pause and another while.
pub(super) async fn keep(worker: &WorkerContext, leftover: &OrphanJob, pause: Duration) {
    let (render, epoch) = (leftover.render, leftover.epoch);
    let kept_for = pause + KEPT_FOR;
    let kept = transact(&worker.store, async |tx| tx.renders().keep_leftover(render, epoch, kept_for).await);
    if let Err(error) = kept.await {
        tracing::debug!(%error, "job {} may be seen to by others as well", leftover.remote_job);
    }
}

pub(super) fn warn_of_trouble(leftover: &OrphanJob, trouble: &Trouble) {
    let (id, job) = (leftover.render, &leftover.remote_job);
    tracing::warn!(render.id = %id, "job {job} of render {id} could not be taken out of nexrender yet: {}", trouble.message);
}

/// Removes jobs that no worker watches. Returns how many are gone.
pub(super) async fn sweep(worker: &WorkerContext) -> Result<usize, StoreError> {
    let mut tx = worker.store.begin().await?;
    let leftovers = tx.renders().take_leftovers(PER_TURN, KEPT_FOR).await?;
    let now = tx.now().await?;
    tx.commit().await?;
    let mut gone = 0;
    for leftover in &leftovers {
        let mut watching = JobWatch::new(worker.now(), now.since(leftover.since), Duration::ZERO);
        match drop_once(worker, leftover, &mut watching).await {
            Ok(DropResult::Gone) => gone += 1,
            Ok(DropResult::Running | DropResult::FileLeft) => {}
            Err(trouble) => {
                warn_of_trouble(leftover, &trouble);
                let pause = leftover_pause(now.since(leftover.since), worker.options.farm_pause);
                keep(worker, leftover, pause).await;
            }
        }
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    fn job(percent: f64) -> RemoteJob {
        let report = Report::At { phase: Phase::Rendering, percent: Some(percent) };
        RemoteJob { id: "rq-1-1".into(), report, updated: None, output: None }
    }

    #[test]
    fn a_job_that_goes_on_is_watched_until_it_takes_too_long() {
        let (clocks, mut watching) =
            (Clocks::default(), JobWatch::new(at(0), Duration::ZERO, Duration::ZERO));
        for (step, percent) in (0..9).zip([1.0, 2.0].into_iter().cycle()) {
            watching.see(job(percent), at(step * 200));
            assert!(!watching.is_over(&clocks, at(step * 200)), "{step}");
        }

        watching.see(job(2.0), at(1_800));

        assert!(watching.is_over(&clocks, at(1_800)));
    }

    #[test]
    fn a_job_that_was_silent_before_is_not_waited_for_again() {
        let clocks = Clocks::default();
        let mut watching = JobWatch::new(at(0), Duration::ZERO, clocks.stall_timeout);

        watching.see(job(1.0), at(0));

        assert!(watching.is_over(&clocks, at(0)));
        watching.see(job(2.0), at(1));
        assert!(!watching.is_over(&clocks, at(1)));
    }

    #[test]
    fn only_what_a_node_has_runs() {
        assert!(is_running(&job(1.0).report));
        assert!(!is_running(&Report::At { phase: Phase::WaitingForNode, percent: None }));
        assert!(is_running(&Report::Unknown { word: "dreaming".into() }));
        assert!(!is_running(&Report::Finished));
    }
}
