//! Delivering notices: loads what is due, tries each outside of any transaction, and records the result under the
//! fence.

use super::{Announcement, Channel, DeliveryError, Message};
use crate::{EngineError, HeldLease, jitter_unit, metrics};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::delivery::{self, Attempt, DeliveryState};
use tidemill_domain::words::plural;
use tidemill_store::alert::Delivery;
use tokio::task::JoinSet;

const DELIVERIES_PER_TURN: u32 = 16;

const DELIVERING_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivered {
    pub arrived: usize,
    /// Notices that will be retried.
    pub waiting: usize,
    /// Notices that were given up.
    pub failed: usize,
}

impl Delivered {
    /// Whether more notices may be due right now.
    pub(super) fn is_full(&self) -> bool {
        self.arrived + self.waiting + self.failed >= DELIVERIES_PER_TURN as usize
    }
}

#[derive(Debug)]
pub struct Deliverer {
    pub(super) channels: Vec<Arc<dyn Channel>>,
}

impl Deliverer {
    /// One round over the due notices. A slow channel does not delay the others.
    #[crate::boxed]
    pub async fn run_once(&self, watch: &HeldLease) -> Result<Delivered, EngineError> {
        watch.check()?;
        let due = watch.process().store().read().await?.alerts().due_deliveries(DELIVERIES_PER_TURN).await?;
        let mut attempts = JoinSet::new();
        let mut by_task = HashMap::new();
        for due in due {
            let channel = self.channels.iter().find(|channel| channel.name() == due.channel).cloned();
            let tried = due.clone();
            let task = attempts.spawn(async move { attempt(channel.as_deref(), &tried).await });
            by_task.insert(task.id(), due);
        }
        let mut done = Delivered::default();
        while let Some(ended) = attempts.join_next_with_id().await {
            let (task, answer) = match ended {
                Ok(ended) => ended,
                Err(error) => (error.id(), Err(DeliveryError::temporary("the channel failed unexpectedly"))),
            };
            let Some(due) = by_task.remove(&task) else { continue };
            match settle(watch, &due, answer).await? {
                Some(DeliveryState::Delivered { .. }) => done.arrived += 1,
                Some(DeliveryState::Waiting { .. }) => done.waiting += 1,
                Some(DeliveryState::Failed { .. }) => done.failed += 1,
                None => {}
            }
        }
        Ok(done)
    }
}

async fn attempt(channel: Option<&dyn Channel>, due: &Delivery) -> Result<(), DeliveryError> {
    let Some(channel) = channel else {
        return Err(DeliveryError::permanent("there is no channel of this name any more"));
    };
    let announcement =
        Announcement::from_json(&due.body).map_err(|error| DeliveryError::permanent(error.to_string()))?;
    let message = Message { id: due.id, announcement, body: due.body.clone() };
    match tokio::time::timeout(DELIVERING_MAX, channel.deliver(&message)).await {
        Ok(answer) => answer,
        Err(_) => Err(DeliveryError::temporary(format!("no answer in {DELIVERING_MAX:?}"))),
    }
}

async fn settle(
    watch: &HeldLease,
    due: &Delivery,
    answer: Result<(), DeliveryError>,
) -> Result<Option<DeliveryState>, EngineError> {
    let attempt = match &answer {
        Ok(()) => Attempt::Arrived,
        Err(error) if error.retry => Attempt::FailedForNow,
        Err(_) => Attempt::FailedForGood,
    };
    let backoff = delivery::backoff().expect("the backoff of deliveries keeps to the bounds of a backoff");
    let error = answer.err().map(|error| error.why);
    let mut tx = watch.begin().await?;
    let state = tx
        .alerts()
        .settle_delivery(due.id, attempt, error.as_deref(), |failures| backoff.delay(failures, jitter_unit()))
        .await?;
    tx.commit().await?;
    if let Some(state) = state {
        report(due, state, error.as_deref());
    }
    Ok(state)
}

fn report(due: &Delivery, state: DeliveryState, error: Option<&str>) {
    let (rule, subject, channel) = (&due.rule, &due.subject, &due.channel);
    let error = error.unwrap_or_default();
    let outcome = match state {
        DeliveryState::Delivered { .. } => "arrived",
        DeliveryState::Waiting { attempt, .. } => {
            tracing::warn!(alert.rule = rule, %error, "notice of alert {rule} for {subject} did not reach {channel} ({}); will try again", plural(attempt, "attempt", "attempts"));
            "failed"
        }
        DeliveryState::Failed { .. } => {
            tracing::error!(alert.rule = rule, %error, "notice of alert {rule} for {subject} is given up: it does not reach {channel}");
            "given_up"
        }
    };
    metrics::alert_deliveries(channel, outcome).increment(1);
}
