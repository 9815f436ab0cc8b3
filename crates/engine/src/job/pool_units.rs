//! The pool units of a step: acquired before it begins, released at its end.
//!
//! Nothing here can be lost in a crash: the units of a dead process are released when its execution is recovered
//! ([`recovery`](crate::job::recovery)).

use crate::job::{ExecutionLost, Outcome, StepResources, StepScope, Urgency};
use crate::pool::{AcquirePart, AcquireRequest, Hold, PoolError, Pools};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::pool::{PoolUse, holder};
use tidemill_domain::pool::command::{Admitted, Answer, Release, Waits};
use tidemill_domain::pool::{End, Reason, ReleaseBy, ReleaseOutcome, Settings};
use tidemill_domain::words::plural;
use tidemill_store::StoreError;

/// How long one request waits in the queue. A process that dies keeps its place little longer than that.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// Pause before the request is repeated, if the database is away.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits for the units of a step, and sets them in its scope. Without them, the step ends with the returned outcome.
pub(super) async fn take(
    resources: &StepResources,
    pool_use: &PoolUse,
    scope: &StepScope,
) -> Result<Result<Hold, Outcome>, ExecutionLost> {
    let request = match UnitsRequest::new(resources.pools.get(), pool_use, scope) {
        Ok(request) => request,
        Err(text) => return Ok(Err(Outcome::failed(Code::ExecutionFailed, text))),
    };
    let units = tokio::select! {
        biased;
        () = resources.stop.asked(Urgency::AtChunkEnd) => {
            Err(Outcome::stopped().because(format!("stopped while it waited for pool {}", pool_use.pool)))
        }
        () = resources.lease.lost() => {
            request.leave().await;
            return Err(ExecutionLost);
        }
        units = request.to_the_end() => units,
    };
    if units.is_err() {
        request.leave().await;
    }
    Ok(units)
}

/// Releases the units of a step. If its error has the code of a refusal, the pool hears of that.
pub(super) async fn give_back(hold: Hold, scope: &StepScope, outcome: Option<&Outcome>) {
    let step = scope.step();
    if hold.is_lost() {
        tracing::warn!(step, "the units of step {step} were taken back while it ran");
    }
    let end = match outcome {
        Some(outcome) if outcome.is_completed() => ReleaseOutcome::Completed.end(None),
        outcome => ReleaseOutcome::Failed.end(outcome.map(|outcome| outcome.exit.description.as_str())),
    };
    if let Err(error) = hold.end(end).await {
        tracing::warn!(step, %error, "the units of step {step} could not be given back; they come back after the execution");
    }
}

struct UnitsRequest<'a> {
    pools: &'a Pools,
    pool_use: &'a PoolUse,
    scope: &'a StepScope,
    request: AcquireRequest,
}

impl<'a> UnitsRequest<'a> {
    fn new(pools: &'a Pools, pool_use: &'a PoolUse, scope: &'a StepScope) -> Result<Self, String> {
        pool_use.check().map_err(|error| error.to_string())?;
        let holder = holder(scope.job(), scope.execution(), scope.step())
            .map_err(|error| format!("its name cannot be that of a holder of units: {error}"))?;
        let part = AcquirePart {
            pool: pool_use.pool.clone(),
            parallel: pool_use.units,
            sessions: pool_use.sessions,
            least: pool_use.least,
        };
        let mut request = AcquireRequest::new(holder, part);
        request.class = pool_use.class;
        // Estimates are based on earlier runs of the same step.
        request.table = scope.defined_step().to_owned();
        request.hint = pool_use.hint.clone();
        Ok(Self { pools, pool_use, scope, request })
    }

    async fn to_the_end(&self) -> Result<Hold, Outcome> {
        let mut left = self.pool_use.wait.unwrap_or(Duration::MAX);
        // The first request does not wait, so that the place in the queue is logged at once.
        let mut wait = Duration::ZERO;
        let mut place = None;
        loop {
            let waited = match self.try_acquire(wait).await {
                Ok(Ok(hold)) => return self.granted(hold).await,
                Ok(Err(Answer::Waits(waits))) if left.is_zero() => return Err(self.too_long(&waits)),
                Ok(Err(Answer::Waits(waits))) => {
                    self.log_place(&waits, &mut place);
                    wait
                }
                Ok(Err(other)) => return Err(self.refused(other)),
                Err(error) if is_passing(&error) && !left.is_zero() => {
                    tracing::warn!(%error, "units of pool {} could not be asked for; will try again", self.pool_use.pool);
                    tokio::time::sleep(PAUSE).await;
                    PAUSE
                }
                Err(error) => return Err(Outcome::failed(error.code(), error.to_string())),
            };
            left = left.saturating_sub(waited);
            wait = left.min(REQUEST_MAX);
        }
    }

    /// One request, by the current settings of the pool.
    async fn try_acquire(&self, wait: Duration) -> Result<Result<Hold, Answer>, PoolError> {
        let mut request = self.request.clone();
        // For an unknown pool, the answer to the request says so.
        if let Some(settings) = self.settings().await?
            && let Ok(asked) = self.pool_use.asked(&settings)
        {
            // Once, with the first request.
            for warning in asked.warnings.iter().filter(|_| wait.is_zero()) {
                let (step, text) = (self.scope.step(), warning.text());
                tracing::warn!(step, %warning, "hint of step {step}: {text}");
            }
            for part in &mut request.parts {
                (part.parallel, part.least) = (Some(asked.parallel), asked.least);
            }
        }
        self.pools.hold(request, wait).await
    }

    /// Sets the granted units in the scope. Units that the step cannot use are released.
    async fn granted(&self, hold: Hold) -> Result<Hold, Outcome> {
        match self.set_granted(&hold).await {
            Ok(()) => Ok(hold),
            Err(outcome) => {
                give_back(hold, self.scope, None).await;
                Err(outcome)
            }
        }
    }

    async fn set_granted(&self, hold: &Hold) -> Result<(), Outcome> {
        let Some(Admitted { ticket, .. }) = hold.parts().first() else { return Ok(()) };
        let Some(granted) = ticket.granted else { return Ok(()) };
        let settings =
            self.settings().await.map_err(|error| Outcome::failed(error.code(), error.to_string()))?;
        // If the pool was removed meanwhile, assume the default kind of units.
        let settings = settings.unwrap_or_else(|| Settings::new(self.pool_use.pool.clone(), 0));
        let units = self
            .pool_use
            .granted(&settings, granted)
            .map_err(|error| Outcome::failed(Code::HintNotRewritten, error.to_string()))?;
        let (step, pool, asked) = (self.scope.step(), &self.pool_use.pool, ticket.asked);
        tracing::info!(step, pool = %pool, "step {step} has {granted} of the {asked} that it asked of pool {pool}");
        self.scope.grant(units);
        Ok(())
    }

    async fn settings(&self) -> Result<Option<Settings>, StoreError> {
        let found = self.scope.store().read().await?.pools().find(&self.pool_use.pool).await?;
        Ok(found.map(|found| found.settings))
    }

    fn log_place(&self, waits: &Waits, place: &mut Option<(u32, Reason)>) {
        let now = (waits.position, waits.reason);
        if place.replace(now) == Some(now) {
            return;
        }
        let (step, pool, requested, position) =
            (self.scope.step(), &waits.pool, waits.requested, waits.position);
        tracing::info!(step, pool = %pool, position, reason = %waits.reason,
            "step {step} waits for {} of pool {pool}: place {position} in the queue", plural(requested, "unit", "units"));
    }

    fn too_long(&self, waits: &Waits) -> Outcome {
        let waited = tidemill_domain::duration::show(self.pool_use.wait.unwrap_or_default());
        let text = format!(
            "pool {} did not have {} within {waited}: place {} in the queue, {}",
            waits.pool,
            plural(waits.requested, "unit", "units"),
            waits.position,
            waits.reason.sentence()
        );
        Outcome::failed(Code::PoolFull, text)
    }

    fn refused(&self, answer: Answer) -> Outcome {
        let pool = &self.pool_use.pool;
        match answer {
            Answer::Refused { reason: Reason::UnknownPool, .. } => {
                Outcome::failed(Code::PoolNotFound, format!("there is no pool {pool}"))
            }
            Answer::Refused { reason, .. } => {
                Outcome::failed(Code::RequestExceedsPool, format!("pool {pool}: {}", reason.sentence()))
            }
            _ => Outcome::failed(Code::PoolLeaseGone, format!("pool {pool} no longer knows the request")),
        }
    }

    /// Leaves the queue, and releases units granted at the last moment.
    async fn leave(&self) {
        let by = ReleaseBy::Holder(self.request.holder.clone());
        let end = End::Released { failed: true };
        let release = Release { pool: self.pool_use.pool.clone(), by, epoch: None, end, call: None };
        if let Err(error) = self.pools.release(release).await {
            tracing::warn!(%error, "the queue of pool {} could not be left; the place lapses by itself", self.pool_use.pool);
        }
    }
}

fn is_passing(error: &PoolError) -> bool {
    matches!(error, PoolError::Busy) || matches!(error, PoolError::Store(error) if error.is_transient())
}
