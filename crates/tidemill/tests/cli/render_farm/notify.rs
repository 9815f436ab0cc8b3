//! A webhook hears of every end, in order, whoever dies between the end and the delivery.

use super::site::{Farm, Site, eventually};
use crate::serve::Served;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::time::Timestamp;
use tidemill_engine::alert::signature::signature;
use tidemill_testkit::Signal;

const SECRET: &str = "a secret of the test";

/// What a receiver got: the id of the delivery, the body, and whether it has taken it.
type Got = (String, Value, bool);

/// A receiver that fails as often as it is told to, and checks every signature.
fn receiver(failures: usize) -> (String, Arc<Mutex<Vec<Got>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = Arc::new(Mutex::new(Vec::new()));
    let kept = got.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            // The body is one JSON object, so the last brace ends it.
            while !(text.contains("\r\n\r\n") && text.trim_end().ends_with('}')) {
                match stream.read(&mut buffer) {
                    Ok(read @ 1..) => text.push_str(&String::from_utf8_lossy(&buffer[..read])),
                    _ => break,
                }
            }
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let header = |name: &str| {
                let mut lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap().1.to_owned()
            };
            let sent = header("tidemill-signature");
            let seconds: i64 = sent.split(',').next().unwrap().trim_start_matches("t=").parse().unwrap();
            let at = Timestamp::from_micros(seconds * 1_000_000);
            assert_eq!(sent, signature(SECRET.as_bytes(), at, body));
            let mut kept = kept.lock().unwrap();
            let is_taken = kept.len() >= failures;
            kept.push((header("idempotency-key"), serde_json::from_str(body).unwrap(), is_taken));
            let status = if is_taken { "200 OK" } else { "503 Busy" };
            let _gone = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    (url, got)
}

/// The number, status and id of the delivery of what was taken, in that order.
fn taken(got: &Mutex<Vec<Got>>) -> Vec<(i64, String, String)> {
    let got = got.lock().unwrap();
    let taken = got.iter().filter(|(.., is_taken)| *is_taken);
    taken
        .map(|(id, body, _)| {
            (body["render"].as_i64().unwrap(), body["status"].as_str().unwrap().to_owned(), id.clone())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_hears_of_each_end_in_order_though_worker_and_server_are_killed_before() {
    let Some(farm) = Farm::shared() else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_NOTIFY", "hook").with("HOOK_SECRET", SECRET);
    // The first calls of each delivery may fail for longer than the first server lives.
    let (url, got) = receiver(3);
    let stage = site.stage();
    let hook = format!(
        "[alert.webhooks.hook]\nurl = \"{url}\"\nsecret = \"env:HOOK_SECRET\"\nallow_private = true\n"
    );
    fs::write(stage.path("tidemill.toml"), hook).unwrap();

    // Nobody delivers yet: the worker completes one render twice and fails another, and is killed.
    let mut worker = site.worker("one");
    let id = site.order("").await;
    site.until(id, "completed", |state| state.status == "completed").await;
    let title = r#"single_fields.title="[stub:secs=1,fps=10,size=320x180,pace=0,mute] corrected""#;
    stage.run(&["render", "correct", &id.to_string(), "--set", title, "--reason", "a test"]).succeeds();
    site.until(id, "completed again", |state| state.status == "completed").await;
    let failed = site.order_data("Unknown", &serde_json::json!({ "single_fields": { "title": "x" } })).await;
    site.until(failed, "failed", |state| state.status == "failed").await;
    worker.kill();
    assert!(got.lock().unwrap().is_empty());

    // The first server gets no answer that it could record.
    let served = Served::start(&stage, &[]);
    let tried = eventually(async || (!got.lock().unwrap().is_empty()).then_some(())).await;
    assert!(tried.is_some(), "nobody calls the webhook");
    let mut child = served.child;
    child.signal(Signal::KILL).unwrap();
    child.wait_deadline(super::PATIENCE).unwrap();
    let _heir = Served::start(&stage, &[]);
    let all = eventually(async || (taken(&got).len() >= 3).then(|| taken(&got))).await;
    let all = all.unwrap_or_else(|| panic!("{:?}", got.lock().unwrap()));

    let of = |render: i64| all.iter().filter(|(number, ..)| *number == render).collect::<Vec<_>>();
    let statuses = |render: i64| of(render).iter().map(|(_, status, _)| status.as_str()).collect::<Vec<_>>();
    // At least once: a call whose answer was not recorded comes again with the same id.
    let mut both = of(id);
    both.dedup_by_key(|(.., delivery)| delivery.clone());
    assert_eq!((both.len(), statuses(failed)[0]), (2, "failed"), "{all:?}");
    assert!(statuses(id).iter().all(|status| *status == "completed"), "{all:?}");
    let got = got.lock().unwrap();
    let outputs: Vec<&str> = got
        .iter()
        .filter(|(.., is_taken)| *is_taken)
        .filter_map(|(_, body, _)| body["output"].as_str())
        .collect();
    assert!(outputs[0].ends_with(&format!("_{id}.mp4")), "{outputs:?}");
    assert!(outputs.last().unwrap().ends_with(&format!("_{id}_r2.mp4")), "{outputs:?}");
    let first = &got[0];
    let again = got.iter().find(|(delivery, _, is_taken)| *is_taken && *delivery == first.0);
    assert_eq!(again.map(|(_, body, _)| body), Some(&first.1), "the id is that of the failed call");
}
