//! A real browser of a test's own: headless Chromium, steered over WebDriver, gone with its value.
//!
//! Reading order: this file (what a test can do with it), `driver` (the chromedriver process), `wire` (one
//! request and its answer), `error` (what can go wrong).

mod base64;
mod driver;
mod error;
mod wire;

use crate::deadline::Deadline;
use crate::error::ServerError;
use driver::Driver;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub use driver::{Programs, find_programs};
pub use error::WebDriverError;

/// The key under which WebDriver hides the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Longer than the time that a page gets to load, so that the driver's own complaint comes first.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);
/// A cold start reads a few hundred megabytes.
const OPENED_WITHIN: Duration = Duration::from_secs(60);
const LOADED_WITHIN: Duration = Duration::from_secs(60);
const SCRIPT_WITHIN: Duration = Duration::from_secs(60);
const CLOSED_WITHIN: Duration = Duration::from_secs(60);
/// An element may be replaced by a live update between being found and being used.
const ACT_WITHIN: Duration = Duration::from_secs(60);
const TO_THE_MIDDLE: &str = "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })";
/// Pages are looked at this often while somebody waits for a change.
const POLL: Duration = Duration::from_millis(50);

/// No sandbox, because the tests may run in a container; no traffic but the test's own.
const ARGUMENTS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// How a browser differs from the usual one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrowserOptions {
    /// Whether pages may run scripts.
    pub javascript: bool,
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self { javascript: true }
    }
}

/// A running browser with one window and an empty profile. It is closed and killed with its value.
///
/// ```
/// # use tidemill_testkit::skip::require;
/// # use tidemill_testkit::webdriver::{Browser, BrowserOptions, find_programs};
/// let Some(_programs) = require("chromium", find_programs()) else { return };
/// let browser = Browser::start(&BrowserOptions::default()).unwrap();
///
/// browser.goto("data:text/html,<title>Hello</title><p>world</p>").unwrap();
///
/// assert_eq!(browser.title().unwrap(), "Hello");
/// assert_eq!(browser.text("p").unwrap(), "world");
/// ```
#[derive(Debug)]
pub struct Browser {
    session: String,
    driver: Driver,
}

impl Browser {
    /// Starts chromedriver and lets it open a browser.
    pub fn start(options: &BrowserOptions) -> Result<Self, ServerError> {
        let driver = Driver::start()?;
        let wanted = capabilities(&driver, *options);
        let opened = wire::ask(driver.port(), "POST", "/session", Some(&wanted), OPENED_WITHIN)
            .map_err(|error| driver.complaint(&format!("chromedriver opened no browser: {error}")))?;
        let session = opened["sessionId"].as_str();
        let session = session.ok_or_else(|| driver.complaint("chromedriver named no session"))?.to_owned();
        Ok(Self { session, driver })
    }

    /// The process id of chromedriver, whose child the browser is.
    pub fn pid(&self) -> u32 {
        self.driver.pid()
    }

    /// Opens an address and returns once the page has loaded.
    pub fn goto(&self, url: &str) -> Result<(), WebDriverError> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// The address of the page, after redirections.
    pub fn url(&self) -> Result<String, WebDriverError> {
        self.get("/url").and_then(|url| string(&url))
    }

    /// The title of the page.
    pub fn title(&self) -> Result<String, WebDriverError> {
        self.get("/title").and_then(|title| string(&title))
    }

    /// The text, as people see it, of the first element that the selector finds.
    pub fn text(&self, css: &str) -> Result<String, WebDriverError> {
        let found = self.texts(css)?.into_iter().next();
        found.ok_or_else(|| WebDriverError::refused("no such element", format!("nothing matches {css}")))
    }

    /// The texts of all elements that the selector finds, in the order of the page.
    pub fn texts(&self, css: &str) -> Result<Vec<String>, WebDriverError> {
        // One script instead of a request for each element: a live update cannot come between.
        let script =
            "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)";
        let found = self.run(script, &json!([css]))?;
        let found = found.as_array().ok_or_else(|| WebDriverError::garbled(&found))?;
        found.iter().map(string).collect()
    }

    /// Whether the selector finds anything.
    pub fn exists(&self, css: &str) -> Result<bool, WebDriverError> {
        let found = self.run("return document.querySelector(arguments[0]) !== null", &json!([css]))?;
        found.as_bool().ok_or_else(|| WebDriverError::garbled(&found))
    }

    /// Clicks on the first element that the selector finds, as a hand would: what is hidden, disabled or
    /// covered cannot be clicked. A page that it leads to may still be loading: wait for what is on it.
    pub fn click(&self, css: &str) -> Result<(), WebDriverError> {
        self.act(css, |element| {
            // To the middle, as a hand would bring it there: the driver is content with the edge, where the bottom line is.
            self.run(TO_THE_MIDDLE, &json!([{ ELEMENT: element }]))?;
            self.post(&format!("/element/{element}/click"), &json!({})).map(drop)
        })
    }

    /// Types `text` into the first field that the selector finds, in place of what is there.
    pub fn fill(&self, css: &str, text: &str) -> Result<(), WebDriverError> {
        self.act(css, |element| {
            self.post(&format!("/element/{element}/clear"), &json!({}))?;
            self.post(&format!("/element/{element}/value"), &json!({ "text": text })).map(drop)
        })
    }

    /// Runs a script in the page, also where the page itself may run none, and returns what it returns.
    pub fn execute(&self, script: &str) -> Result<Value, WebDriverError> {
        self.run(script, &json!([]))
    }

    /// Gives the page a window of this size, however small: real windows have a least width.
    pub fn set_window(&self, width: u32, height: u32) -> Result<(), WebDriverError> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("/goog/cdp/execute", &command).map(drop)
    }

    /// Writes what the window shows to a PNG file.
    pub fn screenshot(&self, path: &Path) -> Result<(), WebDriverError> {
        let text = self.get("/screenshot").and_then(|image| string(&image))?;
        let image = base64::decode(&text).ok_or_else(|| WebDriverError::garbled(&json!("an image")))?;
        fs::write(path, image).map_err(WebDriverError::Unreachable)
    }

    /// The errors that the console has got since the last call: exceptions, failed requests, broken policies.
    pub fn console_errors(&self) -> Result<Vec<String>, WebDriverError> {
        let log = self.post("/se/log", &json!({ "type": "browser" }))?;
        let lines = log.as_array().ok_or_else(|| WebDriverError::garbled(&log))?;
        lines.iter().filter(|line| line["level"] == "SEVERE").map(|line| string(&line["message"])).collect()
    }

    /// Asks again and again until `holds` says so, at most for `limit`. An element that is not there, or not
    /// any more, means not yet.
    pub fn wait_until(
        &self,
        limit: Duration,
        mut holds: impl FnMut(&Self) -> Result<bool, WebDriverError>,
    ) -> Result<(), WebDriverError> {
        let deadline = Deadline::after(limit);
        loop {
            match holds(self) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.is_of_the_moment() => {}
                Err(error) => return Err(error),
            }
            let Some(left) = deadline.remaining() else { break };
            thread::sleep(left.min(POLL));
        }
        let page = self.text("body").unwrap_or_default();
        let url = self.url().unwrap_or_default();
        Err(WebDriverError::TimedOut { limit, page: format!("{url}\n{page}") })
    }

    /// Finds an element and does something with it; again when it was replaced in between.
    fn act(
        &self,
        css: &str,
        mut action: impl FnMut(&str) -> Result<(), WebDriverError>,
    ) -> Result<(), WebDriverError> {
        let deadline = Deadline::after(ACT_WITHIN);
        loop {
            let found = self.post("/element", &json!({ "using": "css selector", "value": css }))?;
            let element = found[ELEMENT].as_str().ok_or_else(|| WebDriverError::garbled(&found))?;
            match action(element) {
                Err(error) if error.is_stale() && deadline.remaining().is_some() => {}
                done => return done,
            }
        }
    }

    fn run(&self, script: &str, arguments: &Value) -> Result<Value, WebDriverError> {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    fn get(&self, path: &str) -> Result<Value, WebDriverError> {
        self.ask("GET", path, None, COMMAND_WITHIN)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, WebDriverError> {
        self.ask("POST", path, Some(body), COMMAND_WITHIN)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<Value, WebDriverError> {
        let path = format!("/session/{}{path}", self.session);
        wire::ask(self.driver.port(), method, &path, body, limit)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // In order if possible; otherwise the browser dies with chromedriver, which is killed next.
        let _closed = self.ask("DELETE", "", None, CLOSED_WITHIN);
    }
}

/// What the browser shall be like, in WebDriver's words.
fn capabilities(driver: &Driver, options: BrowserOptions) -> Value {
    let profile = format!("--user-data-dir={}", driver.profile().display());
    let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([profile.as_str()]).collect();
    let mut preferences = json!({});
    if !options.javascript {
        preferences["profile.managed_default_content_settings.javascript"] = json!(2);
    }
    json!({ "capabilities": { "alwaysMatch": {
        "goog:chromeOptions": { "binary": driver.browser(), "args": arguments, "prefs": preferences },
        "goog:loggingPrefs": { "browser": "ALL" },
        "timeouts": {
            "pageLoad": LOADED_WITHIN.as_secs() * 1000,
            "script": SCRIPT_WITHIN.as_secs() * 1000,
            "implicit": 0,
        },
    } } })
}

fn string(value: &Value) -> Result<String, WebDriverError> {
    value.as_str().map(str::to_owned).ok_or_else(|| WebDriverError::garbled(value))
}
