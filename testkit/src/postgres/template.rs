//! Data folders by copy. `initdb` takes seconds, a copy of what it made takes a fraction of one, so the result
//! is kept per version in the folder for temporary files.
//!
//! A template is built under another name and renamed when it is whole, so two processes may make it at once.
//! It holds the number of its entries, because cleaners of temporary files take away old files one by one.

use crate::account::Account;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::postgres::USER;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const COUNT: &str = "count";

/// Makes `data` a fresh data folder that belongs to `account`.
pub(crate) fn copy_to(
    data: &Path,
    binaries: &Path,
    version: &str,
    account: Account,
) -> Result<(), ServerError> {
    let template = account.temp_dir().join(format!("tidemill-postgres-template-{version}-{}", account.uid()));
    if !is_ours(&template, account) {
        build(&template, binaries, account)?;
    }
    match copy_whole(&template, data, account) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(ServerError::caused("cannot copy a data folder", error)),
    }
    // The template has lost files: a new one takes its place.
    let failed = |error| ServerError::caused("cannot replace a damaged template of a data folder", error);
    remove_if_there(data).map_err(failed)?;
    remove_if_there(&template).map_err(failed)?;
    build(&template, binaries, account)?;
    match copy_whole(&template, data, account) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ServerError::new("a new template of a data folder lost files while it was copied")),
        Err(error) => Err(ServerError::caused("cannot copy a data folder", error)),
    }
}

/// A template that somebody else planted under the well-known name is not used.
fn is_ours(template: &Path, account: Account) -> bool {
    fs::symlink_metadata(template).is_ok_and(|found| found.is_dir() && found.uid() == account.uid())
}

fn build(template: &Path, binaries: &Path, account: Account) -> Result<(), ServerError> {
    let workshop = Folder::create(account)?;
    let product = workshop.path().join("template");
    let failed = |error| ServerError::caused(format!("cannot make {}", template.display()), error);
    fs::create_dir(&product).and_then(|()| account.give(&product)).map_err(failed)?;
    let data = product.join("data");
    let mut initdb = account.command(&binaries.join("initdb"));
    initdb.args(["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust", "-U", USER, "-D"]);
    let output = initdb.arg(&data).output().map_err(failed)?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(ServerError::new("initdb failed").with_log(complaint.trim()));
    }
    fs::write(product.join(COUNT), count(&data).map_err(failed)?.to_string()).map_err(failed)?;
    match fs::rename(&product, template) {
        // Somebody else was quicker, and theirs is as good.
        Err(_) if is_ours(template, account) => Ok(()),
        other => other.map_err(failed),
    }
}

/// Copies, and says whether everything was there.
fn copy_whole(template: &Path, data: &Path, account: Account) -> io::Result<bool> {
    let expected = fs::read_to_string(template.join(COUNT))?;
    let copied = copy(&template.join("data"), data, account)?;
    Ok(expected.trim() == copied.to_string())
}

/// Copies a folder with its permissions, and returns how many entries it has.
fn copy(from: &Path, to: &Path, account: Account) -> io::Result<u64> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    let mut copied = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copied += copy(&entry.path(), &target, account)?;
        } else {
            fs::copy(entry.path(), &target)?;
            account.give(&target)?;
        }
        copied += 1;
    }
    account.give(to)?;
    Ok(copied)
}

fn count(folder: &Path) -> io::Result<u64> {
    let mut entries = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        entries += 1;
        if entry.file_type()?.is_dir() {
            entries += count(&entry.path())?;
        }
    }
    Ok(entries)
}

fn remove_if_there(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_lost_a_file_is_noticed() {
        let base = tempfile::tempdir().unwrap();
        let account = Account::for_servers().unwrap();
        let template = base.path().join("template");
        fs::create_dir_all(template.join("data/base/1")).unwrap();
        fs::write(template.join("data/base/1/112"), "row").unwrap();
        fs::write(template.join(COUNT), count(&template.join("data")).unwrap().to_string()).unwrap();
        assert!(copy_whole(&template, &base.path().join("whole"), account).unwrap());

        fs::remove_file(template.join("data/base/1/112")).unwrap();

        assert!(!copy_whole(&template, &base.path().join("partial"), account).unwrap());
        assert_eq!(fs::read_to_string(base.path().join("whole/base/1/112")).unwrap(), "row");
    }
}
