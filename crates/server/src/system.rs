//! What the server needs of the operating system.

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

use std::time::Duration;
use tokio::net::TcpStream;

/// The system closes a connection whose client does not read the response. Otherwise it would keep its place forever.
#[cfg(target_os = "linux")]
pub(crate) fn expect_reading(stream: &TcpStream, silence: Duration) {
    let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, millis) {
        tracing::debug!(%error, "a connection has no timeout for an unread response");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn expect_reading(_stream: &TcpStream, _silence: Duration) {}

#[cfg(unix)]
mod unix {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::process::{Resource, getrlimit};
    use std::fs::File;

    /// How many files and connections this process may open.
    pub(crate) fn open_max() -> u64 {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    /// Opens a file without following links and without waiting for a pipe.
    pub(crate) fn open_plainly(place: &str) -> Option<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Some(open(place, OFlags::RDONLY | flags, Mode::empty()).ok()?.into())
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::{File, OpenOptions};
    use std::os::windows::fs::OpenOptionsExt;

    /// Opens a link itself, which is no file then.
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// Windows has no such limit.
    pub(crate) fn open_max() -> u64 {
        u64::MAX
    }

    /// Opens a file without following links.
    pub(crate) fn open_plainly(place: &str) -> Option<File> {
        OpenOptions::new().read(true).custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(place).ok()
    }
}
