//! `tidemill outbox verify`: what was published is compared with the table, and the shell hears of it.

use crate::Stage;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    what_was_published_as_the_table_says_is_clean,
    what_is_lost_or_out_of_order_is_told_with_its_place_and_fails,
];

/// Four events of one aggregate, of which so many count as read.
async fn outbox(scratch: &Scratch, read: u32) -> Stage {
    let store = scratch.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for _ in 0..4 {
        tx.execute_for_test(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
             values ('order', 'order-1', 'order.paid', 'orders', '{}')",
        )
        .await
        .unwrap();
    }
    tx.execute_for_test(&format!("update tidemill_outbox set floor_id = {read}")).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    Stage::on(scratch.url())
}

fn line(id: u32) -> String {
    let record = json!({
        "id": id, "slot": 110, "epoch": 1, "seq": id,
        "aggregate_type": "order", "aggregate_id": "order-1", "payload": null,
    });
    format!("{record}\n")
}

fn write(stage: &Stage, ids: &[u32]) {
    fs::write(stage.path("events.jsonl"), ids.iter().copied().map(line).collect::<String>()).unwrap();
}

const VERIFY: [&str; 4] = ["outbox", "verify", "--sink", "file:events.jsonl"];

async fn what_was_published_as_the_table_says_is_clean(scratch: Scratch) {
    let stage = outbox(&scratch, 3).await;
    write(&stage, &[1, 2, 3, 3]);

    let ran = stage.run(&VERIFY);

    let summary = "4 records of 3 events: 0 lost, 0 reordered, 1 duplicated (of 1 events), 0 unknown, 0 torn, 0 gaps, 1 pending, 0 excused\n";
    let stdout = &ran.succeeds().stdout;
    assert!(stdout.starts_with(summary), "{stdout}");
    assert!(stdout.contains("duplicated") && stdout.contains("events.jsonl:4"), "{stdout}");
}

async fn what_is_lost_or_out_of_order_is_told_with_its_place_and_fails(scratch: Scratch) {
    let stage = outbox(&scratch, 4).await;
    write(&stage, &[1, 4, 3]);

    let ran = stage.run(&VERIFY);
    ran.fails("TM1403", 1);
    assert!(ran.stdout.contains("1 lost, 1 reordered"), "{}", ran.stdout);
    assert!(ran.stdout.contains("order/order-1"), "{}", ran.stdout);

    let ran = stage.run(&[&VERIFY[..], &["-o", "json"]].concat());
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &answer["is_clean"]), (Some(1), &json!(false)));
    let lost = json!({ "id": 2, "aggregate_type": "order", "aggregate_id": "order-1" });
    assert_eq!(answer["lost"], json!({ "count": 1, "first": [lost] }));
    let reordered = &answer["reordered"]["first"][0];
    assert_eq!((&reordered["id"], &reordered["place"]), (&json!(3), &json!("events.jsonl:3")));
    assert_eq!(reordered["after"], json!({ "id": 4, "place": "events.jsonl:2" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_back_is_refused() {
    let scratch = Scratch::file();
    let stage = outbox(&scratch, 0).await;
    let verify = |sink: &str| stage.run(&["outbox", "verify", "--sink", sink]);

    let unknown = verify("mqtt:host");
    unknown.fails("TM1402", 2);
    assert!(unknown.stderr.contains("file:PATH"), "{}", unknown.stderr);
    verify("stdout").fails("TM1402", 2);
    verify("file:").fails("TM1402", 2);
    verify("file:.").fails("TM1402", 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_there_is_named_and_its_events_are_not_called_lost() {
    let scratch = Scratch::file();
    let stage = outbox(&scratch, 4).await;
    write(&stage, &[3, 4]);

    for arguments in [
        &["outbox", "verify", "--sink", "file:nowhere.jsonl"][..],
        &["outbox", "verify", "--sink", "file:nowhere.jsonl", "--sink", "file:events.jsonl"],
        &["outbox", "verify", "--sink", "file:nowhere.jsonl", "--sink", "file:events.jsonl", "--follow"],
    ] {
        let ran = stage.run(arguments);
        ran.fails("TM1402", 2);
        assert!(ran.stderr.contains("there is no file nowhere.jsonl"), "{ran:#?}");
        assert!(ran.stderr.contains("outbox relays") && ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn following_tells_of_changes_and_ends_at_the_first_fault() {
    let scratch = Scratch::file();
    let stage = outbox(&scratch, 0).await;
    write(&stage, &[1]);
    let arguments = [&VERIFY[..], &["--follow", "--every", "50ms", "-o", "jsonl"]].concat();
    let mut child = stage.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| {
        let answer: Value = serde_json::from_str(&line.unwrap()).unwrap();
        (answer["records"].as_u64().unwrap(), answer["is_clean"].as_bool().unwrap())
    });
    let append = |id| {
        let file = fs::OpenOptions::new().append(true).open(stage.path("events.jsonl"));
        file.unwrap().write_all(line(id).as_bytes()).unwrap();
    };

    assert_eq!(answers.next(), Some((1, true)));
    append(3);
    assert_eq!(answers.next(), Some((2, true)));
    append(2);
    assert_eq!(answers.next(), Some((3, false)));

    assert_eq!(answers.next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
