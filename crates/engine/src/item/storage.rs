//! Places of files other than the disks of this machine: object stores, whose files have URLs.
//!
//! One storage serves the whole process. A reader opens an object and reads parts of it; a writer keeps its unfinished file
//! on the local disk, as always, and uploads it when the step completes.

use super::Source;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// URLs that name a file in a storage.
pub const SCHEMES: [&str; 3] = ["s3://", "gs://", "az://"];

/// How much of a name is part of the name of an unfinished file. File systems have room for 255 bytes.
const NAME_BYTES: usize = 80;

/// What happens to a file that is already where one is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It stays, and writing fails.
    Refuse,
    /// It is replaced when the new file is complete.
    Replace,
}

/// Which objects of a folder are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Those that are directly in it.
    Folder,
    /// Those in the folders below it too.
    Below,
}

/// An object of a folder. An empty one may instead be the marker of a folder, whose key ends with a slash: there is then no
/// object of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its URL.
    pub url: String,
    /// Number of bytes.
    pub size: u64,
}

/// What becomes an object.
pub struct Content {
    /// Number of bytes.
    pub bytes: u64,
    /// The bytes.
    pub read: Box<dyn Read + Send>,
}

/// Object stores. All functions may block.
pub trait Storage: Send + Sync + 'static {
    /// Opens an object.
    fn open(&self, url: &str) -> io::Result<Source>;

    /// The objects in a folder, in any order; if there are more than `max`, only some.
    fn list(&self, folder: &str, depth: Depth, max: usize) -> io::Result<Vec<Listed>>;

    /// The mark of an object, which is empty if another program has made it; none if there is no such object.
    fn find(&self, url: &str) -> io::Result<Option<String>>;

    /// Makes an object of a file: see [`put`](Self::put).
    fn upload(&self, file: &Path, url: &str, existing: Existing, mark: &str) -> io::Result<()> {
        let file = File::open(file)?;
        let bytes = file.metadata()?.len();
        self.put(Content { bytes, read: Box::new(file) }, url, existing, mark)
    }

    /// Makes an object. It is there whole or not at all, with a mark by which it is known again, and not if reading its content
    /// fails, even at the end. If there is another object and it may not be replaced, the error is of the kind
    /// `AlreadyExists`, as far as the storage can tell.
    fn put(&self, content: Content, url: &str, existing: Existing, mark: &str) -> io::Result<()>;

    /// Deletes an object; a missing one is fine.
    fn delete(&self, url: &str) -> io::Result<()>;

    /// The local folder for unfinished files.
    fn spool(&self) -> io::Result<&Path>;
}

static STORAGE: OnceLock<Box<dyn Storage>> = OnceLock::new();

/// Sets the storage of this process. The first one stays.
pub fn install(storage: impl Storage) {
    let _installed_already = STORAGE.set(Box::new(storage));
}

/// Whether [`install`] was called.
pub fn is_installed() -> bool {
    STORAGE.get().is_some()
}

/// The path as a URL; none if it is the path of a local file.
pub fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

/// Whether a file or an object has this very name.
pub fn is_file(path: &Path) -> bool {
    match url(path) {
        // Whoever may not look at it gets the error when it is opened or listed.
        Some(url) => installed().and_then(|storage| storage.find(url)).is_ok_and(|mark| mark.is_some()),
        None => path.is_file(),
    }
}

/// The storage of this process.
pub fn installed() -> io::Result<&'static dyn Storage> {
    let none = || {
        io::Error::other(
            "this program was built without object stores; build it with `cargo build --release --features objects`, \
             or use a packaged program",
        )
    };
    STORAGE.get().map(AsRef::as_ref).ok_or_else(none)
}

/// Where the unfinished file of an object is.
pub(crate) fn part_of(url: &str) -> io::Result<PathBuf> {
    let digest = Sha256::digest(url.as_bytes());
    let mark: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = beginning(url.rsplit('/').next().unwrap_or_default());
    Ok(installed()?.spool()?.join(format!("{mark}-{name}.part")))
}

fn beginning(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES)]
}

/// Whether an object is in a folder, which has at least a bucket.
pub(crate) fn is_inside(object: &str, folder: &Path) -> bool {
    let Some(folder) = url(folder) else { return false };
    let has_bucket = folder.split("://").nth(1).is_some_and(|rest| !rest.trim_matches('/').is_empty());
    let rest = object.strip_prefix(folder.trim_end_matches('/'));
    let is_plain = !object.split('/').any(|part| matches!(part, "." | ".."));
    has_bucket && is_plain && rest.is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unfinished_files_are_not_too_long() {
        assert_eq!(beginning("a.csv"), "a.csv");
        assert_eq!(beginning(&"가".repeat(80)), "가".repeat(26));
    }

    #[test]
    fn an_object_is_inside_of_the_folders_above_it_only() {
        let check = |object: &str, folder: &str| is_inside(object, Path::new(folder));

        assert!(check("s3://lake/in/a.csv", "s3://lake/in") && check("s3://lake/in/a.csv", "s3://lake/"));
        for (object, folder) in [
            ("s3://lake/in/a.csv", "s3://lake/i"),
            ("s3://lake/in/a.csv", "s3://other"),
            ("s3://lake/in/a.csv", "gs://lake"),
            ("s3://lake/in/../a.csv", "s3://lake/in"),
            ("s3://lake/in/a.csv", "s3://"),
            ("s3://lake/in/a.csv", "s3:/"),
            ("s3://lake/in/a.csv", "/"),
            ("s3://lake/in/a.csv", "."),
        ] {
            assert!(!check(object, folder), "{object} in {folder}");
        }
        assert_eq!(url(Path::new("/s3://lake/a")), None);
    }
}
