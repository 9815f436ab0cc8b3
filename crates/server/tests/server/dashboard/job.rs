//! The pages of jobs and executions, as a browser without JavaScript sees and uses them.

mod action;
mod live;
mod run;

use super::{Browser, between, has_button};
use crate::App;
use axum::http::{Method, StatusCode};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::schedule::Schedule;
use tidemill_server::access::Authentication;

/// The text of a page, without its tags and the shapes that stand beside words.
fn words(page: &str) -> String {
    let pieces = page.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text.trim());
    pieces.filter(|text| !text.is_empty() && !"●▲✖○▶".contains(text)).collect::<Vec<_>>().join(" ")
}

/// The words of a panel.
fn panel(page: &str, id: &str) -> String {
    words(between(page, &format!("<section class=\"panel\" id=\"{id}\""), "</section>"))
}

async fn get(app: &App, path: &str) -> String {
    let answer = app.ask(Method::GET, path, &[], "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {answer:?}");
    answer.text
}

/// Runs a job by its form, and returns the id of the execution that the answer leads to.
async fn run(browser: &Browser<'_>, job: &str, body: &str) -> i64 {
    let page = format!("/jobs/{job}");
    let answer = browser.submit(&page, &format!("{page}/run"), body).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", words(&answer.text));
    answer.header("location").strip_prefix("/executions/").unwrap().parse().unwrap()
}

/// Looks until the page of an execution tells this status, and returns the page.
async fn wait_for(browser: &Browser<'_>, id: i64, status: &str) -> String {
    for _ in 0..24_000 {
        let page = browser.get(&format!("/executions/{id}")).await.text;
        if page.contains(&format!("<title>{status} ")) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("execution {id} is not {status}");
}

pub(super) async fn sql(app: &App, text: &str) {
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test(text).await.unwrap();
    tx.commit().await.unwrap();
}

/// Executions as Spring Batch might have left them, with ids from `from` on: `(job, status, message)`.
async fn written(app: &App, from: i64, executions: &[(&str, &str, &str)]) {
    for (id, (job, status, message)) in (from..).zip(executions) {
        let quoted = |text: &str| text.replace('\'', "''");
        let (job, message) = (quoted(job), quoted(message));
        sql(
            app,
            &format!(
                "insert into batch_job_instance (job_instance_id, version, job_name, job_key)
                     values ({id}, 0, '{job}', '{id}');
                 insert into batch_job_execution
                     (job_execution_id, version, job_instance_id, create_time, start_time, end_time, status, exit_code,
                      exit_message)
                     values ({id}, 1, {id}, '2026-11-15 01:00:00', '2026-11-15 01:00:00', '2026-11-15 01:00:{:02}',
                             '{status}', '{status}', '{message}')",
                id % 60
            ),
        )
        .await;
    }
}

pub(super) async fn schedule(app: &App, name: &str, job: &str) {
    let schedule = Schedule::new(name, job).cron("0 3 * * *").parameter("day", "${tick.date}");
    let mut tx = app.store.begin().await.unwrap();
    tx.schedules().define(&schedule, &schedule.plan().unwrap(), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_list_tells_how_each_job_is_doing_and_what_failed_comes_first() {
    let app = App::open().await;
    let runs = [
        ("archive", "COMPLETED", ""),
        ("archive", "STOPPED", ""),
        ("archive", "FAILED", "no"),
        ("archive", "COMPLETED", ""),
        ("zebra", "ABANDONED", "gone"),
        ("zebra", "FAILED", "\nthe disk is full\nat line 7"),
    ];
    written(&app, 100, &runs).await;
    schedule(&app, "nightly", "double").await;

    let page = get(&app, "/jobs").await;

    let list = panel(&page, "jobs");
    assert!(
        list.contains("FAILED 2026-11-15 01:00:00 UTC zebra (not on this server) the disk is full A F"),
        "{list}"
    );
    assert!(
        list.contains("archive (not on this server) C S F C 41.0 s 43.0 s 66 % no schedule Run…"),
        "{list}"
    );
    assert!(list.contains("never ran double none – – – 2026-11-15 03:00:00 UTC Run… Pause…"), "{list}");
    let place = |name: &str| list.find(name).unwrap_or_else(|| panic!("{name} is not in {list}"));
    assert!(place("zebra") < place("archive") && place("archive") < place("double"));
    assert!(
        page.contains("aria-label=\"The last 4 executions: 2 COMPLETED, 1 STOPPED, 1 FAILED\""),
        "{page}"
    );
    assert!(page.contains("aria-current=\"page\">Jobs") && page.contains("data-key=\"j\""));
}

#[tokio::test]
async fn the_list_is_filtered_by_name_and_status_and_the_address_says_so() {
    let app = App::open().await;
    written(&app, 100, &[("archive", "FAILED", "no"), ("archive-old", "COMPLETED", "")]).await;
    let rows = async |query: &str| panel(&get(&app, &format!("/jobs{query}")).await, "jobs");

    assert!(
        rows("?text=ARCHIVE").await.contains("archive-old")
            && !rows("?text=ARCHIVE").await.contains("double")
    );
    let failed = rows("?status=failed&text=arch").await;
    assert!(failed.contains("archive") && !failed.contains("archive-old"), "{failed}");
    assert!(rows("?status=never").await.contains("double"));
    assert!(rows("?status=running").await.contains("No matching jobs. Show all"));
    assert!(rows("?status=lunar").await.contains("double"), "nonsense leaves nothing out");
    let page = get(&app, "/jobs?status=failed&text=arch").await;
    assert!(page.contains("value=\"arch\"") && page.contains("<option value=\"failed\" selected>"));
    assert!(page.contains("data-events=\"/ui/events?page=jobs%3Afailed%3Aarch\""), "{page}");
}

#[tokio::test]
async fn the_page_of_a_job_lists_its_executions_page_by_page() {
    let app = App::open().await;
    let many: Vec<_> =
        (0..60).map(|n| ("archive", if n % 10 == 0 { "FAILED" } else { "COMPLETED" }, "no")).collect();
    written(&app, 100, &many).await;

    let (mut found, mut path, mut pages) = (Vec::new(), "/jobs/archive".to_owned(), 0);
    loop {
        let page = get(&app, &path).await;
        let table = between(&page, "aria-label=\"Executions\"", "</table>").to_owned();
        found.extend(
            table
                .split("href=\"/executions/")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().to_owned())
                .filter(|id| !id.ends_with("#actions")),
        );
        pages += 1;
        let Some((before, _)) = page.split_once("#executions\">Older</a>") else { break };
        path = before.rsplit_once("href=\"").unwrap().1.replace("&amp;", "&");
    }

    let wanted: Vec<String> = (100..160).rev().map(|id| id.to_string()).collect();
    assert_eq!((found, pages), (wanted, 3));
    let failed = panel(&get(&app, "/jobs/archive?status=FAILED").await, "executions");
    assert_eq!(failed.matches("FAILED #").count(), 6, "{failed}");
    let of_one = get(&app, "/jobs/archive?instance=103").await;
    let rows = words(between(&of_one, "aria-label=\"Executions\"", "</table>"));
    assert!(rows.contains("#103") && !rows.contains("#104"), "{rows}");
    assert!(words(&of_one).contains("of instance 103"));
    let first = get(&app, "/jobs/archive").await;
    assert!(first.contains("ended executions: median") && first.matches("<rect class=\"bar ").count() == 60);
}

#[tokio::test]
async fn the_executions_of_all_jobs_are_listed_with_what_can_be_done_about_them() {
    let app = App::open().await;
    assert!(panel(&get(&app, "/executions").await, "executions").contains("tidemill job run FILE.yaml"));
    let all = [
        ("archive", "COMPLETED", ""),
        ("archive", "FAILED", "the disk is full"),
        ("load", "STARTED", ""),
        ("load", "STOPPING", ""),
        ("load", "STOPPED", ""),
        ("night", "STARTING", ""),
    ];
    written(&app, 100, &all).await;

    let page = get(&app, "/executions").await;
    let list = panel(&page, "executions");
    for row in
        ["FAILED #101 archive 101", "the disk is full Restart…", "STARTED #102 load", "STOPPED #104 load"]
    {
        assert!(list.contains(row), "{row}: {list}");
    }
    assert!(
        page.contains("href=\"/executions/101#actions\"")
            && page.contains("href=\"/executions/102#actions\"")
    );
    assert!(page.contains("data-events=\"/ui/events?page=executions%3A%3A%3A%3A\""), "{page}");

    // An instance goes on from its last execution, so there is nothing to restart about an earlier one.
    sql(&app, "update batch_job_execution set job_instance_id = 104 where job_execution_id = 101").await;
    let page = get(&app, "/executions").await;
    assert!(!page.contains("href=\"/executions/101#actions\""), "{page}");
    assert!(page.contains("href=\"/executions/104#actions\""), "{page}");
    sql(&app, "update batch_job_execution set job_instance_id = 101 where job_execution_id = 101").await;

    let running = panel(&get(&app, "/executions?status=running").await, "executions");
    let place = |id: &str| running.find(id).unwrap_or_else(|| panic!("{id}: {running}"));
    assert!(place("#105") < place("#103") && place("#103") < place("#102"), "the newest first: {running}");
    assert!(!running.contains("#101") && !running.contains("#104"), "{running}");
    let failed = panel(&get(&app, "/executions?status=FAILED").await, "executions");
    assert!(failed.contains("#101") && !failed.contains("#100"), "{failed}");
    assert!(
        panel(&get(&app, "/executions?status=ABANDONED").await, "executions")
            .contains("No matching executions.")
    );
}

#[tokio::test]
async fn the_page_of_a_job_tells_what_it_is_made_of_and_what_nobody_knows_is_not_found() {
    let app = App::open().await;

    let picky = panel(&get(&app, "/jobs/picky").await, "definition");
    assert!(picky.contains("pick chunk chunk: 10 items skips: at most 5, of validation"), "{picky}");
    let double = get(&app, "/jobs/double").await;
    assert!(panel(&double, "definition").contains("day date yes yes limit long no no"), "{double}");
    assert!(
        panel(&double, "executions").contains("This job has not run.")
            && double.contains("tidemill job run double")
    );
    assert!(double.contains("tidemill job run double -p day=VALUE"));
    for path in ["/jobs/nobody", "/executions/77", "/executions/77/download"] {
        assert_eq!(app.ask(Method::GET, path, &[], "").await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(app.ask(Method::GET, "/executions/x", &[], "").await.status, StatusCode::BAD_REQUEST);
}

/// An execution, with the number 100, in which everything that has a name or says something is hostile.
pub(super) async fn run_hostile(app: &App) {
    let hostile = super::HOSTILE;
    written(app, 100, &[(hostile, "FAILED", hostile)]).await;
    let quoted = hostile.replace('\'', "''");
    sql(
        app,
        &format!(
            "insert into batch_job_execution_params values (100, '{quoted}', 'java.lang.String', '{quoted}', 'Y');
             insert into batch_step_execution
                 (step_execution_id, version, step_name, job_execution_id, create_time, start_time, status, exit_message,
                  process_skip_count)
                 values (100, 1, '{quoted}', 100, '2026-11-15 01:00:00', '2026-11-15 01:00:00', 'FAILED', '{quoted}', 1);
             insert into batch_job_execution_context values (100, '{quoted}', null);
             insert into tidemill_reject (step_execution_id, at, phase, kind, error, place, item)
                 values (100, 0, 'process', '{quoted}', '{quoted}', '{quoted}', '{quoted}')"
        ),
    )
    .await;
}

#[tokio::test]
async fn hostile_names_messages_and_parameters_are_text() {
    let app = App::open().await;
    run_hostile(&app).await;

    let job = "/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%26";
    for path in ["/jobs", "/jobs?text=%3Cscript%3E%22", job, "/executions/100"] {
        let page = get(&app, path).await;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
        assert!(page.contains("&lt;script&gt;"), "{path}");
        assert!(!page.contains("=\"<script>"), "{path}");
        assert!(!page.contains("style=\"") && !page.contains("onclick"), "{path}");
    }
    let file = app.ask(Method::GET, "/executions/100/download", &[], "").await;
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"execution-100.json\"");
    assert_eq!(file.json()["execution"]["job"], super::HOSTILE);
    assert_eq!(file.json()["steps"][0]["exit_description"], super::HOSTILE);
}

#[tokio::test]
async fn links_of_the_pages_are_below_the_base_path() {
    let app = App::with(Authentication::None, "/mill").await;
    written(&app, 100, &[("double", "FAILED", "no")]).await;
    schedule(&app, "nightly", "double").await;

    for path in ["/mill/jobs", "/mill/jobs/double", "/mill/executions/100"] {
        let page = get(&app, path).await;
        for attribute in ["href=\"/", "action=\"/", "data-events=\"/"] {
            for found in page.split(attribute).skip(1) {
                let link = found.split('"').next().unwrap();
                assert!(link == "mill" || link.starts_with("mill/"), "{path}: {attribute}{link}");
            }
        }
    }
}

#[tokio::test]
async fn a_viewer_sees_disabled_buttons_with_the_reason() {
    let app = App::closed().await;
    written(&app, 100, &[("double", "FAILED", "no")]).await;
    schedule(&app, "nightly", "double").await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;

    let job = viewer.get("/jobs/double").await.text;
    assert!(!has_button(&job, "Run") && !job.contains("Run double</button>"), "{job}");
    assert!(panel(&job, "run").contains("Run The role viewer may not operate."));
    assert!(panel(&job, "schedules").contains("Pause… The role viewer may not operate."));
    let execution = viewer.get("/executions/100").await.text;
    let actions = panel(&execution, "actions");
    for button in ["Restart", "Stop…", "Abandon…"] {
        assert!(!has_button(&execution, button), "{button}");
        assert!(actions.contains(&format!("{button} The role viewer may not operate.")), "{actions}");
    }
    assert!(!execution.contains("id=\"do-restart\""));
    for path in
        ["/jobs/double/run", "/executions/100/restart", "/executions/100/stop", "/schedules/nightly/pause"]
    {
        let answer = viewer.submit("/jobs/double", path, "reason=x").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn forms_without_the_token_of_the_session_do_nothing_to_jobs() {
    let app = App::closed().await;
    written(&app, 100, &[("double", "FAILED", "no")]).await;
    schedule(&app, "nightly", "double").await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    for (path, body) in [
        ("/jobs/double/run", "parameter.day=2026-11-15"),
        ("/executions/100/restart", ""),
        ("/executions/100/stop", ""),
        ("/executions/100/abandon", "reason=x&confirm=100"),
        ("/schedules/nightly/pause", "reason=x"),
        ("/schedules/nightly/resume", ""),
    ] {
        let answer = operator.post(path, &format!("{body}&form_token=forged")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert!(answer.text.contains("TM0503"), "{path}: {}", answer.text);
    }
    assert!(operator.get("/executions/100").await.text.contains("<title>FAILED double #100 – test</title>"));
    assert!(!operator.get("/jobs/double").await.text.contains("paused"));
}
