//! Connections over real sockets, with few places and short times.

use super::*;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const KEPT: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HEALTH: &[u8] = b"GET /base/healthz/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// So many places, all of which one address may have, and none kept for health checks.
fn places(places: u32, patience: Duration) -> Bounds {
    Bounds { places, reserve: 0, per_address: places, patience }
}

/// A server at work. What it is asked for at `/slow` tells that it has begun, and ends when it is told to.
struct Stand {
    address: SocketAddr,
    has_begun: Arc<Notify>,
    may_end: Arc<Notify>,
    end: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<()>,
}

async fn server(bounds: Bounds) -> Stand {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (has_begun, may_end) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, told) = (Arc::clone(&has_begun), Arc::clone(&may_end));
    let greet = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
    let slow = move || {
        let (begun, told) = (Arc::clone(&begun), Arc::clone(&told));
        async move {
            begun.notify_one();
            told.notified().await;
            "slow"
        }
    };
    let large = async || vec![b'x'; 64 * 1024 * 1024];
    let app = Router::new()
        .route("/", get(greet))
        .route("/slow", get(slow))
        .route("/large", get(large))
        .route("/base/healthz/live", get(async || "live"));
    let (end, ended) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(
            async move { serve(listener, app, "/base", bounds, async move { drop(ended.await) }).await },
        );
    Stand { address, has_begun, may_end, end, serving }
}

impl Stand {
    async fn ask(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        stream
    }
}

/// What was still said before the connection was closed, in order or not.
async fn gone(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _reset_or_not = timeout(LONG / 2, stream.read_to_end(&mut bytes)).await.expect("it is closed");
    String::from_utf8(bytes).unwrap()
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(LONG, stream.read_to_string(&mut text)).await.expect("it is closed").unwrap();
    text
}

#[tokio::test]
async fn who_never_finishes_its_head_is_cut_off() {
    let stand = server(places(10, SHORT)).await;

    let mut stream = stand.ask(b"GET / HTTP/1.1\r\nHost: ").await;

    assert!(!rest(&mut stream).await.contains("200"));
}

#[tokio::test]
async fn who_waits_for_a_request_gives_way_to_who_comes() {
    let stand = server(places(3, LONG)).await;
    let mut kept = stand.ask(KEPT).await;
    kept.read_exact(&mut [0; 12]).await.unwrap();
    let (mut silent, mut half) = (stand.ask(b"").await, stand.ask(b"GET / HTTP/1.1\r\nHost: ").await);

    for _ in 0..3 {
        let mut stream = stand.ask(REQUEST).await;
        let text = rest(&mut stream).await;
        assert!(text.contains("200 OK"), "{text}");
        assert!(text.ends_with(&stream.local_addr().unwrap().to_string()), "{text}");
    }
    let _three_more = [stand.ask(b"").await, stand.ask(b"").await, stand.ask(b"").await];

    assert!(gone(&mut kept).await.ends_with(&kept.local_addr().unwrap().to_string()));
    assert_eq!((gone(&mut silent).await, gone(&mut half).await), (String::new(), String::new()));
}

#[tokio::test]
async fn a_request_in_hand_never_gives_way() {
    let stand = server(places(2, LONG)).await;
    let mut slow = stand.ask(SLOW).await;
    stand.has_begun.notified().await;

    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(stand.ask(b"").await);
    }
    assert!(rest(&mut stand.ask(REQUEST).await).await.contains("200 OK"));
    stand.may_end.notify_one();

    let mut answer = vec![0; 4096];
    let length = timeout(LONG, slow.read(&mut answer)).await.expect("it is answered").unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).ends_with("slow"));
}

#[tokio::test]
async fn health_is_told_though_every_place_has_a_request_in_hand() {
    let stand = server(Bounds { reserve: 2, ..places(1, LONG) }).await;
    let mut slow = stand.ask(SLOW).await;
    stand.has_begun.notified().await;
    let _idle = [stand.ask(b"").await, stand.ask(b"GET /base/healthz/live HTT").await];

    let health = rest(&mut stand.ask(HEALTH).await).await;
    let other = rest(&mut stand.ask(KEPT).await).await;

    assert!(health.contains("200 OK") && health.ends_with("live"), "{health}");
    assert!(other.contains("503") && other.contains("TM0511") && other.contains("retry-after"), "{other}");
    stand.may_end.notify_one();
    let mut again = [0; 12];
    slow.read_exact(&mut again).await.unwrap();
    assert_eq!(&again, b"HTTP/1.1 200");
    assert!(rest(&mut stand.ask(REQUEST).await).await.contains("200 OK"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_beyond_its_bound_drives_out_nobody_but_itself() {
    let stand = server(Bounds { per_address: 2, ..places(20, LONG) }).await;
    let other = TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(stand.address).await.unwrap();

    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(stand.ask(b"").await);
    }

    for stream in &mut crowd[..48] {
        assert_eq!(gone(stream).await, "");
    }
    for stream in crowd[48..].iter_mut().chain([&mut other]) {
        stream.write_all(REQUEST).await.unwrap();
        assert!(rest(stream).await.contains("200 OK"));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_does_not_read_its_answer_loses_its_place() {
    let stand = server(places(1, SHORT)).await;
    let _deaf = stand.ask(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await;

    let mut next = stand.ask(REQUEST).await;

    assert!(rest(&mut next).await.contains("200 OK"));
}

#[tokio::test]
async fn what_takes_longer_than_one_may_be_silent_is_not_cut_off() {
    let stand = server(places(1, SHORT)).await;
    let mut stream = stand.ask(SLOW).await;
    stand.has_begun.notified().await;

    tokio::time::sleep(SHORT * 3).await;
    stand.may_end.notify_one();

    // After its answer it is silent, and then it is.
    assert!(rest(&mut stream).await.ends_with("slow"));
}

#[tokio::test]
async fn a_request_in_hand_comes_to_its_end_and_nobody_else_is_let_in() {
    let stand = server(places(10, LONG)).await;
    let mut stream = stand.ask(SLOW).await;
    let _idle = stand.ask(b"").await;
    stand.has_begun.notified().await;

    stand.end.send(()).unwrap();
    stand.may_end.notify_one();

    assert!(rest(&mut stream).await.ends_with("slow"));
    timeout(LONG, stand.serving).await.expect("it has ended").unwrap();
    assert!(TcpStream::connect(stand.address).await.is_err());
}

#[test]
fn the_bounds_are_those_of_this_process() {
    let files = open_max();
    let bounds = bounds_of_this_process(Some(7));

    assert!(bounds.places >= 1 && u64::from(bounds.all()) < files.max(3));
    assert_eq!(bounds.per_address, 7.min(bounds.places));
}
