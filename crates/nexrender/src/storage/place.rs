//! A folder on a NAS, and how we know that the NAS is there.
//!
//! Where a NAS is not mounted there is an empty folder of this host's own disk. Whoever writes there fills that disk and
//! takes it for success.

use super::errno::trouble;
use super::folder::Folder;
use rustix::fs::{AtFlags, CWD, Stat, statat};
use tidemill_domain::render::{Failure, LocalPath, Trouble};

/// A folder that has to be there before anything is done in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub folder: LocalPath,
    /// How we know that it is the right one.
    pub mount: Mount,
}

/// How a NAS is told from an empty folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mount {
    /// It is no NAS: a folder of this host.
    Local,
    /// A file system is mounted at this folder, and our folder is on it.
    At(LocalPath),
    /// Our folder has a file of this name, which somebody has put on the NAS.
    Sentinel(String),
}

impl Place {
    /// Opens the folder, if it is the right one. It is looked at each time: a NAS can go away.
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
