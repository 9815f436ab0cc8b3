//! The chromedriver process, and the browser that it starts: both are gone when one of them is.

use crate::account::{Account, find_program};
use crate::child::Guarded;
use crate::deadline::Deadline;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::log::Log;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const READY_WITHIN: Duration = Duration::from_secs(180);
/// What chromedriver says once it listens, before the number of its port.
const LISTENS: &str = "was started successfully on port ";
/// What chromedriver says when the port that it got for IPv6 is taken for IPv4: it does not look for another.
const TAKEN: &str = "bind() failed: Address already in use";
const PORTS_TRIED: u32 = 5;

/// The two programs that a browser of a test is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    /// The browser.
    pub chromium: PathBuf,
    /// What steers it.
    pub chromedriver: PathBuf,
}

/// The programs, when both are installed.
pub fn find_programs() -> Option<Programs> {
    Some(Programs { chromium: find_program("chromium")?, chromedriver: find_program("chromedriver")? })
}

/// A running chromedriver that dies with its value.
#[derive(Debug)]
pub(super) struct Driver {
    // Dropped in this order: the process before the folder that it writes to.
    server: Guarded,
    port: u16,
    browser: PathBuf,
    log: Log,
    folder: Folder,
}

impl Driver {
    /// Starts one on a port of its own choice, and returns once it listens.
    pub(super) fn start() -> Result<Self, ServerError> {
        for _ in 1..PORTS_TRIED {
            match Self::start_on_some_port() {
                Err(error) if error.to_string().contains(TAKEN) => {}
                started => return started,
            }
        }
        Self::start_on_some_port()
    }

    fn start_on_some_port() -> Result<Self, ServerError> {
        let programs =
            find_programs().ok_or_else(|| ServerError::new("chromium and chromedriver were not found"))?;
        let account = Account::for_servers()?;
        let folder = Folder::create(account)?;
        // It keeps nothing, so it may be killed.
        let mut command = account.server_command(&programs.chromedriver, "SIGKILL");
        command.arg("--port=0");
        // Whatever the browser wants to keep goes with the folder, and no setting of the account comes in.
        for name in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(name, folder.path());
        }
        let log = Log::attach(&folder.path().join("chromedriver.log"), &mut command)?;
        let browser = leashed(&programs.chromium, account, folder.path())
            .map_err(|error| ServerError::caused("cannot write the browser's script", error))?;
        // The browser is in its group.
        let mut server = Guarded::spawn_group(command)
            .map_err(|error| ServerError::caused("cannot run chromedriver", error))?;
        let port = wait_until_ready(&mut server, &log)?;
        Ok(Self { server, port, browser, log, folder })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The program that runs the browser.
    pub(super) fn browser(&self) -> &Path {
        &self.browser
    }

    /// Where the browser keeps its profile: nothing is there yet.
    pub(super) fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    /// An error with what the driver last logged.
    pub(super) fn complaint(&self, text: &str) -> ServerError {
        ServerError::new(text).with_log(self.log.tail())
    }
}

/// A program that runs the browser on a leash: chromedriver leaves it behind when it is killed.
fn leashed(chromium: &Path, account: Account, folder: &Path) -> io::Result<PathBuf> {
    let command = account.server_command(chromium, "SIGKILL");
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    let script = folder.join("chromium");
    fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn wait_until_ready(server: &mut Guarded, log: &Log) -> Result<u16, ServerError> {
    let deadline = Deadline::after(READY_WITHIN);
    while deadline.remaining().is_some() {
        if let Some(status) = server.wait_deadline(Duration::from_millis(10)) {
            let text = format!("chromedriver ended while it was starting ({status})");
            return Err(ServerError::new(text).with_log(log.tail()));
        }
        if let Some(port) = port_in(&log.text()) {
            return Ok(port);
        }
    }
    Err(ServerError::new(format!("chromedriver was not ready within {READY_WITHIN:?}")).with_log(log.tail()))
}

/// The port that chromedriver says it listens on. A line without its end may be cut within the number.
fn port_in(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once(LISTENS)?;
    let (line, _) = rest.split_once('\n')?;
    line.trim_end().trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word_for_a_shell() {
        let word = "it's $HOME \"here\"";

        let mut echo = std::process::Command::new("sh");
        let output = echo.args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();

        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }

    #[test]
    fn the_port_is_read_only_from_a_whole_line() {
        let log =
            "Starting ChromeDriver 150 on port 0\nChromeDriver was started successfully on port 40123.\n";

        assert_eq!(port_in(log), Some(40123));
        assert_eq!(port_in(&log[..log.len() - 4]), None);
        assert_eq!(port_in("Starting ChromeDriver 150 on port 0\n"), None);
    }
}
