//! A folder on a NAS, how we know that the NAS is mounted, and the files that render nodes have left there.
//!
//! Without the mount there is an empty folder on this host's disk. Writing there would fill that disk and look like
//! success.

use super::folder::{Folder, io_trouble};
use super::system::{Seen, mounted};
use std::io::{self, ErrorKind};
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::render::storage::Sight;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub folder: LocalPath,
    pub mount: Mount,
}

/// How to tell a NAS from an empty folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mount {
    /// Not a NAS: a folder of this host.
    Local,
    /// A file system is mounted at this folder, and our folder is on it.
    At(LocalPath),
    /// Our folder has a file of this name, which an operator has put on the NAS.
    Sentinel(String),
}

impl Place {
    /// Checks the mount each time, because a NAS can go away.
    pub(super) fn open(&self) -> Result<Folder, Trouble> {
        let folder = Folder::open(&self.folder)
            .map_err(|errno| not_mounted(&format!("the folder {} cannot be opened: {errno}", self.folder)))?;
        match &self.mount {
            Mount::Local => {}
            Mount::At(mount) => {
                let there = mounted(&mount.to_string()).map_err(|error| unseen(mount, &error))?;
                let there = there.ok_or_else(|| not_mounted(&format!("nothing is mounted at {mount}")))?;
                if folder.opened.device().map_err(|error| unseen(&self.folder, &error))? != there {
                    let message = format!("{} is not on what is mounted at {mount}", self.folder);
                    return Err(not_mounted(&message));
                }
            }
            Mount::Sentinel(name) => {
                if folder.stat_of(name)?.is_none() {
                    return Err(not_mounted(&format!("{} does not have the file {name}", self.folder)));
                }
            }
        }
        Ok(folder)
    }
}

fn not_mounted(why: &str) -> Trouble {
    Trouble::new(Failure::NasNotMounted, why)
}

/// Whether a file system is mounted there: without one, the folder is that of a local disk.
pub fn is_mounted(folder: &LocalPath) -> bool {
    mounted(&folder.to_string()).is_ok_and(|there| there.is_some())
}

fn unseen(path: &LocalPath, error: &io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::NotFound => not_mounted(&format!("{path} is not there")),
        _ => io_trouble(path, error),
    }
}

/// A file that may still grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StagedFile {
    pub(super) bytes: u64,
    touched: (i64, i64),
    number: u64,
}

impl StagedFile {
    /// The comparable part: the number of a file is valid on this host only, and not stable on every network.
    pub(super) fn sight(self) -> Sight {
        Sight { bytes: self.bytes, touched: self.touched }
    }

    pub(super) fn of(found: &Seen) -> Self {
        Self { bytes: found.bytes, touched: found.touched, number: found.number }
    }
}

/// `None` if it is missing. A link counts as a bad file, because it might point anywhere.
pub(super) fn look_at(staging: &Place, staged: &LocalPath) -> Result<Option<StagedFile>, Trouble> {
    let Some((folder, name)) = descend(staging, staged)? else { return Ok(None) };
    match folder.stat_of(&name)? {
        Some(found) if found.is_file => Ok(Some(StagedFile::of(&found))),
        Some(_) => Err(Trouble::new(Failure::OutputInvalid, &format!("{staged} is not a regular file"))),
        None => Ok(None),
    }
}

/// The folder and name of a staged file; `None` if a folder on the way is missing. Follows no links.
pub(super) fn descend(staging: &Place, staged: &LocalPath) -> Result<Option<(Folder, String)>, Trouble> {
    let outside = || {
        let message = format!("{staged} is not in the folder {}", staging.folder);
        Trouble::new(Failure::PathNotMapped, &message)
    };
    if !staged.is_in(&staging.folder) {
        return Err(outside());
    }
    let (path, root) = (staged.to_string(), staging.folder.to_string());
    let inside = path.get(root.len()..).unwrap_or_default().trim_start_matches('/');
    let mut parts = inside.split('/');
    let Some(name) = parts.next_back().filter(|name| !name.is_empty()) else { return Err(outside()) };
    let mut folder = staging.open()?;
    for part in parts {
        match folder.enter(part)? {
            Some(deeper) => folder = deeper,
            None => return Ok(None),
        }
    }
    Ok(Some((folder, name.to_owned())))
}
