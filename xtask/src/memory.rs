//! A folder in memory for what tests write. They make some thousand databases, and a disk that has to sync each of them is
//! what they wait for most.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MEMORY: &str = "/dev/shm";

/// Names the folder to the one program that is to remove it.
const GIVEN: &str = "TIDEMILL_TEST_MEMORY";

/// What the servers and tests of a whole run need at most, and as much again.
const ROOM: u64 = 8 << 30;

/// A folder that is gone with its value.
#[derive(Debug)]
pub(crate) struct Memory(PathBuf);

impl Memory {
    /// None where there is no such place, or too little room, or somebody has said where files are to be.
    pub(crate) fn new() -> Option<Self> {
        let is_said = std::env::var_os("TMPDIR").is_some();
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        if is_said || !is_fit(&mounts) || room()? < ROOM {
            return None;
        }
        let folder = Path::new(MEMORY).join(format!("tidemill-{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let memory = Self(folder);
        // As `/tmp` is: servers that run as somebody else write there too.
        fs::set_permissions(&memory.0, fs::Permissions::from_mode(0o1777)).ok()?;
        Some(memory)
    }

    /// The one that this process was given, to remove it even if whoever gave it is gone.
    pub(crate) fn given() -> Option<Self> {
        std::env::var_os(GIVEN).map(|folder| Self(folder.into()))
    }

    /// Does not let a program remove the folder of another run.
    pub(crate) fn keep_from(command: &mut Command) {
        command.env_remove(GIVEN);
    }

    /// Has a program write there.
    pub(crate) fn give(&self, command: &mut Command) {
        command.env("TMPDIR", &self.0).env(GIVEN, &self.0);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

/// Whether it is memory from which programs may be run.
fn is_fit(mounts: &str) -> bool {
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let here = fields.rfind(|fields| fields.get(1) == Some(&MEMORY));
    here.is_some_and(|fields| {
        let may_run = |options: &&str| !options.split(',').any(|option| option == "noexec");
        fields.get(2) == Some(&"tmpfs") && fields.get(3).is_some_and(may_run)
    })
}

/// The bytes that are free.
fn room() -> Option<u64> {
    let said = Command::new("df").args(["-B1", "--output=avail", MEMORY]).output().ok()?;
    String::from_utf8(said.stdout).ok()?.lines().last()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_from_which_programs_may_be_run_is_fit() {
        let root = "/dev/vda / ext4 rw 0 0\n";
        assert!(is_fit(&format!("{root}tmpfs /dev/shm tmpfs rw,relatime 0 0\n")));
        assert!(!is_fit(&format!("{root}tmpfs /dev/shm tmpfs rw,nosuid,noexec 0 0\n")));
        assert!(!is_fit(&format!("{root}/dev/vdb /dev/shm ext4 rw 0 0\n")));
        assert!(!is_fit(root));
    }
}
