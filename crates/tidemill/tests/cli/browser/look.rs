//! How the pages look: no error in the console, nothing wider than the window, and pictures of all of them.

use super::has_row;
use super::scene::{SOON, Scene, pictures};
use tidemill_testkit::Browser;

const PAGES: [(&str, &str); 7] = [
    ("overview", "/"),
    ("no-jobs", "/jobs"),
    ("alerts", "/alerts"),
    ("settings", "/settings"),
    ("tokens", "/settings/tokens"),
    ("audit", "/settings/audit"),
    ("configuration", "/settings/configuration"),
];
pub(super) const THEMES: [&str; 2] = ["light", "dark"];
pub(super) const WIDTHS: [u32; 3] = [320, 768, 1280];
const PICTURED: [u32; 2] = [320, 1280];
const HEIGHT: u32 = 900;
/// A picture shows the whole page, but a page without end is cut.
const HEIGHT_MAX: u64 = 4000;

/// Goes through a page as the tab key does; returns what then lies below the upper edge of the status line.
const HIDDEN_AT_FOCUS: &str = "
    scrollTo(0, 0);
    const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
    const all = [...document.querySelectorAll('main :is(a, button, input, select, summary)')];
    const seen = all.filter((element) => !element.disabled && element.checkVisibility());
    if (seen.length === 0) return ['nothing can get the focus'];
    const isHidden = (element) => {
        element.focus();
        return element.getBoundingClientRect().bottom > top('.foot');
    };
    return seen.filter(isHidden).map((element) => element.outerHTML.slice(0, 120));";

/// A scene in which every list has something to show; returns also the address of a server with a login.
fn furnished() -> Option<(Scene, String)> {
    let mut scene = Scene::usual()?;
    scene.add_worker("lost-worker-with-quite-a-long-name-01").kill();
    scene.run(&["token", "create", "airflow in the north", "--role", "requester", "--scope", "pool/etl*"]);
    let used = scene.run(&["token", "create", "grafana", "--role", "viewer"]);
    let revoked = scene.run(&["token", "create", "old", "--role", "viewer"]);
    scene.run(&["token", "revoke", revoked.split('_').nth(1).unwrap()]);
    let silence = ["alert", "silence", "database_slow", "--for", "1h", "--reason", "the disk is being moved"];
    scene.run(&silence);
    let login = scene.add_server_with_login(&used);
    Some((scene, login))
}

/// Every page of the scene with a name for its pictures.
fn addresses(scene: &Scene, login: &str) -> Vec<(&'static str, String)> {
    let pages = PAGES.map(|(name, path)| (name, scene.address(path)));
    pages.into_iter().chain([("login", format!("{login}/login"))]).collect()
}

pub(super) fn choose_theme(page: &Browser, settings: &str, theme: &str) {
    page.goto(settings).unwrap();
    page.click(&format!("#preferences [name=theme] option[value={theme}]")).unwrap();
    page.click("#preferences button.do").unwrap();
    page.wait_until(SOON, |page| page.exists(&format!("html[data-theme={theme}]"))).unwrap();
}

/// By how much the page is wider than its window, which has this width.
pub(super) fn excess(page: &Browser, width: u32) -> u64 {
    let script = "return [document.documentElement.scrollWidth, innerWidth]";
    let found = page.execute(script).unwrap();
    assert_eq!(found[1], width);
    found[0].as_u64().unwrap().saturating_sub(u64::from(width))
}

/// What cannot be seen when it gets the focus, in windows so low that pages have to be scrolled. In several,
/// because a browser scrolls only to what is outside the window, and each has other things at its lower edge.
fn hidden_at_focus(page: &Browser) -> Vec<String> {
    let mut hidden = Vec::new();
    for height in (360..=600).step_by(40) {
        page.set_window(320, height).unwrap();
        let found = page.execute(HIDDEN_AT_FOCUS).unwrap();
        hidden.extend(found.as_array().unwrap().iter().map(|element| format!("{height}: {element}")));
    }
    hidden
}

pub(super) fn take_picture(page: &Browser, name: &str, width: u32) {
    let height = page.execute("return document.documentElement.scrollHeight").unwrap();
    let height = u32::try_from(height.as_u64().unwrap().min(HEIGHT_MAX)).unwrap();
    page.set_window(width, height).unwrap();
    page.screenshot(&pictures().join(name)).unwrap();
}

/// What on a page has no name for those who do not see it.
const NAMELESS: &str = "
    const named = (element) =>
        element.labels?.length || element.getAttribute('aria-label') || element.textContent.trim() || element.title;
    const all = [...document.querySelectorAll('main :is(input:not([type=hidden]), select, textarea, button, a)')];
    const tables = [...document.querySelectorAll('main table')].filter((table) => !table.caption);
    const images = [...document.querySelectorAll('main svg')].filter((svg) => !svg.querySelector('title')?.textContent);
    return [...all.filter((element) => !named(element)), ...tables, ...images].map((element) => element.outerHTML.slice(0, 120));";

/// Checks pages in every width and theme: no error in the console, nothing wider than the window, a name for all that can be
/// used or read; and takes pictures of them.
pub(super) fn look_well(scene: &Scene, pages: &[(&str, &str)]) {
    let page = scene.browser();
    let mut faults = Vec::new();
    for theme in THEMES {
        choose_theme(page, &scene.address("/settings"), theme);
        for (name, path) in pages {
            scene.visit(path);
            page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
            faults.extend(page.console_errors().unwrap().into_iter().map(|error| format!("{name}: {error}")));
            let nameless = page.execute(NAMELESS).unwrap();
            faults.extend(
                nameless.as_array().unwrap().iter().map(|element| format!("{name}: no name: {element}")),
            );
            for width in WIDTHS {
                page.set_window(width, HEIGHT).unwrap();
                let excess = excess(page, width);
                if excess > 0 {
                    faults.push(format!("{name} in {theme} at {width} is too wide by {excess}"));
                }
                take_picture(page, &format!("{name}-{theme}-{width}.png"), width);
            }
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    page.execute("document.querySelector('main').append(document.createElement('select'))").unwrap();
    assert_eq!(page.execute(NAMELESS).unwrap().as_array().unwrap().len(), 1, "a planted fault is not found");
}

#[test]
fn no_page_has_an_error_in_the_console() {
    let Some((scene, login)) = furnished() else { return };
    let page = scene.browser();

    for (name, address) in addresses(&scene, &login) {
        page.goto(&address).unwrap();
        assert!(page.exists("h1").unwrap(), "{name}");
        if page.exists("#link").unwrap() {
            // The stream of live updates is open, so what could fail at once has.
            page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
        }
        assert_eq!(page.console_errors().unwrap(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn no_page_is_wider_than_its_window_in_any_theme() {
    let Some((scene, login)) = furnished() else { return };
    let _worker = scene.add_worker("digger");
    let page = scene.browser();
    scene.visit("/");
    page.wait_until(SOON, |page| has_row(page, super::PROCESSES, &["lost-worker", "dead"])).unwrap();
    let mut wide = Vec::new();

    for theme in THEMES {
        // Cookies do not know ports: the server with the login gets this one, too.
        choose_theme(page, &scene.address("/settings"), theme);
        for (name, address) in addresses(&scene, &login) {
            page.goto(&address).unwrap();
            assert!(page.exists(&format!("html[data-theme={theme}]")).unwrap(), "{name} is not {theme}");
            for width in WIDTHS {
                page.set_window(width, HEIGHT).unwrap();
                let excess = excess(page, width);
                if excess > 0 {
                    wide.push(format!("{name} in {theme} at {width}: by {excess}"));
                }
                if PICTURED.contains(&width) {
                    take_picture(page, &format!("{name}-{theme}-{width}.png"), width);
                }
            }
        }
    }

    assert_eq!(wide, Vec::<String>::new());
    let plant = "document.querySelector('h1').style.width = '2000px'";
    page.execute(plant).unwrap();
    assert!(excess(page, PICTURED[1]) > 700, "a planted fault is not found");
}

#[test]
fn what_gets_the_focus_is_not_hidden_by_the_status_line() {
    let Some((scene, _login)) = furnished() else { return };
    let page = scene.browser();
    let (mut hidden, mut planted) = (Vec::new(), Vec::new());

    for (name, path) in PAGES {
        scene.visit(path);
        hidden.extend(hidden_at_focus(page).into_iter().map(|element| format!("{name}: {element}")));
        page.execute("document.documentElement.style.scrollPaddingBottom = 0").unwrap();
        planted.extend(hidden_at_focus(page));
    }

    assert_eq!(hidden, Vec::<String>::new());
    assert!(!planted.is_empty(), "a planted fault is not found");
}
