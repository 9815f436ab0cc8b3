//! Running a job by its form, and pausing what runs it by itself.

use super::{panel, run, schedule, wait_for, words};
use crate::App;
use crate::dashboard::{Browser, form_token};
use axum::http::{Method, StatusCode};
use tidemill_domain::audit::Role;

#[tokio::test]
async fn a_job_is_run_by_its_form_once_however_often_it_is_sent() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let body = "parameter.day=2026-11-15&parameter.limit=7&key=one-form";
    let (id, again) = (run(&operator, "double", body).await, run(&operator, "double", body).await);

    assert_eq!(id, again);
    let page = wait_for(&operator, id, "COMPLETED").await;
    let text = words(&page);
    assert!(text.contains("day=2026-11-15 date limit=7 long, not identifying"), "{text}");
    assert!(text.contains("Launched by the operator"), "{text}");
    let steps = panel(&page, "steps");
    assert!(steps.contains("double started 2026-11-15 02:00:00 UTC COMPLETED 25 of 25 25 25 0 0"), "{steps}");
    let list = operator.get("/jobs").await.text;
    assert!(panel(&list, "jobs").contains("double C "), "{}", panel(&list, "jobs"));
}

#[tokio::test]
async fn parameters_that_are_not_declared_are_written_one_on_each_line() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let id = run(&operator, "stumble", "more=n%3D1%2Clong%0D%0A%0D%0Anote%3Da%2Cb%2Cstring%2Cfalse").await;

    let page = wait_for(&operator, id, "FAILED").await;
    assert!(words(&page).contains("n=1 long note=a,b string, not identifying"), "{}", words(&page));
}

#[tokio::test]
async fn a_launch_that_is_refused_comes_back_with_the_reason_and_what_was_filled_in() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = run(&operator, "double", "parameter.day=2026-11-15").await;
    wait_for(&operator, id, "COMPLETED").await;

    let answer = operator.submit("/jobs/double", "/jobs/double/run", "parameter.day=2026-11-15").await;

    assert_eq!(answer.status, StatusCode::CONFLICT);
    let form = panel(&answer.text, "run");
    let api = app
        .ask_as(
            Role::Operator,
            Method::POST,
            "/api/v1/jobs/double/executions",
            r#"{"parameters":{"day":"2026-11-15"}}"#,
        )
        .await;
    let reason = api.json()["detail"].as_str().unwrap().replace('"', "&quot;");
    assert!(form.contains(&reason) && form.contains("(TM1004"), "{reason}: {form}");
    assert!(answer.text.contains("value=\"2026-11-15\""));
    let bad = operator.submit("/jobs/stumble", "/jobs/stumble/run", "more=nonsense").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert!(bad.text.contains("not of the form name=value") && bad.text.contains("nonsense</textarea>"));
    let token = form_token(&operator.get("/jobs/double").await.text);
    let unknown = operator.post("/jobs/nobody/run", &format!("form_token={token}")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_schedule_is_paused_for_a_reason_and_resumed() {
    let app = App::closed().await;
    schedule(&app, "nightly", "double").await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let without = operator.submit("/jobs/double", "/schedules/nightly/pause", "reason=+").await;
    assert_eq!(without.status, StatusCode::BAD_REQUEST);
    let paused = operator.submit("/jobs/double", "/schedules/nightly/pause", "reason=patch+day").await;
    assert_eq!((paused.status, paused.header("location")), (StatusCode::SEE_OTHER, "/jobs/double#schedules"));
    let page = operator.get("/jobs/double").await.text;
    assert!(panel(&page, "schedules").contains("by the operator: patch day nightly"), "{page}");
    assert!(panel(&operator.get("/jobs").await.text, "jobs").contains("paused Run… Resume…"));

    operator.submit("/jobs/double", "/schedules/nightly/resume", "").await;
    let page = operator.get("/jobs/double").await.text;
    assert!(
        panel(&page, "schedules").contains("active nightly 0 3 * * * UTC 2026-11-15 03:00:00 UTC"),
        "{page}"
    );
    let audit = operator.get("/settings/audit").await.text;
    assert!(
        audit.contains("schedule.pause") && audit.contains("patch day") && audit.contains("schedule.resume")
    );
}

#[tokio::test]
async fn what_is_complete_runs_again_as_a_new_instance_by_either_button() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = run(&operator, "picky", "more=note%3Da%2Cb%2Cstring%2Cfalse").await;
    wait_for(&operator, id, "COMPLETED").await;
    let noop = run(&operator, "picky", "").await;
    let page = wait_for(&operator, noop, "COMPLETED").await;

    let message = format!("nothing to do: this instance completed on 2026-11-15T02:00:00Z (execution {id})");
    assert!(words(&page).contains(&message), "{}", words(&page));
    let list = operator.get("/executions").await.text;
    assert_eq!(panel(&list, "executions").matches("COMPLETED nothing to do").count(), 1, "{list}");
    let page = operator.get(&format!("/executions/{id}")).await.text;
    assert!(page.contains("form=\"do-next\"") && page.contains("value=\"note=a,b,string,false\""), "{page}");
    let again = run(&operator, "picky", "next=yes&more=note%3Da%2Cb%2Cstring%2Cfalse").await;
    let page = wait_for(&operator, again, "COMPLETED").await;
    assert!(words(&page).contains("note=a,b string, not identifying run.id=1 long"), "{}", words(&page));
    assert!(!words(&page).contains("COMPLETED nothing to do"), "{}", words(&page));
}
