//! A door before nexrender that answers some of what workers ask itself. Nodes do not come through it.

use super::site::Farm;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use tidemill_testkit::PrivateNexrender;

/// Its answer to a request, of which it has the head and the body. With none, nexrender answers.
type Rule = Box<dyn FnMut(&str) -> Option<String> + Send>;

pub(super) struct Door {
    pub(super) url: String,
    rule: Arc<Mutex<Rule>>,
}

impl Door {
    /// An open one; its threads end with the test.
    pub(super) fn before(farm: &Farm) -> Self {
        let server = farm.ask(PrivateNexrender::url).trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let open: Rule = Box::new(|_: &str| None);
        let door = Self { url, rule: Arc::new(Mutex::new(open)) };
        let rule = door.rule.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, rule) = (server.clone(), rule.clone());
                // A client that breaks off hears nothing.
                thread::spawn(move || pass(client, &server, &rule));
            }
        });
        door
    }

    pub(super) fn set(&self, rule: impl FnMut(&str) -> Option<String> + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }
}

/// An answer of the door.
pub(super) fn said(status: u16, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn pass(mut client: TcpStream, server: &str, rule: &Mutex<Rule>) -> io::Result<()> {
    let request = receive(&client)?;
    let answer = {
        let mut rule = rule.lock().unwrap();
        (*rule)(&request)
    };
    if let Some(answer) = answer {
        client.write_all(answer.as_bytes())?;
    } else {
        let mut upstream = TcpStream::connect(server)?;
        // The end of the answer is then the end of the connection.
        upstream.write_all(request.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes())?;
        io::copy(&mut upstream, &mut client)?;
    }
    client.shutdown(Shutdown::Both)
}

fn receive(client: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let small = head.to_lowercase();
    let length = small.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    lines.read_exact(&mut body)?;
    Ok(head + &String::from_utf8_lossy(&body))
}
