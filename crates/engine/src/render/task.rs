//! One claimed render: does what the rules say, reports the result to the database, and gets the next action. It has no
//! rules of its own.

mod blame;
mod file;
mod job;
mod prepare;
mod target;

pub(super) use prepare::Problem;

use super::{HeldRender, Instruction, short_pause, tell};
use crate::metrics;
use crate::pool::Hold;
use crate::render::licence::NoLicence;
use crate::render::storage::Sight;
use crate::render::worker_context::{Place, WorkerContext};
use job::LoggedWords;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::clock::{Verdict, look};
use tidemill_domain::render::lifecycle::{File, Slot};
use tidemill_domain::render::{Act, Failure, Status, Trouble, Uid, Work};
use tidemill_domain::time::{Monotonic, Timestamp};
use tidemill_store::render::{Claimed, Notes, OrphanJob, RenderRecord, Worked};
use tidemill_store::{StoreError, crash_point};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

/// How long a claimed render waits for a licence before a more urgent one may be claimed instead.
const LICENCE_WAIT: Duration = Duration::from_secs(60);

/// After this many refusals by the database, another worker has to report the result.
const REFUSALS_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Task {
    worker: Arc<WorkerContext>,
    held: Arc<HeldRender>,
    record: RenderRecord,
    /// The database's time when it last answered.
    at: Timestamp,
    place: Option<Place>,
    licence: Option<Hold>,
    document: Option<Value>,
    is_wait_logged: bool,
    /// Since when its job is polled.
    polled_since: Option<Monotonic>,
    logged_words: LoggedWords,
    /// The file that passed the checks.
    checked: Option<Sight>,
    /// The file that did not, while its job may still be running.
    bad_film: Option<Sight>,
}

/// The result of an action, and what is recorded with it.
#[derive(Clone, PartialEq, Debug)]
struct ActResult {
    work: Work,
    noted: NewNotes,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct NewNotes {
    document: Option<Value>,
    staged_path: Option<String>,
    remote_job: Option<String>,
    mark: Option<String>,
    report: Option<Value>,
    poster_path: Option<String>,
    output_bytes: Option<u64>,
    output_sha256: Option<String>,
    output_path: Option<String>,
    output_objects: Option<String>,
    previous_path: Option<String>,
    /// Kept in memory: it means nothing to another worker.
    checked: Option<Sight>,
    bad_film: Option<Sight>,
}

impl NewNotes {
    fn notes(&self) -> Notes<'_> {
        Notes {
            document: self.document.as_ref(),
            staged_path: self.staged_path.as_deref(),
            remote_job: self.remote_job.as_deref(),
            mark: self.mark.as_deref(),
            report: self.report.as_ref(),
            poster_path: self.poster_path.as_deref(),
            output_bytes: self.output_bytes,
            output_sha256: self.output_sha256.as_deref(),
            output_path: self.output_path.as_deref(),
            output_objects: self.output_objects.as_deref(),
            previous_path: self.previous_path.as_deref(),
        }
    }
}

impl From<Work> for ActResult {
    fn from(work: Work) -> Self {
        Self { work, noted: NewNotes::default() }
    }
}

impl From<Trouble> for ActResult {
    fn from(trouble: Trouble) -> Self {
        Work::Failed(trouble).into()
    }
}

impl Task {
    /// `permit` is the place that was reserved for it.
    pub(super) fn new(
        worker: Arc<WorkerContext>,
        held: Arc<HeldRender>,
        claimed: Claimed,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let place = Some(worker.take_place(permit));
        let at = claimed.record.updated_at;
        Self {
            worker,
            held,
            record: claimed.record,
            at,
            place,
            licence: None,
            document: None,
            is_wait_logged: false,
            polled_since: None,
            logged_words: LoggedWords::default(),
            checked: None,
            bad_film: None,
        }
    }

    /// Runs until another worker has the render, or it needs nothing more. The span gets what became of it.
    pub(super) async fn run(mut self, first: Act, span: Span) {
        let mut act = first;
        while let Some(next) = self.step(act).await {
            act = next;
        }
        let status = self.record.render.status;
        span.record("render.status", status.as_str());
        if status == Status::Failed {
            span.record("otel.status_code", "ERROR");
        }
    }

    /// Does one action. Returns the next; none at the end.
    async fn step(&mut self, act: Act) -> Option<Act> {
        match act {
            Act::Nothing | Act::GiveUp | Act::StopClaiming => return None,
            Act::DropJob { epoch, slot, file } => {
                let leftover = self.leftover(epoch, slot, file);
                self.drop_job(leftover).await;
                return None;
            }
            Act::Poll => {
                self.polled_since.get_or_insert(self.worker.now());
                match self.record.seen().map(|seen| look(seen, &self.worker.options.clocks, self.at)) {
                    Some(Verdict::Over(failure)) => return self.report(Work::Overdue(failure).into()).await,
                    Some(Verdict::WaitsLong) => self.log_wait(),
                    Some(Verdict::Fine) | None => {}
                }
            }
            _ => {}
        }
        // While a node may be rendering.
        if matches!(act, Act::Prepare | Act::Submit | Act::LookAtJob | Act::Poll | Act::LookForOutput(_)) {
            if let Some(instead) = self.take_place().await {
                return self.go_on(instead).await;
            }
        } else {
            self.free_place();
        }
        // Publishing is finished because it takes little time, and a submission because the job would arrive unnoticed.
        let least = match act {
            Act::Submit | Act::Copy | Act::Publish | Act::LookAtFinal => Instruction::StopNow,
            _ => Instruction::Stop,
        };
        let done = {
            let performing = self.perform(act);
            tokio::pin!(performing);
            tokio::select! {
                biased;
                told = self.held.instructed(least) => {
                    if act == Act::Submit && matches!(told, Instruction::Do(_)) {
                        performing.await;
                    }
                    Err(told)
                }
                done = &mut performing => Ok(done),
            }
        };
        let done = match done {
            Ok(done) => Ok(self.blamed(done).await),
            told => told,
        };
        self.go_on(done).await
    }

    async fn go_on(&mut self, done: Result<ActResult, Instruction>) -> Option<Act> {
        match done {
            Ok(done) => self.report(done).await,
            Err(Instruction::Do(act)) => Some(act),
            Err(Instruction::Stop | Instruction::StopNow) => self.report(Work::Stop.into()).await,
            Err(Instruction::Lost | Instruction::Nothing) => self.lost(),
        }
    }

    async fn perform(&self, act: Act) -> ActResult {
        let done = match act {
            Act::Prepare => self.prepare().await,
            Act::Submit => self.submit().await,
            Act::LookAtJob => self.look_at_job().await,
            Act::Poll => self.poll().await,
            Act::LookForOutput(failure) => self.look_for_output(failure).await,
            Act::Validate => self.validate().await,
            Act::Copy => self.copy().await,
            Act::Publish => self.publish().await,
            Act::LookAtFinal => self.look_at_final().await,
            Act::Nothing | Act::DropJob { .. } | Act::StopClaiming | Act::GiveUp => Ok(Work::Stop.into()),
        };
        done.unwrap_or_else(ActResult::from)
    }

    /// Reports the result until the database has it, or the lease may be lost.
    async fn report(&mut self, mut done: ActResult) -> Option<Act> {
        let (mut failures, mut refusals) = (0_u32, 0_u32);
        while self.held.is_trusted() {
            match self.send(&done).await {
                Ok(None) => return self.lost(),
                Ok(Some(worked)) => return self.apply(worked, done),
                Err(StoreError::OutcomeUnknown(error)) => {
                    let id = self.held.id;
                    tracing::warn!(render.id = %id, %error, "nobody knows what was written about render {id}; whoever claims it next finds out");
                    done = Work::Stop.into();
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(render.id = %self.held.id, %error, "render {} could not be written; will try again", self.held.id);
                }
                Err(error) => {
                    refusals += 1;
                    tracing::error!(render.id = %self.held.id, %error, "the database refuses what is said about render {}", self.held.id);
                    if refusals >= REFUSALS_MAX {
                        return None;
                    }
                    done = unexpected(&error).into();
                }
            }
            failures = failures.saturating_add(1);
            tokio::select! {
                told = self.held.instructed(Instruction::Do(Act::Nothing)) => match told {
                    Instruction::Do(act) => return Some(act),
                    _ => return self.lost(),
                },
                () = tokio::time::sleep(short_pause(failures)) => {}
            }
        }
        self.lost()
    }

    async fn send(&mut self, done: &ActResult) -> Result<Option<Worked>, StoreError> {
        let (id, fence, policy) = (self.held.id, self.held.fence, &self.worker.options.policy);
        crash_point!("render_before_work");
        let mut tx = self.worker.store.begin().await?;
        let worked = tx.renders().work(id, fence, done.work.clone(), done.noted.notes(), policy).await?;
        let at = match done.work {
            // Needed by the clocks that are checked next.
            Work::Reported(_) | Work::Submitted => tx.now().await?,
            _ => self.at,
        };
        tx.commit().await?;
        crash_point!("render_after_work");
        self.worker.vitals().database = Some(self.worker.now());
        self.at = at;
        Ok(worked)
    }

    fn apply(&mut self, worked: Worked, done: ActResult) -> Option<Act> {
        let act = worked.decision.act;
        if let Work::Reported(report) = &done.work {
            self.log_unknown(report);
        }
        tell::decided(&self.worker, Some(&self.record.render), &worked);
        if act == Act::GiveUp {
            return self.lost();
        }
        self.pause(&worked);
        self.end_first_wait(&done.work, &worked);
        self.document = done.noted.document.or(self.document.take());
        self.checked = done.noted.checked.or(self.checked);
        self.bad_film = done.noted.bad_film.or(self.bad_film);
        self.held.is_at(worked.record.render.phase);
        match act {
            // The job to be removed is in the row as it was.
            Act::DropJob { .. } => {}
            _ => self.record = worked.record,
        }
        Some(act)
    }

    fn lost(&self) -> Option<Act> {
        let id = self.held.id;
        metrics::fencing_rejections("render").increment(1);
        tracing::warn!(render.id = %id, lease.epoch = %self.held.fence.epoch, "render {id} is no longer ours; nothing more is done with it");
        None
    }

    /// Waits for a place at the farm and a licence. Returns what happened instead, if it did.
    async fn take_place(&mut self) -> Option<Result<ActResult, Instruction>> {
        let (worker, held) = (self.worker.clone(), self.held.clone());
        if self.place.is_none() {
            let permit = tokio::select! {
                told = held.instructed(Instruction::Stop) => return Some(Err(told)),
                permit = worker.places.clone().acquire_owned() => permit.ok(),
            };
            self.place = permit.map(|permit| worker.take_place(permit));
        }
        let licence = worker.options.licence.as_ref().filter(|_| self.licence.is_none())?;
        let claim = Uid::new(held.id, held.fence.epoch);
        worker.waiting_for_licence.fetch_add(1, Ordering::AcqRel);
        let asked = tokio::select! {
            told = held.instructed(Instruction::Stop) => Err(told),
            answer = licence.hold(claim, LICENCE_WAIT) => Ok(answer),
        };
        worker.waiting_for_licence.fetch_sub(1, Ordering::AcqRel);
        worker.look_again.notify_one();
        let work = match asked {
            Ok(Ok(hold)) => {
                self.licence = Some(hold);
                return None;
            }
            Err(told) => {
                licence.leave(claim).await;
                return Some(Err(told));
            }
            Ok(Err(NoLicence::Busy)) => Work::Stop,
            Ok(Err(NoLicence::Refused(code, message))) => {
                worker.pause(code, &message);
                Work::Stop
            }
            Ok(Err(NoLicence::Failed(error))) => {
                let trouble = Trouble::new(Failure::Unexpected, &error.to_string());
                Work::Failed(Trouble { code: error.code(), ..trouble })
            }
        };
        Some(Ok(work.into()))
    }

    /// Releases the place and the licence.
    fn free_place(&mut self) {
        if self.place.take().is_some() {
            self.worker.look_again.notify_one();
        }
        let (worker, id) = (self.worker.clone(), self.held.id);
        if let Some(hold) = self.licence.take() {
            // In a task, because the render need not wait for it.
            tokio::spawn(async move {
                if let Err(error) = hold.release(false).await {
                    tracing::warn!(render.id = %id, %error, "the licence of render {id} could not be given back; it lapses by itself");
                }
                worker.look_again.notify_one();
            });
        }
    }

    fn log_wait(&mut self) {
        if !std::mem::replace(&mut self.is_wait_logged, true) {
            let id = self.held.id;
            metrics::render_concerns("waits_for_node").increment(1);
            tracing::warn!(render.id = %id, "no render node has taken render {id} yet");
        }
    }

    /// The name of its current or next job.
    fn uid(&self) -> Uid {
        Uid::new(self.held.id, self.record.render.job.unwrap_or(self.held.fence.epoch))
    }

    /// The farm's name for its job.
    fn remote_job(&self) -> String {
        self.record.remote_job.clone().unwrap_or_else(|| self.uid().to_string())
    }

    fn leftover(&self, epoch: Epoch, slot: Slot, file: File) -> OrphanJob {
        let is_known = self.record.render.job == Some(epoch);
        let remote_job = self.record.remote_job.clone().filter(|_| is_known);
        OrphanJob {
            render: self.held.id,
            epoch,
            remote_job: remote_job.unwrap_or_else(|| Uid::new(self.held.id, epoch).to_string()),
            staged_path: self.record.staged_path.clone().filter(|_| is_known),
            slot,
            file,
            since: self.at,
        }
    }
}

pub(super) fn unexpected(error: &StoreError) -> Trouble {
    Trouble { code: error.code(), ..Trouble::new(Failure::Unexpected, &error.to_string()) }
}

impl Drop for Task {
    fn drop(&mut self) {
        // Also after a panic: the lease must not be renewed without a task.
        self.worker.registry.remove(&self.held);
        self.worker.stores.values().for_each(|store| store.leave(self.held.id));
        self.worker.look_again.notify_one();
    }
}
