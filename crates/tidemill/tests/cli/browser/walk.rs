//! A walk through every page, in every window and theme, with scripts and without.
//!
//! `TIDEMILL_TEST_PICTURES=FOLDER` leaves pictures of them all; `UPDATE_PICTURES=1` makes those of the README anew.

use super::look::{THEMES, WIDTHS, choose_theme, faults, faults_at, picture, take_picture};
use super::scene::{SOON, Scene, Setting};
use super::world::World;
use crate::workspace;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use tidemill_server::route::{Route, Surface, routes};
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Browser, BrowserOptions, WebDriverError};
use tokio::runtime::Runtime;

/// A page: a name for its pictures, its route in the table, and its address in the world of these tests.
type Stop = (&'static str, &'static str, &'static str);

/// Every page, in every state in which it looks otherwise.
const STOPS: &[Stop] = &[
    ("overview", "/", "/"),
    ("jobs", "/jobs", "/jobs"),
    ("jobs-failed", "/jobs", "/jobs?status=failed&text=order"),
    ("jobs-none", "/jobs", "/jobs?text=nothing"),
    ("job", "/jobs/{name}", "/jobs/nightly-orders"),
    ("job-history", "/jobs/{name}", "/jobs/load_2"),
    ("executions", "/executions", "/executions"),
    ("executions-running", "/executions", "/executions?status=running"),
    ("execution-completed", "/executions/{id}", "/executions/{completed}"),
    ("execution-failed", "/executions/{id}", "/executions/{failed}"),
    ("execution-running", "/executions/{id}", "/executions/{running}"),
    ("pools", "/pools", "/pools"),
    ("pool-holders", "/pools/{name}", "/pools/ADW"),
    ("pool-week", "/pools/{name}", "/pools/ADW?range=168h"),
    ("pool-queue", "/pools/{name}", "/pools/ADW?tab=queue&range=6h"),
    ("pool-history", "/pools/{name}", "/pools/ADW?tab=history"),
    ("pool-settings", "/pools/{name}", "/pools/ADW?tab=settings"),
    ("pool-replay", "/pools/{name}/replay", "/pools/ADW/replay?limit=20&policy=fifo&advice=yes"),
    ("pool-paused", "/pools/{name}", "/pools/archive-of-the-north-east-region?tab=queue"),
    (
        "pool-change",
        "/pools/{name}/change",
        "/pools/ADW/change?max_units=20&threshold_percent=100&policy=fifo",
    ),
    ("pool-breaker-open", "/pools/{name}/breaker/open", "/pools/ADW/breaker/open"),
    ("pool-breaker-close", "/pools/{name}/breaker/close", "/pools/ADW/breaker/close"),
    ("pool-release", "/pools/{name}/tickets/{id}/release", "/pools/ADW/tickets/{ticket}/release"),
    ("outbox", "/outbox", "/outbox"),
    ("outbox-failed", "/outbox/failed", "/outbox/failed?state=open&topic=orders.of.the.north"),
    ("outbox-none", "/outbox/failed", "/outbox/failed?topic=nothing"),
    ("outbox-event", "/outbox/failed/{id}", "/outbox/failed/{parked}"),
    ("outbox-replay", "/outbox/failed/{id}/replay", "/outbox/failed/{parked}/replay"),
    ("outbox-skip", "/outbox/failed/{id}/skip", "/outbox/failed/{parked}/skip"),
    ("outbox-replay-all", "/outbox/failed/replay", "/outbox/failed/replay?all=1&topic=orders.of.the.north"),
    ("outbox-skip-all", "/outbox/failed/skip", "/outbox/failed/skip?all=1&topic=orders.of.the.north"),
    ("renders", "/render", "/render"),
    ("renders-found", "/render", "/render?text=count"),
    ("render-done", "/render/{id}", "/render/1"),
    ("render-failed", "/render/{id}", "/render/2"),
    ("render-running", "/render/{id}", "/render/3"),
    ("render-data", "/render/{id}/data", "/render/1/data"),
    ("render-cancel", "/render/{id}/cancel", "/render/3/cancel"),
    ("render-retry", "/render/{id}/retry", "/render/2/retry"),
    ("render-prioritize", "/render/{id}/prioritize", "/render/3/prioritize"),
    ("renders-cancel", "/render/cancel", "/render/cancel?all=1&text=count"),
    ("renders-retry", "/render/retry", "/render/retry?id=2"),
    ("renders-prioritize", "/render/prioritize", "/render/prioritize?all=1&status=pending"),
    ("render-new", "/render/new", "/render/new"),
    ("render-new-fields", "/render/new", "/render/new?composition=_MAIN+Mini+Chip+Count"),
    ("render-approve", "/render/{id}/approve", "/render/3/approve"),
    ("render-reject", "/render/{id}/reject", "/render/3/reject"),
    ("render-correct", "/render/{id}/correct", "/render/1/correct"),
    ("render-recover", "/render/{id}/recover", "/render/3/recover"),
    ("render-batch", "/render/batches/{id}", "/render/batches/2"),
    ("render-batch-retry", "/render/batches/{id}/retry", "/render/batches/2/retry"),
    ("render-batch-form", "/render/batch", "/render/batch"),
    ("render-workers", "/render/workers", "/render/workers"),
    ("render-profiles", "/render/profiles", "/render/profiles"),
    ("render-mappings", "/render/mappings", "/render/mappings"),
    ("alerts", "/alerts", "/alerts"),
    ("settings", "/settings", "/settings"),
    ("tokens", "/settings/tokens", "/settings/tokens"),
    ("audit", "/settings/audit", "/settings/audit"),
    ("configuration", "/settings/configuration", "/settings/configuration"),
    ("login", "/login", "/login"),
];

/// What browsers fetch and do not show as a page.
const FILES: [&str; 6] = [
    "/executions/{id}/download",
    "/executions/{id}/logs",
    "/render/{id}/json",
    "/render/{id}/poster",
    "/render/{id}/clip",
    "/assets/{name}",
];

/// Goes through a page as the tab key does; returns what then lies below the upper edge of the status line.
const HIDDEN_AT_FOCUS: &str = "
    scrollTo(0, 0);
    const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
    const all = [...document.querySelectorAll('main :is(a, button, input, select, summary)')];
    const seen = all.filter((element) => !element.disabled && element.checkVisibility());
    const isHidden = (element) => {
        element.focus();
        return element.getBoundingClientRect().bottom > top('.foot');
    };
    return seen.filter(isHidden).map((element) => element.outerHTML.slice(0, 120));";

/// Walks past these pages, and returns what is wrong with them.
fn walk(scene: &Scene, stops: &[(String, String)]) -> Vec<String> {
    let page = scene.browser();
    let has_scripts = page.exists("#live:not([hidden])").unwrap();
    let mut found = Vec::new();
    for theme in THEMES {
        choose_theme(scene, theme);
        for (name, address) in stops {
            let mut note = |faults: Vec<String>, at: &str| {
                found.extend(faults.into_iter().map(|fault| format!("{name} in {theme}{at}: {fault}")));
            };
            page.goto(address).unwrap();
            assert!(page.exists(&format!("html[data-theme={theme}]")).unwrap(), "{name} is not {theme}");
            if has_scripts && page.exists("#link").unwrap() {
                // The stream of live updates is open, so what could fail at once has.
                page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
            }
            note(page.console_errors().unwrap(), "");
            note(faults(page), "");
            for width in WIDTHS {
                note(faults_at(page, width), &format!(" at {width}"));
                take_picture(page, &format!("{name}-{theme}-{width}"), width);
            }
        }
    }
    found
}

fn every_stop(world: &World, prefix: &str) -> Vec<(String, String)> {
    STOPS.iter().map(|(name, _, path)| (format!("{prefix}{name}"), world.address(path))).collect()
}

#[test]
fn every_page_of_the_table_of_routes_is_walked_past() {
    let is_page = |route: &Route| {
        route.surface == Surface::Page && route.method.as_str() == "GET" && !FILES.contains(&route.path)
    };
    let there: BTreeSet<&str> =
        routes().iter().filter(|route| is_page(route)).map(|route| route.path).collect();
    let walked: BTreeSet<&str> = STOPS.iter().map(|(_, route, _)| *route).collect();

    assert_eq!(there, walked);
    let names: BTreeSet<&str> = STOPS.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(names.len(), STOPS.len(), "a picture is overwritten by another");
}

#[test]
fn nothing_is_wrong_with_any_page() {
    let Some(world) = World::new(None, BrowserOptions::default()) else { return };

    look_at_the_pictures_of_the_readme(&world);

    assert_eq!(walk(&world.scene, &every_stop(&world, "")), Vec::<String>::new());
}

/// Two things in one walk: what a page needs of its database does not depend on scripts.
#[test]
fn nothing_is_wrong_with_any_page_without_scripts_and_on_postgres() {
    let Some(database) = Runtime::new().unwrap().block_on(Scratch::postgres()) else { return };
    let Some(world) = World::new(Some(database), BrowserOptions { javascript: false }) else { return };

    assert_eq!(walk(&world.scene, &every_stop(&world, "plain-")), Vec::<String>::new());
}

#[test]
fn nothing_is_wrong_with_a_page_that_has_nothing_to_show() {
    let Some(scene) = Scene::usual() else { return };
    let is_there = |(_, route, path): &&Stop| route == path && *path != "/login";
    let stops: Vec<_> = STOPS
        .iter()
        .filter(is_there)
        .map(|(name, _, path)| (format!("empty-{name}"), scene.address(path)))
        .collect();
    assert!(stops.len() > 10, "{stops:?}");

    assert_eq!(walk(&scene, &stops), Vec::<String>::new());
}

/// Pages with names of 100 characters, which have no place to break.
#[test]
fn long_names_fit_a_phone() {
    const PHONE: u32 = 390;
    let long = "x".repeat(100);
    let job = format!("job: {long}\nsteps:\n  - name: {long}\n    command: [\"true\"]\n");
    let Some(scene) = Scene::set(Setting { jobs: &[("long.yaml", &job)], ..Setting::default() }) else {
        return;
    };
    let pool = format!("{{\"name\":\"{}\",\"max_units\":8}}", &long[..64]);
    scene.post("/api/v1/pools", &pool);
    scene.post("/api/v1/tokens", &format!("{{\"name\":\"{long}\",\"role\":\"viewer\"}}"));
    scene.post(&format!("/api/v1/jobs/{long}/executions"), "{}");
    let (job, pool) = (format!("/jobs/{long}"), format!("/pools/{}", &long[..64]));
    let settings = format!("{pool}?tab=settings");
    let change = format!("{pool}/change?max_units=9&threshold_percent=100&policy=fifo");
    let missing = format!("/{long}");

    for path in [
        "/",
        "/jobs",
        &job,
        "/executions",
        "/executions/1",
        "/pools",
        &pool,
        &settings,
        &change,
        "/settings/tokens",
        &missing,
    ] {
        let wide: Vec<String> =
            faults_at(scene.visit(path), PHONE).into_iter().filter(|fault| fault.contains("wider")).collect();
        assert_eq!(wide, Vec::<String>::new(), "{path}");
    }
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

#[test]
fn what_gets_the_focus_is_not_hidden_by_the_status_line() {
    let Some(world) = World::new(None, BrowserOptions::default()) else { return };
    let page = world.scene.browser();
    let (mut hidden, mut planted) = (Vec::new(), Vec::new());

    for (name, address) in every_stop(&world, "") {
        page.goto(&address).unwrap();
        if !page.exists(".foot").unwrap() {
            continue;
        }
        hidden.extend(hidden_at_focus(page).into_iter().map(|element| format!("{name}: {element}")));
        if planted.is_empty() {
            page.execute("document.documentElement.style.scrollPaddingBottom = 0").unwrap();
            planted.extend(hidden_at_focus(page));
        }
    }

    assert_eq!(hidden, Vec::<String>::new());
    assert!(!planted.is_empty(), "a planted fault is not found");
}

/// A picture of the README: the upper end of a page.
struct Picture {
    name: &'static str,
    path: &'static str,
    /// What its description in the README names, as selectors, and words that stand there.
    shows: &'static [(&'static str, &'static str)],
}

const OF_THE_README: [Picture; 2] = [
    Picture {
        name: "overview",
        path: "/",
        shows: &[
            (".tiles", "executions running"),
            (".tiles > .tile:nth-child(4):last-child", "renders waiting"),
            ("#attention", "Needs attention"),
            ("#pools tbody[data-live=pools]", "ADW"),
        ],
    },
    Picture {
        name: "execution",
        path: "/executions/{failed}",
        shows: &[
            ("[data-live=fault]", "What went wrong"),
            ("[data-live=actions] button.do", "Restart"),
            ("#actions", "Resumes load at item 3,000."),
        ],
    },
];

const PICTURE_WIDTH: u32 = 1280;
/// A window in which none of the pictures has room.
const TOO_LOW: u32 = 300;

/// How high a window has to be that shows what is named, above the status line.
const HEIGHT_FOR_ALL: &str = "
    scrollTo(0, 0);
    const bottom = (selector) => document.querySelector(selector).getBoundingClientRect().bottom;
    return Math.ceil(Math.max(...named.map(bottom)) + 10 + document.querySelector('.foot').offsetHeight);";

/// What is named and is not wholly in the window, or lies below the upper edge of the status line.
const OUT_OF_SIGHT: &str = "
    scrollTo(0, 0);
    const end = Math.min(innerHeight, document.querySelector('.foot').getBoundingClientRect().top);
    const isOut = (selector) => {
        const element = document.querySelector(selector);
        if (!element?.checkVisibility()) return true;
        const { top, right, bottom, left } = element.getBoundingClientRect();
        return top < 0 || left < 0 || right > innerWidth || bottom > end;
    };
    return named.filter(isOut);";

impl Picture {
    /// A script that knows what is named.
    fn script(&self, script: &str) -> String {
        let named: Vec<&str> = self.shows.iter().map(|(selector, _)| *selector).collect();
        format!("const named = {};{script}", json!(named))
    }

    fn out_of_sight(&self, page: &Browser) -> Result<Vec<String>, WebDriverError> {
        let found = page.execute(&self.script(OUT_OF_SIGHT))?;
        Ok(found.as_array().unwrap().iter().map(|selector| selector.as_str().unwrap().to_owned()).collect())
    }

    /// Gives the page that is open a window in which all that is named is seen; returns its height.
    fn fit(&self, page: &Browser) -> u32 {
        for (selector, words) in self.shows {
            let text = page.text(selector).unwrap();
            assert!(text.contains(words), "{}: {selector} is {text:?}", self.name);
        }
        page.set_window(PICTURE_WIDTH, TOO_LOW).unwrap();
        assert_ne!(self.out_of_sight(page).unwrap(), Vec::<String>::new(), "{} has room", self.name);
        let (mut height, mut hidden) = (TOO_LOW, Vec::new());
        // Again when a live update has come between.
        let seen = page.wait_until(SOON, |page| {
            let found = page.execute(&self.script(HEIGHT_FOR_ALL))?;
            height = u32::try_from(found.as_u64().unwrap()).unwrap();
            page.set_window(PICTURE_WIDTH, height)?;
            hidden = self.out_of_sight(page)?;
            Ok(hidden.is_empty())
        });
        assert!(seen.is_ok(), "{}: not seen at {height}: {hidden:?}: {seen:?}", self.name);
        height
    }
}

/// Sees to it that each picture has what is said of it, and takes them anew if somebody wants that.
fn look_at_the_pictures_of_the_readme(world: &World) {
    let folder = workspace().join("docs/images");
    choose_theme(&world.scene, "light");
    for shown in &OF_THE_README {
        let page = world.scene.browser();
        page.goto(&world.address(shown.path)).unwrap();
        page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
        let height = shown.fit(page);
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            fs::create_dir_all(&folder).unwrap();
            picture(page, &folder.join(format!("{}.png", shown.name)), (PICTURE_WIDTH, height));
        }
    }
}

#[test]
fn the_pictures_of_the_readme_are_there_small_and_described() {
    for Picture { name, .. } in &OF_THE_README {
        let path = format!("docs/images/{name}.png");
        let bytes = fs::read(workspace().join(&path)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < 200_000, "{path} has {} bytes", bytes.len());
        for readme in ["README.md", "README.ko.md"] {
            let text = fs::read_to_string(workspace().join(readme)).unwrap();
            let shown = text.split("![").skip(1).find(|shown| shown.contains(&format!("]({path})")));
            let alt = shown.map_or("", |shown| shown.split("](").next().unwrap());
            assert!(alt.chars().count() > 20, "{readme} does not say what is on {path}");
        }
    }
}
