//! What can be done about an execution: restarted, stopped, given up; and why not.

use super::{panel, run, wait_for, words};
use crate::App;
use crate::dashboard::{Browser, has_button};
use axum::http::{Method, StatusCode};
use tidemill_domain::audit::Role;

/// A server, and an execution on it that failed at the fifteenth item, with chunks of ten.
async fn stumbled(browser: &Browser<'_>) -> (i64, String) {
    let id = run(browser, "stumble", "more=n%3D1").await;
    (id, wait_for(browser, id, "FAILED").await)
}

#[tokio::test]
async fn an_execution_that_failed_says_what_went_wrong_and_where_a_restart_goes_on() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let (id, page) = stumbled(&operator).await;

    assert!(page.contains(&format!("<title>FAILED stumble #{id} – test</title>")));
    assert!(page.contains(&format!("data-title=\"FAILED stumble #{id} – test\"")));
    let fault = words(super::between(&page, "<section class=\"panel wrong\"", "</section>"));
    assert!(fault.contains("stumbled over 15") && fault.contains("Step walk"), "{fault}");
    assert!(fault.contains("Committed 10 items") && fault.contains("number 2 of this run"), "{fault}");
    assert!(page.contains("<details open id=\"fault-"), "the failed step is open");
    assert!(
        panel(&page, "actions").contains("Restart Resumes walk at item 10."),
        "{}",
        panel(&page, "actions")
    );
    assert!(
        panel(&page, "actions")
            .contains(&format!("execution {id}: the execution is not running, it is FAILED."))
    );
    assert!(
        panel(&page, "events").contains("execution.launch")
            && panel(&page, "events").contains("execution.end")
    );
    assert!(panel(&page, "timeline").contains(&format!("#{id} walk")), "{}", panel(&page, "timeline"));
    assert!(
        panel(&page, "context").contains("&quot;numbers.read.count&quot;: 10"),
        "{}",
        panel(&page, "context")
    );
    let list = panel(&operator.get("/jobs").await.text, "jobs");
    assert!(list.contains("stumble process failed: stumbled over 15"), "{list}");
}

#[tokio::test]
async fn a_restart_goes_on_once_and_then_says_why_not() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let (failed, page) = stumbled(&operator).await;
    assert!(has_button(&page, "Restart"));
    let (path, body) = (format!("/executions/{failed}/restart"), "reason=mended&key=one-form");

    let first = operator.submit("/jobs/double", &path, body).await;
    let again = operator.submit("/jobs/double", &path, body).await;

    assert_eq!((first.status, first.header("location")), (StatusCode::SEE_OTHER, again.header("location")));
    let id: i64 = first.header("location").strip_prefix("/executions/").unwrap().parse().unwrap();
    let done = wait_for(&operator, id, "COMPLETED").await;
    let steps = panel(&done, "steps");
    assert!(steps.contains("walk started 2026-11-15 02:00:00 UTC COMPLETED 25 of 25 15 15"), "{steps}");
    assert!(words(&done).contains("execution 2 of 2"));
    assert!(panel(&done, "timeline").contains(&format!("#{failed} walk FAILED")));
    assert!(operator.get("/settings/audit").await.text.contains("mended"));
    let api = app.ask_as(Role::Operator, Method::POST, &format!("/api/v1{path}"), "{}").await;
    let reason = api.json()["detail"].as_str().unwrap().replace('"', "&quot;");
    let old = operator.get(&format!("/executions/{failed}")).await.text;
    assert!(
        !has_button(&old, "Restart") && panel(&old, "actions").contains(&format!("Restart {reason}.")),
        "{reason}"
    );
    let refused = operator.submit("/jobs/double", &path, "").await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(words(&refused.text).contains(&reason), "{}", words(&refused.text));
}

#[tokio::test]
async fn an_execution_that_runs_is_stopped_and_only_then_given_up_by_typing_its_number() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let id = run(&operator, "endless", "more=n%3D1").await;
    let page = wait_for(&operator, id, "STARTED").await;
    let actions = panel(&page, "actions");
    assert!(page.contains(&format!("Stop execution {id}</button>")), "{actions}");
    assert!(
        actions.contains(&format!("Abandon… execution {id}: the execution is still running")),
        "{actions}"
    );
    assert!(actions.contains("Restart job &quot;endless&quot; was not launched"), "{actions}");
    let abandon = format!("/executions/{id}/abandon");
    let order = format!("reason=useless&confirm={id}");
    assert_eq!(operator.submit("/jobs/double", &abandon, &order).await.status, StatusCode::CONFLICT);

    let stopped = operator.submit("/jobs/double", &format!("/executions/{id}/stop"), "reason=late").await;
    assert_eq!(stopped.header("location"), format!("/executions/{id}"));
    let page = wait_for(&operator, id, "STOPPED").await;
    assert!(
        words(&page).contains("by the operator : late") || words(&page).contains("by the operator: late")
    );
    assert!(page.contains(&format!("Abandon execution {id}</button>")) && has_button(&page, "Restart"));

    for wrong in
        ["reason=useless&confirm=99".to_owned(), format!("reason=+&confirm={id}"), "reason=useless".into()]
    {
        let answer = operator.submit("/jobs/double", &abandon, &wrong).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(answer.text.contains("<title>STOPPED"), "{wrong}");
    }
    assert_eq!(operator.submit("/jobs/double", &abandon, &order).await.status, StatusCode::SEE_OTHER);
    let page = wait_for(&operator, id, "ABANDONED").await;
    assert!(!has_button(&page, "Restart") && !page.contains("Abandon execution"));
    let audit = operator.get("/settings/audit").await.text;
    assert!(
        audit.contains("execution.abandon") && audit.contains("useless") && audit.contains("execution.stop")
    );
}

#[tokio::test]
async fn what_is_copied_names_the_folder_that_only_the_server_knows() {
    let app = App::closed().await;
    let browser = Browser::log_in(&app, Role::Operator).await;
    let (id, _) = stumbled(&browser).await;

    let pages = [format!("/executions/{id}"), "/jobs/stumble".to_owned()];
    for (path, verb) in pages.iter().zip([format!("restart {id}"), "run stumble".to_owned()]) {
        let text = words(&browser.get(path).await.text);
        assert!(text.contains(&format!(r"tidemill job {verb} --jobs 'Ann'\''s jobs'")), "{path}: {text}");
    }
}

#[tokio::test]
async fn whoever_is_limited_to_other_jobs_is_told_so() {
    let app = App::closed().await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let (id, _) = stumbled(&operator).await;
    let limited = Browser::log_in_scoped(&app, "job/double").await;

    let page = limited.get(&format!("/executions/{id}")).await.text;

    assert!(
        panel(&page, "actions").contains("Restart this token is limited to job/double"),
        "{}",
        panel(&page, "actions")
    );
    assert!(panel(&limited.get("/jobs/stumble").await.text, "run").contains("limited to job/double"));
    let answer = limited.submit("/jobs/double", &format!("/executions/{id}/restart"), "").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn skipped_items_are_for_administrators_only() {
    let app = App::closed().await;
    let (operator, admin) =
        (Browser::log_in(&app, Role::Operator).await, Browser::log_in(&app, Role::Admin).await);
    let id = run(&operator, "picky", "more=n%3D1").await;
    let page = wait_for(&operator, id, "COMPLETED").await;

    let skipped = panel(&page, "skipped");
    assert!(skipped.contains("3 items were skipped. The role operator may not administer"), "{skipped}");
    let page = wait_for(&admin, id, "COMPLETED").await;
    assert!(
        panel(&page, "skipped").contains("pick process validation a 3 at the end"),
        "{}",
        panel(&page, "skipped")
    );
}
