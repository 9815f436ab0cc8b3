//! Classifies errors of the file system.

use rustix::io::Errno;
use std::fmt::Display;
use std::io;
use tidemill_domain::render::{Failure, Trouble};

pub(crate) fn trouble(what: impl Display, errno: Errno) -> Trouble {
    Trouble::new(class(errno), &format!("{what}: {errno}"))
}

/// The same for errors of the standard library.
pub(crate) fn io_trouble(what: impl Display, error: &io::Error) -> Trouble {
    match Errno::from_io_error(error) {
        Some(errno) => trouble(what, errno),
        None => Trouble::new(Failure::NasFailed, &format!("{what}: {error}")),
    }
}

/// Errors that last are refusals; all others may pass and are retried. A file that Windows has open is busy, not
/// denied.
fn class(errno: Errno) -> Failure {
    match errno {
        Errno::ROFS
        | Errno::ACCESS
        | Errno::PERM
        | Errno::NAMETOOLONG
        | Errno::ILSEQ
        | Errno::FBIG
        | Errno::LOOP
        | Errno::NOTDIR
        | Errno::ISDIR => Failure::NasRefused,
        // NOSPC, DQUOT, IO, STALE, NOTCONN, HOSTDOWN, TIMEDOUT, BUSY and other network errors.
        _ => Failure::NasFailed,
    }
}

/// Whether this file system never syncs folders: CIFS and some others.
pub(super) fn cannot_sync(errno: Errno) -> bool {
    errno == Errno::INVAL || errno == Errno::NOTSUP || errno == Errno::OPNOTSUPP || errno == Errno::NOSYS
}

/// Whether this file system has no hard links.
pub(super) fn cannot_link(errno: Errno) -> bool {
    // NOENT: there is no /proc to name the open file by.
    cannot_sync(errno) || matches!(errno, Errno::PERM | Errno::MLINK | Errno::XDEV | Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        for passing in [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::IO,
            Errno::STALE,
            Errno::NOTCONN,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::TIMEDOUT,
            Errno::BUSY,
            Errno::AGAIN,
            Errno::NOMEM,
        ] {
            assert_eq!(trouble("x", passing).failure, Failure::NasFailed, "{passing}");
        }
        for lasting in [Errno::ROFS, Errno::ACCESS, Errno::PERM, Errno::NAMETOOLONG, Errno::NOTDIR] {
            let error = io::Error::from(lasting);
            assert_eq!(io_trouble("x", &error).failure, Failure::NasRefused, "{lasting}");
        }
    }

    #[test]
    fn people_learn_what_and_why() {
        let trouble = trouble("/mnt/nas/a.mp4", Errno::NOSPC);

        assert!(trouble.message.starts_with("/mnt/nas/a.mp4: "), "{}", trouble.message);
        assert!(trouble.message.contains("No space left on device"), "{}", trouble.message);
    }

    #[test]
    fn errors_without_a_number_may_pass() {
        assert_eq!(io_trouble("x", &io::Error::other("odd")).failure, Failure::NasFailed);
    }
}
