//! Starts the program and sends requests to it.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_testkit::Guarded;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. It ends when this value is dropped.
pub(super) struct Served {
    _program: Guarded,
    address: String,
    clock: SystemClock,
}

impl Served {
    /// Starts the program that was built beside the benchmark.
    pub(super) fn start(url: &str, folder: &Path) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("tidemill");
        ensure!(program.exists(), "{} is not there; use cargo xtask bench lists", program.display());
        let log = folder.join("serve.log");
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("TIDEMILL_DATABASE_URL", url)
            .current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
        let program = Guarded::spawn(command)?;
        for _ in 0..1_500 {
            let text = fs::read_to_string(&log)?;
            let line = text.split("serving http://").nth(1).and_then(|rest| rest.split_once('\n'));
            if let Some((line, _)) = line {
                let address = line.split('/').next().unwrap_or_default().to_owned();
                return Ok(Self { _program: program, address, clock: SystemClock::new() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server does not listen: {}", fs::read_to_string(&log)?)
    }

    /// The time from the request to the first byte of the response, on a new connection.
    pub(super) fn first_byte(&self, path: &str) -> Result<Duration> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let begin = self.clock.monotonic();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)?;
        let mut first = [0];
        stream.read_exact(&mut first).with_context(|| format!("{path} does not answer"))?;
        let took = self.clock.monotonic().since(begin);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        let rest = String::from_utf8_lossy(&rest);
        ensure!(rest.starts_with("TTP/1.1 200"), "{path}: {}", rest.lines().next().unwrap_or_default());
        Ok(took)
    }
}
