//! The examples of the document, made by our types.

use super::*;
use serde_json::{Map, Value, json};

fn usage(current: u64, available: u64) -> Usage {
    Usage { current, available, available_to_max: 1000 - current, over_by: 0 }
}

fn number(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn granted(parallel: u32) -> Granted {
    Granted {
        before: 72,
        after: usage(80, 920),
        lease_id: "01".to_owned(),
        epoch: 1,
        parallel: number(parallel),
        units: parallel.into(),
        hint: None,
        is_duplicate: false,
        is_upgrade_pending: false,
        detail: None,
        message: None,
    }
}

fn waiting() -> Waiting {
    Waiting {
        reason: "connection_limit_exceeded",
        usage: Some(usage(995, 0)),
        requested: Some(8),
        wait_seconds: Some(30),
        queue_position: Some(5),
        eta_seconds: Some(41),
        detail: None,
        message: None,
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap()
}

/// The answer begins with exactly the fields of the document, in their order; only these may follow.
fn begins_with(answer: &impl Serialize, document: &str, ours: &[&str]) {
    let (answer, document) = (object(&serde_json::to_string(answer).unwrap()), object(document));
    let beginning: Vec<_> = answer.iter().take(document.len()).collect();
    let more: Vec<&str> = answer.keys().skip(document.len()).map(String::as_str).collect();

    assert_eq!(beginning, document.iter().collect::<Vec<_>>());
    assert_eq!(more, ours);
}

#[test]
fn a_grant_is_the_documents() {
    let document = r#"{ "allowed": true, "current_usage": 72, "after_usage": 80, "available": 920 }"#;

    let ours = ["lease_id", "epoch", "granted_parallel", "granted_units", "available_to_max"];
    begins_with(&AcquireAnswer::granted(granted(8)), document, &ours);
}

#[test]
fn a_wait_is_the_documents() {
    let document = r#"{ "allowed": false, "reason": "connection_limit_exceeded", "current_usage": 995,
                        "requested": 8, "wait_seconds": 30, "queue_position": 5 }"#;

    begins_with(&AcquireAnswer::waiting(waiting()), document, &["eta_seconds", "available_to_max"]);
}

#[test]
fn a_downgrade_is_the_documents() {
    let document = r#"{ "allowed": true, "downgraded": true, "original_parallel": 16, "adjusted_parallel": 8,
                        "reason": "partial_capacity_available" }"#;
    let answer = AcquireAnswer::downgraded(granted(8), number(16), "partial_capacity_available");

    let ours = [
        "current_usage",
        "after_usage",
        "available",
        "lease_id",
        "epoch",
        "granted_parallel",
        "granted_units",
        "available_to_max",
    ];
    begins_with(&answer, document, &ours);
}

#[test]
fn a_release_is_the_documents() {
    let document = r#"{ "released": true, "released_connections": 8, "current_usage": 72 }"#;
    let mut answer = ReleaseAnswer {
        released: true,
        released_connections: 8,
        current_usage: 72,
        cancelled_waiting: false,
        reason: None,
        message: None,
    };

    begins_with(&answer, document, &[]);
    (answer.cancelled_waiting, answer.reason) = (true, Some("not_held"));
    begins_with(&answer, document, &["cancelled_waiting", "reason"]);
}

#[test]
fn a_status_is_the_documents() {
    let source = |name: &str, numbers: [u64; 6]| {
        let [max_connections, threshold, current_usage, available, active_batches, waiting_batches] = numbers;
        Source {
            name: name.to_owned(),
            max_connections,
            threshold,
            current_usage,
            available,
            active_batches,
            waiting_batches,
            paused: false,
            over_by: 0,
            suspect_batches: 0,
        }
    };
    let (adw, erp) =
        (source("ADW", [1000, 950, 720, 230, 85, 3]), source("ERP", [500, 450, 320, 130, 42, 0]));
    let at = "2024-01-25T02:30:00.123456Z".parse().unwrap();
    let sources =
        vec![("4".to_owned(), adw.clone()), ("5".to_owned(), erp.clone()), ("10".to_owned(), erp.clone())];
    let answer = serde_json::to_value(StatusAnswer::new(sources, at)).unwrap();

    assert_eq!(answer["timestamp"], "2024-01-25T02:30:00Z");
    assert_eq!(answer["sources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["4", "5", "10"]);
    assert_eq!(answer.as_object().unwrap().keys().collect::<Vec<_>>(), ["sources", "timestamp"]);
    let ours = ["paused", "over_by", "suspect_batches"];
    let document = r#"{ "name": "ADW", "max_connections": 1000, "threshold": 950, "current_usage": 720,
                        "available": 230, "active_batches": 85, "waiting_batches": 3 }"#;
    begins_with(&answer["sources"]["4"], document, &ours);
    begins_with(&adw, document, &ours);
    let document = r#"{ "name": "ERP", "max_connections": 500, "threshold": 450, "current_usage": 320,
                        "available": 130, "active_batches": 42, "waiting_batches": 0 }"#;
    begins_with(&answer["sources"]["5"], document, &ours);
}

#[test]
fn all_that_we_add_to_a_grant_follows_in_one_order() {
    let answer = AcquireAnswer::granted(Granted {
        hint: Some("/*+ PARALLEL(8) */".to_owned()),
        is_duplicate: true,
        is_upgrade_pending: true,
        after: Usage { over_by: 2, ..usage(80, 0) },
        message: Some("granted before".to_owned()),
        ..granted(8)
    });

    let expected = json!({
        "allowed": true, "current_usage": 72, "after_usage": 80, "available": 0, "lease_id": "01", "epoch": 1,
        "granted_parallel": 8, "granted_units": 8, "hint_override": "/*+ PARALLEL(8) */", "duplicate": true,
        "upgrade_pending": true, "available_to_max": 920, "over_by": 2, "message": "granted before",
    });
    assert_eq!(serde_json::to_string(&answer).unwrap(), expected.to_string());
    assert!(answer.is_allowed());
}

#[test]
fn a_pool_that_does_not_exist_has_no_usage() {
    let answer = AcquireAnswer::waiting(Waiting {
        reason: "unknown_pool",
        usage: None,
        wait_seconds: None,
        queue_position: None,
        eta_seconds: None,
        detail: Some("src_db_id 9".to_owned()),
        ..waiting()
    });

    let expected =
        json!({ "allowed": false, "reason": "unknown_pool", "requested": 8, "detail": "src_db_id 9" });
    assert_eq!(serde_json::to_string(&answer).unwrap(), expected.to_string());
    assert!(!answer.is_allowed());
}
