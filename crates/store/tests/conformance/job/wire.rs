//! A wire to a PostgreSQL server that counts the statements which go over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Forwards every connection, and counts what asks the server to run something.
pub(super) struct Wire {
    url: String,
    statements: Arc<AtomicUsize>,
}

impl Wire {
    /// A wire to the server of this URL; none for SQLite, which has no wire.
    pub(super) async fn to(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (user, place) = rest.split_once('@').unwrap();
        let (address, path) = place.split_once('/').unwrap();
        let database = path.split('?').next().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let statements = Arc::new(AtomicUsize::new(0));
        let url = format!("postgres://{user}@127.0.0.1:{port}/{database}?sslmode=disable");
        tokio::spawn(serve(listener, address.to_owned(), statements.clone()));
        Some(Self { url, statements })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn statements(&self) -> usize {
        self.statements.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, address: String, statements: Arc<AtomicUsize>) {
    while let Ok((client, _)) = listener.accept().await {
        let server = TcpStream::connect(&address).await.unwrap();
        let (from_client, mut to_client) = client.into_split();
        let (mut from_server, to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        tokio::spawn(forward(from_client, to_server, statements.clone()));
    }
}

/// The first message has no letter; of all others it says what they are. `Q` and `E` run something.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    statements: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let length = from.read_i32().await?;
    to.write_i32(length).await?;
    pass(&mut from, &mut to, length - 4).await?;
    loop {
        let letter = from.read_u8().await?;
        let length = from.read_i32().await?;
        if matches!(letter, b'Q' | b'E') {
            statements.fetch_add(1, Ordering::SeqCst);
        }
        to.write_u8(letter).await?;
        to.write_i32(length).await?;
        pass(&mut from, &mut to, length - 4).await?;
    }
}

async fn pass(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, length: i32) -> std::io::Result<()> {
    let mut body = vec![0; usize::try_from(length).unwrap()];
    from.read_exact(&mut body).await?;
    to.write_all(&body).await
}
