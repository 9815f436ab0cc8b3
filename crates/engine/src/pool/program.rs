//! Runs a program of the operator: without a shell, without Tidemill's settings and secrets in its environment, and only
//! as long as this process lives.

use crate::environment;
use crate::job::command::Group;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    #[error("the program could not be run")]
    NotRun(#[from] io::Error),
    #[error("it took longer than {0:?} and was ended")]
    TimedOut(Duration),
    #[error("it ended with {0}")]
    Failed(ExitStatus),
    #[error("it printed more than {OUTPUT_BYTES_MAX} bytes")]
    TooMuch,
}

/// Runs a command with further variables. With an input, returns its output; otherwise its output is discarded.
pub(super) async fn run(
    command: &[String],
    variables: &[(&str, String)],
    input: Option<&str>,
    timeout: Duration,
) -> Result<Vec<u8>, ProgramError> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| io::Error::other("no program was named"))?;
    let talks = || if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment::passed_on())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(talks())
        .stdout(talks())
        .stderr(Stdio::null());
    let group = Group::form().await?;
    let child = group.spawn(command)?;
    let answered = tokio::time::timeout(timeout, talk(child, input.unwrap_or_default())).await;
    // Also ends everything that it has started.
    group.disband().await;
    answered.map_err(|_| ProgramError::TimedOut(timeout))?
}

async fn talk(mut child: Child, input: &str) -> Result<Vec<u8>, ProgramError> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let asking = async {
        if let Some(mut stdin) = stdin {
            // The program need not read it.
            let _unread = stdin.write_all(input.as_bytes()).await;
        }
    };
    let answering = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut answer).await?;
        }
        if answer.len() as u64 > OUTPUT_BYTES_MAX { Err(ProgramError::TooMuch) } else { Ok(answer) }
    };
    let ((), answer) = tokio::join!(asking, answering);
    let answer = answer?;
    let status = child.wait().await?;
    if status.success() { Ok(answer) } else { Err(ProgramError::Failed(status)) }
}
