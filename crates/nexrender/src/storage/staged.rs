//! The files that nodes have left for us.

use super::folder::{Folder, is_file};
use super::place::Place;
use rustix::fs::Stat;
use tidemill_domain::render::{Failure, LocalPath, Trouble};
use tidemill_engine::render::storage::Sight;

/// What is seen of a file that may still grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) bytes: u64,
    touched: (i64, i64),
    inode: u64,
}

impl Seen {
    /// What of it may be told to others: the number of a file is one of this host, and not on every network for long.
    pub(super) fn sight(self) -> Sight {
        Sight { bytes: self.bytes, touched: self.touched }
    }

    pub(super) fn of(found: &Stat) -> Self {
        Self {
            bytes: u64::try_from(found.st_size).unwrap_or_default(),
            touched: (found.st_mtime, found.st_mtime_nsec.try_into().unwrap_or_default()),
            inode: found.st_ino,
        }
    }
}

/// A file that a node has left; none when there is none. A link might lead anywhere, so it counts as a bad file.
pub(super) fn look_at(staging: &Place, staged: &LocalPath) -> Result<Option<Seen>, Trouble> {
    let Some((folder, name)) = descend(staging, staged)? else { return Ok(None) };
    match folder.stat_of(&name)? {
        Some(found) if is_file(&found) => Ok(Some(Seen::of(&found))),
        Some(_) => Err(Trouble::new(Failure::OutputInvalid, &format!("{staged} is not a regular file"))),
        None => Ok(None),
    }
}

/// The folder that a file of a node is in, and its name there; none when a folder on the way is not there. No link is
/// followed on the way.
pub(super) fn descend(staging: &Place, staged: &LocalPath) -> Result<Option<(Folder, String)>, Trouble> {
    let outside = || {
        let message = format!("{staged} is not in {}, where nodes leave their files", staging.folder);
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
