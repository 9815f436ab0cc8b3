//! How a page looks: what is wrong with it for those who see it and those who do not, and pictures of it.

use super::scene::{SOON, Scene};
use std::fs;
use std::path::{Path, PathBuf};
use tidemill_testkit::Browser;

pub(super) const THEMES: [&str; 2] = ["light", "dark"];
pub(super) const WIDTHS: [u32; 3] = [320, 768, 1280];
/// As high as many windows are.
const HEIGHT: u32 = 900;
/// A picture shows the whole page, but a page without end is cut.
const HEIGHT_MAX: u64 = 4000;
/// The folder for pictures. Without it none are taken.
const PICTURES: &str = "TIDEMILL_TEST_PICTURES";

/// What is wrong with a page in any window: landmarks, headings, names for what can be used or read, references within it,
/// and what it has from elsewhere.
const FAULTS: &str = r"
    const faults = [];
    const all = (selector) => [...document.querySelectorAll(selector)];
    const told = (element) => element.outerHTML.slice(0, 120);
    const none = (what, elements) => faults.push(...elements.map((element) => what + ': ' + told(element)));
    const one = (selector) => {
        if (all(selector).length !== 1) faults.push(all(selector).length + ' of ' + selector);
    };

    ['html[lang]', 'main', 'h1', 'head > title', 'meta[name=viewport]', '[role=status][aria-live]'].forEach(one);
    if (document.body.matches('.framed')) {
        ['body > header', 'nav[aria-label=Sections]', 'body > footer', 'a.skip[href=\'#main\']'].forEach(one);
        one('nav[aria-label=Sections] [aria-current=page]');
    }
    let level = 0;
    for (const heading of all('main :is(h1, h2, h3, h4)')) {
        const next = Number(heading.localName[1]);
        if (next > level + 1) none('the level before is left out', [heading]);
        level = next;
    }

    const name = (element) => element.labels?.length || element.getAttribute('aria-label') ||
        (element.matches('button, a, summary') && element.textContent.trim());
    none('no name', all('input:not([type=hidden]), select, textarea, button, a, summary').filter((element) => !name(element)));
    none('no caption', all('table').filter((table) => !table.caption?.textContent));
    none('no scope', all('th:not([scope])'));
    none('no title', all('svg').filter((svg) =>
        !svg.ariaHidden && !svg.ariaLabel && !svg.querySelector('title')?.textContent));
    none('no alt', all('img:not([alt])'));
    none('no name', all('progress, meter, [role=region], [role=img]:not(svg)').filter((element) =>
        !element.ariaLabel && !element.hasAttribute('aria-labelledby')));

    const ids = all('[id]').map((element) => element.id);
    none('not the only one', all('[id]').filter((element) => ids.indexOf(element.id) !== ids.lastIndexOf(element.id)));
    for (const reference of ['for', 'form', 'list', 'aria-labelledby', 'aria-describedby', 'aria-controls']) {
        none('leads nowhere', all(`[${reference}]`).filter((element) => !ids.includes(element.getAttribute(reference))));
    }
    none('leads nowhere', all('a[href^=\'#\']').filter((link) => !ids.includes(link.hash.slice(1))));

    const isForeign = (address) => !['data:', 'blob:'].includes(new URL(address, location).protocol) &&
        new URL(address, location).origin !== location.origin;
    none('of another host', all('[src]').filter((element) => isForeign(element.src)));
    none('of another host', all('link[href]').filter((element) => isForeign(element.href)));
    none('written into the page', all('[style], style, script:not([src])'));
    const asked = performance.getEntriesByType('resource').map((entry) => entry.name);
    faults.push(...asked.filter(isForeign).map((address) => 'asked another host: ' + address));
    return faults;";

/// What is wrong with a page in the window that it has now: what is wider, and what is too small to be hit (WCAG 2.5.8).
const FAULTS_OF_SIZE: &str = r"
    const faults = [];
    const by = document.documentElement.scrollWidth - innerWidth;
    if (by > 0) faults.push('wider than the window by ' + by);
    const hit = 'button, summary, select, input:not([type=hidden]), textarea, .button, nav a';
    for (const element of document.querySelectorAll(hit)) {
        const { width, height } = element.getBoundingClientRect();
        if (element.checkVisibility() && width > 0 && Math.min(width, height) < 23.5) {
            faults.push(`${Math.round(width)} × ${Math.round(height)}: ${element.outerHTML.slice(0, 120)}`);
        }
    }
    return faults;";

fn list(page: &Browser, script: &str) -> Vec<String> {
    let found = page.execute(script).unwrap();
    found.as_array().unwrap().iter().map(|fault| fault.as_str().unwrap().to_owned()).collect()
}

/// What is wrong with the page that is open, whatever its window.
pub(super) fn faults(page: &Browser) -> Vec<String> {
    list(page, FAULTS)
}

/// What is wrong with it in a window of this width.
pub(super) fn faults_at(page: &Browser, width: u32) -> Vec<String> {
    page.set_window(width, HEIGHT).unwrap();
    assert_eq!(page.execute("return innerWidth").unwrap(), width);
    list(page, FAULTS_OF_SIZE)
}

/// Chooses a theme as people do.
pub(super) fn choose_theme(scene: &Scene, theme: &str) {
    let page = scene.visit("/settings");
    page.click(&format!("#preferences [name=theme] option[value={theme}]")).unwrap();
    page.click("#preferences button.do").unwrap();
    page.wait_until(SOON, |page| page.exists(&format!("html[data-theme={theme}]"))).unwrap();
}

/// Takes a picture of the whole page, if somebody wants pictures.
pub(super) fn take_picture(page: &Browser, name: &str, width: u32) {
    let Some(folder) = std::env::var_os(PICTURES).map(PathBuf::from) else { return };
    fs::create_dir_all(&folder).unwrap();
    let height = page.execute("return document.documentElement.scrollHeight").unwrap();
    let height = u32::try_from(height.as_u64().unwrap().min(HEIGHT_MAX)).unwrap();
    picture(page, &folder.join(format!("{name}.png")), (width, height));
}

/// Writes what a window of this size shows to a file.
pub(super) fn picture(page: &Browser, path: &Path, (width, height): (u32, u32)) {
    page.set_window(width, height).unwrap();
    page.screenshot(path).unwrap();
}

#[test]
fn planted_faults_are_found() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/");
    assert_eq!(faults(page), Vec::<String>::new());
    assert_eq!(faults_at(page, 320), Vec::<String>::new());
    let add = |tag: &str, attributes: &str| {
        format!(
            "document.querySelector('main').append(Object.assign(document.createElement('{tag}'), {attributes}))"
        )
    };

    for plant in [
        "document.querySelector('footer').remove()".to_owned(),
        "document.querySelector('nav').ariaLabel = 'Parts'".to_owned(),
        "document.documentElement.removeAttribute('lang')".to_owned(),
        add("h1", "{}"),
        add("h4", "{}"),
        add("select", "{}"),
        add("button", "{}"),
        add("table", "{}"),
        add("th", "{}"),
        add("svg", "{}").replace("createElement(", "createElementNS('http://www.w3.org/2000/svg', "),
        add("progress", "{}"),
        add("p", "{ id: 'main' }"),
        add("a", "{ href: '#nowhere', textContent: 'x' }"),
        add("img", "{ alt: '', src: 'http://elsewhere.invalid/x.png' }"),
        add("script", "{}"),
    ] {
        scene.visit("/");
        page.execute(&plant).unwrap();
        assert_ne!(faults(page), Vec::<String>::new(), "{plant}");
    }
    for plant in [
        "document.querySelector('h1').style.width = '2000px'",
        "document.querySelector('header button').style.minHeight = document.querySelector('header button').style.height = '9px'",
    ] {
        scene.visit("/");
        page.execute(plant).unwrap();
        assert_ne!(faults_at(page, 320), Vec::<String>::new(), "{plant}");
    }
}
