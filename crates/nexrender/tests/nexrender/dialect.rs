//! The other dialects of nexrender, and servers that are none.

use crate::http::{Answer, Http, ReceivedCall};
use crate::site::uid;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tidemill_domain::render::answer::Dialect;
use tidemill_domain::render::{Failure, Phase, Report, Trouble};
use tidemill_engine::render::Farm;
use tidemill_nexrender::{FarmOptions, NexrenderFarm};

const JSON: &str = "content-type: application/json; charset=utf-8\r\n";

fn farm(url: &str, dialect: Dialect) -> NexrenderFarm {
    let options = FarmOptions { secret: Some("geheim".into()), dialect, ..FarmOptions::new(url) };
    NexrenderFarm::new(&options).unwrap()
}

fn said(status: u16, body: &Value) -> Answer {
    Some((status, JSON, body.to_string()))
}

/// As the source document has it: the server chooses the name.
fn document(asked: &ReceivedCall) -> Answer {
    let job = |status: &str, progress: u32| json!({"id": "job_abc123", "uid": "uid_xyz789", "status": status, "progress": progress, "updated": "t"});
    match asked.line.as_str() {
        "POST /api/v1/jobs" => said(200, &job("queued", 0)),
        "GET /api/v1/jobs/job_abc123" => said(200, &job("encoding", 95)),
        "GET /api/v1/jobs" => said(200, &json!([job("queued", 0)])),
        "DELETE /api/v1/jobs/job_abc123" => Some((204, "", String::new())),
        _ => Some((404, "", "Not Found".to_owned())),
    }
}

#[tokio::test]
async fn the_dialect_of_the_document_is_understood() {
    let server = Http::start(document);

    for dialect in [Dialect::Auto, Dialect::Cloud] {
        let farm = farm(&server.url, dialect);
        assert_eq!(farm.check().await, Ok(()));
        let submitted = farm.submit(uid(7), &json!({"uid": "rq-7-1", "template": {}})).await.unwrap();
        let looked = farm.look(&submitted.id).await.unwrap().unwrap();
        farm.remove(&submitted.id).await.unwrap();

        assert_eq!(submitted.id, "job_abc123");
        assert_eq!(looked.report, Report::At { phase: Phase::Encoding, percent: Some(95.0) });
        assert_eq!(farm.look("another").await, Ok(None));
    }
    let posted = server.asked().into_iter().find(|asked| asked.line.starts_with("POST")).unwrap();
    let posted: Value = serde_json::from_str(&posted.body).unwrap();
    assert_eq!(posted["uid"], "rq-7-1", "people find the job by our name");
}

/// As the cloud has it.
fn cloud(asked: &ReceivedCall) -> Answer {
    if !asked.headers.contains(&"authorization: bearer geheim".to_owned()) {
        return said(401, &json!({"error": "unauthorized"}));
    }
    let error =
        json!({"id": "01J", "status": "error", "progress": 12.5, "stats": {"error": "AESend failed"}});
    match asked.line.as_str() {
        "GET /api/v2/jobs" => said(200, &json!({"data": []})),
        "POST /api/v2/jobs" => {
            said(201, &json!({"id": "01J", "status": "pending", "progress": 0.0, "stats": {}}))
        }
        "GET /api/v2/jobs/01J" => said(200, &error),
        _ => said(404, &json!({"error": "not found"})),
    }
}

#[tokio::test]
async fn the_dialect_of_the_cloud_is_understood() {
    let server = Http::start(cloud);
    let farm = farm(&format!("{}/api/v2", server.url), Dialect::Cloud);

    let checked = farm.check().await;
    let submitted = farm.submit(uid(8), &json!({})).await.unwrap();
    let looked = farm.look("01J").await.unwrap().unwrap();
    let stranger = NexrenderFarm::new(&FarmOptions {
        dialect: Dialect::Cloud,
        ..FarmOptions::new(format!("{}/api/v2", server.url))
    });

    assert_eq!(checked, Ok(()));
    assert_eq!(submitted.report, Report::At { phase: Phase::WaitingForNode, percent: Some(0.0) });
    let failed = Report::Failed { failure: Failure::RenderFailed, message: "AESend failed".into() };
    assert_eq!(looked.report, failed);
    assert_eq!(stranger.unwrap().check().await.unwrap_err().failure, Failure::WrongSecret);
}

#[tokio::test]
async fn whoever_is_not_nexrender_is_seen_and_not_followed() {
    let elsewhere = Http::start(|_| said(200, &json!({"uid": "rq-1-1", "state": "finished"})));
    let url = elsewhere.url.clone();
    let location: &'static str = Box::leak(format!("location: {url}/x\r\n").into_boxed_str());
    let redirecting = Http::start(move |_| Some((302, location, String::new())));
    let website = Http::start(|_| Some((200, "content-type: text/html\r\n", "<html>hello</html>".into())));
    let nothing = Http::start(|_| Some((404, "", "Not Found".into())));

    for server in [&redirecting, &website, &nothing] {
        for dialect in [Dialect::Auto, Dialect::Oss, Dialect::Cloud] {
            let checked = farm(&server.url, dialect).check().await;
            assert_eq!(checked.unwrap_err().failure, Failure::NotNexrender, "{dialect:?}");
        }
    }
    assert_eq!(
        farm(&redirecting.url, Dialect::Auto).look("a").await.unwrap_err().failure,
        Failure::NotNexrender
    );
    assert_eq!(elsewhere.asked(), []);
}

/// As the open server, behind something that knows none of its jobs for a moment.
#[tokio::test]
async fn a_farm_that_lacks_jobs_with_an_empty_answer_does_not_lack_one_with_404() {
    let server = Http::start(|asked| match asked.line.as_str() {
        "GET /api/v1/health" => Some((200, "", "ok".into())),
        "GET /api/v1/jobs/rq-0-0" => Some((200, "", String::new())),
        _ => Some((404, "", "Not Found".into())),
    });
    let farm = farm(&server.url, Dialect::Auto);

    let before = farm.look("rq-1-1").await;
    farm.check().await.unwrap();
    let after = farm.look("rq-1-1").await;

    assert_eq!(before, Ok(None), "nobody knows yet how it speaks");
    assert_eq!(after.unwrap_err().failure, Failure::NotNexrender);
}

/// Its proxy loses the jobs, but not the health.
#[tokio::test]
async fn a_farm_that_suddenly_lacks_jobs_in_another_way_is_not_believed() {
    let (is_lost, server) = losing(
        |asked| match asked.line.as_str() {
            "GET /api/v1/health" => Some((200, "", "ok".into())),
            _ => Some((200, "", String::new())),
        },
        Some((404, "", "Not Found".into())),
    );
    let farm = farm(&server.url, Dialect::Auto);
    farm.check().await.unwrap();

    is_lost.store(true, Ordering::SeqCst);
    for _ in 0..10 {
        assert_eq!(farm.check().await.unwrap_err().failure, Failure::NotNexrender);
        assert_eq!(farm.look("rq-1-1").await.unwrap_err().failure, Failure::NotNexrender);
    }
    is_lost.store(false, Ordering::SeqCst);

    assert_eq!((farm.check().await, farm.look("rq-1-1").await), (Ok(()), Ok(None)));
}

#[tokio::test]
async fn a_farm_of_the_document_that_suddenly_answers_nothing_is_not_believed() {
    let (is_lost, server) = losing(document, Some((200, "", String::new())));

    for dialect in [Dialect::Auto, Dialect::Cloud] {
        let farm = farm(&server.url, dialect);
        farm.check().await.unwrap();
        is_lost.store(true, Ordering::SeqCst);
        let (looked, checked) = (farm.look("job_abc123").await, farm.check().await);
        is_lost.store(false, Ordering::SeqCst);

        assert_eq!(looked.unwrap_err().failure, Failure::NotNexrender, "{dialect:?}");
        assert_eq!(checked.unwrap_err().failure, Failure::NotNexrender, "{dialect:?}");
    }
}

/// A server that answers like this about each job while it is told to.
fn losing(answer: fn(&ReceivedCall) -> Answer, lost: Answer) -> (Arc<AtomicBool>, Http) {
    let is_lost = Arc::new(AtomicBool::new(false));
    let losing = is_lost.clone();
    let server =
        Http::start(move |asked| match losing.load(Ordering::SeqCst) && asked.line.contains("/jobs/") {
            true => lost.clone(),
            false => answer(asked),
        });
    (is_lost, server)
}

#[tokio::test]
async fn an_answer_about_another_job_is_never_taken_for_ours() {
    let another =
        |state: &str| said(200, &json!({"uid": "rq-9-9", "state": state, "template": {"src": "b"}}));
    let cache = Http::start(move |_| another("finished"));
    let mixed = Http::start(move |asked| match asked.line.starts_with("POST") {
        true => another("queued"),
        false => Some((200, "", String::new())),
    });
    let document = json!({"template": {"src": "a"}});

    let looked = farm(&cache.url, Dialect::Auto).look("rq-1-1").await;
    let unsent = farm(&cache.url, Dialect::Auto).submit(uid(1), &document).await;
    let submitted = farm(&mixed.url, Dialect::Auto).submit(uid(1), &document).await;

    assert_eq!(looked.unwrap_err().failure, Failure::NotNexrender);
    assert_eq!(unsent.unwrap_err().failure, Failure::NotNexrender);
    assert_eq!(submitted.unwrap_err().failure, Failure::NexrenderDown);
    assert_eq!((cache.count("POST"), mixed.count("POST")), (0, 1));
}

/// It names a job of ours that is not this one, and says nothing else about it.
#[tokio::test]
async fn an_answer_with_the_name_of_another_job_of_ours_is_never_taken_for_ours() {
    let mixed = Http::start(|asked| match asked.line.starts_with("POST") {
        true => said(200, &json!({"uid": "rq-9-9", "state": "queued"})),
        false => Some((200, "", String::new())),
    });

    for (posts, dialect) in [(1, Dialect::Auto), (2, Dialect::Oss)] {
        let document = json!({"template": {"src": "a"}});
        let submitted = farm(&mixed.url, dialect).submit(uid(1), &document).await;

        assert_eq!(submitted.unwrap_err().failure, Failure::NexrenderDown, "{dialect:?}");
        assert_eq!((mixed.count("POST"), mixed.count("DELETE")), (posts, 0));
    }
}

#[tokio::test]
async fn a_proxy_before_the_open_server_that_has_lost_it_makes_no_job_lost() {
    let proxy = Http::start(|_| Some((404, "", "no such route".into())));
    let farm = farm(&proxy.url, Dialect::Oss);

    let (looked, removed) = (farm.look("rq-1-1").await, farm.remove("rq-1-1").await);
    let submitted = farm.submit(uid(1), &json!({})).await;

    assert_eq!(looked.unwrap_err().failure, Failure::NotNexrender);
    assert_eq!(removed.unwrap_err().failure, Failure::NotNexrender);
    assert_eq!(submitted.unwrap_err().failure, Failure::NotNexrender);
    assert_eq!(proxy.count("POST"), 0);
}

/// Answers a `POST` too late, but has the job.
fn slow(known: &Mutex<Option<String>>, asked: &ReceivedCall) -> Answer {
    if asked.line.starts_with("POST") {
        *known.lock().unwrap() = Some(asked.body.clone());
        thread::sleep(Duration::from_secs(20));
        return None;
    }
    match &*known.lock().unwrap() {
        Some(_) => said(200, &json!({"uid": "rq-9-1", "state": "queued"})),
        None => Some((200, "", String::new())),
    }
}

#[tokio::test]
async fn a_job_whose_answer_takes_too_long_is_looked_for() {
    let known = Mutex::new(None);
    let server = Http::start(move |asked| slow(&known, asked));
    let options = FarmOptions { answer_within: Duration::from_secs(10), ..FarmOptions::new(&server.url) };
    let farm = NexrenderFarm::new(&options).unwrap();

    let submitted = farm.submit(uid(9), &json!({})).await.unwrap();

    assert_eq!(submitted.id, "rq-9-1");
    assert_eq!((server.count("POST"), server.count("GET")), (1, 2));
}

#[tokio::test]
async fn a_server_that_breaks_when_it_has_the_job_is_asked_again_and_not_told_again() {
    let server = Http::start(|asked| match asked.line.starts_with("POST") {
        true => Some((500, "", "Internal Server Error".into())),
        false => Some((200, "", String::new())),
    });

    let trouble = farm(&server.url, Dialect::Oss).submit(uid(1), &json!({})).await.unwrap_err();

    assert_eq!(trouble.failure, Failure::NexrenderDown);
    assert_eq!((server.count("POST"), server.count("GET")), (1, 5));
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut_off() {
    let server = Http::start(|_| Some((200, "", "x".repeat(33 << 20))));

    let trouble: Trouble = farm(&server.url, Dialect::Auto).look("a").await.unwrap_err();

    assert_eq!(trouble.failure, Failure::NexrenderDown);
    assert!(trouble.message.contains("has more than"), "{}", trouble.message);
}
