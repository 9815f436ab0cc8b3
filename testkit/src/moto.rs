//! Services of AWS of a test's own: moto, with one bucket of S3 at first. It checks no credentials until it is told to.

use crate::child::Guarded;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The variable that names a Python with moto; `cargo xtask test` installs one.
pub const PYTHON: &str = "TIDEMILL_TEST_MOTO_PYTHON";

/// The bucket.
pub const BUCKET: &str = "lake";

/// Keys on one page of a list. S3 has 1000.
pub const PAGE_KEYS: usize = 100;

/// Ends when its standard input does, or is killed before.
const SERVER: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
";

/// It answers only requests that look signed, except those that make an object. It does not check the signature.
const SIGNED: &str =
    "AWS4-HMAC-SHA256 Credential=test/20261118/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

const READY_WITHIN: Duration = Duration::from_secs(180);

/// A running server that dies with its value.
#[derive(Debug)]
pub struct PrivateMoto {
    _server: Guarded,
    python: OsString,
    port: u16,
}

impl PrivateMoto {
    /// Starts a server with this Python.
    pub fn start(python: &OsStr) -> io::Result<Self> {
        let mut command = Command::new(python);
        command.env("MOTO_S3_DEFAULT_MAX_KEYS", PAGE_KEYS.to_string());
        command.args(["-c", SERVER]).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut server = Guarded::spawn_reading(command)?;
        let line = server.next_line(READY_WITHIN).map_err(io::Error::other)?;
        let port = line.trim().parse().map_err(io::Error::other)?;
        let moto = Self { _server: server, python: python.to_owned(), port };
        moto.make_bucket(BUCKET)?;
        Ok(moto)
    }

    /// Its address.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables by which clients find it.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// Makes another bucket.
    pub fn make_bucket(&self, name: &str) -> io::Result<()> {
        self.request("PUT", &format!("/{name}"), b"").map(drop)
    }

    /// Runs a Python program, whose boto3 finds this server, and returns what it prints. These variables replace those of
    /// [`variables`](Self::variables).
    pub fn python(&self, program: &str, variables: &[(&str, &str)]) -> io::Result<String> {
        let mut command = Command::new(&self.python);
        command.args(["-c", program]).envs(self.variables()).env("AWS_DEFAULT_REGION", "us-east-1");
        command.envs(variables.iter().copied());
        let ran = command.stdin(Stdio::null()).output()?;
        if !ran.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&ran.stderr).into_owned()));
        }
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    /// Makes an object.
    pub fn put(&self, key: &str, body: &[u8]) -> io::Result<()> {
        self.request("PUT", &format!("/{BUCKET}/{key}"), body).map(drop)
    }

    /// The content of an object; none if there is no such object.
    pub fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.get_of(BUCKET, key)
    }

    /// The same in another bucket.
    pub fn get_of(&self, bucket: &str, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.request("GET", &format!("/{bucket}/{key}"), b"")
    }

    /// The keys of the objects on the first page, sorted.
    pub fn keys(&self) -> io::Result<Vec<String>> {
        self.listed("list-type=2")
    }

    /// The keys of all uploads that are not finished.
    pub fn uploads(&self) -> io::Result<Vec<String>> {
        self.listed("uploads")
    }

    fn listed(&self, query: &str) -> io::Result<Vec<String>> {
        let answer = self.request("GET", &format!("/{BUCKET}?{query}"), b"")?.unwrap_or_default();
        let text = String::from_utf8_lossy(&answer).into_owned();
        let keys =
            text.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()));
        Ok(keys.collect())
    }

    /// The body of the answer; none if it is 404.
    fn request(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: {SIGNED}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(answer.len());
        let status = String::from_utf8_lossy(&answer[..end]).split(' ').nth(1).unwrap_or_default().to_owned();
        match status.as_str() {
            "404" => Ok(None),
            "200" | "204" => Ok(Some(answer.split_off((end + 4).min(answer.len())))),
            other => Err(io::Error::other(format!("{method} {path} was answered with {other}"))),
        }
    }
}
