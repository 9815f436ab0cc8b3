//! Sentences for the list of recent events.

use super::breaker::{Breaker, Phase};
use super::ticket_history::ended;
use super::{End, Event, Settings, Ticket};
use crate::duration::show;
use crate::time::Timestamp;
use serde_json::{Map, Value, json};

/// The sentence for an event. None for minor events. It is made when the event is decided, because it needs the settings
/// of the pool before the event, and the ticket right after it.
pub fn story(
    at: Timestamp,
    event: &Event,
    before: Option<&Settings>,
    ticket: Option<&Ticket>,
) -> Option<String> {
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
        Event::Configured { settings, by } => Some(configured(before?, settings, by.as_deref())),
        Event::Breaker { breaker } => Some(of_breaker(breaker)),
        _ => None,
    }
}

/// What has changed, and by whom. A new pool has its settings from the start.
fn configured(before: &Settings, after: &Settings, by: Option<&str>) -> String {
    let Settings { name, max_units, threshold_percent, .. } = after;
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    if before == after {
        return format!("{name} created{by}: {max_units} units with a limit of {threshold_percent} %");
    }
    let mut parts = Vec::new();
    match (&before.paused, &after.paused) {
        (was, Some(pause)) if was.as_ref() != Some(pause) => {
            parts.push(format!("paused by {}: {}", pause.by, pause.reason));
        }
        (Some(_), None) => parts.push(format!("resumed{by}")),
        _ => {}
    }
    let changes = changes(before, after);
    if !changes.is_empty() {
        let changes =
            changes.iter().map(|Change { name, from, to }| format!("{name} {} → {}", plain(from), plain(to)));
        parts.push(format!("changed{by}: {}", changes.collect::<Vec<_>>().join(", ")));
    }
    format!("{name} {}", parts.join("; "))
}

/// A changed setting. It has the name of the API.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub name: String,
    pub from: Value,
    pub to: Value,
}

/// The changed settings except the pause.
pub fn changes(before: &Settings, after: &Settings) -> Vec<Change> {
    let mut before = fields(before);
    let changed = fields(after).into_iter().filter_map(|(name, to)| {
        let from = before.remove(&name).unwrap_or(Value::Null);
        (name != "paused" && from != to).then_some(Change { name, from, to })
    });
    changed.collect()
}

fn fields(settings: &Settings) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(settings) else { return Map::new() };
    // Stored under an older name.
    fields.insert("policy".to_owned(), json!(settings.policy.as_str()));
    fields
}

/// A value in a sentence. The only list is that of the capacity windows.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(windows) if windows.is_empty() => "none".to_owned(),
        Value::Array(windows) => {
            let windows = windows.iter().map(|w| format!("{}={}", plain(&w["window"]), w["max_units"]));
            windows.collect::<Vec<_>>().join(" and ")
        }
        other => other.to_string(),
    }
}

pub fn of_breaker(breaker: &Breaker) -> String {
    let Breaker { reason, units, .. } = breaker;
    match (&breaker.phase, &breaker.by) {
        (Phase::Closed, Some(by)) => format!("breaker closed by {by}: {reason}"),
        (Phase::Closed, None) => "breaker closed; the whole limit applies again".to_owned(),
        (Phase::Open { until: Some(_) }, _) => {
            let pause = show(breaker.pause);
            format!("breaker opened with a pause of {pause}: the database refused connections ({reason})")
        }
        (Phase::Open { until: None }, by) => {
            format!("breaker opened by {}: {reason}", by.as_deref().unwrap_or("?"))
        }
        (Phase::Probing { ticket: None }, _) => "breaker lets the next request start as a probe".to_owned(),
        (Phase::Probing { ticket: Some(_) }, _) => "breaker waits for the result of its probe".to_owned(),
        (Phase::Ramping, _) => format!("the probe worked; breaker raises the limit from {units}"),
    }
}

pub fn peak(pool: &str, units: u64) -> String {
    format!("Peak usage: {units} connections ({pool})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::decide::{Policy, Size, Turn};
    use crate::pool::settings::{Capacity, Pause};
    use crate::pool::tests::{at, id, some};
    use crate::pool::{Holder, State};
    use std::time::Duration;

    fn ticket(dag: &str, asked: u32) -> Ticket {
        let holder = Holder::run(dag, "r").unwrap();
        Ticket { state: State::Granted, ..Ticket::new(id(1), holder, some(asked), Timestamp::EPOCH) }
    }

    fn of_grant(ticket: &Ticket, parallel: u32, after: u64) -> Option<String> {
        let (ticket_id, parallel, ask_by) = (ticket.id, some(parallel), at(after));
        let event =
            Event::Granted { ticket: ticket_id, parallel, ask_by, turn: Turn::First, size: Size::Full };
        story(at(after), &event, None, Some(ticket))
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
        let told =
            |end| story(Timestamp::EPOCH, &Event::Ended { ticket: ticket.id, end }, None, Some(&ticket));
        let by_operator = End::ByOperator { by: "minsu".into(), reason: "stuck".into() };

        assert_eq!(told(End::Released { failed: true }), None);
        assert_eq!(told(by_operator).unwrap(), "batch_7 was released by minsu: stuck");
        assert_eq!(
            told(End::HeldTooLong).unwrap(),
            "batch_7 held its units for too long, so they were taken back"
        );
    }

    fn of_change(before: &Settings, after: &Settings, by: Option<&str>) -> String {
        let event = Event::Configured {
            settings: Box::new(after.clone()),
            by: by.map(std::borrow::ToOwned::to_owned),
        };
        story(Timestamp::EPOCH, &event, Some(before), None).unwrap()
    }

    #[test]
    fn a_pause_and_its_end_name_who_and_why() {
        let settings = Settings::new("ADW".parse().unwrap(), 1_000);
        let pause =
            |reason: &str| Some(Pause { by: "minsu".into(), reason: reason.into(), at: Timestamp::EPOCH });
        let paused = Settings { paused: pause("patch day"), ..settings.clone() };
        let again = Settings { paused: pause("patch night"), ..settings.clone() };
        let told = |before, after| of_change(before, after, Some("ann"));

        assert_eq!(told(&settings, &settings), "ADW created by ann: 1000 units with a limit of 95 %");
        assert_eq!(told(&settings, &paused), "ADW paused by minsu: patch day");
        assert_eq!(told(&paused, &again), "ADW paused by minsu: patch night");
        assert_eq!(told(&again, &settings), "ADW resumed by ann");
        let smaller = Settings { max_units: 500, ..settings.clone() };
        assert_eq!(told(&paused, &smaller), "ADW resumed by ann; changed by ann: max_units 1000 → 500");
        assert_eq!(of_change(&paused, &settings, None), "ADW resumed");
    }

    #[test]
    fn a_change_tells_each_changed_setting_with_both_values() {
        let before = Settings::new("ADW".parse().unwrap(), 1_000);
        let told = |change: &dyn Fn(&mut Settings)| {
            let mut after = before.clone();
            change(&mut after);
            of_change(&before, &after, Some("ann"))
        };
        let hours = |hours: u64| Duration::from_secs(hours * 3600);

        assert_eq!(told(&|s| s.max_hold = hours(2)), "ADW changed by ann: max_hold 1d → 2h");
        assert_eq!(told(&|s| s.policy = Policy::Fifo), "ADW changed by ann: policy adaptive → fifo");
        assert_eq!(told(&|s| s.external_id = Some(4)), "ADW changed by ann: external_id none → 4");
        assert_eq!(
            told(&|s| {
                s.min_units = some(4);
                s.threshold_percent = 80;
                s.capacity = vec![Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 60 }];
            }),
            "ADW changed by ann: threshold_percent 95 → 80, min_units 2 → 4, capacity none → 22:00-06:00=60"
        );
    }
}
