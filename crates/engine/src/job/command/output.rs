//! The output of a command: some of it into the log, its end into memory, as much as fits into the file of the step, and
//! all of it into a file of the author. Memory is bounded.

use super::log::LogWriter;
use crate::locked;
use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::job::command::readable;
use tidemill_domain::time::{Clock, Monotonic};
use tokio::io::{AsyncRead, AsyncReadExt};

const KEPT_BYTES: usize = 64 * 1024;

const BLOCK_BYTES: usize = 64 * 1024;

/// A longer line is split.
const LINE_BYTES_MAX: usize = 8 * 1024;

const STDOUT: &str = "stdout";

/// How much of a line goes into the log or a failure message.
const LINE_CHARS_MAX: usize = 300;

const EXCERPT_LINES: usize = 20;

/// The log takes this many lines at once, and one more every 20 ms.
const LOGGED_AT_ONCE: u32 = 100;
const LOGGED_EVERY: Duration = Duration::from_millis(20);

/// The output of both streams.
pub(super) struct Output {
    clock: Arc<dyn Clock>,
    tail: Vec<u8>,
    allowance: Allowance,
    /// Lines left out of the log.
    unlogged: u64,
    file: Option<File>,
    /// The file of the step.
    pub(super) log: Option<LogWriter>,
    /// Values that are replaced by `***`, except in the author's file.
    pub(super) secrets: Vec<Vec<u8>>,
    /// The last line of the standard output that is not blank.
    pub(super) last_line: Vec<u8>,
}

impl Output {
    pub(super) fn new(clock: Arc<dyn Clock>, file: Option<&Path>) -> Result<Self, String> {
        let open = |path: &Path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.map_err(|error| format!("its log file {} cannot be written: {error}", path.display()))
        };
        let allowance = Allowance { lines: LOGGED_AT_ONCE, at: clock.monotonic() };
        let file = file.map(open).transpose()?;
        let (tail, secrets, last_line) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { allowance, tail, unlogged: 0, file, log: None, secrets, last_line, clock })
    }

    /// The last lines without chatter.
    pub(super) fn excerpt(&self, is_chatter: fn(&str) -> bool) -> String {
        let kept = &self.tail[self.tail.len().saturating_sub(KEPT_BYTES)..];
        let lines = kept.split(|byte| *byte == b'\n').rev().map(|line| readable(line, LINE_CHARS_MAX));
        let mut lines: Vec<String> = lines.filter(|line| !is_chatter(line)).take(EXCERPT_LINES).collect();
        lines.reverse();
        lines.join("\n")
    }

    fn take(&mut self, stream: &'static str, lines: &[u8]) {
        let lines = masked(lines, &self.secrets);
        if let Some(log) = &mut self.log
            && let Err(error) = log.write(&lines)
        {
            tracing::warn!(%error, "the output of a command could not be kept any more");
            self.log = None;
        }
        let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
        let last = lines.split(|byte| *byte == b'\n').rev().find(|line| !is_blank(line));
        if let Some(last) = last.filter(|_| stream == STDOUT) {
            self.last_line = last.to_vec();
        }
        self.tail.extend_from_slice(&lines);
        // Rarely, so that each byte is moved about once.
        if self.tail.len() > 2 * KEPT_BYTES {
            self.tail.drain(..self.tail.len() - KEPT_BYTES);
        }
        let mut rest = lines.as_ref();
        while !rest.is_empty() {
            if !self.allowance.take(self.clock.monotonic()) {
                self.unlogged += memchr::memchr_iter(b'\n', rest).count() as u64;
                return;
            }
            self.log_unlogged();
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            tracing::info!(stream, "{}", readable(&rest[..end], LINE_CHARS_MAX));
            rest = &rest[end..];
        }
    }

    fn log_unlogged(&mut self) {
        let lines = std::mem::take(&mut self.unlogged);
        if lines > 0 {
            tracing::info!("{lines} lines of the command were left out of the log");
        }
    }
}

fn masked<'a>(lines: &'a [u8], secrets: &[Vec<u8>]) -> Cow<'a, [u8]> {
    let mut masked = Cow::Borrowed(lines);
    for secret in secrets {
        while let Some(at) = memchr::memmem::find(&masked, secret) {
            masked.to_mut().splice(at..at + secret.len(), *b"***");
        }
    }
    masked
}

pub(super) async fn read(
    output: &mut Output,
    stdout: Option<impl AsyncRead + Unpin>,
    stderr: Option<impl AsyncRead + Unpin>,
) {
    let shared = Mutex::new(output);
    tokio::join!(read_one(&shared, STDOUT, stdout), read_one(&shared, "stderr", stderr));
    shared.into_inner().unwrap_or_else(PoisonError::into_inner).log_unlogged();
}

async fn read_one(output: &Mutex<&mut Output>, stream: &'static str, source: Option<impl AsyncRead + Unpin>) {
    let Some(mut source) = source else { return };
    let mut block = vec![0; BLOCK_BYTES];
    let mut begun = Vec::new();
    loop {
        let read = match source.read(&mut block).await {
            Ok(0) => break,
            Ok(read) => &block[..read],
            Err(error) => {
                tracing::warn!(%error, "the {stream} of a command cannot be read any more");
                break;
            }
        };
        let mut output = locked(output);
        if let Some(file) = &mut output.file
            && let Err(error) = file.write_all(read)
        {
            tracing::warn!(%error, "the output of a command could not be written to its log file any more");
            output.file = None;
        }
        // A line may end in a later block, after output of the other stream.
        let whole = memchr::memrchr(b'\n', read).map_or(0, |at| at + 1);
        if whole > 0 {
            begun.extend_from_slice(&read[..whole]);
            output.take(stream, &begun);
            begun.clear();
        }
        begun.extend_from_slice(&read[whole..]);
        if begun.len() > LINE_BYTES_MAX {
            begun.push(b'\n');
            output.take(stream, &begun);
            begun.clear();
        }
    }
    if !begun.is_empty() {
        begun.push(b'\n');
        locked(output).take(stream, &begun);
    }
}

struct Allowance {
    lines: u32,
    at: Monotonic,
}

impl Allowance {
    fn take(&mut self, now: Monotonic) -> bool {
        let earned = now.since(self.at).as_millis() / LOGGED_EVERY.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(LOGGED_AT_ONCE);
            self.lines = self.lines.saturating_add(earned).min(LOGGED_AT_ONCE);
            self.at = now;
        }
        let is_taken = self.lines > 0;
        self.lines = self.lines.saturating_sub(1);
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::FakeClock;

    fn output() -> (Output, Arc<FakeClock>) {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        (Output::new(clock.clone(), None).unwrap(), clock)
    }

    async fn said(text: &[u8]) -> Output {
        let (mut output, _) = output();
        read(&mut output, Some(text), None::<&[u8]>).await;
        output
    }

    #[tokio::test]
    async fn the_last_lines_are_told_and_empty_ones_are_not() {
        let text: String = (1..=50).map(|number| format!("line {number}\n\n")).collect();

        let excerpt = said(text.as_bytes()).await.excerpt(|line| line.trim().is_empty());

        let expected: Vec<String> = (31..=50).map(|number| format!("line {number}")).collect();
        assert_eq!(excerpt, expected.join("\n"));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_kept_and_one_of_megabytes_is_cut() {
        let long = "x".repeat(3 * 1024 * 1024) + "the end";

        let output = said(long.as_bytes()).await;

        assert!(output.tail.len() <= 2 * KEPT_BYTES + BLOCK_BYTES, "{}", output.tail.len());
        let excerpt = output.excerpt(|_| false);
        assert!(excerpt.chars().count() <= EXCERPT_LINES * (LINE_CHARS_MAX + 2), "{}", excerpt.len());
        assert_eq!(said(b"no end").await.excerpt(|_| false), "no end\n");
    }

    #[tokio::test]
    async fn lines_of_two_streams_do_not_mix() {
        let (mut output, _) = output();
        let (out, err) = (b"one\ntwo\n".as_slice(), b"bad\nworse".as_slice());

        read(&mut output, Some(out), Some(err)).await;

        let mut lines: Vec<String> =
            output.excerpt(|line| line.is_empty()).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["bad", "one", "two", "worse"]);
    }

    #[tokio::test]
    async fn secrets_are_replaced_wherever_the_output_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.log");
        let (mut output, _) = output();
        let secrets = vec![b"s3cret".to_vec(), b"geheim".to_vec()];
        (output.log, output.secrets) = (Some(LogWriter::create(&path).unwrap()), secrets);

        let text = b"login with s3cret and geheim\ns3cret".as_slice();
        read(&mut output, Some(text), None::<&[u8]>).await;

        let expected = "login with *** and ***\n***\n";
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
        assert_eq!(output.excerpt(|_| false), expected);
    }

    #[test]
    fn the_log_takes_a_burst_and_then_its_rate() {
        let (mut output, clock) = output();
        let taken = |output: &mut Output, clock: &FakeClock| {
            (0..1000).filter(|_| output.allowance.take(clock.monotonic())).count()
        };

        let burst = taken(&mut output, &clock);
        clock.advance(Duration::from_millis(100));
        let later = taken(&mut output, &clock);
        clock.advance(Duration::from_secs(3600));

        assert_eq!((burst, later), (100, 5));
        assert_eq!(taken(&mut output, &clock), 100);
    }
}
