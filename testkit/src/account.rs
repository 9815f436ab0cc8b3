//! The account that private servers run under. They refuse to run as root, or should not, so root lends
//! them the account of the Debian package, or `nobody`; everybody else runs them under their own name.

use crate::error::ServerError;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Whether this process may do everything, which a server must not.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program called `name` in a folder of `PATH`, or in one of the folders where Debian keeps its servers.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let servers = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    folders.into_iter().chain(servers).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Who a private server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
    is_lent: bool,
}

impl Account {
    /// The account for servers that this process starts.
    pub(crate) fn for_servers() -> Result<Self, ServerError> {
        if !is_root() {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            return Ok(Self { uid: uid.as_raw(), gid: gid.as_raw(), is_lent: false });
        }
        let accounts = fs::read_to_string("/etc/passwd")
            .map_err(|error| ServerError::caused("cannot read /etc/passwd", error))?;
        ["postgres", "nobody"].iter().find_map(|name| account_in(&accounts, name)).ok_or_else(|| {
            ServerError::new("neither postgres nor nobody is in /etc/passwd to run servers as")
        })
    }

    /// The number of the account's user.
    pub(crate) fn uid(self) -> u32 {
        self.uid
    }

    /// Makes the account the owner of `path`.
    pub(crate) fn give(self, path: &Path) -> io::Result<()> {
        if self.is_lent { chown(path, Some(self.uid), Some(self.gid)) } else { Ok(()) }
    }

    /// A command that runs under the account and soon ends by itself.
    pub(crate) fn command(self, program: &Path) -> Command {
        self.dress(Command::new(program))
    }

    /// A command for a server: a direct child that gets the signal `at_parent_death` when this process dies,
    /// and no signals from the terminal, whose interrupt is for the tests.
    pub(crate) fn server_command(self, program: &Path, at_parent_death: &str) -> Command {
        let mut command = match SETPRIV.as_deref() {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", at_parent_death, "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.process_group(0);
        self.dress(command)
    }

    /// The standard library drops the supplementary groups of root when it changes the user. It does so
    /// before `setpriv` runs: a later change of the user would clear the parent-death signal.
    fn dress(self, mut command: Command) -> Command {
        if self.is_lent {
            command.uid(self.uid).gid(self.gid);
        }
        // The account may not even look into the folder that we are in.
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// A folder for temporary files that the account can reach: root's own may be closed to it.
    pub(crate) fn temp_dir(self) -> PathBuf {
        let given = env::temp_dir();
        if !self.is_lent || is_open_to_all(&given) { given } else { PathBuf::from("/tmp") }
    }
}

/// The `setpriv` of util-linux, which can set a parent-death signal; others of that name cannot.
static SETPRIV: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let program = find_program("setpriv")?;
    let mut probe = Command::new(&program);
    probe.args(["--pdeathsig", "SIGKILL", "--", "true"]);
    let status = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    status.success().then_some(program)
});

fn account_in(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    let (uid, gid) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(Account { uid, gid, is_lent: true })
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn is_open_to_all(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|part| fs::metadata(part).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let passwd = "root:x:0:0::/:/bin/sh\npostgresql:x:7:7::/:/bin/sh\npostgres:x:101:104:a,,:/:/bin/sh\n";

        let found = account_in(passwd, "postgres");

        assert_eq!(found, Some(Account { uid: 101, gid: 104, is_lent: true }));
        assert_eq!(account_in(passwd, "nobody"), None);
        assert_eq!(account_in("postgres:x:one:two:::", "postgres"), None);
    }

    #[test]
    fn a_program_must_be_executable_to_be_found() {
        assert!(find_program("sh").is_some());
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }
}
