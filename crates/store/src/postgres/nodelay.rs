//! Turns off Nagle's algorithm. The driver leaves it on, and a `copy` of few rows ends with two small packets: the
//! second then waits for the server's delayed acknowledgement of the first, 40 ms.
//!
//! The driver does not expose its socket, so we find it by its port among those of this process.

use sqlx::{PgConnection, Row};

/// Does nothing where the system does not allow it.
pub(super) async fn send_small_packets_at_once(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    // Null on a Unix socket, which has no such problem.
    let row = sqlx::raw_sql("select inet_client_port()").fetch_one(connection).await?;
    let port: Option<i32> = row.try_get(0)?;
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return Ok(()) };
    // Behind a pooler it is the pooler's port: not ours, or by chance one that does not mind.
    match set(port) {
        Ok(found) => tracing::debug!("{found} sockets at port {port} send small packets at once"),
        Err(error) => tracing::debug!(%error, "small packets may be put off by 40 ms"),
    }
    Ok(())
}

/// Sets it on all TCP sockets of this process with this local port; returns how many.
#[cfg(target_os = "linux")]
fn set(port: u16) -> std::io::Result<usize> {
    use rustix::net::sockopt::set_tcp_nodelay;
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    use std::net::SocketAddr;

    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut found = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // The file may have been closed in between.
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"));
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if !is_socket {
            continue;
        }
        let Ok(socket) = pidfd_getfd(&this, number, PidfdGetfdFlags::empty()) else { continue };
        let address = rustix::net::getsockname(&socket).ok().and_then(|any| SocketAddr::try_from(any).ok());
        if address.is_some_and(|address| address.port() == port) && set_tcp_nodelay(&socket, true).is_ok() {
            found += 1;
        }
    }
    Ok(found)
}

/// Elsewhere a process cannot find its own sockets.
#[cfg(not(target_os = "linux"))]
fn set(_port: u16) -> std::io::Result<usize> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_found_by_its_port_and_others_are_left_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();

        let found = set(one.local_addr().unwrap().port()).unwrap();

        assert_eq!(found, 1);
        assert!(one.nodelay().unwrap());
        assert!(!other.nodelay().unwrap());
    }
}
