//! One request to chromedriver and its answer: the little of HTTP that it takes, on one connection each.

use super::error::WebDriverError;
use crate::deadline::Deadline;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Far more than a screenshot.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Asks, and returns the `value` of the answer; all of it within `limit`.
pub(super) fn ask(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
    limit: Duration,
) -> Result<Value, WebDriverError> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n\
         Host: 127.0.0.1:{port}\r\n\
         Connection: close\r\n\
         Content-Type: application/json; charset=utf-8\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(port, request.as_bytes(), limit).map_err(WebDriverError::Unreachable)?;
    let text = String::from_utf8_lossy(&answer);
    let mut answer: Value =
        serde_json::from_str(&text).map_err(|_| WebDriverError::Garbled(text.into_owned()))?;
    let value = answer["value"].take();
    match value["error"].as_str() {
        Some(error) => {
            let message = value["message"].as_str().unwrap_or_default();
            // What follows is a stack of the driver's own addresses.
            let message = message.split("\nStacktrace:").next().unwrap_or_default();
            Err(WebDriverError::refused(error, message.trim().to_owned()))
        }
        None => Ok(value),
    }
}

/// Sends the request and returns the body of the answer.
fn exchange(port: u16, request: &[u8], limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = Deadline::after(limit);
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), left(deadline)?)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        if let Some(body) = whole_body(&answer)? {
            return Ok(body.to_vec());
        }
        stream.set_read_timeout(Some(left(deadline)?))?;
        let count = match stream.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&part[..count]);
    }
}

fn left(deadline: Deadline) -> io::Result<Duration> {
    deadline.remaining().ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// The body of an answer, once all of it is there.
fn whole_body(answer: &[u8]) -> io::Result<Option<&[u8]>> {
    let end = b"\r\n\r\n";
    let Some(head) = answer.windows(end.len()).position(|window| window == end) else {
        return Ok(None);
    };
    let body = &answer[head + end.len()..];
    let length = content_length(&String::from_utf8_lossy(&answer[..head]))
        .filter(|length| *length <= ANSWER_BYTES_MAX)
        .ok_or_else(|| io::Error::other("an answer without a length, or with an absurd one"))?;
    Ok(body.get(..length))
}

fn content_length(head: &str) -> Option<usize> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, length) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    length.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A driver that gives this answer to the first request.
    fn driver(answer: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _count = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            // Stays open until the client goes: only the length tells the end of the answer.
            let _gone = stream.read(&mut request);
        });
        port
    }

    fn get(answer: &'static str) -> Result<Value, WebDriverError> {
        ask(driver(answer), "GET", "/status", None, Duration::from_millis(500))
    }

    #[test]
    fn an_answer_ends_where_its_length_says() {
        let value = get("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"value\": 42}and more");

        assert_eq!(value.unwrap(), 42);
    }

    #[test]
    fn a_refusal_is_told_without_the_drivers_stack() {
        let refusal = get("HTTP/1.1 404 Not Found\r\nContent-Length: 84\r\n\r\n\
             {\"value\":{\"error\":\"no such element\",\"message\":\"nothing there\\nStacktrace:\\n#0 0x5\"}}");

        assert_eq!(refusal.unwrap_err().to_string(), "no such element: nothing there");
    }

    #[test]
    fn an_answer_that_does_not_come_in_time_is_an_error() {
        let nothing = get("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{");

        assert!(matches!(nothing, Err(WebDriverError::Unreachable(_))), "{nothing:?}");
    }

    #[test]
    fn an_answer_that_is_not_understood_is_shown() {
        let page = get("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<b>Hi</b>");

        assert!(page.unwrap_err().to_string().contains("<b>Hi</b>"));
    }
}
