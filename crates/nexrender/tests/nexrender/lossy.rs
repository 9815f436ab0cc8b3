//! A proxy in front of a nexrender that loses what is said about one kind of call.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// What is lost of a `POST`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// The answer: the server has the job, and the client does not hear of it.
    Answer,
    /// The request: the server never hears of it.
    Request,
}

/// Where the proxy is, and how much it has lost.
pub(crate) struct Lossy {
    pub(crate) url: String,
    lost: Arc<AtomicU32>,
}

impl Lossy {
    /// Starts one; its threads end with the test.
    pub(crate) fn in_front_of(url: &str, loses: Lost) -> Self {
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let lost = Arc::new(AtomicU32::new(0));
        let counting = lost.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, counting) = (server.clone(), counting.clone());
                // One that breaks off is what this is for.
                thread::spawn(move || pass(client, &server, loses, &counting));
            }
        });
        Self { url, lost }
    }

    pub(crate) fn lost(&self) -> u32 {
        self.lost.load(Ordering::SeqCst)
    }
}

fn pass(mut client: TcpStream, server: &str, loses: Lost, lost: &AtomicU32) -> io::Result<()> {
    let mut block = [0; 16 << 10];
    let read = client.read(&mut block)?;
    let is_post = block[..read].starts_with(b"POST");
    if is_post && loses == Lost::Request {
        lost.fetch_add(1, Ordering::SeqCst);
        return client.shutdown(Shutdown::Both);
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(&block[..read])?;
    let (mut from, mut to) = (client.try_clone()?, upstream.try_clone()?);
    thread::spawn(move || io::copy(&mut from, &mut to));
    if is_post && loses == Lost::Answer {
        // The first word of the answer means that the job is there.
        let _first = upstream.read(&mut block)?;
        lost.fetch_add(1, Ordering::SeqCst);
    } else {
        io::copy(&mut upstream, &mut client)?;
    }
    upstream.shutdown(Shutdown::Both)?;
    client.shutdown(Shutdown::Both)
}
