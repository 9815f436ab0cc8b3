//! Actions on many renders: picked by boxes, or all that match, by a browser without JavaScript.

use super::*;
use crate::Choices;
use tidemill_domain::render::Status;
use tidemill_server::access::Authentication;

const CANCEL: &str = "/render/cancel";

async fn statuses(app: &App) -> Vec<Status> {
    let mut tx = app.store.read().await.unwrap();
    let all = tx.renders().list(&Default::default(), None, 100).await.unwrap();
    all.iter().rev().map(|record| record.render.status).collect()
}

/// The ids that a question holds.
fn held(question: &str) -> &str {
    between(question, "name=\"id\" value=\"", "\"")
}

#[tokio::test]
async fn picked_renders_are_cancelled_after_a_question_and_refusals_are_told() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    for name in ["A", "B", "C"] {
        ordered(&app, name).await;
    }
    let list = operator.get("/render").await.text;
    assert!(list.contains("<input type=\"checkbox\" name=\"id\" value=\"2\">"), "{list}");
    assert!(list.contains("formaction=\"/render/cancel\"") && !list.contains("Cancel all"), "{list}");

    let question = "/render/cancel?back=%2Frender&id=1&id=3";
    let asked = operator.get(question).await.text;
    assert!(asked.contains("Cancel 2 renders?") && asked.contains("Renders 1, 3"), "{asked}");
    assert!(asked.contains("tidemill render cancel 1 3 --reason WHY"), "{asked}");
    assert_eq!(held(&asked), "1,3");
    complete(&app, &claim(&app, "w").await).await;
    let done = operator.submit(question, CANCEL, "id=1%2C3&reason=wrong+show&back=%2Frender").await;

    assert_eq!(done.status, StatusCode::OK);
    assert!(done.text.contains("Cancel: done for 1 render."), "{}", done.text);
    let refused = words(between(&done.text, "Refused renders</caption>", "</table>"));
    assert!(refused.contains("1 the render has ended, it is completed"), "{refused}");
    assert!(done.text.contains("<a class=\"button\" href=\"/render\">Back to the list</a>"));
    assert_eq!(statuses(&app).await, [Status::Completed, Status::Pending, Status::Cancelled]);
    let audit = operator.get("/settings/audit?action=render.cancel").await.text;
    assert!(audit.contains("wrong show"), "{audit}");
}

#[tokio::test]
async fn all_that_match_are_named_by_the_question_and_later_ones_are_left_alone() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    for message in ["no such disk", "no such disk", "other"] {
        ordered(&app, "A").await;
        fail(&app, &claim(&app, "w").await, message).await;
    }
    let list = operator.get("/render?text=disk").await.text;
    let question = between(&list, "href=\"/render/retry?", "\"").replace("&amp;", "&");
    let question = format!("/render/retry?{question}");
    assert_eq!(question, "/render/retry?text=disk&all=1&back=%2Frender%3Ftext%3Ddisk");

    let asked = operator.get(&question).await.text;
    assert!(asked.contains("Retry 2 renders?") && held(&asked) == "1,2", "{asked}");
    ordered(&app, "A").await;
    fail(&app, &claim(&app, "w").await, "disk again").await;
    let body = "id=1%2C2&reason=disk+is+back&key=one-form&back=%2Frender%3Ftext%3Ddisk";
    let first = operator.submit(&question, "/render/retry", body).await.text;
    let twice = operator.submit(&question, "/render/retry", body).await.text;

    assert!(first.contains("Retry: done for 2 renders.") && twice.contains("done for 2 renders"), "{first}");
    assert!(first.contains("href=\"/render?text=disk\">Back"), "{first}");
    let (waits, failed) = (Status::Pending, Status::Failed);
    assert_eq!(statuses(&app).await, [waits, waits, failed, failed]);
    let none = operator.get("/render/retry?all=1&text=nowhere").await.text;
    assert!(none.contains("No render matches") && !has_button(&none, "Retry 0 renders"), "{none}");
}

#[tokio::test]
async fn waiting_renders_change_places_by_their_priority() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    for name in ["A", "B", "C"] {
        ordered(&app, name).await;
    }
    let one = "/render/3/prioritize";
    let asked = operator.get(one).await.text;
    assert!(asked.contains("Priority now: 0") && asked.contains("tidemill render prioritize 3"), "{asked}");

    let done = operator.submit(one, one, "how=to&priority=20&back=%2Frender").await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/render"));
    let many = "/render/prioritize";
    let question = "/render/prioritize?all=1&status=pending";
    operator.submit(question, many, "id=2%2C3&how=by&priority=-30").await;

    let page = operator.get("/render?status=pending").await.text;
    assert_eq!(ids(&page), [1, 3, 2]);
    assert!(row_text(&page, RenderId::new(3)).contains("priority -10"), "{page}");
    let bad = operator.submit(one, one, "how=by&priority=much").await;
    assert_eq!((bad.status, bad.text.contains("not a whole number")), (StatusCode::BAD_REQUEST, true));
}

#[tokio::test]
async fn nothing_is_changed_without_a_choice_a_reason_a_token_or_the_right() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    ordered(&app, "A").await;
    let question = "/render/cancel?id=1";

    let forged = operator.post(CANCEL, "id=1&reason=x&form_token=forged").await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN);
    for (body, part) in [
        ("reason=x", "no render is selected"),
        ("id=x&reason=x", "no render is selected"),
        ("id=1&reason=+", "reason"),
        ("all=1&status=pending&reason=x", "no render is selected"),
    ] {
        let refused = operator.submit(question, CANCEL, body).await;
        let told = refused.text.to_lowercase();
        assert_eq!((refused.status, told.contains(part)), (StatusCode::BAD_REQUEST, true), "{body}: {told}");
    }
    let many = (0..1_001).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let refused = operator.submit(question, CANCEL, &format!("id={many}&reason=x")).await;
    assert!(refused.text.to_lowercase().contains("more than 1000 renders match"), "{}", refused.text);
    assert!(operator.get("/render/cancel?all=1").await.text.to_lowercase().contains("no filter is set"));
    let away = operator.get("/render/cancel?id=1&back=https://evil.example/").await.text;
    assert!(away.contains("name=\"back\" value=\"/render\"") && !away.contains("href=\"https:"), "{away}");
    let viewer = Browser::log_in(&app, Role::Viewer).await;
    assert!(viewer.get("/render").await.text.contains("name=\"id\" value=\"1\" disabled"));
    assert_eq!(viewer.get(question).await.status, StatusCode::FORBIDDEN);
    assert_eq!(viewer.submit("/render", CANCEL, "id=1&reason=x").await.status, StatusCode::FORBIDDEN);
    assert_eq!(statuses(&app).await, [Status::Pending]);
}

#[tokio::test]
async fn failed_renders_say_what_to_do_in_the_list_and_on_their_page() {
    let app = App::open().await;
    let id = ordered(&app, "Main").await;
    fail(&app, &claim(&app, "w").await, "the template is gone").await;

    let remedy =
        "What to do: put the project at the path in the message, or correct the profile, then retry.";
    assert!(row_text(&look(&app, "/render").await, id).contains(remedy));
    assert!(words(&look(&app, "/render/1").await).contains(remedy));
}

#[tokio::test]
async fn times_of_renders_are_told_in_the_zone_of_broadcasts() {
    let zone = Some("Asia/Seoul".parse().unwrap());
    let app = App::choosing(Authentication::None, "", Choices { zone, ..Choices::default() }).await;
    let deadline = Some("2026-11-15T18:00:00Z".parse().unwrap());
    let id = submit(&app, &NewRender { deadline, ..new_render("A") }).await;

    let (there, ordered) = ("2026-11-16 03:00:00 KST", "2026-11-15 11:00:00 KST");
    let row = row_text(&look(&app, "/render").await, id);
    assert!(row.contains(&format!("on air {there}")) && row.contains(&format!("ordered {ordered}")), "{row}");
    let page = words(&look(&app, "/render/1").await);
    assert!(page.contains(there) && page.contains("(Asia/Seoul)"), "{page}");
    assert!(page.contains(&format!("Ordered {ordered}")) && !page.contains(" UTC"), "{page}");
    fail(&app, &claim(&app, "w").await, "x").await;
    let page = words(&look(&app, "/render/1").await);
    for part in ["Started", "Ended"] {
        assert!(page.contains(&format!("{part} {ordered}")), "{part}: {page}");
    }
    assert!(words(&look(&app, "/render?text=a").await).contains(&format!("As of {ordered}")));
    assert!(words(&look(&app, "/settings").await).contains(" UTC"), "other pages are as before");
}
