//! The proxy that counts statements and loses commits, between a client and a server that are both played by the test.
#![cfg(test)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use tidemill_testkit::{CommitProxy, Loss};

const WAIT: Duration = Duration::from_secs(60);

/// What a server answers to everything.
const ANSWER: &[u8] = b"Z\0\0\0\x05I";

/// A server that tells which statements it got, and answers each.
fn server() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://tidemill@{}/db", listener.local_addr().unwrap());
    let (got, statements) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, got) = (stream.unwrap(), got.clone());
            thread::spawn(move || {
                while let Some(statement) = read_statement(&mut stream) {
                    let _nobody_listens = got.send(statement);
                    stream.write_all(ANSWER).unwrap();
                }
            });
        }
    });
    (url, statements)
}

/// The next statement; the first message of a connection, which has no kind, is passed over.
fn read_statement(stream: &mut TcpStream) -> Option<String> {
    let mut head = [0; 5];
    loop {
        stream.read_exact(&mut head[..4]).ok()?;
        if head[0] == b'Q' {
            stream.read_exact(&mut head[4..]).ok()?;
            let mut text = vec![0; usize::from(head[4]) - 4];
            stream.read_exact(&mut text).ok()?;
            return Some(String::from_utf8(text).unwrap().trim_end_matches('\0').to_owned());
        }
        let mut rest = vec![0; usize::from(head[3]) - 4];
        stream.read_exact(&mut rest).ok()?;
    }
}

fn connect(proxy: &CommitProxy) -> TcpStream {
    let (_, address) = proxy.url().split_once('@').unwrap();
    let mut client = TcpStream::connect(address.strip_suffix("/db").unwrap()).unwrap();
    client.set_read_timeout(Some(WAIT)).unwrap();
    client.write_all(&[0, 0, 0, 8, 0, 3, 0, 0]).unwrap();
    client
}

/// Sends a statement; whether it was answered.
fn ask(client: &mut TcpStream, statement: &str) -> bool {
    let length = u8::try_from(statement.len() + 5).unwrap();
    let message = [&[b'Q', 0, 0, 0, length], statement.as_bytes(), &[0]].concat();
    client.write_all(&message).unwrap();
    let mut answer = [0; 6];
    matches!(client.read_exact(&mut answer), Ok(()) if answer == ANSWER)
}

/// Two transactions, of which the second has the marker; which statements were answered.
fn talk(client: &mut TcpStream) -> Vec<bool> {
    let statements = ["begin", "commit", "begin", "insert 25", "rollback to savepoint a", "COMMIT"];
    statements.iter().map(|statement| ask(client, statement)).collect()
}

#[test]
fn an_answer_is_lost_after_the_server_has_had_its_say() {
    let (url, statements) = server();
    let proxy = CommitProxy::in_front_of(&url).unwrap();
    proxy.lose(Loss::Answer, b"25");

    let answered = talk(&mut connect(&proxy));

    assert_eq!(answered, [true, true, true, true, true, false]);
    assert_eq!(statements.try_iter().last().as_deref(), Some("COMMIT"));
    assert_eq!(proxy.lost(), 1);
    // Only one is lost.
    assert!(talk(&mut connect(&proxy)).iter().all(|is_answered| *is_answered));
}

#[test]
fn a_request_that_is_lost_never_reaches_the_server() {
    let (url, statements) = server();
    let proxy = CommitProxy::in_front_of(&url).unwrap();
    proxy.lose(Loss::Request, b"25");

    let answered = talk(&mut connect(&proxy));

    assert_eq!(answered, [true, true, true, true, true, false]);
    assert_eq!(statements.try_iter().last().as_deref(), Some("rollback to savepoint a"));
    assert_eq!(proxy.lost(), 1);
}

/// A message of a prepared statement.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len() + 4).unwrap();
    [&[kind, 0, 0, 0, length], body].concat()
}

/// A proxy, and what becomes of bytes that are sent through it: whether they are answered.
fn wire() -> (CommitProxy, impl FnMut(&[u8]) -> bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://tidemill@{}/db", listener.local_addr().unwrap());
    let proxy = CommitProxy::in_front_of(&url).unwrap();
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(WAIT)).unwrap();
    let mut got = vec![0; 8];
    server.read_exact(&mut got).unwrap();
    let passes = move |sent: &[u8]| {
        client.write_all(sent).unwrap();
        let mut got = vec![0; sent.len()];
        server.read_exact(&mut got).unwrap();
        server.write_all(ANSWER).unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).is_ok()
    };
    (proxy, passes)
}

/// Prepares two statements.
fn prepare() -> Vec<u8> {
    [message(b'P', b"one\0update a\0\0\0"), message(b'P', b"two\0update b\0\0\0")].concat()
}

/// Runs one of them.
fn run(name: &str) -> Vec<u8> {
    let bind = message(b'B', format!("\0{name}\0").as_bytes());
    [bind, message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()
}

#[test]
fn a_statement_that_commits_by_itself_is_known_by_the_text_that_was_prepared_before() {
    let (proxy, mut passes) = wire();

    assert!(passes(&prepare()));
    proxy.lose_statement(Loss::Answer, b"update b");
    assert!(passes(&run("one")));
    assert!(!passes(&run("two")));
    assert_eq!(proxy.lost(), 1);
}

#[test]
fn a_transaction_is_known_by_a_statement_of_it_that_was_prepared_before() {
    let (proxy, mut passes) = wire();
    let (begin, commit) = (message(b'Q', b"begin\0"), message(b'Q', b"commit\0"));

    assert!(passes(&prepare()));
    proxy.lose(Loss::Answer, b"update b");
    assert!(passes(&begin) && passes(&run("one")) && passes(&commit));
    assert!(passes(&begin) && passes(&run("two")) && !passes(&commit));
    assert_eq!(proxy.lost(), 1);
}

#[test]
fn a_transaction_without_the_marker_is_left_alone() {
    let (url, _statements) = server();
    let proxy = CommitProxy::in_front_of(&url).unwrap();
    proxy.lose(Loss::Answer, b"26");

    assert!(talk(&mut connect(&proxy)).iter().all(|is_answered| *is_answered));
    assert_eq!((proxy.lost(), proxy.statements()), (0, 6));
}
