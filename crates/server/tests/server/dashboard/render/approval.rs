//! A render that waits for approval: what is shown of it, to whom, and the answer.

use super::*;
use crate::Choices;
use crate::dashboard::job::sql;
use std::path::PathBuf;
use tidemill_domain::render::{LocalPath, Status};
use tidemill_server::access::Authentication;
use tidemill_store::scratch::Scratch;

const FILM: &[u8] = b"0123456789abcdef";

/// A server that may have the folder of nodes' files, which is beside something that is nobody's business.
async fn app(with_staging: bool) -> (App, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let staging = folder.path().join("staging");
    std::fs::create_dir(&staging).unwrap();
    std::fs::write(folder.path().join("rq-1-1.mp4"), FILM).unwrap();
    let place = LocalPath::parse(&staging.display().to_string()).unwrap();
    let choices = Choices { staging: Some(place).filter(|_| with_staging), ..Choices::default() };
    let required = Authentication::Required { issuers: Vec::new() };
    (App::on(Scratch::file(), required, "", choices).await, staging, folder)
}

/// A render that waits for approval, late for its deadline.
async fn asked(app: &App) -> RenderId {
    let deadline = Some(app.clock.now());
    let id = submit(app, &NewRender { deadline, ..new_render("Chips") }).await;
    let claimed = claim(app, "w").await;
    let staged = Notes { staged_path: Some("\\\\NAS\\.staging\\rq-1-1.mp4"), ..Notes::default() };
    say_with(app, &claimed, Work::Prepared, staged).await;
    say(app, &claimed, Work::Submitted).await;
    say(app, &claimed, Work::Reported(Report::Finished)).await;
    let (bytes, hash) = (FILM.len() as u64, Some("abcdef"));
    let notes = Notes { output_bytes: Some(bytes), output_sha256: hash, ..Notes::default() };
    say_with(app, &claimed, Work::NeedsApproval, notes).await;
    app.clock.advance(Duration::from_secs(600));
    id
}

async fn status(app: &App, id: RenderId) -> (Status, bool) {
    let record = app.store.read().await.unwrap().renders().find(id).await.unwrap().unwrap();
    (record.render.status, record.render.awaits_approval())
}

/// Status, content type, range and body.
async fn clip(viewer: &Browser<'_>, range: &str) -> (u16, String, String, Vec<u8>) {
    let request = Request::builder().uri("/render/1/clip").header("host", "127.0.0.1:7790");
    let request = request.header("cookie", &viewer.cookie).header("range", range);
    let response = viewer.app.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let header =
        |name: &str| response.headers().get(name).map_or("", |text| text.to_str().unwrap()).to_owned();
    let (status, kind, range) = (response.status().as_u16(), header("content-type"), header("content-range"));
    (status, kind, range, axum::body::to_bytes(response.into_body(), 10 << 20).await.unwrap().to_vec())
}

#[tokio::test]
async fn a_film_is_played_in_ranges_while_it_waits_for_approval() {
    let (app, staging, _folder) = app(true).await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    let id = asked(&app).await;
    std::fs::write(staging.join("rq-1-1.mp4"), FILM).unwrap();

    let mp4 = || "video/mp4".to_owned();
    assert_eq!(clip(&viewer, "").await, (200, mp4(), String::new(), FILM.to_vec()));
    assert_eq!(clip(&viewer, "bytes=4-7").await, (206, mp4(), "bytes 4-7/16".into(), b"4567".to_vec()));
    assert_eq!(clip(&viewer, "bytes=-2").await, (206, mp4(), "bytes 14-15/16".into(), b"ef".to_vec()));
    let outside = clip(&viewer, "bytes=16-").await;
    assert_eq!((outside.0, outside.2.as_str()), (416, "bytes */16"));
    let page = viewer.get(&format!("/render/{id}")).await;
    assert!(page.header("content-security-policy").contains("media-src 'self'"));
    assert!(
        page.text.contains("<video class=\"poster\" src=\"/render/1/clip\" controls preload=\"none\""),
        "{page:?}"
    );
    let text = words(&page.text);
    assert!(text.contains("Waits for approval.") && text.contains("late by 10 min"), "{text}");
    assert!(!page.text.contains("data-ask"), "a viewer does not answer");
    let nobody = app.ask(Method::GET, "/render/1/clip", &[], "").await;
    assert_eq!((nobody.status, nobody.header("location")), (StatusCode::SEE_OTHER, "/login"));

    // A large film, in more than one block.
    let large = vec![7; 600_000];
    std::fs::write(staging.join("rq-1-1.mp4"), &large).unwrap();
    assert_eq!(clip(&viewer, "").await.0, 404, "it is not the film that would be approved");
    sql(&app, "update render_queue set output_bytes = 600000").await;
    assert_eq!(clip(&viewer, "bytes=1-").await.3, large[1..]);
    sql(&app, "update render_queue set approval = 'approved'").await;
    assert_eq!(clip(&viewer, "").await.0, 404, "it does not wait any more");
}

#[tokio::test]
async fn no_other_file_is_played_whatever_a_row_says() {
    let (app, staging, folder) = app(true).await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    asked(&app).await;
    for other in ["rq-1-2.mp4", "rq-2-1.mp4", "secret.mp4"] {
        std::fs::write(staging.join(other), FILM).unwrap();
    }
    std::os::unix::fs::symlink(folder.path().join("rq-1-1.mp4"), staging.join("rq-1-1.link")).unwrap();
    std::fs::create_dir(staging.join("rq-1-1.folder")).unwrap();

    for noted in [
        "/etc/passwd",
        "../rq-1-1.mp4",
        "\\\\NAS\\.staging\\rq-1-2.mp4",
        "rq-2-1.mp4",
        "secret.mp4",
        "rq-1-1.link",
        "rq-1-1.folder",
        "rq-1-1.mp4/..",
        "",
    ] {
        sql(&app, &format!("update render_queue set staged_path = '{noted}'")).await;
        assert_eq!(clip(&viewer, "").await.0, 404, "{noted}");
    }
    std::fs::write(staging.join("rq-1-1.mp4"), FILM).unwrap();
    sql(&app, "update render_queue set staged_path = '/anywhere/rq-1-1.mp4'").await;
    assert_eq!(clip(&viewer, "").await.3, FILM, "so it is not that nothing ever is");
}

#[tokio::test]
async fn an_operator_sees_the_film_and_approves_what_was_seen() {
    let (app, _staging, _folder) = app(false).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = asked(&app).await;
    let overview = words(&operator.get("/").await.text);
    assert!(overview.contains("1 render waits for approval."), "{overview}");
    assert!(
        !words(&operator.get("/render").await.text).contains("No worker is running"),
        "nobody waits for one"
    );
    let list = operator.get("/render").await.text;
    let row = row_text(&list, id);
    assert!(row.contains("Waits for approval.") && row.contains("Approve… Reject… Cancel…"), "{row}");
    let path = format!("/render/{id}/approve");

    let asked = operator.get(&path).await.text;

    assert!(
        asked.contains("This file is published.") && asked.contains("This server cannot show the film"),
        "{asked}"
    );
    let revision: i64 = between(&asked, "name=\"revision\" value=\"", "\"").parse().unwrap();
    let early = operator.submit(&path, &path, &format!("revision={}", revision - 1)).await;
    assert_eq!((early.status, early.text.contains("was changed since")), (StatusCode::CONFLICT, true));
    assert_eq!(status(&app, id).await, (Status::Pending, true));
    let done = operator.submit(&path, &path, &format!("revision={revision}")).await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render/1"), "{}", done.text);
    assert_eq!(status(&app, id).await, (Status::Pending, false));
    let late = operator.get(&format!("/render/{id}/reject")).await.text;
    assert!(late.contains("does not wait for approval"), "{late}");
}

#[tokio::test]
async fn a_rejection_has_a_reason_and_viewers_do_not_answer() {
    let (app, _staging, _folder) = app(false).await;
    let id = asked(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let path = format!("/render/{id}/reject");
    for (verb, body) in [("approve", json!({})), ("reject", json!({ "reason": "x" }))] {
        let api = format!("/api/v1/renders/{id}/{verb}");
        let refused = app.ask_as(Role::Viewer, Method::POST, &api, &body.to_string()).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{verb}");
    }
    assert_eq!(operator.submit(&path, &path, "reason=+").await.status, StatusCode::BAD_REQUEST);
    let question = operator.get(&path).await.text;
    let revision: i64 = between(&question, "name=\"revision\" value=\"", "\"").parse().unwrap();
    let garbled = operator.submit(&path, &path, "reason=x&revision=new").await;
    assert_eq!(garbled.status, StatusCode::BAD_REQUEST, "{}", garbled.text);
    let early = operator.submit(&path, &path, &format!("reason=x&revision={}", revision - 1)).await;
    assert_eq!((early.status, early.text.contains("was changed since")), (StatusCode::CONFLICT, true));
    let api = format!("/api/v1/renders/{id}/reject");
    let body = format!(r#"{{"reason": "a wrong name", "revision": {}}}"#, revision - 1);
    let early = app.ask_as(Role::Operator, Method::POST, &api, &body).await;
    assert_eq!(early.status, StatusCode::CONFLICT, "{early:?}");
    assert_eq!(status(&app, id).await, (Status::Pending, true));

    let done = app.ask_as(Role::Operator, Method::POST, &api, r#"{"reason": "a wrong name"}"#).await;

    assert_eq!((done.status, &done.json()["error_code"]), (StatusCode::OK, &json!("TM1557")), "{done:?}");
    let page = words(&operator.get(&format!("/render/{id}")).await.text);
    assert!(page.contains("a wrong name") && page.contains("Retry… Correct…"), "{page}");
}
