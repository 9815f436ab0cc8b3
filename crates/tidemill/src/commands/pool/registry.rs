//! Tickets as items of the table `emr_connection_registry` of an EMR Batch Agent.

use super::dynamo::{Item, number, text};
use serde_json::json;
use std::num::NonZeroU32;
use tidemill_domain::pool::{Holder, Settings, State};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::TicketRecord;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Batch {
    pub(super) external_id: i64,
    pub(super) holder: Holder,
    pub(super) table: String,
    pub(super) parallel: u32,
    pub(super) status: String,
    pub(super) kept_until: Option<Timestamp>,
}

impl Batch {
    pub(super) fn is_one(item: &Item) -> bool {
        item.contains_key("dag_run_id")
    }

    pub(super) fn read(item: &Item) -> Result<Self, String> {
        let required = |name: &str| text(item, name)?.ok_or(format!("{name} is missing"));
        let (dag_id, run_id) = (required("dag_id")?, required("dag_run_id")?);
        Ok(Self {
            external_id: number(item, "src_db_id")?.ok_or("src_db_id is missing")?,
            holder: Holder::run(&dag_id, &run_id).map_err(|bad| bad.to_string())?,
            table: text(item, "table_name")?.unwrap_or_default(),
            parallel: number(item, "parallel_hint")?.unwrap_or(1),
            status: required("status")?,
            kept_until: number(item, "ttl")?.map(at_second),
        })
    }

    /// The degree of parallelism, or why the batch is skipped. DynamoDB deletes items days after their ttl, so a scan
    /// still has batches that ended long ago.
    pub(super) fn runs(&self, now: Timestamp) -> Result<NonZeroU32, &str> {
        if self.status != "RUNNING" {
            return Err(&self.status);
        }
        if self.kept_until.is_some_and(|kept_until| kept_until <= now) {
            return Err("its ttl has passed");
        }
        NonZeroU32::new(self.parallel).ok_or("its parallel_hint is 0")
    }
}

fn at_second(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds.saturating_mul(1_000_000))
}

/// A ticket as an item. The registry view has the same fields, but its ttl is always a day.
pub(super) fn item(found: &TicketRecord, settings: &Settings) -> Item {
    let ticket = &found.ticket;
    let started_at = ticket.held_since();
    let kept_until = suspect_from(found).unwrap_or(started_at).plus(settings.max_hold);
    [
        ("src_db_id", json!(settings.external_id)),
        ("dag_run_id", json!(ticket.holder.run_id())),
        ("dag_id", json!(ticket.holder.dag_id())),
        ("table_name", json!(ticket.table)),
        ("parallel_hint", json!(ticket.granted.unwrap_or(ticket.asked))),
        ("status", json!(status(ticket.state, found.ending.as_deref()))),
        ("started_at", json!(to_the_second(started_at))),
        ("ttl", json!(kept_until.since(Timestamp::EPOCH).as_secs())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

/// When a holder that sends heartbeats became suspect, or will. `max_hold` counts from then on, because such a holder may
/// run for longer.
fn suspect_from(found: &TicketRecord) -> Option<Timestamp> {
    match found.ticket.state {
        State::Suspect => found.ticket.doubted_at,
        State::Running if found.ticket.lease_for.is_some() => found.expires_at,
        _ => None,
    }
}

/// The agent's status of a ticket. A ticket that its holder did not release counts as failed.
fn status(state: State, ending: Option<&str>) -> &'static str {
    match state {
        State::Waiting => "WAITING",
        State::Granted | State::Running | State::Suspect => "RUNNING",
        State::Released if ending == Some("released") => "COMPLETED",
        State::Released | State::Expired | State::Cancelled => "FAILED",
    }
}

/// `2024-01-25T02:30:00Z`, as the agent writes it.
fn to_the_second(instant: Timestamp) -> String {
    let text = instant.to_string();
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

#[cfg(test)]
mod tests {
    use super::super::dynamo::items;
    use super::*;
    use std::time::Duration;
    use tidemill_domain::pool::Ticket;

    #[test]
    fn the_agents_example_is_read() {
        let text = br#"{"src_db_id": 4, "dag_run_id": "batch_001_2024-01-25T00:05:00", "dag_id": "batch_001",
            "table_name": "SALES_ORDER", "parallel_hint": 8, "status": "RUNNING",
            "started_at": "2024-01-25T00:05:30Z", "ttl": 1706227530}"#;
        let item = items(text).unwrap().remove(0);

        let batch = Batch::read(&item).unwrap();

        assert!(Batch::is_one(&item));
        assert_eq!((batch.external_id, batch.parallel, &*batch.table), (4, 8, "SALES_ORDER"));
        assert_eq!(batch.holder.dag_id(), "batch_001");
    }

    /// What `Batch::runs` says at this instant of an item with other attributes.
    fn runs_at(now: &str, attributes: &str) -> Result<u32, String> {
        let text = format!(r#"{{"src_db_id": 4, "dag_run_id": "r", "dag_id": "d", {attributes}}}"#);
        let batch = Batch::read(&items(text.as_bytes()).unwrap().remove(0)).unwrap();
        batch.runs(now.parse().unwrap()).map(NonZeroU32::get).map_err(str::to_owned)
    }

    #[test]
    fn a_batch_counts_until_its_ttl_has_passed() {
        // 2024-01-26T00:05:30Z.
        let attributes = r#""parallel_hint": 8, "status": "RUNNING", "ttl": "1706227530""#;

        assert_eq!(runs_at("2024-01-26T00:05:29Z", attributes), Ok(8));
        assert_eq!(runs_at("2024-01-26T00:05:30Z", attributes), Err("its ttl has passed".to_owned()));
        let without_ttl = r#""parallel_hint": 8, "status": "RUNNING""#;
        assert_eq!(runs_at("2124-01-26T00:05:30Z", without_ttl), Ok(8));
        let ended = r#""parallel_hint": 8, "status": "COMPLETED", "ttl": 1706227530"#;
        assert_eq!(runs_at("2124-01-26T00:05:30Z", ended), Err("COMPLETED".to_owned()));
    }

    #[test]
    fn a_batch_without_a_hint_is_one_connection_and_a_hint_of_0_is_none() {
        let now = "2024-01-25T00:05:30Z";

        assert_eq!(runs_at(now, r#""status": "RUNNING""#), Ok(1));
        let nothing = r#""parallel_hint": "0", "status": "RUNNING""#;
        assert_eq!(runs_at(now, nothing).unwrap_err(), "its parallel_hint is 0");
    }

    const HOUR: Duration = Duration::from_secs(3600);

    /// A ticket that began at the Unix epoch and was last heard of 5 hours later.
    fn record(settings: &Settings, state: State, lease_for: Option<Duration>) -> TicketRecord {
        let id = "018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11".parse().unwrap();
        let (_, asked, weight) = settings.weigh(NonZeroU32::new(8), None);
        let heard_of_at = Timestamp::EPOCH.plus(5 * HOUR);
        let holder = Holder::run("d", "r").unwrap();
        let ticket = Ticket {
            state,
            weight,
            granted: Some(asked),
            granted_at: Some(Timestamp::EPOCH),
            claimed_at: Some(Timestamp::EPOCH),
            doubted_at: Some(heard_of_at).filter(|_| state == State::Suspect),
            lease_for,
            ..Ticket::new(id, holder, asked, Timestamp::EPOCH)
        };
        let (pool, units) = (settings.name.clone(), ticket.units());
        TicketRecord { ticket, pool, units, ended_at: None, ending: None, expires_at: Some(heard_of_at) }
    }

    #[test]
    fn a_ticket_is_exported_with_the_time_for_which_its_pool_holds_units() {
        let settings = Settings { max_hold: 2 * HOUR, ..Settings::new("etl".parse().unwrap(), 40) };
        let ttl = |state, lease_for| item(&record(&settings, state, lease_for), &settings)["ttl"].clone();

        assert_eq!(ttl(State::Running, None), 2 * 3600);
        assert_eq!(ttl(State::Released, None), 2 * 3600);
        // It has run for longer than that, and nobody would free it.
        assert_eq!(ttl(State::Running, Some(HOUR)), 7 * 3600);
        assert_eq!(ttl(State::Suspect, Some(HOUR)), 7 * 3600);
    }

    #[test]
    fn what_is_missing_is_named() {
        let item = items(br#"{"src_db_id": 4, "dag_run_id": "r", "status": "RUNNING"}"#).unwrap().remove(0);

        assert!(Batch::read(&item).unwrap_err().contains("dag_id"));
    }
}
