//! Jobs in a real browser: a job that fails is restarted by its button, and an open page tells what becomes of it.

use super::has_row;
use super::scene::{SOON, Scene, Setting};
use std::fmt::Write as _;
use std::time::Duration;
use tidemill_testkit::Browser;

const JOBS: &str = "tbody[data-live=jobs] tr";
const STEPS: &str = "tbody[data-live=steps] tr";
/// Loading may take a while on a machine that is busy with other tests.
pub(super) const LATER: Duration = Duration::from_secs(120);

/// Loads the orders of a day, five hundred in a chunk, and tells somebody after two seconds, or much later if there is a file `wait`.
pub(super) const NIGHTLY: &str = r#"
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
    command: ["sh", "-c", "if [ -e wait ]; then exec sleep 600; fi; exec sleep 2"]
schedule: { cron: "0 2 * * *", zone: Asia/Seoul, parameters: { date: "${tick.date-1d}" } }
"#;

/// Orders, of which one has no amount if it is to fail.
pub(super) fn orders(is_broken: bool) -> String {
    let mut text = String::from("id,amount\n");
    for id in 1..=4000 {
        let amount = if is_broken && id == 3251 { "none" } else { "12.50" };
        writeln!(text, "{id},{amount}").unwrap();
    }
    text
}

fn scene() -> Option<Scene> {
    let scene = Scene::set(Setting { jobs: &[("nightly.yaml", NIGHTLY)], ..Setting::default() })?;
    scene.write("orders.csv", &orders(true));
    Some(scene)
}

/// Runs the job by its form for a day; the browser is then at the execution.
pub(super) fn run<'a>(scene: &'a Scene, day: &str) -> &'a Browser {
    let page = scene.visit("/jobs/nightly-orders");
    page.execute(&format!("document.querySelector('#run [type=date]').value = '{day}'")).unwrap();
    page.click("#run button.do").unwrap();
    page.wait_until(SOON, |_| Ok(scene.path().starts_with("/executions/"))).unwrap();
    page
}

fn title(page: &Browser) -> String {
    page.execute("return document.title").unwrap().as_str().unwrap().to_owned()
}

#[test]
fn a_job_that_fails_is_restarted_by_its_button_and_the_open_page_tells_it() {
    let Some(scene) = scene() else { return };
    let page = run(&scene, "2026-11-15");
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
    page.execute("document.querySelectorAll('[data-live=actions] details.cli')[1].open = true").unwrap();
    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("COMPLETED"))).unwrap();

    page.wait_until(SOON, |page| has_row(page, STEPS, &["load", "COMPLETED", "1,000"])).unwrap();
    page.wait_until(SOON, |page| Ok(title(page).starts_with("COMPLETED nightly-orders #2"))).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    page.wait_until(SOON, |page| {
        Ok(page.text("[data-live=actions]")?.contains("this instance completed on"))
    })
    .unwrap();
    let unfolded =
        "return [...document.querySelectorAll('[data-live=actions] details.cli')].map((part) => part.open)";
    assert_eq!(
        page.execute(unfolded).unwrap(),
        serde_json::json!([false, true, false, false]),
        "what was unfolded stays so"
    );
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
    // However long it takes to press the buttons, it is still running.
    scene.write("wait", "");
    run(&scene, "2026-11-15");
    page.wait_until(LATER, |page| has_row(page, STEPS, &["publish", "STARTED"])).unwrap();
    page.click("[data-live=actions] details.confirm > summary").unwrap();
    assert!(page.text("dialog[open] h2").unwrap().contains("Stop nightly-orders #2?"));
    page.fill("dialog[open] [name=reason]", "wrong day").unwrap();
    page.click("dialog[open] button.end").unwrap();
    page.wait_until(LATER, |page| Ok(page.text("[data-live=head]")?.contains("STOPPED"))).unwrap();
    assert!(has_row(page, "#events tbody tr", &["execution.stop", "wrong day"]).unwrap());
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
}
