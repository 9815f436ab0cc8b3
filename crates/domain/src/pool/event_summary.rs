//! Sentences for the list of recent events.

use super::ticket_history::ended;
use super::{End, Event, Ticket};
use crate::time::Timestamp;

/// The sentence for an event; `ticket` is as it is after the event. None for minor events.
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
        Event::Doubted { .. } => Some(format!("{who} is silent; its units still count")),
        Event::Confirmed { .. } => Some(format!("{who} is back")),
        Event::Ended { end: End::Released { .. } | End::GaveUp, .. } => None,
        Event::Ended { end, .. } => Some(format!("{who} {}", ended(end))),
        Event::Configured { settings } => Some(match &settings.paused {
            Some(pause) => format!("{} paused by {}: {}", settings.name, pause.by, pause.reason),
            None => format!(
                "{} set to {} units with a limit of {} %",
                settings.name, settings.max_units, settings.threshold_percent
            ),
        }),
        _ => None,
    }
}

pub fn peak(pool: &str, units: u64) -> String {
    format!("Peak usage: {units} connections ({pool})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Epoch;
    use crate::pool::decide::{Size, Turn};
    use crate::pool::settings::Pause;
    use crate::pool::{Class, Holder, Settings, State, TicketId, Weight};
    use std::num::NonZeroU32;
    use std::time::Duration;
    use uuid::Uuid;

    fn ticket(dag: &str, asked: u32) -> Ticket {
        let id = TicketId::new(Uuid::from_u128(1));
        Ticket {
            id,
            request: id,
            with: Vec::new(),
            holder: Holder::run(dag, "r").unwrap(),
            state: State::Granted,
            class: Class::Normal,
            weight: Weight::PLAIN,
            asked: NonZeroU32::new(asked).unwrap(),
            least: NonZeroU32::MIN,
            granted: None,
            upgrade: None,
            epoch: Epoch::ZERO,
            enqueued_at: Timestamp::EPOCH,
            granted_at: None,
            claimed_at: None,
            doubted_at: None,
            deadline: None,
            eta: None,
            overtaken: 0,
            ask_by: Timestamp::EPOCH,
            lease_for: None,
            table: "T".to_owned(),
            hint: None,
            call: None,
        }
    }

    fn of_grant(ticket: &Ticket, parallel: u32, after: u64) -> Option<String> {
        let at = Timestamp::EPOCH.plus(Duration::from_secs(after));
        let parallel = NonZeroU32::new(parallel).unwrap();
        story(at, &Event::Granted { ticket: ticket.id, parallel, ask_by: at, turn: Turn::First, size: Size::Full }, Some(ticket))
    }

    #[test]
    fn a_grant_is_told_if_somebody_got_less_or_had_to_wait() {
        let downgraded = "batch_421 downgraded: PARALLEL(16) → PARALLEL(8)";
        assert_eq!(of_grant(&ticket("batch_421", 16), 8, 0).unwrap(), downgraded);
        assert_eq!(of_grant(&ticket("batch_398", 8), 8, 45).unwrap(), "batch_398 waited 45s before acquire");
        assert_eq!(
            of_grant(&ticket("batch_421", 16), 8, 45).unwrap(),
            format!("{downgraded}; batch_421 waited 45s before acquire")
        );
        assert_eq!(of_grant(&ticket("batch_001", 8), 8, 0), None, "nothing to tell");
    }

    #[test]
    fn a_peak_is_told_as_in_the_document() {
        assert_eq!(peak("ADW", 892), "Peak usage: 892 connections (ADW)");
    }

    #[test]
    fn an_end_is_told_if_the_holder_did_not_bring_it_about() {
        let ticket = ticket("batch_7", 8);
        let told = |end| story(Timestamp::EPOCH, &Event::Ended { ticket: ticket.id, end }, Some(&ticket));
        let by_operator = End::ByOperator { by: "minsu".into(), reason: "stuck".into() };

        assert_eq!(told(End::Released { failed: true }), None);
        assert_eq!(told(by_operator).unwrap(), "batch_7 was released by minsu: stuck");
        assert_eq!(
            told(End::HeldTooLong).unwrap(),
            "batch_7 held its units for too long, so they were taken back"
        );
    }

    #[test]
    fn a_pause_names_who_and_why() {
        let mut settings = Settings::new("ADW".parse().unwrap(), 1_000);
        let told = |settings: &Settings| {
            story(Timestamp::EPOCH, &Event::Configured { settings: Box::new(settings.clone()) }, None)
                .unwrap()
        };

        assert_eq!(told(&settings), "ADW set to 1000 units with a limit of 95 %");
        settings.paused =
            Some(Pause { by: "minsu".into(), reason: "patch day".into(), at: Timestamp::EPOCH });
        assert_eq!(told(&settings), "ADW paused by minsu: patch day");
    }
}
