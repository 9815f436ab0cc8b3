//! Jobs in a real browser: a job that fails is restarted by its button, an open page tells what becomes of it, and the
//! pages look well.

use super::has_row;
use super::look::{THEMES, WIDTHS, choose_theme, excess, take_picture};
use super::scene::{SOON, Scene};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::SystemClock;
use tidemill_testkit::Browser;

const JOBS: &str = "tbody[data-live=jobs] tr";
const STEPS: &str = "tbody[data-live=steps] tr";
/// Loading may take a while on a machine that is busy with other tests.
const LATER: Duration = Duration::from_secs(60);

/// Loads the orders of a day, five hundred in a chunk, and tells somebody after two seconds.
const NIGHTLY: &str = r#"
job: nightly-orders
description: Loads the orders of a day.
parameters:
  date: { type: date, required: true }
steps:
  - name: load
    chunk: 500
    read: { csv: { path: orders.csv } }
    process:
      map: { id: "int(row.id)", cents: "decimal(row.amount, 2)" }
    write: { csv: { path: "out-${date}.csv", columns: [id, cents] } }
    retry: { limit: 3, on: [transient] }
  - name: publish
    command: ["sleep", "2"]
schedule: { cron: "0 2 * * *", zone: Asia/Seoul, parameters: { date: "${tick.date-1d}" } }
"#;

/// Orders, of which one has no amount if it is to fail.
fn orders(is_broken: bool) -> String {
    let mut text = String::from("id,amount\n");
    for id in 1..=4000 {
        let amount = if is_broken && id == 3251 { "none" } else { "12.50" };
        writeln!(text, "{id},{amount}").unwrap();
    }
    text
}

fn scene() -> Option<Scene> {
    let scene = Scene::with_jobs(&[("nightly.yaml", NIGHTLY)])?;
    scene.write("orders.csv", &orders(true));
    Some(scene)
}

/// A history of other jobs, each of whose executions took some seconds.
fn add_history(scene: &Scene) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = scene.store(Arc::new(FakeClock::at(SystemClock::new().now()))).await;
        let mut tx = store.begin().await.unwrap();
        tx.fill_history(300).await.unwrap();
        let took = "update batch_job_execution
             set end_time = strftime('%Y-%m-%d %H:%M:%f', start_time, (7 + job_execution_id % 31) || ' seconds') || '000',
                 exit_message = case when status = 'FAILED' then 'the warehouse did not answer within 30 s' else '' end";
        tx.execute_for_test(took).await.unwrap();
        tx.commit().await.unwrap();
        store.close().await;
    });
}

/// Runs the job by its form; the browser is then at the execution.
fn run(scene: &Scene) -> &Browser {
    let page = scene.visit("/jobs/nightly-orders");
    page.execute("document.querySelector('#run [type=date]').value = '2026-11-15'").unwrap();
    page.click("#run button.do").unwrap();
    page.wait_until(SOON, |_| Ok(scene.path().starts_with("/executions/"))).unwrap();
    page
}

fn title(page: &Browser) -> String {
    page.execute("return document.title").unwrap().as_str().unwrap().to_owned()
}

/// What has no name that a screen reader could tell.
fn unnamed(page: &Browser) -> serde_json::Value {
    page.execute(
        "return [...document.querySelectorAll('input, select, textarea, button, a, table, svg')].filter((element) => {
            if (element.type === 'hidden' || element.hidden) return false;
            if (element.matches('table')) return !element.caption;
            if (element.matches('svg')) return !element.querySelector('title');
            if (element.matches('button, a')) return !element.textContent.trim() && !element.ariaLabel;
            return !element.labels.length;
        }).map((element) => element.outerHTML.slice(0, 120))",
    )
    .unwrap()
}

#[test]
fn a_job_that_fails_is_restarted_by_its_button_and_the_open_page_tells_it() {
    let Some(scene) = scene() else { return };
    let page = run(&scene);
    page.execute("window.isTheSamePage = true").unwrap();

    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("FAILED"))).unwrap();
    assert!(title(page).starts_with("FAILED nightly-orders #1 – "), "{}", title(page));
    page.wait_until(SOON, |page| Ok(page.text("[data-live=fault]")?.contains("What went wrong"))).unwrap();
    page.wait_until(SOON, |page| {
        Ok(page.text("[data-live=actions]")?.contains("Resumes load at item 3,000."))
    })
    .unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    assert!(page.exists("[data-live=fault] details[open]").unwrap());

    scene.write("orders.csv", &orders(false));
    page.click("[data-live=actions] button.do").unwrap();
    page.wait_until(SOON, |_| Ok(scene.path() == "/executions/2")).unwrap();
    page.execute("window.isTheSamePage = true").unwrap();
    page.wait_until(LATER, |page| has_row(page, STEPS, &["publish", "STARTED"])).unwrap();
    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("COMPLETED"))).unwrap();

    page.wait_until(SOON, |page| has_row(page, STEPS, &["load", "COMPLETED", "1,000"])).unwrap();
    page.wait_until(SOON, |page| Ok(title(page).starts_with("COMPLETED nightly-orders #2"))).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    page.wait_until(SOON, |page| Ok(page.text("[data-live=actions]")?.contains("already been completed")))
        .unwrap();
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    assert_eq!(scene.read("out-2026-11-15.csv").lines().count(), 4001);
}

#[test]
fn an_open_list_tells_what_becomes_of_a_job_and_a_stop_asks_first() {
    let Some(scene) = scene() else { return };
    scene.write("orders.csv", &orders(false));
    let page = scene.visit("/jobs");
    assert!(has_row(page, JOBS, &["never ran", "nightly-orders"]).unwrap());
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    page.execute("window.isTheSamePage = true").unwrap();

    scene.post("/api/v1/jobs/nightly-orders/executions", r#"{"parameters":{"date":"2026-11-14"}}"#);

    page.wait_until(LATER, |page| has_row(page, JOBS, &["COMPLETED", "nightly-orders"])).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    run(&scene);
    page.wait_until(LATER, |page| has_row(page, STEPS, &["publish", "STARTED"])).unwrap();
    page.click("[data-live=actions] details.confirm > summary").unwrap();
    assert!(page.text("dialog[open] h2").unwrap().contains("Stop nightly-orders #2?"));
    page.fill("dialog[open] [name=reason]", "wrong day").unwrap();
    page.click("dialog[open] button.end").unwrap();
    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("STOPPED"))).unwrap();
    assert!(has_row(page, "#events tbody tr", &["execution.stop", "wrong day"]).unwrap());
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
}

#[test]
fn the_pages_of_jobs_look_well_in_every_width_and_theme() {
    let Some(scene) = scene() else { return };
    add_history(&scene);
    let page = run(&scene);
    let failed = scene.path();
    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("FAILED"))).unwrap();
    let mut faults = Vec::new();

    for theme in THEMES {
        choose_theme(page, &scene.address("/settings"), theme);
        for (name, path) in [
            ("jobs", "/jobs"),
            ("job", "/jobs/nightly-orders"),
            ("job-history", "/jobs/load_2"),
            ("execution", &failed),
        ] {
            scene.visit(path);
            for width in WIDTHS {
                page.set_window(width, 900).unwrap();
                let by = excess(page, width);
                if by > 0 {
                    faults.push(format!("{name} in {theme} at {width} is too wide by {by}"));
                }
                take_picture(page, &format!("{name}-{theme}-{width}.png"), width);
            }
            if unnamed(page) != serde_json::json!([]) {
                faults.push(format!("{name}: {}", unnamed(page)));
            }
        }
    }

    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    page.execute("document.querySelector('main').append(document.createElement('input'))").unwrap();
    assert_ne!(unnamed(page), serde_json::json!([]), "a planted fault is not found");
}
