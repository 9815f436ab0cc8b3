//! The output of command and Spark steps in files: one per step execution, bounded, deleted with the execution.
//!
//! A file is found by ids alone: `FOLDER/EXECUTION/STEP_EXECUTION.log`. A file that grows too long is replaced by its end.
//! Its first line then tells how many bytes are missing, so that a position in the output keeps its meaning.

use crate::item::file_output::remove_if_there;
use crate::job::StepTask;
use crate::{EngineError, Process, Service, system};
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidemill_domain::job::{ExecutionContext, ExecutionId, StepExecutionId};
use tidemill_store::Store;

/// The longest file; a longer one is cut to [`KEPT_BYTES`].
pub const FILE_BYTES_MAX: u64 = 16 << 20;

const KEPT_BYTES: u64 = 8 << 20;

/// Context key of the place of the output.
const PLACE: &str = "command.log";

/// Owner and group may read the output.
const FOLDER_MODE: u32 = 0o750;
const FILE_MODE: u32 = 0o640;

/// Pause between two searches for output without an execution.
const SWEEP_PAUSE: Duration = Duration::from_secs(3600);

/// Executions looked up at once.
const SWEEP_BATCH: usize = 500;

/// A folder with the output of command and Spark steps of one database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFolder {
    path: PathBuf,
    host: String,
}

/// Where the output of a step was written, as its context tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPlace {
    /// The machine.
    pub host: String,
    /// The folder on that machine.
    pub folder: String,
}

/// A part of the output of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPart {
    /// Position of the first byte in the whole output.
    pub from: u64,
    /// The output from there on.
    pub bytes: Vec<u8>,
}

impl LogPart {
    /// Position after the last byte.
    pub fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }

    /// The text, with a first line that tells what is missing before it.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        if self.from == 0 { text.into_owned() } else { format!("{}{text}", header(self.from)) }
    }
}

impl LogPlace {
    /// None if the step kept no output.
    pub fn of(context: &ExecutionContext, step: StepExecutionId) -> Option<Self> {
        let place = context.get(PLACE)?;
        // A restarted step begins with the context of the earlier one.
        if place.get("step")?.as_i64()? != step.get() {
            return None;
        }
        let text = |key: &str| place.get(key)?.as_str().map(str::to_owned);
        Some(Self { host: text("host")?, folder: text("folder")? })
    }

    /// How to read output that is not on this machine.
    pub fn advice(&self, step: &str) -> String {
        let Self { host, folder } = self;
        format!(
            "the output of step {step} is on host {host}, in {folder}; to read it from other machines, set jobs.log_dir to a folder that all of them share"
        )
    }
}

impl LogFolder {
    /// A folder on this machine. It is created when the first command runs.
    pub fn new(path: impl Into<PathBuf>, host: impl Into<String>) -> Self {
        Self { path: path.into(), host: host.into() }
    }

    fn file(&self, execution: ExecutionId, step: StepExecutionId) -> PathBuf {
        self.path.join(execution.to_string()).join(format!("{step}.log"))
    }

    /// The output after position `from`; none if this folder has no output of the step.
    pub fn read(
        &self,
        execution: ExecutionId,
        step: StepExecutionId,
        from: u64,
    ) -> io::Result<Option<LogPart>> {
        let log = OpenLog::open(&self.file(execution, step))?;
        log.map(|log| log.read(from)).transpose()
    }

    /// The last whole lines of at most `bytes_max` bytes; none if this folder has no output of the step.
    pub fn tail(
        &self,
        execution: ExecutionId,
        step: StepExecutionId,
        bytes_max: u64,
    ) -> io::Result<Option<LogPart>> {
        let log = OpenLog::open(&self.file(execution, step))?;
        log.map(|log| log.tail(bytes_max)).transpose()
    }

    /// Begins the file of a step, or goes on with that of its step execution, and notes its place in the context.
    pub(super) fn begin(&self, task: &mut StepTask) -> io::Result<LogWriter> {
        let (execution, step) = (task.scope.execution(), task.scope.step_execution());
        let path = self.file(execution, step);
        if let Some(folder) = path.parent() {
            system::make_folder(folder, FOLDER_MODE)?;
        }
        let is_first_run = LogPlace::of(&task.context, step).is_none();
        let file = append_to(&path, is_first_run)?;
        let place = json!({ "step": step.get(), "host": self.host, "folder": self.path.to_string_lossy() });
        task.context.put(PLACE, place);
        Ok(LogWriter { length: file.metadata()?.len(), file, path })
    }

    /// Deletes the output of executions that are no longer in the database.
    #[crate::boxed]
    pub async fn sweep(&self, store: &Store) -> Result<(), EngineError> {
        let path = self.path.clone();
        let ids = tokio::task::spawn_blocking(move || executions_in(&path)).await.unwrap_or_default();
        for ids in ids.chunks(SWEEP_BATCH) {
            let existing = store.read().await?.jobs().existing(ids).await?;
            let gone: Vec<PathBuf> = ids
                .iter()
                .filter(|id| !existing.contains(id))
                .map(|id| self.path.join(id.to_string()))
                .collect();
            let deleting = move || gone.iter().map(|path| delete(path)).fold(Ok(()), io::Result::and);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(deleting).await {
                tracing::warn!(%error, "the output of a deleted execution could not be deleted, will try again");
            }
        }
        Ok(())
    }
}

/// Deletes every hour the output of executions that are gone, until `process` ends. Each machine has its own folder, so
/// each server does this.
pub async fn sweep_hourly(process: Process, folder: LogFolder) {
    let mut service =
        Service::new("deleting the output of deleted executions", SWEEP_PAUSE).until_end_of(&process);
    while service.is_due().await {
        service.ended(folder.sweep(process.store()).await);
    }
}

/// The executions that have a folder; none if the folder cannot be read.
fn executions_in(path: &Path) -> Vec<ExecutionId> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let id = |name: &str| name.parse().ok().filter(|id| *id > 0).map(ExecutionId::new);
    entries.filter_map(|entry| id(entry.file_name().to_str()?)).collect()
}

/// Deletes our files, and the folder if nothing else is in it.
fn delete(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log" || extension == "new") {
            fs::remove_file(path)?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
        _ => Ok(()),
    }
}

fn header(dropped: u64) -> String {
    format!("[tidemill: {dropped} bytes of earlier output are missing]\n")
}

fn append_to(path: &Path, is_new: bool) -> io::Result<File> {
    if is_new {
        remove_if_there(path)?;
    }
    system::with_mode(OpenOptions::new().create(true).append(true), FILE_MODE).open(path)
}

struct OpenLog {
    file: File,
    /// Bytes of the output that are missing at its beginning.
    dropped: u64,
    header_length: u64,
    length: u64,
}

impl OpenLog {
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut first = String::new();
        // What is not text is no header.
        let _not_text = BufReader::new((&file).take(100)).read_line(&mut first);
        let number = first.strip_prefix("[tidemill: ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        let dropped = number.filter(|number| header(*number) == first).unwrap_or(0);
        let header_length = if dropped > 0 { first.len() as u64 } else { 0 };
        let length = file.metadata()?.len();
        Ok(Some(Self { file, dropped, header_length, length }))
    }

    fn end(&self) -> u64 {
        self.dropped + self.length.saturating_sub(self.header_length)
    }

    fn read(mut self, from: u64) -> io::Result<LogPart> {
        let from = from.clamp(self.dropped, self.end());
        self.file.seek(SeekFrom::Start(self.header_length + from - self.dropped))?;
        let mut bytes = Vec::new();
        let rest = self.end() - from;
        (&self.file).take(rest).read_to_end(&mut bytes)?;
        Ok(LogPart { from, bytes })
    }

    fn tail(self, bytes_max: u64) -> io::Result<LogPart> {
        let start = self.end().saturating_sub(bytes_max);
        let is_cut = start > self.dropped;
        let mut part = self.read(start)?;
        if is_cut {
            let line = memchr::memchr(b'\n', &part.bytes).map_or(0, |at| at + 1);
            part.bytes.drain(..line);
            part.from += line as u64;
        }
        Ok(part)
    }
}

/// Appends to the file of a step.
pub(super) struct LogWriter {
    path: PathBuf,
    file: File,
    length: u64,
}

impl LogWriter {
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.length + lines.len() as u64 > FILE_BYTES_MAX {
            self.drop_beginning()?;
        }
        self.file.write_all(lines)?;
        self.length += lines.len() as u64;
        Ok(())
    }

    /// A crash in between leaves the old file or the new one.
    fn drop_beginning(&mut self) -> io::Result<()> {
        let Some(log) = OpenLog::open(&self.path)? else { return Ok(()) };
        let kept = log.tail(KEPT_BYTES)?;
        let new = self.path.with_extension("new");
        let mut file = append_to(&new, true)?;
        let content = [header(kept.from).as_bytes(), &kept.bytes].concat();
        file.write_all(&content)?;
        fs::rename(&new, &self.path)?;
        (self.file, self.length) = (file, content.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LogWriter {
        pub(in crate::job::command) fn create(path: &Path) -> io::Result<Self> {
            Ok(Self { path: path.to_owned(), file: append_to(path, true)?, length: 0 })
        }
    }

    #[test]
    fn a_long_output_keeps_its_end_and_tells_how_much_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7/9.log");
        fs::create_dir(folder.path().join("7")).unwrap();
        let (mut writer, mut written) = (LogWriter::create(&path).unwrap(), 0);
        for number in 0..40 {
            let lines = format!("line {number} {}\n", "x".repeat(1 << 20));
            writer.write(lines.as_bytes()).unwrap();
            written += lines.len() as u64;
            assert!(fs::metadata(&path).unwrap().len() <= FILE_BYTES_MAX + 100);
        }
        let logs = LogFolder::new(folder.path(), "here");
        let (execution, step) = (ExecutionId::new(7), StepExecutionId::new(9));

        let all = logs.read(execution, step, 0).unwrap().unwrap();

        assert_eq!(all.end(), written);
        assert!(all.text().starts_with(&header(all.from)) && all.from > KEPT_BYTES, "{}", all.from);
        assert!(all.bytes.starts_with(b"line ") && all.bytes.ends_with(b"x\n"));
        let tail = logs.tail(execution, step, (1 << 20) + 100).unwrap().unwrap();
        assert!(tail.bytes.starts_with(b"line 39 ") && tail.end() == written);
        let rest = logs.read(execution, step, written - 2).unwrap().unwrap();
        assert_eq!((rest.from, rest.bytes.as_slice()), (written - 2, b"x\n".as_slice()));
        assert_eq!(logs.read(execution, step, written + 5).unwrap().unwrap().bytes, b"");
        assert_eq!(logs.read(execution, StepExecutionId::new(10), 0).unwrap(), None);
    }

    #[test]
    fn output_that_looks_like_our_line_or_is_no_text_is_output() {
        let folder = tempfile::tempdir().unwrap();
        for output in [b"[tidemill: 5 bytes\n".as_slice(), b"\xff\xfe\n", b"", b"no end"] {
            let path = folder.path().join("1.log");
            LogWriter::create(&path).unwrap().write(output).unwrap();

            let part = OpenLog::open(&path).unwrap().unwrap().read(0).unwrap();

            assert_eq!((part.from, part.bytes.as_slice()), (0, output));
        }
    }

    #[test]
    fn only_our_files_of_a_deleted_execution_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["1/2.log", "1/2.new", "3/4.log", "3/notes.txt", "jobs/5.log"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }

        let mut ids = executions_in(folder.path());
        ids.sort();
        ids.iter().for_each(|id| delete(&folder.path().join(id.to_string())).unwrap());

        assert_eq!(ids, [ExecutionId::new(1), ExecutionId::new(3)]);
        assert!(!folder.path().join("1").exists() && !folder.path().join("3/4.log").exists());
        assert!(folder.path().join("3/notes.txt").exists() && folder.path().join("jobs/5.log").exists());
    }
}
