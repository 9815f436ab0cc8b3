//! Renders in a real browser: films come into being on an open page, and are cancelled by a button.

mod desk;
pub(super) mod gallery;
pub(super) mod studio;

use super::has_row;
use super::scene::{SOON, Scene, Setting};
use std::time::Duration;
use studio::{COMPOSITION, Nas, TestFarm, describe, order, start_worker};
use tidemill_testkit::account::find_program;
use tidemill_testkit::skip::require;
use tidemill_testkit::{Browser, BrowserOptions};

const ROWS: &str = "#renders tbody tr";
/// For what several processes have to do, one after the other.
const LATER: Duration = Duration::from_secs(120);

/// A server that knows where pictures are, and the NAS; none when these tests are to be skipped.
fn scene(options: &BrowserOptions) -> Option<(Scene, Nas)> {
    require("nexrender", find_program("ffmpeg").and(find_program("ffprobe")))?;
    let nas = Nas::new();
    let settings = nas.settings();
    let variables = &settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let scene = Scene::set(Setting { variables, browser: *options, ..Setting::default() })?;
    Some((scene, nas))
}

fn wait_for(page: &Browser, words: &[&str]) {
    let found = page.wait_until(LATER, |page| has_row(page, ROWS, words));
    assert!(found.is_ok(), "{words:?} is in none of {:#?}", page.texts(ROWS));
}

/// Clicks on something that may be replaced at any moment.
fn click(page: &Browser, selector: &str) {
    let clicked = page.wait_until(SOON, |page| Ok(page.click(selector).is_ok()));
    assert!(clicked.is_ok(), "{selector} cannot be clicked: {:?}", page.click(selector));
}

#[test]
fn a_film_is_watched_from_its_order_to_its_file() {
    let Some((scene, nas)) = scene(&BrowserOptions::default()) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let store = runtime.block_on(scene.real_store());
    let farm = TestFarm::default();
    let page = scene.visit("/render");
    page.set_window(1280, 1000).unwrap();
    assert!(page.text("#renders").unwrap().contains("tidemill render submit"));
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    page.execute("window.isTheSamePage = true").unwrap();

    runtime.block_on(describe(&store));
    let id = runtime.block_on(order(&store, COMPOSITION, "cue-17", 5));
    wait_for(page, &["pending", COMPOSITION, "cue-17", "No. 1", "No worker is running"]);
    assert!(page.text(".banner.bad").unwrap().contains("tidemill render worker"));
    let stop = start_worker(&store, &nas, &farm);
    wait_for(page, &["rendering", "waiting for a render node", "renderer-1"]);
    for percent in [30.0, 65.0] {
        farm.render_to(percent);
        wait_for(page, &["rendering", &format!("{percent} %"), "lease ends in"]);
    }
    let value = "return document.querySelector('#renders progress').value";
    assert_eq!(page.execute(value).unwrap(), 65);
    farm.finish();
    wait_for(page, &["completed", "took", ".mp4"]);
    assert!(!page.exists(".banner.bad").unwrap());
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);

    click(page, &format!("a[href='/render/{id}']"));
    page.wait_until(SOON, |page| Ok(page.text("h1")?.contains(COMPOSITION))).unwrap();
    let is_seen = "return document.querySelector('img.poster').naturalWidth";
    page.execute("document.querySelector('img.poster').scrollIntoView()").unwrap();
    page.wait_until(SOON, |page| Ok(page.execute(is_seen)? == 640)).unwrap();
    let found = page.text("#report").unwrap();
    assert!(
        found.contains("the file is good") && found.contains("640x360") && found.contains("whole"),
        "{found}"
    );
    assert!(page.text("#changes").unwrap().contains("uploading → completed"));
    assert!(page.execute("return document.title").unwrap().as_str().unwrap().starts_with("completed"));
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    stop.send_replace(true);
    runtime.block_on(store.close());
}

#[test]
fn a_running_render_is_cancelled_by_its_button_after_a_question() {
    let Some((scene, nas)) = scene(&BrowserOptions::default()) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let store = runtime.block_on(scene.real_store());
    let farm = TestFarm::default();
    runtime.block_on(describe(&store));
    let id = runtime.block_on(order(&store, COMPOSITION, "cue-1", 0));
    let stop = start_worker(&store, &nas, &farm);
    let page = scene.visit("/render");
    page.set_window(1280, 1000).unwrap();
    wait_for(page, &["waiting for a render node"]);
    farm.render_to(40.0);
    wait_for(page, &["rendering", "40 %"]);

    click(page, "a[data-ask]");
    page.wait_until(SOON, |page| page.exists("dialog[open]")).unwrap();
    let question = page.text("dialog[open]").unwrap();
    assert!(question.contains("licence stays busy until then"), "{question}");
    let focused = "return document.activeElement.textContent";
    assert_eq!(page.execute(focused).unwrap(), "Go back");
    page.click("dialog[open] [data-close]").unwrap();
    page.wait_until(SOON, |page| Ok(!page.exists("dialog[open]")?)).unwrap();
    assert_eq!(page.execute(focused).unwrap(), "Cancel…");
    farm.render_to(50.0);
    page.execute("document.activeElement.blur()").unwrap();
    wait_for(page, &["50 %"]);

    click(page, "a[data-ask]");
    page.wait_until(SOON, |page| page.exists("dialog[open] [name=reason]")).unwrap();
    page.fill("dialog[open] [name=reason]", "wrong name").unwrap();
    page.click("dialog[open] button.end").unwrap();
    wait_for(page, &["cancelled", "Cancelled while rendering."]);
    assert_eq!(scene.path(), "/render");

    scene.visit(&format!("/render/{id}"));
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    click(page, "#how a[data-ask]");
    page.wait_until(SOON, |page| page.exists("dialog[open] [name=reason]")).unwrap();
    assert!(page.text("dialog[open]").unwrap().contains("It is rendered again."));
    page.fill("dialog[open] [name=reason]", "right name").unwrap();
    page.click("dialog[open] button.do").unwrap();
    // The node renders the first one on, and there is only one place.
    page.wait_until(LATER, |page| Ok(page.text("#how")?.contains("The only place at the farm is busy")))
        .unwrap();
    farm.finish();
    page.wait_until(LATER, |page| Ok(page.text("#how")?.contains("waiting for a render node"))).unwrap();
    farm.render_to(70.0);
    page.wait_until(LATER, |page| Ok(page.text("#how")?.contains("70 %"))).unwrap();
    assert!(page.exists("#attempts svg.lane rect.p3").unwrap());
    scene.visit("/settings/audit");
    assert!(has_row(page, "#entries tbody tr", &["render.cancel", "wrong name"]).unwrap());
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    stop.send_replace(true);
    runtime.block_on(store.close());
}
