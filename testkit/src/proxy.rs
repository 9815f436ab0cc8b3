//! A proxy in front of a PostgreSQL that counts statements, and loses one commit when it is told to: that of a
//! transaction, or of a statement that commits by itself.
//!
//! It reads what the client sends message by message, so it knows in which transaction a `commit` comes, and which
//! statement is run; what the server answers passes through as it is.

use crate::error::ServerError;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The code of a first message that asks for TLS; the server answers it with one byte, and another first message
/// follows.
const TLS_REQUEST: u32 = 80_877_103;

/// The longest message of a client that is believed.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// What is lost of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The answer: the server has committed, and the client does not hear of it.
    Answer,
    /// The request: the server never hears of it and rolls back.
    Request,
}

/// A running proxy. It ends with its value, and with it all its connections.
#[derive(Debug)]
pub struct CommitProxy {
    port: u16,
    url: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    plan: Mutex<Option<Plan>>,
    statements: AtomicU32,
    lost: AtomicU32,
    is_over: AtomicBool,
    /// How often connections were made to hang.
    hung: AtomicU32,
    streams: Mutex<Vec<TcpStream>>,
}

/// What is to be lost next.
#[derive(Clone, Debug)]
struct Plan {
    loss: Loss,
    marker: Vec<u8>,
    of: Of,
}

/// What commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Transaction,
    Statement,
}

impl CommitProxy {
    /// Starts one in front of the server of this URL, which has to name host and port.
    pub fn in_front_of(url: &str) -> Result<Self, ServerError> {
        let bad = || ServerError::new("the URL is not of the form postgres://USER@HOST:PORT/DATABASE");
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let (authority, database) = rest.split_once('/').ok_or_else(bad)?;
        let (user, server) = authority.rsplit_once('@').ok_or_else(bad)?;
        let server = server.to_owned();
        let no_listener = |error| ServerError::caused("the proxy cannot listen on 127.0.0.1", error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(no_listener)?;
        let port = listener.local_addr().map_err(no_listener)?.port();
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        thread::spawn(move || accept(&listener, &server, &accepting));
        Ok(Self { port, url: format!("{scheme}://{user}@127.0.0.1:{port}/{database}"), shared })
    }

    /// The address of the database through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Loses the next commit of a transaction in which the client has sent these bytes, or has run a statement that was
    /// prepared with them before, and closes its connection.
    pub fn lose(&self, loss: Loss, marker: &[u8]) {
        *locked(&self.shared.plan) = Some(Plan { loss, marker: marker.to_vec(), of: Of::Transaction });
    }

    /// Loses the next statement outside a transaction that has these bytes in its text, and closes its connection.
    /// Only prepared statements are looked at.
    pub fn lose_statement(&self, loss: Loss, marker: &[u8]) {
        *locked(&self.shared.plan) = Some(Plan { loss, marker: marker.to_vec(), of: Of::Statement });
    }

    /// From now on the server hears nothing of the connections that are open, and nobody closes them, as if a firewall had
    /// forgotten them. New connections work.
    pub fn hang(&self) {
        self.shared.hung.fetch_add(1, Ordering::SeqCst);
    }

    /// How many times the server was asked to run something.
    pub fn statements(&self) -> u32 {
        self.shared.statements.load(Ordering::SeqCst)
    }

    /// How many commits were lost.
    pub fn lost(&self) -> u32 {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl Drop for CommitProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for stream in locked(&self.shared.streams).drain(..) {
            let _closed_already = stream.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which sees that it is over.
        let _refused = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, server: &str, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
        let shared = shared.clone();
        thread::spawn(move || {
            // A connection that breaks is nothing that the proxy has to tell: both sides notice.
            let _broken = serve(client, server, &shared);
        });
    }
}

/// Carries one connection until one side ends it.
fn serve(client: TcpStream, server: TcpStream, shared: &Shared) -> io::Result<()> {
    let _small_messages = (client.set_nodelay(true), server.set_nodelay(true));
    locked(&shared.streams).extend([client.try_clone()?, server.try_clone()?]);
    let is_muted = Arc::new(AtomicBool::new(false));
    let answers = (server.try_clone()?, client.try_clone()?, is_muted.clone());
    let answering = thread::spawn(move || carry_answers(answers.0, answers.1, &answers.2));
    let carried = carry_requests(&client, &server, shared, &is_muted);
    if !is_muted.load(Ordering::SeqCst) {
        let _closed_already = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
    }
    // Of a lost answer the other direction knows when it has been given.
    let _ended = answering.join();
    carried
}

fn carry_requests(
    mut client: &TcpStream,
    mut server: &TcpStream,
    shared: &Shared,
    is_muted: &AtomicBool,
) -> io::Result<()> {
    let hung_before = shared.hung.load(Ordering::SeqCst);
    let mut first = read_message(&mut client, None)?;
    server.write_all(&first)?;
    while first.len() == 8 && number(&first[4..]) == TLS_REQUEST {
        first = read_message(&mut client, None)?;
        server.write_all(&first)?;
    }
    let mut talk = Talk::default();
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        let message = read_message(&mut client, Some(kind[0]))?;
        if shared.hung.load(Ordering::SeqCst) > hung_before {
            continue;
        }
        if matches!(kind, [b'Q' | b'E']) {
            shared.statements.fetch_add(1, Ordering::SeqCst);
        }
        let plan = locked(&shared.plan).clone();
        let is_lost = talk.hears(&message, plan.as_ref());
        let loss = locked(&shared.plan).take_if(|_| is_lost).map(|plan| plan.loss);
        if loss.is_some() {
            shared.lost.fetch_add(1, Ordering::SeqCst);
        }
        match loss {
            Some(Loss::Request) => return Ok(()),
            Some(Loss::Answer) => {
                is_muted.store(true, Ordering::SeqCst);
                return server.write_all(&message);
            }
            None => server.write_all(&message)?,
        }
    }
}

/// What is known of the client of one connection.
#[derive(Default)]
struct Talk {
    /// The texts of its prepared statements, by their names.
    texts: HashMap<Vec<u8>, Vec<u8>>,
    is_in_transaction: bool,
    /// Whether its transaction, or its statement outside of one, has the marker.
    has_marker: bool,
}

impl Talk {
    /// Takes note of a message; whether it is the one to lose.
    fn hears(&mut self, message: &[u8], plan: Option<&Plan>) -> bool {
        let (kind, body) = (message[0], &message[5..]);
        if kind == b'P' {
            let mut parts = body.splitn(2, |byte| *byte == 0);
            let (name, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            self.texts.insert(name.to_vec(), text.to_vec());
        }
        self.is_in_transaction |= begins(message, &["begin"]);
        let is_end = is_end(message);
        let runs = |marker: &[u8]| {
            // The name of the portal, then that of the statement.
            let name = body.split(|byte| *byte == 0).nth(1).unwrap_or_default();
            kind == b'B' && self.texts.get(name).is_some_and(|text| contains(text, marker))
        };
        match plan.map(|plan| (plan.of, &plan.marker)) {
            Some((Of::Transaction, marker)) => self.has_marker |= contains(message, marker) || runs(marker),
            Some((Of::Statement, marker)) if kind == b'B' && !self.is_in_transaction => {
                self.has_marker = runs(marker);
            }
            Some((Of::Statement, _)) | None => {}
        }
        self.is_in_transaction &= !is_end;
        match plan.map(|plan| plan.of) {
            Some(Of::Statement) => kind == b'S' && std::mem::take(&mut self.has_marker),
            _ if is_end => std::mem::take(&mut self.has_marker) && is_commit(message),
            _ => false,
        }
    }
}

/// Carries what the server says. Once muted, it swallows the answer, and closes both sides when that has come.
fn carry_answers(mut server: TcpStream, mut client: TcpStream, is_muted: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        // The client waits for the answer to its commit, so nothing else can be on its way.
        if is_muted.load(Ordering::SeqCst) || client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _closed_already = (server.shutdown(Shutdown::Both), client.shutdown(Shutdown::Both));
}

/// A message with its head: the kind, which the first message of a connection does not have, and the length.
fn read_message(from: &mut impl Read, kind: Option<u8>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let total = u32::from_be_bytes(length);
    if !(4..=MESSAGE_BYTES_MAX).contains(&total) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message: Vec<u8> = kind.into_iter().chain(length).collect();
    let head = message.len();
    message.resize(head + total as usize - 4, 0);
    from.read_exact(&mut message[head..])?;
    Ok(message)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn contains(message: &[u8], marker: &[u8]) -> bool {
    !marker.is_empty() && message.windows(marker.len()).any(|window| window == marker)
}

/// Whether a message is a plain statement that begins with one of these words.
fn begins(message: &[u8], words: &[&str]) -> bool {
    let text = match message.split_first() {
        Some((b'Q', rest)) => String::from_utf8_lossy(rest.get(4..).unwrap_or_default()).to_lowercase(),
        _ => return false,
    };
    words.iter().any(|word| text.starts_with(word))
}

fn is_commit(message: &[u8]) -> bool {
    begins(message, &["commit"])
}

/// Whether a transaction ends with it. One that goes back to a savepoint does not.
fn is_end(message: &[u8]) -> bool {
    is_commit(message) || begins(message, &["rollback"]) && !begins(message, &["rollback to"])
}
