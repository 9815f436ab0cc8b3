//! The webhook, against a receiver of the test's own on loopback.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tidemill_domain::alert::{Notice, Severity, Subject};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::alert::channel::Channel;
use tidemill_engine::alert::message::{Announcement, Message};
use tidemill_engine::alert::signature::signature;
use tidemill_server::webhook::{Format, Webhook};

/// A receiver that answers one call with `status`, and hands on what it got.
fn receiver(status: &'static str) -> (String, Receiver<String>) {
    receiver_to(status, "127.0.0.1:1")
}

/// The same, which says that what is wanted is at `elsewhere`.
fn receiver_to(status: &'static str, elsewhere: &str) -> (String, Receiver<String>) {
    let location = format!("http://{elsewhere}/");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, got) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut text = String::new();
        let mut buffer = [0; 4096];
        // The body is one JSON object, so the last brace ends it.
        while !(text.contains("\r\n\r\n") && text.trim_end().ends_with('}')) {
            let read = stream.read(&mut buffer).unwrap();
            text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nlocation: {location}\r\n\r\n").unwrap();
        sender.send(text).unwrap();
    });
    (url, got)
}

fn message() -> Message {
    let announcement = Announcement {
        rule: "process_died".into(),
        subject: Subject::new("cluster").unwrap(),
        severity: Severity::Warning,
        notice: Notice::Fired,
        value: Some(1.0),
        threshold: 0.0,
        watched: None,
        since: Timestamp::EPOCH,
        at: Timestamp::EPOCH,
        summary: "one process died".into(),
        detail: None,
    };
    let body = announcement.to_json();
    Message { id: 7, announcement, body }
}

fn webhook(url: &str) -> Webhook {
    let clock = Arc::new(FakeClock::at(Timestamp::from_micros(1_000_000)));
    Webhook::new("ops", url, Some("geheim".into()), true, clock).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_arrives_signed() {
    let (url, got) = receiver("200 OK");

    webhook(&url).deliver(&message()).await.unwrap();

    let request = got.recv_timeout(Duration::from_secs(60)).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook HTTP/1.1"), "{head}");
    let expected = signature(b"geheim", Timestamp::from_micros(1_000_000), body);
    assert!(head.to_lowercase().contains(&format!("tidemill-signature: {expected}")), "{head}");
    assert!(head.to_lowercase().contains("idempotency-key: alert-7"));
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!((&json["rule"], &json["schema"]), (&"process_died".into(), &"tidemill.alert/v1".into()));
    assert!(!request.contains("geheim"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_arrives_as_sns_posts_it_and_signed_by_us() {
    let (url, got) = receiver("200 OK");

    webhook(&url).in_format(Format::Sns).deliver(&message()).await.unwrap();

    let request = got.recv_timeout(Duration::from_secs(60)).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert!(head.contains("x-amz-sns-message-type: notification"), "{head}");
    assert!(head.contains("x-amz-sns-topic-arn: arn:aws:sns:us-east-1:000000000000:ops"), "{head}");
    assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
    let expected = signature(b"geheim", Timestamp::from_micros(1_000_000), body);
    assert!(head.contains(&format!("tidemill-signature: {expected}")), "{head}");
    let envelope: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(envelope["Type"], "Notification");
    assert!(head.contains(&format!("x-amz-sns-message-id: {}", envelope["MessageId"].as_str().unwrap())));
    let alarm: serde_json::Value = serde_json::from_str(envelope["Message"].as_str().unwrap()).unwrap();
    assert_eq!((&alarm["AlarmName"], &alarm["NewStateValue"]), (&"ProcessDied".into(), &"ALARM".into()));
    assert_eq!(alarm["NewStateReason"], "one process died");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_gets_the_summary_as_text_signed_and_with_the_id_of_the_delivery() {
    let (url, got) = receiver("200 OK");
    let mut message = message();
    message.announcement.summary = "render 7 (A&B <x>) completed".into();

    webhook(&url).in_format(Format::Slack).deliver(&message).await.unwrap();

    let request = got.recv_timeout(Duration::from_secs(60)).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    assert_eq!(body, "{\"text\":\"render 7 (A&amp;B &lt;x&gt;) completed\"}");
    let expected = signature(b"geheim", Timestamp::from_micros(1_000_000), body);
    assert!(head.contains(&format!("tidemill-signature: {expected}")), "{head}");
    assert!(
        head.contains("idempotency-key: alert-7") && head.contains("content-type: application/json"),
        "{head}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_final_and_a_failure_is_not() {
    for (status, retry) in [("400 Bad Request", false), ("503 Busy", true), ("302 Found", false)] {
        let (url, got) = receiver(status);
        let error = webhook(&url).deliver(&message()).await.unwrap_err();
        assert_eq!(error.retry, retry, "{status}: {error}");
        got.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = webhook(&format!("http://{gone}/secret-path")).deliver(&message()).await.unwrap_err();
    assert!(error.retry && !error.why.contains("secret-path"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_leads_nowhere() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let address = elsewhere.local_addr().unwrap().to_string();

    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let (url, got) = receiver_to(status, &address);
        let error = webhook(&url).deliver(&message()).await.unwrap_err();
        assert!(!error.retry && error.why.contains(&status[..3]), "{status}: {error}");
        got.recv_timeout(Duration::from_secs(5)).unwrap();
    }

    assert_eq!(elsewhere.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
