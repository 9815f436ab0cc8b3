//! A small HTTP server whose answers are made to order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReceivedCall {
    /// Method and path, such as `GET /api/v1/jobs`.
    pub(crate) line: String,
    /// The headers, in small letters.
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// What is answered: status, further headers, body; nothing at all when there is none.
pub(crate) type Answer = Option<(u16, &'static str, String)>;

/// A running server; its threads end with the test.
pub(crate) struct Http {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<ReceivedCall>>>,
}

impl Http {
    pub(crate) fn start(answer: impl Fn(&ReceivedCall) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noting, answer) = (asked.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noting, answer) = (noting.clone(), answer.clone());
                thread::spawn(move || serve(stream, &noting, &*answer));
            }
        });
        Self { url, asked }
    }

    /// All that was asked so far.
    pub(crate) fn asked(&self) -> Vec<ReceivedCall> {
        self.asked.lock().unwrap().clone()
    }

    /// How often something was asked that begins so.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.asked().iter().filter(|asked| asked.line.starts_with(line)).count()
    }
}

fn serve(mut stream: TcpStream, noting: &Mutex<Vec<ReceivedCall>>, answer: &dyn Fn(&ReceivedCall) -> Answer) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let headers: Vec<String> = head[1..].iter().map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    lines.read_exact(&mut body).unwrap();
    let line = head[0].trim_end_matches(" HTTP/1.1").to_owned();
    let asked = ReceivedCall { line, headers, body: String::from_utf8(body).unwrap() };
    noting.lock().unwrap().push(asked.clone());
    let Some((status, headers, body)) = answer(&asked) else { return };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    // A client that has gone away hears nothing.
    let _sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
