//! The server as a process: how it starts, refuses to, answers and ends.

use crate::{BINARY, Ran, Stage};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_testkit::{Guarded, Signal};

const PATIENCE: Duration = Duration::from_secs(180);

/// A server on a free port.
pub(crate) struct Served {
    pub(crate) child: Guarded,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> Self {
        Self::start_to(stage, arguments, Stdio::null())
    }

    /// The same, which prints to `output`.
    pub(crate) fn start_to(stage: &Stage, arguments: &[&str], output: Stdio) -> Self {
        Self::start_by(stage, Command::new(BINARY), arguments, output)
    }

    /// The same, where `program` starts what it gets as arguments.
    fn start_by(stage: &Stage, program: Command, arguments: &[&str], output: Stdio) -> Self {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        // Standard error tells the address; a file, because the guard owns the pipes.
        let log = stage.path("serve.log");
        let mut command = stage.dress(program, &all);
        command.stderr(std::fs::File::create(&log).unwrap()).stdout(output);
        let child = Guarded::spawn(command).unwrap();
        for _ in 0..6_000 {
            let text = std::fs::read_to_string(&log).unwrap();
            if let Some(rest) = text.split("serving http://").nth(1)
                && let Some((address, _)) = rest.split_once('\n')
            {
                let address = address.split('/').next().unwrap().to_owned();
                return Self { child, address };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not listen: {}", std::fs::read_to_string(&log).unwrap());
    }

    /// Asks, and returns status and body.
    pub(crate) fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let bearer = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        ask(&self.address, "GET", path, &bearer, "")
    }

    /// Sends a body of JSON, and returns status and body.
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, String) {
        post(&self.address, path, body)
    }
}

fn post(address: &str, path: &str, body: &str) -> (u16, String) {
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    ask(address, "POST", path, &headers, body)
}

pub(crate) fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n{body}")
        .unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    reader.read_line(&mut head).unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, rest.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn a_server_answers_and_ends_in_order_at_sigterm() {
    let stage = Stage::new().with("TIDEMILL_PROCESS_NAME", "server-1");
    let mut served = Served::start(&stage, &[]);

    assert_eq!(served.get("/healthz/ready", None).0, 200);
    let (status, processes) = served.get("/api/v1/processes", None);
    assert!(status == 200 && processes.contains("\"server-1\""), "{processes}");
    assert_eq!(served.get("/nothing", None).0, 404);
    let open_stream = TcpStream::connect(&served.address).unwrap();
    (&open_stream)
        .write_all(
            format!("GET /ui/events?page=overview HTTP/1.1\r\nhost: {}\r\n\r\n", served.address).as_bytes(),
        )
        .unwrap();
    served.child.signal(Signal::TERM).unwrap();

    let ended = served.child.wait_deadline(PATIENCE).expect("it ends within 25 seconds, whoever listens");
    assert!(ended.success(), "{ended:?}");
    let listed = stage.run(&["process", "list", "-o", "csv"]);
    assert!(listed.stdout.contains(",stopped,"), "{listed:#?}");
}

#[test]
fn who_waits_for_units_is_told_its_place_when_the_server_ends() {
    let stage = Stage::new();
    let mut served = Served::start(&stage, &[]);
    let ask = |run: &str, wait: u32| {
        format!(
            r#"{{"pool":"ADW","dag_id":"d","dag_run_id":"{run}","parallel_hint":8,"min_parallel":8,"wait_seconds":{wait}}}"#
        )
    };
    let (status, body) = served.post("/api/v1/pools", r#"{"name":"ADW","max_units":10}"#);
    assert_eq!(status, 201, "{body}");
    assert!(served.post("/acquire", &ask("first", 0)).1.contains("\"allowed\":true"));

    let (address, body) = (served.address.clone(), ask("second", 50));
    let second = std::thread::spawn(move || post(&address, "/acquire", &body));
    let is_waiting = || served.get("/status", None).1.contains("\"waiting_batches\":1");
    assert!((0..6_000).any(|_| is_waiting() || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
    served.child.signal(Signal::TERM).unwrap();

    let (status, body) = second.join().unwrap();
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"allowed\":false") && body.contains("\"queue_position\":1"), "{body}");
    let ended = served.child.wait_deadline(PATIENCE).expect("nobody keeps it");
    assert!(ended.success(), "{ended:?}");
}

/// So many connections would wait for more than a minute if each could keep its place.
#[test]
fn health_is_told_at_once_however_many_connections_say_nothing() {
    let stage = Stage::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\"", BINARY]);
    let served = Served::start_by(&stage, shell, &[], Stdio::null());

    let crowd: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(&served.address).unwrap();
            if number % 2 == 0 {
                // It may have been closed already.
                let _sent_or_not = stream.write_all(b"GET /healthz/live HTTP/1.1\r\nhost: ");
            }
            stream
        })
        .collect();

    for _ in 0..20 {
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let request = format!("GET /healthz/live HTTP/1.1\r\nhost: {}\r\n\r\n", served.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer within seconds");
        assert_eq!(&head, b"HTTP/1.1 200");
    }
    drop(crowd);
}

#[test]
fn a_server_is_not_open_beyond_this_host() {
    let stage = Stage::new().with("TIDEMILL_SERVER_AUTH", "none");

    stage.run(&["serve", "--listen", "0.0.0.0:0"]).fails("TM0509", 2);
    let listed = stage.run(&["process", "list", "-o", "csv"]);
    assert!(!listed.stdout.contains(",live,"), "{listed:#?}");
}

#[test]
fn what_is_wrong_with_the_address_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let stage = Stage::new();

    stage.run(&["serve", "--listen", &taken.local_addr().unwrap().to_string()]).fails("TM0510", 6);
    stage.run(&["serve", "--listen", "nowhere"]).fails("TM0102", 2);
    stage.run(&["serve", "--base-path", "no-slash"]).fails("TM0102", 2);
    Stage::on("postgres://t@127.0.0.1:1/x").run(&["serve"]).fails("TM0202", 6);
}

#[test]
fn a_token_of_the_command_line_opens_a_closed_server_until_it_is_revoked() {
    let stage = Stage::new().with("TIDEMILL_SERVER_AUTH", "required");
    let created = stage.run(&["token", "create", "etl", "--role", "viewer", "--expires", "1d"]);
    let token = created.succeeds().stdout.trim().to_owned();
    assert!(token.starts_with("tm_") && !created.stderr.contains(&token), "{created:#?}");
    let served = Served::start(&stage, &["--base-path", "/tm", "-vvv"]);

    assert_eq!(served.get("/tm/api/v1/processes", None).0, 401);
    assert_eq!(served.get("/tm/api/v1/processes", Some(&token)).0, 200);
    assert_eq!(served.get("/tm/api/v1/tokens", Some(&token)).0, 403);
    let listed = stage.run(&["token", "list"]);
    let id = token.split('_').nth(1).unwrap();
    assert!(listed.stdout.contains(id) && listed.stdout.contains("valid") && !listed.stdout.contains(&token));
    stage.run(&["token", "delete", id]).succeeds();
    stage.run(&["token", "delete", id]).fails("TM0508", 3);
    assert_eq!(served.get("/tm/api/v1/processes", Some(&token)).0, 401);

    let log = std::fs::read_to_string(stage.path("serve.log")).unwrap();
    let secret = token.rsplit('_').next().unwrap();
    assert!(!log.contains(secret), "a secret is in the log");
}

#[test]
fn a_token_in_the_address_of_an_endpoint_is_in_no_log() {
    let stage = Stage::new().with("TIDEMILL_SERVER_AUTH", "required");
    let created = stage.run(&["token", "create", "mwaa", "--role", "requester", "--expires", "1d"]);
    let token = created.succeeds().stdout.trim().to_owned();
    let served = Served::start(&stage, &["-vvv"]);
    let function = "2015-03-31/functions/emr-batch-agent";

    let (status, body) =
        served.post(&format!("/aws/{token}/{function}/invocations"), r#"{"action":"status"}"#);
    assert_eq!(status, 200, "{body}");
    for (path, status) in [(format!("{function}/none"), 404), ("2015-03-31/functions/none".into(), 404)] {
        let (answered, body) = served.get(&format!("/aws/{token}/{path}"), None);
        assert!(answered == status && !body.contains(&token), "{path}: {answered} {body}");
    }
    let event = format!("/aws/{token}/2014-11-13/functions/emr-batch-agent/invoke-async/");
    assert_eq!(served.post(&event, r#"{"action":"none"}"#).0, 202);

    let log = std::fs::read_to_string(stage.path("serve.log")).unwrap();
    let secret = token.rsplit('_').next().unwrap();
    assert!(log.contains("an event was invalid") && !log.contains(secret), "{log}");
    let audit = stage.run(&["audit", "list", "-o", "json"]);
    assert!(!audit.stdout.contains(secret), "{audit:#?}");
}

#[test]
fn a_token_that_makes_no_sense_is_refused() {
    let stage = Stage::new();
    for arguments in [
        &["token", "create", ""][..],
        &["token", "create", "x", "--role", "system"],
        &["token", "create", "x", "--scope", "everything"],
        &["token", "create", "x", "--expires", "0s"],
        &["token", "create", "x", "--expires", "soon"],
    ] {
        let ran: Ran = stage.run(arguments);
        ran.fails("TM0002", 2);
    }
}

#[test]
fn a_server_that_was_frozen_gives_itself_up() {
    // Longer than a busy machine takes to start it.
    let lease = Duration::from_secs(15);
    let stage = Stage::new().with("TIDEMILL_PROCESS_LEASE", "15s");
    let mut served = Served::start(&stage, &[]);

    served.child.signal(Signal::STOP).unwrap();
    std::thread::sleep(lease);
    served.child.signal(Signal::CONT).unwrap();

    let ended = served.child.wait_deadline(PATIENCE).expect("it ends by itself");
    assert_eq!(ended.code(), Some(5));
    let log = std::fs::read_to_string(stage.path("serve.log")).unwrap();
    assert!(log.contains("error[TM0303]"), "{log}");
}

#[test]
fn an_issuer_whose_key_cannot_be_used_stops_the_start() {
    let stage = Stage::new().with("TIDEMILL_SERVER_AUTH", "required").with("SHORT", "short");
    let issuer = "[jwt.issuers.sso]\nissuer = \"i\"\naudience = \"a\"\n";
    std::fs::write(stage.path("tidemill.toml"), format!("{issuer}public_key = \"absent.pem\"\n")).unwrap();
    stage.run(&["serve", "--listen", "127.0.0.1:0"]).fails("TM0104", 2);

    let shared = format!("{issuer}algorithm = \"hs256\"\nsecret = \"env:SHORT\"\n");
    std::fs::write(stage.path("tidemill.toml"), shared).unwrap();
    stage.run(&["serve", "--listen", "127.0.0.1:0"]).fails("TM0102", 2);
}
