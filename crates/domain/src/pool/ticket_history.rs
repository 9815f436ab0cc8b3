//! The decisions about one ticket, line by line.

use super::decide::{Size, Turn, why_started};
use super::{End, Event, Ticket};
use crate::duration;
use crate::time::Timestamp;
use std::time::Duration;

/// The line for an event; `ticket` is as it is now. None for events that decide nothing.
pub fn line(at: Timestamp, event: &Event, ticket: &Ticket) -> Option<String> {
    Some(match event {
        // Pollers ask repeatedly, and nothing follows from it.
        Event::Configured { .. } | Event::Snapshot { .. } | Event::Breaker { .. } | Event::Asked { .. } => {
            return None;
        }
        Event::Enqueued { ticket } if ticket.least < ticket.asked => {
            format!("asked for {}, at least {}", ticket.asked, ticket.least)
        }
        Event::Enqueued { ticket } => format!("asked for {}", ticket.asked),
        Event::Granted { parallel, turn, size, .. } => granted(at, parallel.get(), ticket, *turn, *size),
        Event::Estimated { eta, .. } => format!(
            "was told to expect its units in {}, and with 90 % certainty in {}",
            duration::show(seconds(eta.p50.since(at))),
            duration::show(seconds(eta.p90.since(at)))
        ),
        Event::Claimed { .. } => "claimed its units".to_owned(),
        Event::Unclaimed { .. } => {
            "left before it could claim its units; they stay reserved for a while".to_owned()
        }
        Event::Reacquired { .. } => "repeated its request".to_owned(),
        Event::Resized { parallel, .. } => format!("now has {parallel}"),
        Event::Wanted { parallel: Some(parallel), .. } => format!("asked for {parallel} in total"),
        Event::Wanted { parallel: None, .. } => "no longer asks for more".to_owned(),
        Event::Doubted { .. } => "was silent for too long; its units still count".to_owned(),
        Event::Confirmed { .. } => "is back".to_owned(),
        Event::Ended { end, .. } => ended(end),
    })
}

fn seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

fn granted(at: Timestamp, parallel: u32, ticket: &Ticket, turn: Turn, size: Size) -> String {
    let waited = seconds(at.since(ticket.enqueued_at));
    let when =
        if waited.is_zero() { "at once".to_owned() } else { format!("after {}", duration::show(waited)) };
    let what = match parallel < ticket.asked.get() {
        true => format!("granted {when}, downgraded {} → {parallel}", ticket.asked),
        false => format!("granted {parallel} {when}"),
    };
    format!("{what}: {}", why_started(turn, size))
}

pub(super) fn ended(end: &End) -> String {
    match end {
        End::Released { failed: false } => "released its units".to_owned(),
        End::Released { failed: true } => "released its units and reported a failure".to_owned(),
        End::Refused { reason } => {
            format!("released its units and reported that the database refused it: {reason}")
        }
        End::ByOperator { by, reason } => format!("was released by {by}: {reason}"),
        End::ByProbe => "was released, because the probe found none of its sessions".to_owned(),
        End::Unclaimed => "did not claim its units in time".to_owned(),
        End::HeldTooLong => "held its units for too long, so they were taken back".to_owned(),
        End::StoppedAsking => "stopped polling and left the queue".to_owned(),
        End::GaveUp => "gave up and left the queue".to_owned(),
        End::ExceedsPool => "left the queue, because the pool became too small for it".to_owned(),
        End::PoolRemoved => "ended with its pool".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::State;
    use crate::pool::tests::{at, some, ticket};

    #[test]
    fn a_downgrade_after_a_wait_says_both() {
        let granted = Some(some(8));
        let ticket = Ticket { least: some(2), state: State::Running, granted, ..ticket(1, 16, at(0)) };
        let id = ticket.id;
        let grant = |parallel, size| Event::Granted {
            ticket: id,
            parallel: some(parallel),
            ask_by: Timestamp::EPOCH,
            turn: Turn::First,
            size,
        };
        let told = |seconds, event: Event| line(at(seconds), &event, &ticket).unwrap();

        assert_eq!(told(0, Event::Enqueued { ticket: Box::new(ticket.clone()) }), "asked for 16, at least 2");
        assert_eq!(
            told(45, grant(8, Size::Halved)),
            "granted after 45s, downgraded 16 → 8: it was first in the queue, and more did not fit"
        );
        let at_once = "granted 16 at once: it was first in the queue, and all of its units fit";
        assert_eq!(told(0, grant(16, Size::Full)), at_once);
        let end = End::ByOperator { by: "minsu".into(), reason: "dead".into() };
        assert_eq!(told(90, Event::Ended { ticket: id, end }), "was released by minsu: dead");
    }
}
