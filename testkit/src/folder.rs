//! The folder of one private server: removed with its value, or swept by the next run when its owner was
//! killed.
//!
//! The owner holds a lock on a file inside, which the kernel lets go when the owner dies. A folder gets its
//! final name only once it is locked, so a sweeper never mistakes a newborn for a leftover.

use crate::account::Account;
use crate::error::ServerError;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PREFIX: &str = "tidemill-private-";
const NEWBORN: &str = "tidemill-newborn-";
const LOCK: &str = "owner.lock";

/// A folder that belongs to a server's account and goes away with its value.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// A new, empty folder that only `account` can look into.
    pub(crate) fn create(account: Account) -> Result<Self, ServerError> {
        let base = account.temp_dir();
        sweep(&base, account);
        create_in(&base, account).map_err(|error| {
            ServerError::caused(
                format!("cannot make a folder for a private server in {}", base.display()),
                error,
            )
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is swept by a later run.
        let _removed = fs::remove_dir_all(&self.path);
    }
}

fn create_in(base: &Path, account: Account) -> io::Result<Folder> {
    let newborn = tempfile::Builder::new().prefix(NEWBORN).tempdir_in(base)?;
    let lock = File::create(newborn.path().join(LOCK))?;
    lock.lock()?;
    account.give(newborn.path())?;
    let name = newborn.path().file_name().unwrap_or_default().to_string_lossy().replace(NEWBORN, PREFIX);
    let path = base.join(name);
    fs::rename(newborn.path(), &path)?;
    // Its old name is gone, so there is nothing left to remove under it.
    let _old_name = newborn.keep();
    Ok(Folder { path, _lock: lock })
}

/// Removes the folders of owners that were killed.
fn sweep(base: &Path, account: Account) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_left_over(&path, account) {
            let _removed = fs::remove_dir_all(&path);
        }
    }
}

fn is_left_over(path: &Path, account: Account) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    if !found.is_dir() || found.uid() != account.uid() {
        return false;
    }
    let lock = path.join(LOCK);
    if !fs::symlink_metadata(&lock).is_ok_and(|found| found.is_file()) {
        return false;
    }
    File::open(lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folders_of_dead_owners_are_swept() {
        let base = tempfile::tempdir().unwrap();
        let account = Account::for_servers().unwrap();
        let living = create_in(base.path(), account).unwrap();
        let dead = base.path().join(format!("{PREFIX}dead"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        account.give(&dead).unwrap();
        let stranger = base.path().join("stranger");
        fs::create_dir(&stranger).unwrap();

        sweep(base.path(), account);

        assert!(living.path().join(LOCK).exists());
        assert!(!dead.exists());
        assert!(stranger.exists());
    }

    #[test]
    fn a_folder_goes_away_with_its_value() {
        let base = tempfile::tempdir().unwrap();
        let folder = create_in(base.path(), Account::for_servers().unwrap()).unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();

        drop(folder);

        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
