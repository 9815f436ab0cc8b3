//! Connections: how many there may be, how long one may be silent or leave its answer lying, and their end in order.

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::process::{Resource, getrlimit};
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Service as _;

/// Most connections, however many files the process may open.
const CONNECTIONS_MAX: u64 = 10_000;
/// How long a connection may be open without a whole head of a request. Longer than the minute for which proxies keep theirs,
/// so that it is not we who close one while a request is on its way.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// How long nobody is accepted when the system has nothing left to give.
const PAUSE: Duration = Duration::from_secs(1);

/// How much callers may take by being connected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    most: usize,
    silence: Duration,
}

impl Bounds {
    /// A quarter of the files that this process may open is left for its work, whoever connects.
    pub(crate) fn of_this_process() -> Self {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = (files / 4).saturating_mul(3).clamp(1, CONNECTIONS_MAX);
        Self { most: usize::try_from(most).unwrap_or(1), silence: SILENCE_MAX }
    }
}

/// Answers by `app` until `shutdown` is done, then lets the requests in hand come to their end. Who is too many waits to be
/// accepted.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(bounds.most));
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(bounds.silence);
    let connected = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer, place) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places, bounds.silence) => accepted,
        };
        let app = app.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            // A router is always ready.
            app.clone().call(request)
        });
        let connection = connected.watch(protocol.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%peer, %error, "a connection has ended");
            }
            drop(place);
        });
    }
    drop(listener);
    connected.shutdown().await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    silence: Duration,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else { std::future::pending().await };
        match listener.accept().await {
            Ok((stream, peer)) => {
                expect_reading(&stream, silence);
                return (stream, peer, place);
            }
            // Whoever it was has gone already.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Whoever does not read what it has asked for is cut off by the system: otherwise it would keep its place for ever.
#[cfg(target_os = "linux")]
fn expect_reading(stream: &TcpStream, silence: Duration) {
    let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!(%error, "a connection has no limit on how long its answer may lie");
    }
}

#[cfg(not(target_os = "linux"))]
fn expect_reading(_stream: &TcpStream, _silence: Duration) {}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::{Notify, oneshot};
    use tokio::time::timeout;

    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(60);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const SLOW: &[u8] = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n";

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
        let app = Router::new().route("/", get(greet)).route("/slow", get(slow)).route("/large", get(large));
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, app, bounds, async move { drop(ended.await) }));
        Stand { address, has_begun, may_end, end, serving }
    }

    impl Stand {
        async fn ask(&self, request: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request).await.unwrap();
            stream
        }
    }

    async fn rest(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        timeout(LONG, stream.read_to_string(&mut text)).await.expect("it is closed").unwrap();
        text
    }

    #[tokio::test]
    async fn who_never_finishes_its_head_is_cut_off() {
        let stand = server(Bounds { most: 10, silence: SHORT }).await;

        let mut stream = stand.ask(b"GET / HTTP/1.1\r\nHost: ").await;

        assert!(!rest(&mut stream).await.contains("200"));
    }

    #[tokio::test]
    async fn who_takes_every_place_keeps_others_waiting_only_until_it_is_cut_off() {
        let stand = server(Bounds { most: 2, silence: SHORT * 10 }).await;
        let _silent = [stand.ask(b"").await, stand.ask(b"").await];

        let mut third = stand.ask(REQUEST).await;

        assert!(timeout(SHORT, third.peek(&mut [0])).await.is_err(), "there is no place for it yet");
        let text = rest(&mut third).await;
        assert!(text.contains("200 OK"), "{text}");
        assert!(text.ends_with(&third.local_addr().unwrap().to_string()), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn who_does_not_read_its_answer_loses_its_place() {
        let stand = server(Bounds { most: 1, silence: SHORT }).await;
        let _deaf = stand.ask(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await;

        let mut next = stand.ask(REQUEST).await;

        assert!(rest(&mut next).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn what_takes_longer_than_one_may_be_silent_is_not_cut_off() {
        let stand = server(Bounds { most: 1, silence: SHORT }).await;
        let mut stream = stand.ask(SLOW).await;
        stand.has_begun.notified().await;

        tokio::time::sleep(SHORT * 3).await;
        stand.may_end.notify_one();

        // After its answer it is silent, and then it is.
        assert!(rest(&mut stream).await.ends_with("slow"));
    }

    #[tokio::test]
    async fn a_request_in_hand_comes_to_its_end_and_nobody_else_is_let_in() {
        let stand = server(Bounds { most: 10, silence: LONG }).await;
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
    fn some_files_are_left_for_the_work() {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let bounds = Bounds::of_this_process();

        assert!(bounds.most >= 1 && (bounds.most as u64) < files);
    }
}
