//! The dashboard in a real browser: live, without JavaScript, behind a login, in every width and theme.

mod action;
mod job;
mod look;
mod outbox;
mod pool;
mod render;
mod scene;
mod walk;
mod world;

use scene::{LEASE, SOON, Scene};
use tidemill_testkit::{Browser, WebDriverError};

const PROCESSES: &str = "#processes tbody tr";
const EVENTS: &str = "#events tbody tr";

/// Whether a row has all of these words.
fn has_row(page: &Browser, rows: &str, words: &[&str]) -> Result<bool, WebDriverError> {
    let rows = page.texts(rows)?;
    Ok(rows.iter().any(|row| words.iter().all(|word| row.contains(word))))
}

#[test]
fn a_killed_worker_is_seen_on_the_overview_without_a_reload() {
    let Some(scene) = Scene::usual() else { return };
    let worker = scene.add_worker("digger");
    let page = scene.visit("/");
    assert!(has_row(page, PROCESSES, &["keeper", "(this server)", "live"]).unwrap());
    page.wait_until(SOON, |page| has_row(page, PROCESSES, &["digger", "live"])).unwrap();
    page.execute("window.isTheSamePage = true").unwrap();

    worker.kill();

    let limit = LEASE + SOON;
    let is_lost = |page: &Browser| {
        let row = has_row(page, PROCESSES, &["digger", "silent"])?
            || has_row(page, PROCESSES, &["digger", "dead"])?;
        Ok(row && has_row(page, EVENTS, &["process.dead", "live → dead"])?)
    };
    page.wait_until(limit, is_lost).unwrap();
    page.wait_until(SOON, |page| has_row(page, PROCESSES, &["digger", "dead"])).unwrap();
    page.wait_until(SOON, |page| has_row(page, "#attention tbody tr", &["process_died"])).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
}

#[test]
fn a_new_worker_and_its_leases_appear_on_an_open_overview() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/");
    assert!(!has_row(page, PROCESSES, &["latecomer"]).unwrap());
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();

    let _worker = scene.add_worker("latecomer");

    page.wait_until(SOON, |page| has_row(page, PROCESSES, &["latecomer", "live"])).unwrap();
    page.wait_until(SOON, |page| has_row(page, "#leases tbody tr", &["demo/", "latecomer", "held"])).unwrap();
    page.wait_until(SOON, |page| has_row(page, EVENTS, &["demo.settle"])).unwrap();
}

#[test]
fn who_has_to_log_in_gets_in_with_the_right_token_only_and_out_again() {
    let Some(scene) = Scene::closed() else { return };
    let token = scene.run(&["token", "create", "ann", "--role", "admin"]);

    let page = scene.visit("/");
    assert_eq!(scene.path(), "/login");
    page.fill("[name=token]", "tm_00000000_wrong").unwrap();
    page.click("main button.do").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("[role=alert]")?.contains("not valid"))).unwrap();
    assert!(!page.exists("#processes").unwrap());

    page.fill("[name=token]", &token).unwrap();
    page.click("main button.do").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("h1")? == "Overview")).unwrap();
    assert_eq!(scene.path(), "/");
    assert!(page.text("header.top").unwrap().contains("ann (admin)"));

    page.click("form[action='/logout'] button").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("h1")? == "Log in")).unwrap();
    scene.visit("/settings");
    assert_eq!(scene.path(), "/login");
}
