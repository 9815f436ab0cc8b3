//! A folder on a NAS, and how we know that the NAS is mounted.
//!
//! Without the mount there is an empty folder on this host's disk. Writing there would fill that disk and look like
//! success.

use super::errno::trouble;
use super::folder::Folder;
use rustix::fs::{AtFlags, CWD, Stat, statat};
use tidemill_domain::render::{Failure, LocalPath, Trouble};

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
                let (there, above) = (stat(&mount.to_string())?, stat(&format!("{mount}/.."))?);
                if there.st_dev == above.st_dev {
                    return Err(not_mounted(&format!("nothing is mounted at {mount}")));
                }
                if folder.stat()?.st_dev != there.st_dev {
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

fn stat(path: &str) -> Result<Stat, Trouble> {
    statat(CWD, path, AtFlags::empty()).map_err(|errno| match errno {
        rustix::io::Errno::NOENT => not_mounted(&format!("{path} is not there")),
        errno => trouble(path, errno),
    })
}
