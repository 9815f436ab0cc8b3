//! Reading files, never more of them than makes sense.

use super::error::ConfigError;
use super::origin::Origin;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(super) const CONFIG_BYTES: u64 = 1 << 20;
const SECRET_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) enum Unread {
    Failed(io::Error),
    /// It has more bytes than this.
    TooLarge(u64),
    /// It is not UTF-8 text.
    NotText,
}

impl Unread {
    pub(super) fn is_missing(&self) -> bool {
        use io::ErrorKind::{NotADirectory, NotFound};
        matches!(self, Self::Failed(error) if matches!(error.kind(), NotFound | NotADirectory))
    }

    /// As the problem of the file `path`, which `origin` named.
    pub(super) fn problem(self, path: &Path, origin: &Origin) -> ConfigError {
        let why = match &self {
            Self::Failed(_) if self.is_missing() => "there is no such file".to_owned(),
            Self::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "this user may not read it or may not enter its folder".to_owned()
            }
            Self::Failed(error) if error.kind() == io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
            Self::Failed(_) => "the system reported an error".to_owned(),
            Self::TooLarge(most) => format!("it is larger than {} KiB", most >> 10),
            Self::NotText => "it is not UTF-8 text".to_owned(),
        };
        let source = match self {
            Self::Failed(error) => Some(error),
            Self::TooLarge(_) | Self::NotText => None,
        };
        ConfigError::file_unreadable(path, origin, why, source)
    }
}

/// The bytes of a file of at most `most` bytes. It may be a pipe, so its size is not asked beforehand.
pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Unread::Failed)?;
    let length = file.take(most + 1).read_to_end(&mut bytes).map_err(Unread::Failed)?;
    if length as u64 > most { Err(Unread::TooLarge(most)) } else { Ok(bytes) }
}

/// The secret in a file, without the newline that editors and `echo` leave at the end.
pub(super) fn read_secret(path: &Path) -> Result<String, Unread> {
    let mut text = String::from_utf8(read(path, SECRET_BYTES)?).map_err(|_| Unread::NotText)?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, Other, PermissionDenied};

    #[test]
    fn only_a_file_that_is_not_there_is_missing() {
        let is_missing = |kind: io::ErrorKind| Unread::Failed(kind.into()).is_missing();

        assert!(is_missing(NotFound) && is_missing(NotADirectory));
        assert!(!is_missing(PermissionDenied) && !is_missing(IsADirectory) && !is_missing(Other));
        assert!(!Unread::NotText.is_missing() && !Unread::TooLarge(1).is_missing());
    }

    #[test]
    fn a_refusal_of_the_system_is_told_and_kept() {
        let unread = Unread::Failed(PermissionDenied.into());

        let problem = unread.problem(Path::new("/etc/x"), &Origin::Default);

        assert_eq!(problem.to_string(), "the file /etc/x cannot be read");
        assert_eq!(problem.why(), "this user may not read it or may not enter its folder");
        assert!(std::error::Error::source(&problem).is_some());
    }
}
