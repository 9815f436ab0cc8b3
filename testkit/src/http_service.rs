//! A service over HTTP on loopback, whose answers a test decides, with its faults.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A request that was received whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the query, as it was sent.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, v)| v)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
    /// Closes the connection after the first half of the body.
    pub is_cut: bool,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), is_cut: false }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }
}

/// It stops when it is dropped.
#[derive(Debug)]
pub struct HttpService {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    is_stopped: Arc<AtomicBool>,
}

impl HttpService {
    /// `answer` gets the request and how many came before it.
    pub fn start(
        answer: impl Fn(&Received, usize) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let service =
            Self { address: listener.local_addr()?, received: Arc::default(), is_stopped: Arc::default() };
        let (received, is_stopped, answer) =
            (service.received.clone(), service.is_stopped.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if is_stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let (received, answer) = (received.clone(), answer.clone());
                thread::spawn(move || {
                    // A client that goes away is not a fault of the service.
                    let _gone = serve(stream, &received, &*answer);
                });
            }
        });
        Ok(service)
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        locked(&self.received).clone()
    }
}

impl Drop for HttpService {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.address);
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of one connection.
fn serve(
    mut stream: TcpStream,
    received: &Mutex<Vec<Received>>,
    answer: &dyn Fn(&Received, usize) -> Reply,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read(&mut reader)? {
        let before = {
            let mut all = locked(received);
            all.push(request.clone());
            all.len() - 1
        };
        let reply = answer(&request, before);
        let mut head = format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        let sent = match (request.method.as_str(), reply.is_cut) {
            // The length is that of the body which GET would get.
            ("HEAD", _) => 0,
            (_, true) => reply.body.len() / 2,
            (_, false) => reply.body.len(),
        };
        stream.write_all(&reply.body.as_bytes()[..sent])?;
        stream.flush()?;
        if reply.is_cut {
            stream.shutdown(std::net::Shutdown::Both)?;
            break;
        }
    }
    Ok(())
}

/// None when the client has closed the connection.
fn read(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Received>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(Received { method, target, headers, body }))
}
