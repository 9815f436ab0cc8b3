//! Free ports on loopback.

use crate::error::ServerError;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// A port that nobody listens on now. Somebody may take it before the server does, so callers try again.
pub(crate) fn free() -> Result<u16, ServerError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| ServerError::caused("no free port on 127.0.0.1", error))
}

/// Whether somebody accepts connections there.
pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1)).is_ok()
}
