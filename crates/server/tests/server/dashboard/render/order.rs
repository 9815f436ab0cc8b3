//! What can be done with a render, by whom, and what is asked before.

use super::*;
use tidemill_domain::render::Status;
use tidemill_store::render::RenderRecord;

async fn find(app: &App, id: RenderId) -> RenderRecord {
    let mut tx = app.store.read().await.unwrap();
    tx.renders().find(id).await.unwrap().unwrap()
}

async fn status(app: &App, id: RenderId) -> Status {
    find(app, id).await.render.status
}

#[tokio::test]
async fn whoever_cancels_a_running_render_is_told_what_that_means_and_asked_why() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = ordered(&app, "Chip Count").await;
    render_to(&app, &claim(&app, "w").await, 10.0).await;

    let list = operator.get("/render").await.text;
    let question = between(&list, "data-ask href=\"", "\"").replace("&amp;", "&");
    assert_eq!(question, format!("/render/{id}/cancel?back=%2Frender"));
    let asked = operator.get(&question).await.text;
    assert!(asked.contains("Cancel render 1, “Chip Count”?"), "{asked}");
    assert!(asked.contains("nexrender cannot stop it") && asked.contains("licence stays busy until then"));
    assert!(asked.contains("tidemill render cancel 1 --reason WHY"));
    let path = format!("/render/{id}/cancel");
    let silent = operator.submit(&question, &path, "reason=+&back=%2Frender").await;
    assert_eq!(silent.status, StatusCode::BAD_REQUEST);
    assert_eq!(find(&app, id).await.render.cancel_requested_at, None);

    let done = operator.submit(&question, &path, "reason=wrong+name&back=%2Frender").await;

    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render"));
    assert!(find(&app, id).await.render.cancel_requested_at.is_some());
    let list = operator.get("/render").await.text;
    assert!(row_text(&list, id).contains("cancelling"), "{}", row_text(&list, id));
    assert!(!list.contains("data-ask"), "it cannot be cancelled twice");
    let audit = operator.get("/settings/audit?action=render.cancel").await.text;
    assert!(audit.contains("wrong name") && audit.contains("the operator"), "{audit}");
}

#[tokio::test]
async fn what_failed_is_tried_again_and_what_vanished_is_taken_back() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let failed = ordered(&app, "A").await;
    fail(&app, &claim(&app, "w").await, "no template").await;
    let question = format!("/render/{failed}/retry");

    assert!(operator.get(&question).await.text.contains("It is rendered again."));
    let done = operator.submit(&question, &question, "reason=template+is+there").await;
    assert_eq!(done.header("location"), format!("/render/{failed}"));
    assert_eq!(status(&app, failed).await, Status::Pending);

    claim(&app, "gone").await;
    let question = format!("/render/{failed}/recover");
    let early = operator.submit(&question, &question, "reason=host+is+gone").await;
    assert_eq!(early.status, StatusCode::CONFLICT);
    assert!(early.text.contains("TM1511") && early.text.contains("What to do: "), "{}", early.text);
    app.clock.advance(Duration::from_secs(90));
    assert!(operator.get(&question).await.text.contains("Its worker has disappeared."));
    operator.submit(&question, &question, "reason=host+is+gone").await;
    assert_eq!(status(&app, failed).await, Status::Pending);
}

#[tokio::test]
async fn a_published_render_is_corrected_on_its_page_by_those_who_may() {
    let app = App::closed().await;
    let id = ordered(&app, "A").await;
    let rows = [composition::mapping("A", "Slot 1 - name")];
    composition::know(&app, &[composition::profile("A")], &rows).await;
    complete(&app, &claim(&app, "w").await).await;
    let admin = Browser::log_in(&app, Role::Admin).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let path = format!("/render/{id}/correct");

    let list = operator.get("/render").await.text;
    assert!(row_text(&list, id).contains("Correct…"), "{}", row_text(&list, id));
    let asked = admin.get(&path).await.text;
    assert!(asked.contains("Correct render 1, “A”?") && asked.contains("render.correction"), "{asked}");
    assert!(between(&asked, "<textarea", "</textarea>").contains("PHIL IVEY"), "{asked}");
    let hidden = operator.get(&path).await.text;
    assert!(hidden.contains("may not see the current data") && !hidden.contains("IVEY"), "{hidden}");
    let revision = between(&asked, "name=\"revision\" value=\"", "\"").to_owned();
    let form = |name: &str, reason: &str| {
        let fields = format!("%7B%22slot_number%22:1,%22fields%22:%7B%22name%22:%22{name}%22%7D%7D");
        format!("data=%7B%22slots%22:[{fields}]%7D&revision={revision}&reason={reason}")
    };
    let blank = admin.submit(&path, &path, &form("", "x")).await;
    assert_eq!(
        (blank.status, blank.text.contains("TM1503")),
        (StatusCode::BAD_REQUEST, true),
        "{}",
        blank.text
    );
    assert_eq!(status(&app, id).await, Status::Completed);

    let done = admin.submit(&path, &path, &form("Right", "wrong+name")).await;

    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render/1"), "{}", done.text);
    let record = find(&app, id).await;
    assert_eq!((record.render.status, record.output_revision), (Status::Pending, 2));
    let data = app.store.read().await.unwrap().renders().data(id).await.unwrap().unwrap();
    assert!(data.contains("Right"), "{data}");
    let late = operator.submit(&format!("/render/{id}/cancel"), &path, &form("Other", "me+too")).await;
    assert_eq!((late.status, late.text.contains("was changed since")), (StatusCode::CONFLICT, true));
}

#[tokio::test]
async fn what_cannot_be_done_is_disabled_with_the_reason_that_the_api_gives() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = ordered(&app, "A").await;
    complete(&app, &claim(&app, "w").await).await;

    for (verb, word) in [("cancel", "Cancel"), ("retry", "Retry"), ("recover", "Recover")] {
        let path = format!("/render/{id}/{verb}");
        let asked = operator.get(&path).await.text;
        assert!(
            !has_button(&asked, &format!("{word} render 1")) && asked.contains("Not possible: "),
            "{verb}: {asked}"
        );
        let reason = between(&asked, "Not possible: ", ". Instead").to_owned();
        let body = json!({ "reason": "x" }).to_string();
        let refused =
            app.ask_as(Role::Operator, Method::POST, &format!("/api/v1/renders/{id}/{verb}"), &body).await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{verb}");
        let detail: Value = refused.json()["detail"].clone();
        assert_eq!(detail, json!(format!("render {id}: {reason}")));
    }
    assert_eq!(operator.get("/render/99/cancel").await.status, StatusCode::NOT_FOUND);
    assert_eq!(operator.get("/render/x/cancel").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_viewer_sees_the_buttons_and_why_they_are_off() {
    let app = App::closed().await;
    let id = ordered(&app, "A").await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;

    let page = viewer.get("/render").await.text;

    assert!(page.contains("disabled aria-describedby=\"buttons-off\">Cancel…</button>"), "{page}");
    assert!(
        page.contains("id=\"buttons-off\">Buttons are disabled. The role viewer may not operate."),
        "{page}"
    );
    assert!(!page.contains("data-ask") && page.contains("page=renders%3Aall%3Aoff"));
    let path = format!("/render/{id}/cancel");
    assert_eq!(viewer.get(&path).await.status, StatusCode::FORBIDDEN);
    assert_eq!(viewer.submit("/render", &path, "reason=x").await.status, StatusCode::FORBIDDEN);
    assert_eq!(status(&app, id).await, Status::Pending);

    let open = App::open().await;
    ordered(&open, "A").await;
    let read_only = open.ask(Method::GET, "/render", &[("cookie", "tidemill_read_only=on")], "").await.text;
    assert!(
        read_only.contains("Buttons are disabled. Read-only mode is on.") && !read_only.contains("data-ask")
    );
}

#[tokio::test]
async fn a_form_counts_once_only_with_its_token_and_leads_to_no_other_site() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = ordered(&app, "A").await;
    let path = format!("/render/{id}/cancel");

    let forged = operator.post(&path, "reason=x&form_token=forged").await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    assert_eq!(status(&app, id).await, Status::Pending);

    let body = "reason=x&key=one-form&back=//evil.example/";
    let first = operator.submit(&path, &path, body).await;
    let second = operator.submit(&path, &path, body).await;
    assert_eq!((first.header("location"), second.header("location")), ("/render/1", "/render/1"));
    let asked = operator.get(&format!("{path}?back=https://evil.example/")).await.text;
    assert!(
        asked.contains("name=\"back\" value=\"/render/1\"") && !asked.contains("href=\"https:"),
        "{asked}"
    );
}

#[tokio::test]
async fn whoever_is_limited_to_other_compositions_is_told_so() {
    let app = App::closed().await;
    let id = ordered(&app, "Chip Count").await;
    let limited = Browser::log_in_scoped(&app, "render/Lower Third").await;

    for path in [format!("/render/{id}"), format!("/render/{id}/cancel")] {
        let page = limited.get(&path).await.text;
        assert!(
            page.contains("limited to render/Lower Third") && !page.contains("data-ask"),
            "{path}: {page}"
        );
    }
}
