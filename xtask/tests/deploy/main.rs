//! What is in `deploy`, read by the programs that it is for: promtool, Helm, kubeconform and the loader of Compose. Each test plants
//! faults too, so that a program that accepts everything is noticed.
#![cfg(test)]

mod chart;
mod compose;
mod dashboards;
mod rules;
mod schemas;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidemill_testkit::skip::optional;

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

/// The folder with the tools; none without `--long`, because they take minutes to build.
fn tools() -> Option<PathBuf> {
    optional("go", std::env::var_os("TIDEMILL_TEST_GO_TOOLS").map(PathBuf::from))
}

/// What a program said.
struct Said {
    is_fine: bool,
    stdout: String,
    stderr: String,
}

fn run(program: &Path, arguments: &[&str]) -> Said {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace().join("deploy")).stdin(Stdio::null());
    let ran = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { is_fine: ran.status.success(), stdout: text(&ran.stdout), stderr: text(&ran.stderr) }
}

impl Said {
    /// What a program prints that is content.
    #[track_caller]
    fn succeeds(self) -> String {
        assert!(self.is_fine, "{}{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The complaint has these words.
    #[track_caller]
    fn fails(&self, words: &str) {
        let said = format!("{}{}", self.stdout, self.stderr);
        assert!(!self.is_fine && said.contains(words), "not {words:?} but {said}");
    }
}
