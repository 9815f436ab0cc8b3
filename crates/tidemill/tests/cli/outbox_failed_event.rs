//! Events that a sink has refused, at the command line: listed, shown, skipped, replayed, redirected, edited.

use crate::pool::json_of;
use crate::{Ran, Stage};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::Stdio;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot};
use tidemill_store::outbox::failed_event::NewFailedEvent;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    refused_events_are_listed_shown_and_acted_on,
    a_dry_run_tells_what_an_order_would_do_and_changes_nothing,
];

/// A database with three refused events, and a fourth that waits behind the third.
async fn stage(database: &Scratch) -> Stage {
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for (id, aggregate, topic) in
        [(1, "a", "orders"), (2, "b", "orders"), (3, "c", "carts"), (4, "c", "carts")]
    {
        tx.execute_for_test(&format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload, headers)
             values ('order', '{aggregate}', 'order.paid', '{topic}', '{{\"n\":{id}}}', '{{\"trace\":\"t\"}}')"
        ))
        .await
        .unwrap();
        let new = NewFailedEvent {
            event_id: EventId::new(id),
            slot: Slot::of(aggregate),
            seq: Seq::new(id),
            aggregate: Aggregate { kind: "order".into(), id: aggregate.into() },
            event_type: "order.paid".into(),
            attempts: 3,
            state: FailedEventState::Parked,
            error: Some("no".into()),
        };
        let now = tx.now().await.unwrap();
        tx.outbox().add_failed_events(&[new], now).await.unwrap();
    }
    tx.commit().await.unwrap();
    store.close().await;
    Stage::on(database.url()).with("USER", "ann")
}

fn listed(stage: &Stage, flags: &[&str]) -> Vec<(i64, String)> {
    let list = json_of(&stage.run(&[&["outbox", "failed", "-o", "json"], flags].concat()));
    let item = |item: &Value| (item["id"].as_i64().unwrap(), item["state"].as_str().unwrap().to_owned());
    list["items"].as_array().unwrap().iter().map(item).collect()
}

fn states(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|(id, state)| (*id, (*state).to_owned())).collect()
}

fn changed(ran: &Ran) -> i64 {
    json_of(ran)["items"][0]["changed"].as_i64().unwrap()
}

async fn refused_events_are_listed_shown_and_acted_on(database: Scratch) {
    let stage = stage(&database).await;

    assert_eq!(listed(&stage, &[]), states(&[(1, "parked"), (2, "parked"), (3, "parked")]));
    assert_eq!(listed(&stage, &["--all", "--topic", "carts"]), states(&[(3, "parked"), (4, "held")]));
    let table = stage.run(&["outbox", "failed"]);
    assert!(table.succeeds().stdout.starts_with("ID"), "{table:#?}");
    let behind = stage.run(&["outbox", "replay", "4", "--reason", "now"]);
    assert!(behind.fails("TM1405", 5).stderr.contains("fix: replay event 3"), "{behind:#?}");
    stage.run(&["outbox", "skip", "99", "--reason", "now"]).fails("TM1404", 3);
    stage.run(&["outbox", "failed", "99"]).fails("TM1404", 3);
    let skipped = stage.run(&["outbox", "skip", "3", "--reason", "no use", "-o", "json"]);
    let expected = json!({ "action": "skip", "changed": 1, "refused": 0, "is_dry_run": false, "first": [3] });
    assert_eq!(json_of(&skipped)["items"], json!([expected]));
    assert_eq!(listed(&stage, &["--state", "skipped"]), states(&[(3, "skipped")]));
    assert_eq!(listed(&stage, &["--state", "waiting"]), states(&[(4, "waiting")]));
    let partly = stage.run(&["outbox", "replay", "1", "3", "--reason", "now"]);
    assert!(partly.fails("TM1405", 5).stderr.contains("1 of 2 events were refused"), "{partly:#?}");
    let matching = ["outbox", "redirect", "--to", "orders.v2", "--matching", "--topic", "orders"];
    let redirected = stage.run(&[&matching[..], &["--reason", "moved", "-o", "json"]].concat());
    assert_eq!(changed(&redirected), 1);
    assert_eq!(json_of(&stage.run(&["outbox", "failed", "2", "-o", "json"]))["topic"], "orders.v2");
    let all = stage.run(&["outbox", "skip", "--all", "--reason", "over", "-o", "json"]);
    assert_eq!(changed(&all), 3);
    let audit = json_of(&stage.run(&["audit", "list", "-o", "json"]));
    let first = &audit["items"][0];
    assert_eq!(
        (&first["action"], &first["reason"], &first["actor"]),
        (&json!("event.skip"), &json!("over"), &json!("ann"))
    );
}

async fn a_dry_run_tells_what_an_order_would_do_and_changes_nothing(database: Scratch) {
    let stage = stage(&database).await;
    let before = listed(&stage, &["--all"]);
    let dry = |order: &[&str]| {
        let given = [&["outbox"], order, &["--dry-run", "--reason", "x", "-o", "json"]].concat();
        json_of(&stage.run(&given))["items"][0].clone()
    };
    let told = |action: &str, count: u32, first: &[i64]| json!({ "action": action, "changed": count, "refused": 0, "is_dry_run": true, "first": first });

    assert_eq!(dry(&["skip", "--all"]), told("skip", 4, &[1, 2, 3, 4]));
    assert_eq!(dry(&["replay", "--all"]), told("replay", 3, &[1, 2, 3]));
    let moved = dry(&["redirect", "--to", "carts.v2", "--matching", "--topic", "carts"]);
    assert_eq!(moved, told("redirect", 1, &[3]));
    assert_eq!(dry(&["skip", "2"]), told("skip", 1, &[2]));
    let refused = stage.run(&["outbox", "replay", "4", "--dry-run", "--reason", "x"]);
    refused.fails("TM1405", 5);

    assert_eq!(listed(&stage, &["--all"]), before);
    assert_eq!(json_of(&stage.run(&["outbox", "failed", "3", "-o", "json"]))["topic"], "carts");
    let audit = json_of(&stage.run(&["audit", "list", "-o", "json"])).to_string();
    assert!(!audit.contains("event."), "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_edited_from_a_file_from_standard_input_and_in_place() {
    let database = Scratch::file();
    let stage = stage(&database).await;
    let shown = |id: &str| json_of(&stage.run(&["outbox", "failed", id, "-o", "json"]));
    fs::write(stage.path("new.json"), "{\"n\": 10}").unwrap();
    fs::write(stage.path("new.bin"), [0, 255]).unwrap();

    stage.run(&["outbox", "edit", "1", "--payload", "@new.json", "--reason", "typo"]).succeeds();
    let first = shown("1");
    assert_eq!(
        (&first["payload"], &first["headers"]),
        (&json!({ "type": "json", "text": "{\"n\": 10}" }), &json!({ "trace": "t" }))
    );
    assert_eq!((&first["state"], &first["attempts"]), (&json!("waiting"), &json!(0)));
    let headers = ["--header", "a=b=c", "--header", "d="];
    stage.run(&[&["outbox", "edit", "1", "--reason", "typo"], &headers[..]].concat()).succeeds();
    assert_eq!(shown("1")["headers"], json!({ "a": "b=c", "d": "" }));
    let bytes = ["--payload-base64", "AP8=", "--no-headers", "--reason", "x"];
    stage.run(&[&["outbox", "edit", "2"], &bytes[..]].concat()).succeeds();
    assert_eq!((&shown("2")["payload"]["base64"], &shown("2")["headers"]), (&json!("AP8="), &json!({})));
    stage.run(&["outbox", "edit", "2", "--tombstone", "--reason", "x"]).succeeds();
    assert_eq!(shown("2")["payload"], json!({ "type": "tombstone" }));
    let mut piped = stage.command(&["outbox", "edit", "3", "--payload", "-", "--reason", "x"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"[1]").unwrap();
    assert!(piped.wait().unwrap().success());
    assert_eq!(shown("3")["payload"]["text"], "[1]");

    stage.run(&["outbox", "edit", "1", "--payload", "{", "--reason", "x"]).fails("TM1401", 2);
    stage.run(&["outbox", "edit", "1", "--payload", "@new.bin", "--reason", "x"]).fails("TM1401", 2);
    stage.run(&["outbox", "edit", "1", "--payload", "@nowhere", "--reason", "x"]).fails("TM0002", 2);
    for wrong in [
        &["outbox", "edit", "1", "--reason", "x"][..],
        &["outbox", "edit", "1", "--tombstone"],
        &["outbox", "edit", "1", "--tombstone", "--payload", "{}", "--reason", "x"],
        &["outbox", "skip", "--reason", "x"],
        &["outbox", "skip", "1", "--matching", "--reason", "x"],
        &["outbox", "skip", "1", "--topic", "orders", "--reason", "x"],
        &["outbox", "redirect", "1", "--to", "no topic", "--reason", "x"],
        &["outbox", "failed", "1", "--all"],
        &["outbox", "failed", "0"],
    ] {
        assert_eq!(stage.run(wrong).code, Some(2), "{wrong:?}");
    }
}
