//! The browser, really started, on pages that the test itself serves.
#![cfg(test)]

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tidemill_testkit::skip::require;
use tidemill_testkit::webdriver::find_programs;
use tidemill_testkit::{Browser, BrowserOptions, Signal};

const WAIT: Duration = Duration::from_secs(60);

const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Mill</title><link rel=icon href='data:,'>
    <h1>Gate</h1>
    <ul><li>one <li>two <li hidden>three</ul>
    <p id=script>without a script</p>
    <noscript><p id=noscript>no script</p></noscript>
    <form action=/sent><input name=word value=old><button>Send</button></form>
    <button id=late disabled>Late</button>
    <script>
      document.querySelector('#script').textContent = 'with a script';
      setTimeout(() => document.querySelector('h1').textContent = 'Open gate', 300);
    </script>";

const BROKEN: &str = "<!doctype html><title>Broken</title><link rel=icon href='data:,'>
    <script>console.warn('only a warning'); nobody.knows()</script>";

/// Serves the pages until the test process ends; returns their address.
fn serve() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser opens connections in advance and may leave them idle.
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut request = [0; 4096];
    let count = stream.read(&mut request).unwrap_or(0);
    let line = String::from_utf8_lossy(&request[..count]).lines().next().unwrap_or_default().to_owned();
    let path = line.split(' ').nth(1).unwrap_or_default();
    let (status, page) = match path {
        "/" => ("200 OK", PAGE.to_owned()),
        "/broken" => ("200 OK", BROKEN.to_owned()),
        _ if path.starts_with("/sent") => ("200 OK", format!("<title>Sent</title><p>{path}</p>")),
        _ => ("404 Not Found", String::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n");
    let _sent = write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len());
}

/// None when the tests of the browser are to be skipped.
fn open(options: BrowserOptions) -> Option<Browser> {
    require("chromium", find_programs())?;
    let browser = Browser::start(&options).unwrap();
    browser.goto(&serve()).unwrap();
    Some(browser)
}

#[test]
fn a_page_is_read_as_people_see_it() {
    let Some(browser) = open(BrowserOptions::default()) else { return };

    assert_eq!(browser.title().unwrap(), "Mill");
    assert_eq!(browser.texts("li:not([hidden])").unwrap(), ["one", "two"]);
    assert_eq!(browser.text("#script").unwrap(), "with a script");
    assert!(browser.exists("form").unwrap());
    assert!(!browser.exists("#noscript").unwrap());
    let missing = browser.text("#nothing").unwrap_err().to_string();
    assert_eq!(missing, "no such element: nothing matches #nothing");
}

#[test]
fn without_javascript_a_page_runs_no_script_but_can_be_read_and_used() {
    let Some(browser) = open(BrowserOptions { javascript: false }) else { return };

    assert_eq!(browser.text("#script").unwrap(), "without a script");
    assert_eq!(browser.text("#noscript").unwrap(), "no script");
    browser.fill("[name=word]", "new").unwrap();
    browser.click("form button").unwrap();

    browser.wait_until(WAIT, |page| Ok(page.text("p")? == "/sent?word=new")).unwrap();
}

#[test]
fn a_form_is_filled_in_and_sent() {
    let Some(browser) = open(BrowserOptions::default()) else { return };

    browser.fill("[name=word]", "grüße").unwrap();
    browser.click("form button").unwrap();

    browser.wait_until(WAIT, |page| Ok(page.title()? == "Sent")).unwrap();
    assert!(browser.url().unwrap().ends_with("/sent?word=gr%C3%BC%C3%9Fe"));
}

#[test]
fn a_change_is_waited_for_only_so_long() {
    let Some(browser) = open(BrowserOptions::default()) else { return };

    browser.wait_until(WAIT, |page| Ok(page.text("h1")? == "Open gate")).unwrap();
    let never = browser.wait_until(Duration::from_millis(100), |page| page.exists("#nothing"));

    let text = never.unwrap_err().to_string();
    assert!(text.contains("within 100ms") && text.contains("Open gate"), "{text}");
}

#[test]
fn the_console_tells_errors_once_and_not_warnings() {
    let Some(browser) = open(BrowserOptions::default()) else { return };
    assert_eq!(browser.console_errors().unwrap(), Vec::<String>::new());
    let home = browser.url().unwrap();

    browser.goto(&format!("{home}broken")).unwrap();
    let errors = browser.console_errors().unwrap();
    browser.execute("return fetch('/nowhere').then(() => true)").unwrap();
    let failed = browser.console_errors().unwrap();

    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("nobody is not defined"), "{errors:?}");
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("404"), "{failed:?}");
}

#[test]
fn a_window_can_be_as_narrow_as_a_telephone_and_is_shown_so() {
    let Some(browser) = open(BrowserOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.png");

    browser.set_window(320, 480).unwrap();
    browser.screenshot(&file).unwrap();

    assert_eq!(browser.execute("return [innerWidth, innerHeight]").unwrap(), serde_json::json!([320, 480]));
    let image = fs::read(file).unwrap();
    assert_eq!(&image[..8], b"\x89PNG\r\n\x1a\n");
    let size = |at: usize| u32::from_be_bytes(image[at..at + 4].try_into().unwrap());
    assert_eq!((size(16), size(20)), (320, 480));
}

/// The folder of the browser's profile, as its command line names it.
fn profile_of(browser: &Browser) -> String {
    // The kernel lists children by the thread that started them.
    let threads = fs::read_dir(format!("/proc/{}/task", browser.pid())).unwrap().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: String = children.collect();
    let lines = children.split_whitespace().map(|child| fs::read(format!("/proc/{child}/cmdline")));
    let words: Vec<u8> = lines.flat_map(Result::unwrap_or_default).collect();
    let words = String::from_utf8_lossy(&words);
    words.split('\0').find_map(|word| word.strip_prefix("--user-data-dir=")).unwrap().to_owned()
}

/// The processes that have this text in their command line.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

/// The same, after those that are about to end have ended: the kernel tells a child of its parent's death, and the
/// child then takes a moment.
fn left_after_a_while(text: &str) -> Vec<String> {
    for _ in 0..1_200 {
        if processes_with(text).is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    processes_with(text)
}

#[test]
fn a_dropped_browser_leaves_neither_a_process_nor_a_folder() {
    let Some(browser) = open(BrowserOptions::default()) else { return };
    let profile = profile_of(&browser);
    assert!(!processes_with(&profile).is_empty());

    drop(browser);

    assert_eq!(left_after_a_while(&profile), Vec::<String>::new());
    assert!(!std::path::Path::new(&profile).parent().unwrap().exists());
}

#[test]
fn a_browser_dies_with_a_driver_that_was_killed() {
    let Some(browser) = open(BrowserOptions::default()) else { return };
    let profile = profile_of(&browser);
    let driver = rustix::process::Pid::from_raw(browser.pid().cast_signed()).unwrap();

    rustix::process::kill_process(driver, Signal::KILL).unwrap();

    let mut left = processes_with(&profile);
    for _ in 0..1_200 {
        if left.is_empty() {
            return;
        }
        thread::sleep(WAIT / 1_200);
        left = processes_with(&profile);
    }
    panic!("still there after {WAIT:?}: {left:#?}");
}
