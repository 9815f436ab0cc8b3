//! What can be done on the pages, with JavaScript and without.

use super::has_row;
use super::scene::{SOON, Scene};
use tidemill_testkit::{Browser, WebDriverError};

const TOKENS: &str = "#tokens tbody tr";
const SILENCES: &str = "#silences tbody tr";

/// Fills in the form for a token and sends it; returns the secret that is shown.
fn create_token(page: &Browser, name: &str) -> String {
    page.fill("#create [name=name]", name).unwrap();
    page.click("#create button.do").unwrap();
    page.wait_until(SOON, |page| has_row(page, TOKENS, &[name, "valid"])).unwrap();
    page.text(".banner.ok code").unwrap()
}

fn theme(page: &Browser) -> Result<String, WebDriverError> {
    let theme = page.execute("return document.documentElement.dataset.theme")?;
    Ok(theme.as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_secret_of_a_token_is_shown_once() {
    let Some(scene) = Scene::usual() else { return };

    let page = scene.visit("/settings/tokens");
    let secret = create_token(page, "nightly");
    let is_offered = page.exists(".banner.ok button[data-copy]:not([hidden])").unwrap();
    scene.visit("/settings/tokens");

    assert!(secret.starts_with("tm_") && secret.len() > 30, "{secret:?}");
    assert!(is_offered);
    assert!(has_row(page, TOKENS, &["nightly", "valid"]).unwrap());
    let html = page.execute("return document.documentElement.outerHTML").unwrap();
    assert!(!html.as_str().unwrap().contains(&secret));
}

#[test]
fn a_token_is_deleted_only_after_a_question() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/settings/tokens");
    create_token(page, "nightly");

    page.click("details.confirm > summary").unwrap();
    assert!(page.text("dialog[open] h2").unwrap().contains("Delete “nightly”?"));
    page.click("dialog[open] [data-close]").unwrap();
    page.wait_until(SOON, |page| Ok(!page.exists("dialog[open]")?)).unwrap();
    assert!(has_row(page, TOKENS, &["nightly", "valid"]).unwrap());

    page.click("details.confirm > summary").unwrap();
    page.fill("dialog[open] [name=reason]", "lost").unwrap();
    page.click("dialog[open] button.end").unwrap();
    page.wait_until(SOON, |page| has_row(page, TOKENS, &["nightly", "revoked"])).unwrap();
    assert!(!page.exists("details.confirm").unwrap());
    scene.visit("/settings/audit");
    assert!(has_row(page, "#entries tbody tr", &["token.reason", "lost"]).unwrap());
}

#[test]
fn an_alert_is_silenced_and_heard_again() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/alerts");

    page.fill("#silence [name=rule]", "process_died").unwrap();
    page.fill("#silence [name=reason]", "moving house").unwrap();
    page.click("#silence button.do").unwrap();
    page.wait_until(SOON, |page| has_row(page, SILENCES, &["process_died", "moving house"])).unwrap();

    page.click("#silences form button").unwrap();
    page.wait_until(SOON, |page| has_row(page, SILENCES, &["No silences."])).unwrap();
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
}

#[test]
fn the_theme_changes_in_place_and_is_kept() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/");
    assert_eq!(theme(page).unwrap(), "auto");
    page.execute("window.isTheSamePage = true").unwrap();

    page.click("header.top button[name=theme]").unwrap();
    page.click("header.top button[name=theme]").unwrap();

    page.wait_until(SOON, |page| Ok(theme(page)? == "dark")).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    page.wait_until(SOON, |_| Ok(theme(scene.visit("/settings"))? == "dark")).unwrap();
}

#[test]
fn everything_works_without_javascript() {
    let Some(scene) = Scene::without_javascript() else { return };
    let _worker = scene.add_worker("digger");

    let page = scene.visit("/");
    assert!(has_row(page, super::PROCESSES, &["keeper", "(this server)", "live"]).unwrap());
    assert!(has_row(page, super::PROCESSES, &["digger", "live"]).unwrap());
    assert_eq!(
        page.execute("return document.querySelectorAll('[data-script]:not([hidden])').length").unwrap(),
        0
    );
    assert!(page.text(".foot").unwrap().contains("Not live"));

    page.click("header.top button[name=theme]").unwrap();
    page.wait_until(SOON, |page| Ok(theme(page)? == "light")).unwrap();
    assert_eq!(scene.path(), "/");
    scene.visit("/settings");
    page.click("#preferences [name=theme] option[value=dark]").unwrap();
    page.click("#preferences button.do").unwrap();
    page.wait_until(SOON, |page| Ok(theme(page)? == "dark")).unwrap();

    scene.visit("/settings/tokens");
    assert!(create_token(page, "nightly").starts_with("tm_"));
    page.click("details.confirm > summary").unwrap();
    page.click("details.confirm button.end").unwrap();
    page.wait_until(SOON, |page| has_row(page, TOKENS, &["nightly", "revoked"])).unwrap();
}
