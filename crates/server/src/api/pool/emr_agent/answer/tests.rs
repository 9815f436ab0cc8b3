//! The examples in the description of the EMR Batch Agent.

use super::*;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::ticket::Upgrade;
use tidemill_domain::pool::{Holder, Settings, State, Ticket};

const LEASE: &str = "018f3c5e-1d2b-7cc3-9b1a-6f0a4e7d2c11";

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn level(usage: u64) -> Level {
    Level { usage, limit: 1000, max_units: 1000 }
}

/// 8 units of a pool in which 80 are in use with them.
fn admitted(asked: u32) -> Admitted {
    let holder = Holder::run("batch_001", "r").unwrap();
    let ticket = Ticket {
        state: State::Running,
        least: number(2),
        granted: Some(number(8)),
        epoch: Epoch::new(1),
        granted_at: Some(Timestamp::EPOCH),
        claimed_at: Some(Timestamp::EPOCH),
        ..Ticket::new(LEASE.parse().unwrap(), holder, number(asked), Timestamp::EPOCH)
    };
    Admitted { pool: "ADW".parse().unwrap(), ticket, lever: Lever::Parallel, level: level(80) }
}

fn granted(part: &Admitted) -> AcquireAnswer {
    AcquireAnswer::admitted(part, number(8), false, None, EmrAgentOptions::default())
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

/// The answer begins with exactly the fields of the agent, in their order; only these may follow.
fn begins_with(answer: &impl Serialize, agent: &str, ours: &[&str]) {
    let (answer, agent) = (object(&compact(answer).to_string()), object(agent));
    let beginning: Vec<_> = answer.iter().take(agent.len()).collect();
    let more: Vec<&str> = answer.keys().skip(agent.len()).map(String::as_str).collect();

    assert_eq!(beginning, agent.iter().collect::<Vec<_>>());
    assert_eq!(more, ours);
}

#[test]
fn a_grant_is_the_agents() {
    let agent = r#"{ "allowed": true, "current_usage": 72, "after_usage": 80, "available": 920 }"#;

    let ours = ["lease_id", "epoch", "granted_parallel", "granted_units", "available_to_max"];
    begins_with(&granted(&admitted(8)), agent, &ours);
}

#[test]
fn a_wait_is_the_agents() {
    let agent = r#"{ "allowed": false, "reason": "connection_limit_exceeded", "current_usage": 995,
                     "requested": 8, "wait_seconds": 30, "queue_position": 5 }"#;
    let seconds = Duration::from_secs(41);
    let waits = Waits {
        pool: "ADW".parse().unwrap(),
        tickets: Vec::new(),
        requested: 8,
        position: 5,
        reason: Reason::PoolFull,
        level: level(995),
        estimate: Some(Estimate { p50: seconds, p90: seconds }),
        at: Timestamp::EPOCH,
        overtaken: 0,
        wait_seconds: 30,
    };

    let ours = ["eta_seconds", "available_to_max", "detail", "message"];
    begins_with(&AcquireAnswer::waits(&waits, None), agent, &ours);
}

#[test]
fn a_downgrade_is_the_agents() {
    let agent = r#"{ "allowed": true, "downgraded": true, "original_parallel": 16, "adjusted_parallel": 8,
                     "reason": "partial_capacity_available" }"#;

    let ours = [
        "current_usage",
        "after_usage",
        "available",
        "lease_id",
        "epoch",
        "granted_parallel",
        "granted_units",
        "available_to_max",
        "detail",
        "message",
    ];
    begins_with(&granted(&admitted(16)), agent, &ours);
}

#[test]
fn a_release_is_the_agents() {
    let agent = r#"{ "released": true, "released_connections": 8, "current_usage": 72 }"#;
    let mut released = Released { released: true, units: 8, cancelled_waiting: false, level: level(72) };

    begins_with(&ReleaseAnswer::from(&released), agent, &[]);
    released.cancelled_waiting = true;
    begins_with(&ReleaseAnswer::from(&released), agent, &["cancelled_waiting"]);
    let agent = r#"{ "released": false, "released_connections": 0, "current_usage": 0 }"#;
    begins_with(&ReleaseAnswer::unknown_pool(), agent, &["reason", "message"]);
}

#[test]
fn a_status_is_the_agents() {
    let pool = |id: i64, name: &str, (max_units, threshold_percent): (u32, u8), numbers: [u64; 3]| {
        let [usage, active, waiting] = numbers;
        let settings = Settings {
            external_id: Some(id),
            threshold_percent,
            ..Settings::new(name.parse().unwrap(), max_units)
        };
        PoolRecord { usage, active, waiting, ..PoolRecord::unused(settings) }
    };
    let records = [
        pool(4, "ADW", (1000, 95), [720, 85, 3]),
        pool(5, "ERP", (500, 90), [320, 42, 0]),
        pool(10, "CRM", (500, 90), [320, 42, 0]),
    ];
    let at = "2024-01-25T02:30:00.123456Z".parse().unwrap();
    let answer = status(&records, at);

    assert_eq!(answer["timestamp"], "2024-01-25T02:30:00Z");
    assert_eq!(answer["sources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["4", "5", "10"]);
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["sources", "timestamp"]);
    let ours = ["paused", "breaker", "over_by", "suspect_batches"];
    let agent = r#"{ "name": "ADW", "max_connections": 1000, "threshold": 950, "current_usage": 720,
                     "available": 230, "active_batches": 85, "waiting_batches": 3 }"#;
    begins_with(&answer["sources"]["4"], agent, &ours);
    let agent = r#"{ "name": "ERP", "max_connections": 500, "threshold": 450, "current_usage": 320,
                     "available": 130, "active_batches": 42, "waiting_batches": 0 }"#;
    begins_with(&answer["sources"]["5"], agent, &ours);
}

#[test]
fn all_that_we_add_to_a_grant_follows_in_one_order() {
    let mut part = admitted(8);
    part.level.limit = 78;
    part.ticket.upgrade = Some(Upgrade { parallel: number(16), since: Timestamp::EPOCH });
    let hint = Some("/*+ PARALLEL(8) */".to_owned());
    let answer = AcquireAnswer::admitted(&part, number(8), true, hint, EmrAgentOptions::default())
        .with_warnings(vec![Warning::Clause]);

    let expected = json!({
        "allowed": true, "current_usage": 72, "after_usage": 80, "available": 0, "lease_id": LEASE, "epoch": 1,
        "granted_parallel": 8, "granted_units": 8, "hint_override": "/*+ PARALLEL(8) */", "duplicate": true,
        "upgrade_pending": true, "available_to_max": 920, "over_by": 2,
        "warnings": [{ "name": "clause", "text": Warning::Clause.text() }],
    });
    assert_eq!(compact(&answer).to_string(), expected.to_string());
}

#[test]
fn what_is_available_is_counted_up_to_the_limit_unless_the_agents_number_is_wanted() {
    let part = Admitted { level: Level { limit: 950, ..level(80) }, ..admitted(8) };
    let available = |compat_available| {
        let options = EmrAgentOptions { compat_available, ..EmrAgentOptions::default() };
        AcquireAnswer::admitted(&part, number(8), false, None, options).available
    };

    assert_eq!((available(false), available(true)), (Some(870), Some(920)));
}

#[test]
fn a_pool_that_does_not_exist_has_no_usage() {
    let answer = AcquireAnswer::refused(Reason::UnknownPool, Some(number(8)), None);

    let expected = json!({
        "allowed": false, "reason": "unknown_pool", "requested": 8, "detail": "unknown_pool",
        "message": "there is no such pool",
    });
    assert_eq!(compact(&answer).to_string(), expected.to_string());
}
