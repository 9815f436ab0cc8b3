//! AWS's emulator of Lambda, which runs the function.

use crate::BOOTSTRAP;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tidemill_testkit::Guarded;

const PATIENCE: Duration = Duration::from_secs(360);
const LOOK: Duration = Duration::from_millis(20);

/// The emulator calls every function by this name.
const INVOKE: &str = "/2015-03-31/functions/function/invocations";

pub(crate) struct Emulator {
    child: Guarded,
    pub(crate) port: u16,
    folder: TempDir,
}

impl Emulator {
    /// `timeout` is that of the function, in seconds.
    pub(crate) fn start(program: &Path, timeout: u32, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [port, api] = [free(), free()];
        let mut command = Command::new(program);
        command.args(["--runtime-interface-emulator-address", &format!("127.0.0.1:{port}")]);
        command.args(["--runtime-api-address", &format!("127.0.0.1:{api}"), BOOTSTRAP]);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if ["AWS_", "TIDEMILL_"].iter().any(|start| name.starts_with(start)) {
                command.env_remove(name);
            }
        }
        command.env("AWS_LAMBDA_FUNCTION_TIMEOUT", timeout.to_string()).envs(variables.iter().copied());
        command.current_dir(folder.path()).stdin(Stdio::null());
        let log = File::create(folder.path().join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let emulator = Self { child: Guarded::spawn(command).unwrap(), port, folder };
        emulator.wait("it listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        emulator
    }

    fn wait<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if let Some(found) = look() {
                return found;
            }
            std::thread::sleep(LOOK);
        }
        panic!("waited in vain: {what}\n{}", self.log());
    }

    /// What the emulator and the function have printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// What the function answers.
    pub(crate) fn invoke(&self, event: &Value) -> Value {
        let text = post(self.port, &event.to_string());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{}", self.log()))
    }

    /// The process of the function. A new one after each that has ended.
    pub(crate) fn function(&self) -> i32 {
        let program = fs::canonicalize(BOOTSTRAP).unwrap();
        self.wait("the function runs", || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            pids.find(|pid: &i32| {
                let runs = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
                runs && parent.is_some_and(|parent| parent.trim() == self.child.pid().to_string())
            })
        })
    }
}

/// The body of the answer of the emulator at this port.
pub(crate) fn post(port: u16, body: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("POST {INVOKE} HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A port that nobody listens on now.
fn free() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Sends a signal with the `kill` of every system.
pub(crate) fn signal(name: &str, process: i32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "{name} {process}");
}
