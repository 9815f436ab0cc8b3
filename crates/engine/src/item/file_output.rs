//! A file that gets its final name only when it is complete. A restart continues after the last committed chunk.
//!
//! ```text
//!   open ──► <target>.part ── flush, update ──► … ──► publish: fsync, rename to <target>, fsync the folder
//!                  ▲    │
//!                  └────┘ roll_back, or open in a restart: truncate to the last update
//! ```
//!
//! A chunk is flushed to disk before it commits, so the file is never shorter than the saved length. Bytes after that
//! length were never committed and are cut off. The part is locked while it is open, so that two runs cannot write to
//! it.
//!
//! Some formats have an index at their end, so that chunks cannot be appended to a file. Their part has the chunks in another
//! form, and `publish` makes `<target>.whole` of it first, from the beginning each time that this is tried. That file is
//! created empty at the beginning and keeps its inode, so a restart knows whether the target is the file that it wanted.
//!
//! The part of an object is in a local folder, and `publish` uploads it. A mark tells whether the object is the one that was
//! wanted.

use crate::clock::SystemIds;
use crate::item::storage::{self, Existing};
use crate::item::{Roots, RootsError};
use crate::system;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;

/// Makes the finished file of the part, or says why not and what helps. Both are at their beginning. May block.
pub type Finish = Arc<dyn Fn(File, File) -> Result<(), String> + Send + Sync>;

pub(crate) struct FileOutput {
    creation: Creation,
    /// Set before `open`, as are `is_syncing`, `finish` and `roots`.
    pub(crate) existing: Existing,
    /// Whether each flush is an fsync.
    pub(crate) is_syncing: bool,
    pub(crate) finish: Option<Finish>,
    target: PathBuf,
    part: PathBuf,
    /// What `finish` makes.
    whole: PathBuf,
    made: Option<Arc<File>>,
    /// Folders that target and part must be in.
    pub(crate) roots: Option<Roots>,
    name: String,
    state: State,
    /// Appended but not yet flushed.
    pending: Vec<u8>,
    offset: u64,
    /// Length at the last update.
    kept: u64,
    /// Of an object.
    mark: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Creation {
    AtOpen,
    /// When the first line is flushed. Without a line no file is created.
    AtFirstLine,
}

#[derive(Debug)]
enum State {
    Closed,
    /// Opened; the part is created with the first line.
    Awaiting,
    Open(Arc<File>),
    /// Renamed to its final name.
    Published,
}

impl Clone for FileOutput {
    /// The clone is not open.
    fn clone(&self) -> Self {
        let Self { creation, existing, is_syncing, .. } = *self;
        let (roots, finish) = (self.roots.clone(), self.finish.clone());
        Self { creation, existing, is_syncing, roots, finish, ..Self::new(&self.name, self.target.clone()) }
    }
}

impl FileOutput {
    /// Saves its length as `<name>.current.count`.
    pub(crate) fn new(name: &str, target: impl Into<PathBuf>) -> Self {
        let target = target.into();
        let mut part = target.clone().into_os_string();
        part.push(".part");
        Self {
            creation: Creation::AtOpen,
            existing: Existing::Refuse,
            is_syncing: true,
            finish: None,
            target,
            whole: PathBuf::new(),
            made: None,
            part: part.into(),
            roots: None,
            name: name.to_owned(),
            state: State::Closed,
            pending: Vec::new(),
            offset: 0,
            kept: 0,
            mark: None,
        }
    }

    /// Creates the file only when something is written, and replaces that of an earlier job.
    pub(crate) fn lazy(name: &str, target: impl Into<PathBuf>) -> Self {
        Self::new(name, target).into_lazy()
    }

    /// See [`lazy`](Self::lazy).
    pub(crate) fn into_lazy(self) -> Self {
        Self { creation: Creation::AtFirstLine, existing: Existing::Replace, ..self }
    }

    /// Starts an empty part, or truncates that of the last run to its committed length.
    pub(crate) async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        let saved = |key: &str| context.get(&self.key(key)).and_then(serde_json::Value::as_u64);
        let (saved, inode) = (saved("count"), saved("inode"));
        self.mark = context.get_text(&self.key("mark")).map(str::to_owned);
        let object = storage::url(&self.target);
        if let Some(url) = object {
            let part = storage::part_of(url);
            self.part = part.map_err(|source| ItemError::fatal(self.cannot_create(source)))?;
        }
        self.whole = self.part.with_extension("whole");
        if let Some(roots) = &self.roots {
            // From here on the paths are free of links. The folder of the parts of objects is our own.
            let count = if object.is_some() {
                1
            } else if self.finish.is_some() {
                3
            } else {
                2
            };
            for path in [&mut self.target, &mut self.part, &mut self.whole].into_iter().take(count) {
                *path = roots.target(path).map_err(|error| unusable(path, error))?;
            }
        }
        match saved {
            None => self.start(),
            Some(offset) => self.resume(offset, inode),
        }
        .map_err(ItemError::fatal)
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_) | State::Awaiting)
    }

    /// Length in bytes, flushed or not.
    pub(crate) fn offset(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Writes all appended bytes, or none.
    pub(crate) async fn flush(&mut self) -> Result<(), ItemError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let file = self.file().map_err(ItemError::fatal)?;
        self.write(&file, &pending).map_err(ItemError::fatal)?;
        if self.is_syncing {
            let synced = tokio::task::spawn_blocking(move || file.sync_data()).await;
            let synced = synced.map_err(ItemError::fatal)?;
            synced.map_err(|source| ItemError::fatal(self.cannot_write(source)))?;
        }
        self.pending = pending;
        self.pending.clear();
        Ok(())
    }

    /// Saves the length and keeps everything written so far: if the commit then fails, the step ends and the next run
    /// truncates the file.
    pub(crate) fn update(&mut self, context: &mut ExecutionContext) {
        if let State::Open(file) = &self.state {
            context.put(&self.key("count"), self.offset);
            let file = self.made.as_ref().unwrap_or(file);
            context
                .put(&self.key("inode"), file.metadata().ok().map(|metadata| system::identity(&metadata).1));
            if let Some(mark) = &self.mark {
                context.put(&self.key("mark"), mark.as_str());
            }
        }
        self.kept = self.offset;
    }

    /// Undoes everything written since the last update.
    pub(crate) async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.pending.clear();
        if let State::Open(file) = &self.state
            && self.offset > self.kept
        {
            file.set_len(self.kept).map_err(|source| ItemError::fatal(self.cannot_write(source)))?;
            self.offset = self.kept;
        }
        Ok(())
    }

    /// Renames the file to its final name.
    pub(crate) async fn publish(&mut self) -> Result<(), ItemError> {
        self.flush().await?;
        if self.offset == 0 && self.creation == Creation::AtFirstLine {
            // Its only lines were rolled back.
            return self.discard();
        }
        let State::Open(file) = &self.state else { return Ok(()) };
        let (file, part, target) = (file.clone(), self.part.clone(), self.target.clone());
        let (existing, made) = (self.existing, self.finish.clone().zip(self.made.clone()));
        let (path, mark) = (self.whole.clone(), self.mark.clone());
        let publish = move |file: &File, part: &Path, target: &Path| match storage::url(target) {
            Some(url) => upload(part, url, existing, mark.as_deref().unwrap_or_default()),
            None => publish(file, part, target, existing),
        };
        let publishing = move || {
            let Some((finish, whole)) = made else { return publish(&file, &part, &target) };
            let rewound = |mut file: &File| file.rewind().and_then(|()| file.try_clone());
            let opened = whole.set_len(0).and_then(|()| Ok((rewound(&file)?, rewound(&whole)?)));
            let (part_read, whole_written) =
                opened.map_err(|source| OutputError::Write { path: shown(&path), source })?;
            let finished = finish(part_read, whole_written);
            finished.map_err(|fault| OutputError::Finish { path: shown(&target), fault })?;
            publish(&whole, &path, &target)?;
            remove_if_there(&part).map_err(|source| OutputError::Publish { path: shown(&target), source })
        };
        let published = tokio::task::spawn_blocking(publishing).await;
        published.map_err(ItemError::fatal)?.map_err(ItemError::fatal)?;
        self.state = State::Published;
        Ok(())
    }

    pub(crate) fn discard(&mut self) -> Result<(), ItemError> {
        if let State::Open(_) = self.state {
            self.state = State::Closed;
            self.remove_parts().map_err(|source| ItemError::fatal(self.cannot_write(source)))?;
        }
        Ok(())
    }

    fn remove_parts(&self) -> io::Result<()> {
        remove_if_there(&self.part)?;
        if self.finish.is_some() { remove_if_there(&self.whole) } else { Ok(()) }
    }

    /// Closes the part and leaves it for a restart.
    pub(crate) fn leave(&mut self) {
        self.pending.clear();
        (self.state, self.made) = (State::Closed, None);
    }

    fn key(&self, what: &str) -> String {
        format!("{}.current.{what}", self.name)
    }

    fn start(&mut self) -> Result<(), OutputError> {
        if self.existing == Existing::Refuse && exists(&self.target)? {
            return Err(OutputError::Exists { path: shown(&self.target) });
        }
        self.mark = storage::url(&self.target).map(|_| SystemIds.request());
        (self.offset, self.kept) = (0, 0);
        self.state = match self.creation {
            Creation::AtOpen => {
                let part = self.create()?;
                self.open_whole()?;
                State::Open(part)
            }
            Creation::AtFirstLine => {
                remove_if_there(&self.part).map_err(|source| self.cannot_create(source))?;
                State::Awaiting
            }
        };
        Ok(())
    }

    fn resume(&mut self, committed: u64, inode: Option<u64>) -> Result<(), OutputError> {
        let is_left = self.part.exists();
        let is_ours = match storage::url(&self.target) {
            Some(url) => self.mark.is_some() && find(url)? == self.mark,
            None if is_left && self.finish.is_none() => false,
            None => fs::metadata(&self.target).is_ok_and(|target| self.is_ours(&target, committed, inode)),
        };
        // The last run ended between renaming or uploading the file and recording that.
        if is_ours {
            self.remove_parts().map_err(|source| self.cannot_write(source))?;
            (self.offset, self.kept) = (committed, committed);
            self.state = State::Published;
            return Ok(());
        }
        if !is_left {
            return match committed {
                0 => self.start(),
                _ if storage::url(&self.target).is_some() => {
                    Err(OutputError::Elsewhere { path: shown(&self.part), object: shown(&self.target) })
                }
                _ => Err(OutputError::Missing { path: shown(&self.part) }),
            };
        }
        if self.existing == Existing::Refuse && exists(&self.target)? {
            return Err(OutputError::Exists { path: shown(&self.target) });
        }
        let file = self.lock(OpenOptions::new().read(true).write(true))?;
        let found = file.metadata().map_err(|source| self.cannot_write(source))?.len();
        if found < committed {
            return Err(OutputError::Short { path: shown(&self.part), found, committed });
        }
        file.set_len(committed).map_err(|source| self.cannot_write(source))?;
        (self.offset, self.kept) = (committed, committed);
        self.state = State::Open(Arc::new(file));
        self.open_whole()
    }

    fn is_ours(&self, target: &fs::Metadata, committed: u64, inode_of_part: Option<u64>) -> bool {
        match inode_of_part {
            // It stays the same when a file is renamed.
            Some(part) => part == system::identity(target).1,
            // Not saved: a target that did not exist before, and has the right length.
            None => self.existing == Existing::Refuse && target.len() == committed,
        }
    }

    /// The part, created now if it waited for the first line.
    fn file(&mut self) -> Result<Arc<File>, OutputError> {
        match &self.state {
            State::Open(file) => Ok(file.clone()),
            State::Awaiting => {
                let file = self.create()?;
                self.state = State::Open(file.clone());
                Ok(file)
            }
            State::Published => Err(OutputError::Published { path: shown(&self.target) }),
            State::Closed => Err(self.cannot_write(io::Error::other("it is not open"))),
        }
    }

    fn create(&self) -> Result<Arc<File>, OutputError> {
        // Truncated only after the lock.
        let file = self.lock(OpenOptions::new().read(true).write(true).create(true))?;
        file.set_len(0).map_err(|source| self.cannot_create(source))?;
        if self.is_syncing {
            sync_folder(&self.part).map_err(|source| self.cannot_create(source))?;
        }
        Ok(Arc::new(file))
    }

    /// The lock of the part is that of this file too.
    fn open_whole(&mut self) -> Result<(), OutputError> {
        if self.finish.is_some() {
            // It is truncated when it is filled.
            let made = OpenOptions::new().write(true).create(true).truncate(false).open(&self.whole);
            self.made = Some(Arc::new(made.map_err(|source| self.cannot_create(source))?));
        }
        Ok(())
    }

    fn lock(&self, options: &OpenOptions) -> Result<File, OutputError> {
        let file = options.open(&self.part).map_err(|source| self.cannot_create(source))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(OutputError::InUse { path: shown(&self.target) }),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        }
    }

    fn write(&mut self, mut file: &File, bytes: &[u8]) -> Result<(), OutputError> {
        let written = file.seek(SeekFrom::Start(self.offset)).and_then(|_| file.write_all(bytes));
        if let Err(source) = written {
            // If truncating fails too, the next open does it.
            let _half_written = file.set_len(self.offset);
            return Err(self.cannot_write(source));
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn cannot_write(&self, source: io::Error) -> OutputError {
        OutputError::Write { path: shown(&self.part), source }
    }

    fn cannot_create(&self, source: io::Error) -> OutputError {
        OutputError::Create { path: shown(&self.part), source }
    }
}

/// All of these end the step.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error(
        "the output file {path} exists already; move it away and restart the job, or allow to overwrite it"
    )]
    Exists { path: String },
    #[error("the output file {path} cannot be created; check that its folder exists and may be written to")]
    Create { path: String, source: io::Error },
    #[error("the output file {path} is being written by another run; wait for its end, or use another name")]
    InUse { path: String },
    #[error(
        "the unfinished output file {path} of the last run is gone; put it back and restart the job, \
         or start the job anew"
    )]
    Missing { path: String },
    #[error(
        "the unfinished file {path} of the object {object} is not on this host; restart the job on the host and with the \
         jobs.spool and the working folder of the last run, or start the job anew"
    )]
    Elsewhere { path: String, object: String },
    #[error(
        "the unfinished output file {path} has {found} bytes, but the last run had committed {committed}; \
         put it back as it was and restart the job, or start the job anew"
    )]
    Short { path: String, found: u64, committed: u64 },
    #[error("the output file {path} cannot be written; check the space on its disk, then restart the job")]
    Write { path: String, source: io::Error },
    #[error("the output file {path} cannot be made of its rows: {fault}")]
    Finish { path: String, fault: String },
    #[error("the finished output file cannot be renamed to {path}; check its folder, then restart the job")]
    Publish { path: String, source: io::Error },
    #[error(
        "the object {path} cannot be looked at or written; check the access to its bucket, then restart the job"
    )]
    Object { path: String, source: io::Error },
    /// More items after the file got its final name.
    #[error(
        "the output file {path} was already published by an earlier run, but there are more items now; \
         start the job anew, with another name"
    )]
    Published { path: String },
}

fn publish(file: &File, part: &Path, target: &Path, existing: Existing) -> Result<(), OutputError> {
    if existing == Existing::Refuse && target.exists() {
        return Err(OutputError::Exists { path: shown(target) });
    }
    let cannot_publish = |source| OutputError::Publish { path: shown(target), source };
    file.sync_all().map_err(cannot_publish)?;
    fs::rename(part, target).map_err(cannot_publish)?;
    sync_folder(target).map_err(cannot_publish)
}

fn upload(part: &Path, url: &str, existing: Existing, mark: &str) -> Result<(), OutputError> {
    if existing == Existing::Refuse && find(url)?.is_some() {
        return Err(OutputError::Exists { path: url.to_owned() });
    }
    let uploaded = storage::installed().and_then(|storage| storage.upload(part, url, existing, mark));
    let removed = uploaded.and_then(|()| remove_if_there(part));
    removed.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => OutputError::Exists { path: url.to_owned() },
        _ => OutputError::Object { path: url.to_owned(), source },
    })
}

/// The mark of an object.
fn find(url: &str) -> Result<Option<String>, OutputError> {
    let found = storage::installed().and_then(|storage| storage.find(url));
    found.map_err(|source| OutputError::Object { path: url.to_owned(), source })
}

fn exists(target: &Path) -> Result<bool, OutputError> {
    storage::url(target).map_or(Ok(target.exists()), |url| Ok(find(url)?.is_some()))
}

/// Makes a new name in a folder durable.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    system::sync_folder(folder)
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn unusable(path: &Path, error: RootsError) -> ItemError {
    match error {
        RootsError::Unresolved { source, .. } => {
            ItemError::fatal(OutputError::Create { path: shown(path), source })
        }
        outside => outside.ending(),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
