//! What was decided, as a sentence for the list of recent events.

use super::event::{End, Event};
use super::ticket::Ticket;
use crate::time::Timestamp;

/// The sentence for an event about `ticket` (as it is after the event); none for what nobody wants to read.
pub fn story(at: Timestamp, event: &Event, ticket: Option<&Ticket>) -> Option<String> {
    let who = ticket.map_or("?", |ticket| ticket.holder.dag_id());
    match event {
        Event::Granted { parallel, .. } => {
            let ticket = ticket?;
            let waited = at.since(ticket.enqueued_at).as_secs();
            let downgraded = (*parallel < ticket.asked)
                .then(|| format!("{who} downgraded: PARALLEL({}) → PARALLEL({parallel})", ticket.asked));
            let waited = (waited > 0).then(|| format!("{who} waited {waited}s before acquire"));
            match (downgraded, waited) {
                (Some(downgraded), Some(waited)) => Some(format!("{downgraded}; {waited}")),
                (downgraded, waited) => downgraded.or(waited),
            }
        }
        Event::Doubted { .. } => Some(format!("{who} has not been heard of; its units still count")),
        Event::Confirmed { .. } => Some(format!("{who} was heard of again")),
        Event::Ended { end, .. } => ending(who, end),
        Event::Configured { settings } => Some(match &settings.paused {
            Some(pause) => format!("{} paused by {}: {}", settings.name, pause.by, pause.reason),
            None => format!(
                "{} set to {} units, of which {} % are given out",
                settings.name, settings.max_units, settings.threshold_percent
            ),
        }),
        Event::Snapshot { .. }
        | Event::Enqueued { .. }
        | Event::Asked { .. }
        | Event::Claimed { .. }
        | Event::Unclaimed { .. }
        | Event::Reacquired { .. }
        | Event::Resized { .. }
        | Event::Wanted { .. } => None,
    }
}

/// The sentence for a new peak.
pub fn peak(pool: &str, units: u64) -> String {
    format!("Peak usage: {units} connections ({pool})")
}

fn ending(who: &str, end: &End) -> Option<String> {
    match end {
        End::Released { .. } | End::GaveUp => None,
        End::ByOperator { by, reason } => Some(format!("{who} released by {by}: {reason}")),
        End::ByProbe => Some(format!("{who} released: the probe saw no session of it")),
        End::Unclaimed => Some(format!("{who} did not claim its units in time")),
        End::HeldTooLong => Some(format!("{who} held its units for too long; they were taken back")),
        End::StoppedAsking => Some(format!("{who} stopped asking and left the queue")),
        End::ExceedsPool => Some(format!("{who} left the queue: the pool became too small for it")),
        End::PoolRemoved => Some(format!("{who} ended with its pool")),
    }
}
