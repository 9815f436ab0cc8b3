//! Many listeners over real connections, one of which never reads.

use crate::{App, until};
use axum::http::StatusCode;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::time::Monotonic;
use tidemill_server::dashboard::region::{Audience, Region};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const CLIENTS: usize = 50;
/// More than the queue of a listener and the buffers of its connection hold together.
const PATCHES: usize = 1400;
const PATCH_BYTES: usize = 8 * 1024;
const AT_ONCE: usize = 50;
const PATIENCE: Duration = Duration::from_secs(120);

async fn connect(address: SocketAddr, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // A small buffer, so that not reading is noticed soon.
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let request = format!(
        "GET /ui/events?page=overview HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads for ever and counts patches.
async fn listen(stream: TcpStream, count: Arc<AtomicUsize>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == "event: patch" {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn region(number: usize) -> Region {
    Region {
        name: format!("r{number}"),
        audience: Audience::Everywhere,
        opening: "x".repeat(PATCH_BYTES),
        rows: Vec::new(),
        closing: String::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_client_of_fifty_is_dropped_and_holds_nobody_back() {
    let app = App::closed().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = app.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    // Nobody may have more than twenty streams, so the crowd is several people.
    let mut tokens = Vec::new();
    for role in [Role::Viewer, Role::Operator, Role::Admin] {
        tokens.push(app.token(role).await);
    }
    let slow = connect(address, &tokens[0]).await;
    let counts: Vec<Arc<AtomicUsize>> = (1..CLIENTS).map(|_| Arc::default()).collect();
    for (number, count) in counts.iter().enumerate() {
        tokio::spawn(listen(connect(address, &tokens[(number + 1) % 3]).await, count.clone()));
    }
    let live = app.state.live().clone();
    until(PATIENCE, "everybody listens", || live.listeners() == CLIENTS).await;

    for batch in 0..PATCHES / AT_ONCE {
        let regions = (0..AT_ONCE).map(|number| region(batch * AT_ONCE + number)).collect();
        live.publish(regions, Monotonic::from_origin(Duration::from_secs(batch as u64)));
        let sent = (batch + 1) * AT_ONCE;
        until(PATIENCE, "the quick ones have it", || {
            counts.iter().all(|count| count.load(Ordering::Relaxed) >= sent)
        })
        .await;
    }

    assert_eq!(live.listeners(), CLIENTS - 1, "the slow one is dropped");
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == PATCHES));
    drop(slow);
}

#[tokio::test]
async fn the_streams_of_one_person_are_limited() {
    use tower::ServiceExt;
    let app = App::closed().await;
    let bearer = format!("Bearer {}", app.token(Role::Viewer).await);
    let mut open = Vec::new();
    for number in 0..21 {
        let request = axum::http::Request::builder().uri("/ui/events").header("host", "127.0.0.1:7790");
        let request = request.header("authorization", &bearer).body(axum::body::Body::empty()).unwrap();
        let response = app.router.clone().oneshot(request).await.unwrap();
        let expected = if number < 20 { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        assert_eq!(response.status(), expected, "stream {number}");
        open.push(response);
    }
}
