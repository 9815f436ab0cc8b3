//! Pages are read to the end, whatever the service does; what cannot be read is told; a restart goes on exactly.

use crate::{endpoint, failure, run};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::item::ItemsWriter;
use tidemill_engine::job::{ItemReader, ItemStream, Job, Step};
use tidemill_engine::testing::JobBench;
use tidemill_http::{HttpEndpoint, HttpReader, Paging};
use tidemill_testkit::{HttpService, Received, Reply};

const ITEMS: usize = 25;
const PER_PAGE: usize = 10;

/// The items of a page that begins at `from`.
fn page(from: usize) -> Vec<Json> {
    (from..ITEMS.min(from + PER_PAGE)).map(|n| json!({ "n": n })).collect()
}

/// An API whose cursor is the first item of the page, behind a letter. It tells the URL of the next page too, and knows pages by
/// their number.
fn by_cursor(request: &Received) -> Reply {
    let number = request.query("page").map(|number| (number.parse::<usize>().unwrap() - 1) * PER_PAGE);
    let cursor = request.query("after").map(|cursor| cursor[1..].parse().unwrap());
    let from = number.or(cursor).unwrap_or(0);
    let next = (from + PER_PAGE < ITEMS).then(|| format!("c{}", from + PER_PAGE));
    let url = next.as_ref().map(|next| format!("/a?after={next}"));
    let body = json!({ "data": { "rows": page(from) }, "meta": { "next": next, "url": url } });
    let reply = Reply::new(200, body.to_string());
    match url {
        Some(url) => reply.with("link", format!("<{url}>; rel=next")),
        None => reply,
    }
}

fn cursor() -> Paging {
    Paging::Cursor { path: "meta.next".into(), parameter: Some("after".into()) }
}

fn job(
    endpoint: HttpEndpoint,
    items: &'static str,
    paging: Paging,
    written: &ItemsWriter<u64>,
    fails: impl Fn(u64) -> bool + Send + Sync + Clone + 'static,
) -> Job {
    let process = move |item: &Json| match item["n"].as_u64().unwrap() {
        n if fails(n) => Err(ItemError::fatal("the item was told to fail")),
        n => Ok(Some(n)),
    };
    let reader = move |_: &_| Ok(HttpReader::<Json>::new("api", endpoint.clone(), items, paging.clone()));
    let step = Step::chunk("load", 4).reader_with(reader).process(process).writer(written.clone());
    Job::new("load").step(step.build())
}

/// What a job reads that nothing hinders; or why it fails.
async fn read(endpoint: HttpEndpoint, items: &'static str, paging: Paging) -> Result<Vec<u64>, String> {
    let (bench, written) = (JobBench::new().await.unwrap(), ItemsWriter::default());
    let ran = run(&bench, &job(endpoint, items, paging, &written, |_| false)).await;
    if ran.is_completed() { Ok(written.items()) } else { Err(failure(&ran)) }
}

fn everything() -> Result<Vec<u64>, String> {
    Ok((0..ITEMS as u64).collect())
}

#[tokio::test]
async fn pages_follow_by_cursor() {
    let service = HttpService::start(|request, _| by_cursor(request)).unwrap();

    let found = read(endpoint(&service, "/a?limit=10"), "data.rows", cursor()).await;

    assert_eq!(found, everything());
    let targets: Vec<String> = service.received().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, ["/a?limit=10", "/a?limit=10&after=c10", "/a?limit=10&after=c20"]);
}

#[tokio::test]
async fn a_page_that_could_not_be_fetched_is_not_the_end() {
    let is_away = AtomicBool::new(true);
    let answer = move |request: &Received| match request.query("after") {
        Some(_) if is_away.swap(false, Ordering::SeqCst) => Reply::new(404, "gone"),
        _ => by_cursor(request),
    };
    let service = HttpService::start(move |request, _| answer(request)).unwrap();
    let mut reader = HttpReader::<Json>::new("api", endpoint(&service, "/a"), "data.rows", cursor());
    reader.open(&ExecutionContext::new()).await.unwrap();
    for n in 0..PER_PAGE {
        assert_eq!(reader.read().await.unwrap(), Some(json!({ "n": n })));
    }

    let failed = reader.read().await;

    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(reader.read().await.unwrap(), Some(json!({ "n": PER_PAGE })));
}

#[tokio::test]
async fn pages_follow_by_number_until_one_is_empty() {
    let service = HttpService::start(|request, _| {
        let number: usize = request.query("page").unwrap().parse().unwrap();
        Reply::new(200, Json::from(page((number - 1) * PER_PAGE)).to_string())
    })
    .unwrap();

    let paging = Paging::Number { parameter: "page".into(), first: 1 };
    let found = read(endpoint(&service, "/a"), "", paging).await;

    assert_eq!(found, everything());
    assert_eq!(service.received().len(), 4);
}

#[tokio::test]
async fn pages_follow_by_the_link_header_and_by_a_url_in_the_body() {
    let service = HttpService::start(|request, _| {
        let from = request.query("from").map_or(0, |from| from.parse().unwrap());
        let next = (from + PER_PAGE < ITEMS).then(|| format!("/a?from={}", from + PER_PAGE));
        let reply = Reply::new(200, json!({ "rows": page(from), "next": next }).to_string());
        match next {
            Some(next) => reply.with("link", format!("</a>; rel=\"first\", <{next}>; rel=\"next\"")),
            None => reply,
        }
    })
    .unwrap();

    for paging in [Paging::Link, Paging::Cursor { path: "next".into(), parameter: None }] {
        assert_eq!(read(endpoint(&service, "/a"), "rows", paging).await, everything());
    }
}

#[tokio::test]
async fn a_service_that_falters_is_asked_again() {
    let service = HttpService::start(|request, before| match before {
        0 => Reply::new(503, "down"),
        1 => Reply::new(429, "").with("retry-after", "1"),
        3 => by_cursor(request).cut(),
        // A proxy may close the connection without having told a length; then only the JSON is incomplete.
        5 => Reply::new(200, "{\"data\": {\"rows\": [{\"n\": 2"),
        _ => by_cursor(request),
    })
    .unwrap();
    let clock = SystemClock::new();
    let start = clock.monotonic();

    let found = read(endpoint(&service, "/a"), "data.rows", cursor()).await;

    assert_eq!(found, everything());
    assert_eq!(service.received().len(), 7);
    assert!(clock.monotonic().since(start) >= Duration::from_secs(1), "Retry-After was not honoured");
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    async fn check(answer: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static, expected: &str) {
        let service = HttpService::start(answer).unwrap();
        let endpoint = endpoint(&service, "/a?token=geheim").header("authorization", "geheim");
        let why = read(endpoint.max_bytes(2000), "data.rows", cursor()).await.unwrap_err();
        assert!(why.contains(expected), "{expected}: {why}");
        assert!(!why.contains("geheim"), "{why}");
    }

    check(|_, _| Reply::new(200, "x".repeat(2001)), "more than 2000 bytes").await;
    check(|_, _| Reply::new(200, "<html>").with("content-type", "text/html"), "not JSON (text/html)").await;
    check(|_, _| Reply::new(200, "{\"data\": 1}"), "has nothing at \"data.rows\"").await;
    check(|_, _| Reply::new(200, "{\"data\": {\"rows\": {}}}"), "has an object at \"data.rows\"").await;
    check(|_, _| Reply::new(503, "down for work"), "answered 503 in 3 attempts and said \"down for work\"")
        .await;
    check(|_, _| Reply::new(429, "").with("retry-after", "7200"), "asks to wait 2h").await;
    check(|request, _| by_cursor(request).cut(), "no whole answer in 3 attempts").await;
    check(|_, _| Reply::new(401, ""), "answered 401; check the credentials").await;
    check(|_, _| Reply::new(401, "bad: geheim"), "answered 401 and said \"bad: …\"").await;
    let loops = json!({ "data": { "rows": page(0) }, "meta": { "next": "c" } }).to_string();
    check(move |_, _| Reply::new(200, loops.clone()), "it is the page itself").await;
}

#[tokio::test]
async fn a_service_that_ignores_the_number_of_the_page_is_noticed() {
    let service = HttpService::start(|_, _| Reply::new(200, Json::from(page(0)).to_string())).unwrap();

    let paging = Paging::Number { parameter: "p".into(), first: 0 };
    let why = read(endpoint(&service, "/a"), "", paging).await.unwrap_err();

    assert!(why.contains("the service ignores the parameter"), "{why}");
    assert_eq!(service.received().len(), 2);
}

#[tokio::test]
async fn credentials_never_go_to_another_host() {
    let other = HttpService::start(|request, _| by_cursor(request)).unwrap();
    let elsewhere = other.url("/a");
    let location = elsewhere.clone();
    let redirecting =
        HttpService::start(move |_, _| Reply::new(302, "").with("location", location.clone())).unwrap();
    let linking = HttpService::start(move |_, _| {
        Reply::new(200, Json::from(page(0)).to_string()).with("link", format!("<{elsewhere}>; rel=next"))
    })
    .unwrap();

    let redirected = read(endpoint(&redirecting, "/a"), "", Paging::Single).await.unwrap_err();
    let linked = read(endpoint(&linking, "/a"), "", Paging::Link).await.unwrap_err();

    assert!(redirected.contains("answered 302; redirects are not followed"), "{redirected}");
    assert!(linked.contains("another host"), "{linked}");
    assert_eq!(other.received(), []);
}

#[tokio::test]
async fn requests_keep_to_the_rate() {
    let service = HttpService::start(|request, _| by_cursor(request)).unwrap();
    let clock = SystemClock::new();
    let start = clock.monotonic();

    let endpoint = endpoint(&service, "/a").rate("10/s".parse().unwrap());
    let found = read(endpoint, "data.rows", cursor()).await;

    assert_eq!(found, everything());
    assert!(clock.monotonic().since(start) >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_restart_goes_on_within_a_page() {
    for paging in [
        cursor(),
        Paging::Cursor { path: "meta.url".into(), parameter: None },
        Paging::Link,
        Paging::Number { parameter: "page".into(), first: 1 },
    ] {
        let service = HttpService::start(|request, _| by_cursor(request)).unwrap();
        let (bench, written) = (JobBench::new().await.unwrap(), ItemsWriter::default());
        let is_broken = Arc::new(AtomicBool::new(true));
        let broken = is_broken.clone();
        let fails = move |n| n == 17 && broken.load(Ordering::SeqCst);
        let job = job(endpoint(&service, "/a"), "data.rows", paging.clone(), &written, fails);

        let failed = run(&bench, &job).await;
        let asked = service.received().len();
        let saved = failed.context("load").unwrap().clone();
        is_broken.store(false, Ordering::SeqCst);
        let ran = run(&bench, &job).await;

        assert!(!failed.is_completed() && ran.is_completed(), "{paging:?}");
        // Chunks of four: the last one that committed ended with item 15, the sixth of the second page.
        assert_eq!(saved.get_long("api.index"), Some(6), "{paging:?}");
        assert_eq!(written.items(), (0..ITEMS as u64).collect::<Vec<_>>(), "{paging:?}");
        let received = service.received();
        assert_eq!((asked, &received[asked].target), (2, &received[1].target), "{paging:?}");
    }
}

#[tokio::test]
async fn a_page_that_has_shrunk_is_noticed_at_a_restart() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = is_broken.clone();
    let service = HttpService::start(move |request, _| match broken.load(Ordering::SeqCst) {
        true => by_cursor(request),
        false => Reply::new(200, json!({ "data": { "rows": page(20) } }).to_string()),
    })
    .unwrap();
    let (bench, written) = (JobBench::new().await.unwrap(), ItemsWriter::default());
    let job = job(endpoint(&service, "/a"), "data.rows", cursor(), &written, |n| n == 17);

    run(&bench, &job).await;
    is_broken.store(false, Ordering::SeqCst);
    let why = failure(&run(&bench, &job).await);

    assert!(why.contains("only 5 items on the page where the last run had read 6"), "{why}");
}
