//! The page of one render: attempts, checks, file and picture, what has happened, and what it shows.

use super::*;
use crate::Choices;
use std::path::{Path, PathBuf};
use tidemill_domain::render::LocalPath;
use tidemill_server::access::Authentication;
use tidemill_store::scratch::Scratch;

/// The bytes of a picture, as far as anybody looks.
const JPEG: &[u8] = b"\xff\xd8\xff\xe0 a picture";

#[tokio::test]
async fn a_render_is_shown_with_all_that_was_tried_and_found() {
    let app = App::open().await;
    let mut new = new_render("Chip Count");
    (new.cue_item, new.priority) = (Some("cue-17".into()), 7);
    new.deadline = Some("2026-11-15T18:00:00Z".parse().unwrap());
    let id = submit(&app, &new).await;
    let first = claim(&app, "worker-1").await;
    render_to(&app, &first, 20.0).await;
    app.clock.advance(Duration::from_secs(30));
    let trouble = Trouble::new(Failure::RenderFailed, "aerender died\nexit code 9");
    say(&app, &first, Work::Failed(trouble)).await;
    app.clock.advance(Duration::from_secs(3600));
    let second = claim(&app, "worker-2").await;
    app.clock.advance(Duration::from_secs(20));
    complete(&app, &second).await;

    let page = look(&app, &format!("/render/{id}")).await;
    let text = words(&page);

    assert!(page.contains("<title>completed Chip Count #1 – test</title>"), "{page}");
    for part in [
        "Cue item cue-17",
        "On air 2026-11-15 18:00:00 UTC",
        "Priority 7",
        "Path \\\\NAS\\output\\film.mp4",
        "Size 18.4 MB (18400000 bytes)",
        "SHA-256 abcdef0123456789",
        "1 worker-1",
        "▲ retried TM1527 aerender died exit code 9",
        "2 worker-2",
        "● the file is good attempt 2",
        "▲ warning black a part of it 99 %",
        "● passed resolution 1920x1080",
        "● passed decoding whole",
        "uploading → completed",
        "tidemill render show 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(page.contains("rq-1-1") && page.contains("rq-1-2"));
    let lanes: Vec<&str> = page.split("<svg class=\"lane\" role=\"img\" aria-label=\"").skip(1).collect();
    assert_eq!(lanes.len(), 2);
    assert!(lanes[0].starts_with("preparing 0 s, rendering 30 s"), "{}", &lanes[0][..80]);
    assert!(lanes[1].starts_with("preparing 20 s"), "{}", &lanes[1][..80]);
    assert!(!page.contains("style=\"") && !page.contains("PHIL IVEY"), "what it shows is not on the page");
    assert!(page.contains("page=render%3A1%3Aon"));
}

#[tokio::test]
async fn a_render_that_waits_has_its_place_and_one_that_failed_all_of_its_error() {
    let app = App::open().await;
    for _ in 0..3 {
        ordered(&app, "A").await;
    }
    beat(&app, "w", 1, 1, WorkerState::Working).await;

    let waits = look(&app, "/render/3").await;
    assert!(words(&waits).contains("No. 3 The only place at the farm is busy"), "{}", words(&waits));
    assert!(waits.contains("/render/3/cancel?back=%2Frender%2F3"));
    fail(&app, &claim(&app, "w").await, "the template is gone\nD:\\templates\\x.aep").await;
    let failed = look(&app, "/render/1").await;
    assert!(failed.contains("<pre>the template is gone\nD:\\templates\\x.aep</pre>"), "{failed}");
    assert!(failed.contains("tidemill explain TM1524") && failed.contains("/render/1/retry?back="));

    let missing = app.ask(Method::GET, "/render/99", &[], "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.text.contains("TM1546"));
    assert_eq!(app.ask(Method::GET, "/render/..", &[], "").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn what_it_shows_is_for_those_who_may_see_payloads_and_only_as_text() {
    let app = App::closed().await;
    let mut new = new_render("A");
    new.data = json!({ "single_fields": { "table": HOSTILE, "number": 12_345_678_901_234_567_890_u64 } });
    let id = submit(&app, &new).await;
    let path = format!("/render/{id}/data");

    for role in [Role::Viewer, Role::Operator] {
        let browser = Browser::log_in(&app, role).await;
        assert_eq!(browser.get(&path).await.status, StatusCode::FORBIDDEN, "{role}");
        let page = browser.get(&format!("/render/{id}")).await.text;
        assert!(page.contains(&format!("The role {role} may not administer.")) && !page.contains(&path));
        assert!(!page.contains("&lt;script&gt;"), "{role}");
    }
    let admin = Browser::log_in(&app, Role::Admin).await;
    assert!(admin.get(&format!("/render/{id}")).await.text.contains(&path));
    let data = admin.get(&path).await.text;
    assert!(
        data.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\&quot;") && !data.contains("<script>alert")
    );
    assert!(data.contains("12345678901234567890"), "numbers are exact");
    assert!(data.contains("\n  &quot;single_fields&quot;"), "{data}");
}

#[tokio::test]
async fn fields_that_stay_empty_are_told_on_the_page() {
    let app = App::open().await;
    let rows = ["Slot 1 - name", "Slot 2 - name"].map(|field| composition::mapping("A", field));
    composition::know(&app, &[composition::profile("A")], &rows).await;
    let id = submit(&app, &new_render("A")).await;

    let page = app.ask(Method::GET, &format!("/render/{id}"), &[], "").await.text;

    assert!(page.contains("these fields stay empty: Slot 2 - name"), "{page}");
}

#[tokio::test]
async fn hostile_strings_are_text_on_the_page_of_a_render() {
    let app = App::open().await;
    let mut new = new_render(HOSTILE);
    new.cue_item = Some(HOSTILE.into());
    let id = submit(&app, &new).await;
    let claimed = claim(&app, HOSTILE).await;
    render_to(&app, &claimed, 1.0).await;
    let finding = json!({ "check": HOSTILE, "expected": HOSTILE, "actual": HOSTILE });
    let report = json!({ "is_good": false, "failures": [finding], "format": HOSTILE, "decoded": { "broken": HOSTILE } });
    let trouble = Trouble::new(Failure::TemplateMissing, HOSTILE);
    say_with(&app, &claimed, Work::Failed(trouble), Notes { report: Some(&report), ..Notes::default() })
        .await;
    let mut tx = app.store.begin().await.unwrap();
    let sql = "update render_queue set output_file_path = '<script>alert(1)</script>', poster_path = '<script>alert(1)</script>'";
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();

    for path in [format!("/render/{id}"), format!("/render/{id}/retry")] {
        let page = look(&app, &path).await;
        assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;"), "{path}: {page}");
    }
    let file = app.ask(Method::GET, &format!("/render/{id}/json"), &[], "").await;
    assert!(
        file.header("content-disposition").starts_with("attachment")
            && file.header("content-type").contains("json")
    );
    assert_eq!(file.json()["composition"], HOSTILE);
    assert_eq!(file.json()["tried"][0]["outcome"], "failed");
    assert_eq!(file.json()["history"].as_array().unwrap().len(), 4);
    assert!(!file.text.contains("PHIL IVEY"));
}

/// A server that knows a folder for pictures, which is beside one that is nobody's business.
async fn with_posters() -> (App, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let posters = folder.path().join("posters");
    std::fs::create_dir(&posters).unwrap();
    std::fs::write(folder.path().join("secret.jpg"), JPEG).unwrap();
    let choices = Choices {
        posters: Some(LocalPath::parse(&posters.display().to_string()).unwrap()),
        ..Choices::default()
    };
    let required = Authentication::Required { issuers: Vec::new() };
    let app = App::on(Scratch::file(), required, "", choices).await;
    (app, posters, folder)
}

async fn note_poster(app: &App, place: &Path) {
    let mut tx = app.store.begin().await.unwrap();
    let sql = format!("update render_queue set poster_path = '{}'", place.display());
    tx.execute_for_test(&sql).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_picture_is_shown_to_those_who_may_look() {
    let (app, posters, _folder) = with_posters().await;
    let id = ordered(&app, "A").await;
    let path = format!("/render/{id}/poster");
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    assert_eq!(viewer.get(&path).await.status, StatusCode::NOT_FOUND, "it has none yet");
    assert!(!viewer.get("/render").await.text.contains("<img"));
    std::fs::write(posters.join("rq-1-2.jpg"), JPEG).unwrap();
    note_poster(&app, &posters.join("rq-1-2.jpg")).await;

    let answer = viewer.get_bytes(&path).await;

    assert_eq!((answer.0, answer.1.as_str(), answer.2.as_slice()), (StatusCode::OK, "image/jpeg", JPEG));
    let page = viewer.get(&format!("/render/{id}")).await.text;
    assert!(
        page.contains("<img class=\"poster\" src=\"/render/1/poster\" alt=\"A frame of render 1\""),
        "{page}"
    );
    let rows = viewer.get("/render").await.text;
    let image = "<img class=\"thumb\" src=\"/render/1/poster\" alt=\"A frame of render 1\" loading=\"lazy\">";
    assert_eq!(rows.matches(image).count(), 1, "{rows}");
    let nobody = app.ask(Method::GET, &path, &[], "").await;
    assert_eq!((nobody.status, nobody.header("location")), (StatusCode::SEE_OTHER, "/login"));
}

#[tokio::test]
async fn no_other_file_is_shown_whatever_a_row_says() {
    let (app, posters, folder) = with_posters().await;
    let id = ordered(&app, "A").await;
    ordered(&app, "B").await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    let path = format!("/render/{id}/poster");
    std::fs::write(posters.join("rq-2-1.jpg"), JPEG).unwrap();
    std::fs::write(posters.join("other.jpg"), JPEG).unwrap();
    std::fs::write(posters.join("rq-1-3.jpg"), "root:x:0:0:root:/root:/bin/sh").unwrap();
    std::fs::write(posters.join("rq-1-4.jpg"), [JPEG, &vec![0; 5 << 20]].concat()).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.jpg"), posters.join("rq-1-5.jpg")).unwrap();
    std::fs::create_dir(posters.join("rq-1-6.jpg")).unwrap();

    for place in [
        "/etc/passwd".into(),
        folder.path().join("secret.jpg"),
        folder.path().join("rq-1-1.jpg"),
        posters.join("../secret.jpg"),
        posters.join("../posters/rq-1-3.jpg"),
        posters.join("rq-2-1.jpg"),
        posters.join("other.jpg"),
        posters.join("rq-1-3.jpg"),
        posters.join("rq-1-4.jpg"),
        posters.join("rq-1-5.jpg"),
        posters.join("rq-1-6.jpg"),
        posters.join("rq-1-7.jpg"),
    ] {
        note_poster(&app, &place).await;
        let answer = viewer.get(&path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", place.display());
        assert!(answer.header("content-type").starts_with("text/html"), "{}", place.display());
        assert!(!answer.text.contains("root:x"), "{}", place.display());
    }
    for path in ["/render/..%2f..%2fetc%2fpasswd/poster", "/render/0/poster", "/render/1%00/poster"] {
        assert_eq!(viewer.get(path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    // A good one is shown, so it is not that nothing ever is.
    std::fs::write(posters.join("rq-1-9.jpg"), JPEG).unwrap();
    note_poster(&app, &posters.join("rq-1-9.jpg")).await;
    assert_eq!(viewer.get_bytes(&path).await.0, StatusCode::OK);
}
