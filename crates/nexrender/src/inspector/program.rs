//! One run of ffprobe or ffmpeg: bounded in time and output, and it leaves no process behind.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::job::command::readable;
use tidemill_domain::render::{Failure, Trouble};
use tidemill_engine::job::command::Group;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

const LINE_BYTES_MAX: usize = 8 << 10;
const LINE_CHARS_MAX: usize = 300;

/// The environment variables we pass on. The programs parse foreign files, so they get no secrets.
const ENVIRONMENT: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "SystemRoot"];

#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) arguments: Vec<String>,
    pub(super) within: Duration,
    pub(super) stdout_max: usize,
}

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) is_success: bool,
    pub(super) stdout: Vec<u8>,
    /// Whether output was dropped.
    pub(super) is_cut: bool,
}

impl Program {
    /// Runs it to its end, or kills it; `hear` gets each line of its standard error.
    pub(super) async fn run(&self, run: Run, hear: impl FnMut(&str)) -> Result<Ran, Trouble> {
        let group = Group::form().await.map_err(|error| self.failed(&error))?;
        let mut command = Command::new(&self.path);
        command.args(&run.arguments).env_clear().env("LC_ALL", "C").env("AV_LOG_FORCE_NOCOLOR", "1");
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = group.spawn(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => self.missing(&error.to_string()),
            _ => self.failed(&error),
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let to_the_end = async {
            let (kept, ()) = tokio::join!(read(stdout, run.stdout_max), listen(stderr, hear));
            (kept, child.wait().await)
        };
        let ended = timeout(run.within, to_the_end).await;
        group.disband().await;
        match ended {
            Ok(((stdout, is_cut), Ok(status))) => Ok(Ran { is_success: status.success(), stdout, is_cut }),
            Ok((_, Err(error))) => Err(self.failed(&error)),
            Err(_) => Err(Trouble {
                failure: Failure::Unexpected,
                code: Code::InspectionTimedOut,
                message: format!("{} did not end within {:?} and was killed", self.name, run.within),
            }),
        }
    }

    pub(super) fn missing(&self, why: &str) -> Trouble {
        let path = self.path.display();
        let message = format!(
            "{path} cannot be run: {why}; install ffmpeg, or set the path of {} in the configuration",
            self.name
        );
        Trouble::new(Failure::ToolMissing, &message)
    }

    fn failed(&self, error: &io::Error) -> Trouble {
        Trouble::new(Failure::Unexpected, &format!("{} could not be run to its end: {error}", self.name))
    }
}

/// Reads to the end, and keeps the beginning.
async fn read(stream: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> (Vec<u8>, bool) {
    let (mut kept, mut is_cut) = (Vec::new(), false);
    let Some(mut stream) = stream else { return (kept, is_cut) };
    let mut block = vec![0; 64 << 10];
    while let Ok(read @ 1..) = stream.read(&mut block).await {
        let room = bytes_max.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&block[..room]);
        is_cut |= room < read;
    }
    (kept, is_cut)
}

/// Reads to the end, line by line; cuts long lines.
async fn listen(stream: Option<impl AsyncRead + Unpin>, mut hear: impl FnMut(&str)) {
    let Some(mut stream) = stream else { return };
    let mut block = vec![0; 16 << 10];
    let mut line = Vec::new();
    while let Ok(read @ 1..) = stream.read(&mut block).await {
        for byte in &block[..read] {
            match *byte {
                b'\n' | b'\r' => {
                    tell(&line, &mut hear);
                    line.clear();
                }
                byte if line.len() < LINE_BYTES_MAX => line.push(byte),
                _ => {}
            }
        }
    }
    tell(&line, &mut hear);
}

fn tell(line: &[u8], hear: &mut impl FnMut(&str)) {
    let text = readable(line, LINE_CHARS_MAX);
    if !text.trim().is_empty() {
        hear(text.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within: Duration) -> (Program, Run) {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        (Program { name: "shell", path: PathBuf::from("/bin/sh") }, Run { arguments, within, stdout_max: 8 })
    }

    #[tokio::test]
    async fn words_are_heard_line_by_line_and_output_is_cut() {
        let (program, run) = shell(
            "echo one >&2; printf 'two\\r\\n\\nthree' >&2; echo 123456789; exit 3",
            Duration::from_secs(30),
        );
        let mut heard = Vec::new();

        let ran = program.run(run, |line| heard.push(line.to_owned())).await.unwrap();

        assert_eq!((ran.is_success, ran.stdout.as_slice(), ran.is_cut), (false, &b"12345678"[..], true));
        assert_eq!(heard, ["one", "two", "three"]);
    }

    #[tokio::test]
    async fn whoever_takes_too_long_is_killed_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let script = format!("(sleep 1; echo >'{}') & sleep 600", mark.display());
        let (program, run) = shell(&script, Duration::from_millis(200));

        let trouble = program.run(run, |_| ()).await.unwrap_err();

        assert_eq!((trouble.failure, trouble.code), (Failure::Unexpected, Code::InspectionTimedOut));
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert!(!mark.exists(), "what it had started went on");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named_with_what_helps() {
        let program = Program { name: "ffprobe", path: PathBuf::from("/nowhere/ffprobe") };
        let run = Run { arguments: Vec::new(), within: Duration::from_secs(30), stdout_max: 0 };

        let trouble = program.run(run, |_| ()).await.unwrap_err();

        assert_eq!((trouble.failure, trouble.code), (Failure::ToolMissing, Code::RenderToolMissing));
        assert!(trouble.message.contains("/nowhere/ffprobe") && trouble.message.contains("install ffmpeg"));
    }

    #[tokio::test]
    async fn nothing_of_our_environment_is_told() {
        let (program, mut run) = shell(
            "env | grep -v -e ^PATH -e ^PWD -e ^LC_ALL -e ^AV_ -e ^LD_ -e ^_= -e ^SHLVL -e ^OLDPWD",
            Duration::from_secs(30),
        );
        run.stdout_max = 4_000;

        let ran = program.run(run, |_| ()).await.unwrap();

        assert_eq!(String::from_utf8_lossy(&ran.stdout), "");
    }
}
