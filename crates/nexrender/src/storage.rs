//! The folder in which render nodes leave files, and the NAS that publishes them.
//!
//! A file is copied next to its final place under the name of a part, hashed, synced, and then given its final name.
//! Playout sees all of it or nothing. Object stores get their copies before that.

pub mod place;

pub(crate) mod folder;

mod copy;
mod object;
mod publish;
mod sweep;
mod system;

use crate::blocking_pool::{BlockingPool, Pulse};
use copy::leave_room;
use folder::{Folder, io_trouble};
use place::Place;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::name::part_name;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{Failure, LocalPath, RenderId, Trouble, Uid};
use tidemill_domain::time::Clock;
use tidemill_engine::clock::random_bytes;
use tidemill_engine::render::storage::{Content, MayGoOn, Sight};
use tidemill_engine::render::{Asking, Storage};

/// How long an upload may send nothing: as long as a slow line needs for the parts that are sent at once.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(200);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageOptions {
    /// Where render nodes leave files.
    pub staging: Place,
    /// The root of all output.
    pub output: Place,
    pub read_back: ReadBack,
    /// Bytes that must stay free on the NAS after a copy.
    pub free_bytes_min: u64,
    /// How long a call may make no progress.
    pub patience: Duration,
}

/// Whether a copy is read again before it is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadBack {
    /// From the disk and not from the cache, as far as the system supports it.
    On,
    #[default]
    Off,
}

impl StorageOptions {
    pub fn new(staging: Place, output: Place) -> Self {
        Self {
            staging,
            output,
            read_back: ReadBack::Off,
            free_bytes_min: 16 << 20,
            patience: Duration::from_secs(60),
        }
    }
}

#[derive(Clone, Debug)]
pub struct NasStorage {
    options: Arc<StorageOptions>,
    blocking_pool: Arc<BlockingPool>,
    looks: Arc<BucketPools>,
    uploads: Arc<BucketPools>,
    clock: Arc<dyn Clock>,
    /// The size of the last file that could not be written: room for less does not help.
    wanted: Arc<AtomicU64>,
}

impl NasStorage {
    /// Does no I/O yet. The clock gives the age of parts.
    pub fn new(options: StorageOptions, clock: Arc<dyn Clock>) -> Self {
        let pools = |patience| Arc::new(BucketPools { patience, pools: Mutex::default() });
        Self {
            blocking_pool: Arc::new(BlockingPool::new(options.patience)),
            looks: pools(options.patience),
            uploads: pools(options.patience.max(UPLOAD_PATIENCE)),
            options: Arc::new(options),
            clock,
            wanted: Arc::default(),
        }
    }

    fn on_pool<T: Send + 'static>(
        &self,
        what: &LocalPath,
        work: impl FnOnce(&StorageOptions, &Pulse) -> Result<T, Trouble> + Send + 'static,
    ) -> Asking<'_, T> {
        let (options, what) = (self.options.clone(), what.to_string());
        Box::pin(async move { self.blocking_pool.run(what, move |pulse| work(&options, pulse)).await })
    }
}

/// The threads for object stores, by bucket: a store that hangs takes none of the NAS, and none of another store.
#[derive(Debug)]
struct BucketPools {
    patience: Duration,
    pools: Mutex<BTreeMap<String, Arc<BlockingPool>>>,
}

impl BucketPools {
    fn of(&self, url: &str) -> Arc<BlockingPool> {
        let bucket = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.entry(bucket).or_insert_with(|| Arc::new(BlockingPool::new(self.patience))).clone()
    }

    /// Works with an object. A store that hangs is down.
    fn run<'a, T: Send + 'static>(
        &'a self,
        url: &'a str,
        work: impl FnOnce(&str, &Arc<Pulse>) -> Result<T, Trouble> + Send + 'static,
    ) -> Asking<'a, T> {
        Box::pin(async move {
            let (pool, object) = (self.of(url), url.to_owned());
            let done = pool.run(url, move |pulse| Ok(work(&object, pulse))).await;
            done.unwrap_or_else(|hangs| Err(Trouble::new(Failure::TargetDown, &hangs.message)))
        })
    }
}

impl Storage for NasStorage {
    fn check(&self) -> Asking<'_, ()> {
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.on_pool(&self.options.output.folder, move |options, _| {
            // Nodes write there, perhaps to another volume.
            let staging = options.staging.open()?;
            leave_room(&staging, 0, options.free_bytes_min)?;
            try_to_write(&staging, 0)?;
            let folder = options.output.open()?;
            leave_room(&folder, wanted, options.free_bytes_min)?;
            try_to_write(&folder, wanted)
        })
    }

    fn settled<'a>(&'a self, staged: &'a LocalPath, quiet: Duration) -> Asking<'a, Option<Sight>> {
        let look = || {
            let file = staged.clone();
            self.on_pool(staged, move |options, _| place::look_at(&options.staging, &file))
        };
        Box::pin(async move {
            let Some(before) = look().await? else { return Ok(None) };
            tokio::time::sleep(quiet).await;
            let now = look().await?;
            Ok((now == Some(before)).then(|| before.sight()))
        })
    }

    fn content<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, Option<Content>> {
        let file = staged.clone();
        self.on_pool(staged, move |options, pulse| {
            let Some((folder, name)) = place::descend(&options.staging, &file)? else { return Ok(None) };
            folder.read(&name)?.map(|found| copy::hash(&found, &file, pulse)).transpose()
        })
    }

    fn copy<'a>(&'a self, staged: &'a LocalPath, output: &'a Output) -> Asking<'a, Content> {
        let (file, output, wanted) = (staged.clone(), output.clone(), self.wanted.clone());
        self.on_pool(staged, move |options, pulse| {
            let copied = copy::copy_beside(options, &file, &output, pulse);
            let is_unwritable = matches!(&copied, Err(trouble) if trouble.failure == Failure::NasUnwritable);
            let size = || place::look_at(&options.staging, &file).ok().flatten().map(|file| file.bytes);
            let lacked = if is_unwritable { size() } else { None };
            wanted.store(lacked.unwrap_or_default(), Ordering::Relaxed);
            copied
        })
    }

    fn publish<'a>(&'a self, output: &'a Output, content: &'a Content) -> Asking<'a, LocalPath> {
        let (output, content) = (output.clone(), content.clone());
        self.on_pool(&self.options.output.folder, move |options, pulse| {
            let root = options.output.open()?;
            match root.enter(&output.folder)? {
                Some(folder) => publish::publish(&folder, &output, &content, pulse),
                None => Err(io_trouble(root.path_of(&output.folder)?, &ErrorKind::NotFound.into())),
            }
        })
    }

    fn published<'a>(&'a self, output: &'a Output) -> Asking<'a, Option<Content>> {
        let output = output.clone();
        self.on_pool(&self.options.output.folder, move |options, pulse| {
            match options.output.open()?.enter(&output.folder)? {
                Some(folder) => publish::published(&folder, &output, pulse),
                None => Ok(None),
            }
        })
    }

    fn upload<'a>(
        &'a self,
        output: &'a Output,
        url: &'a str,
        content: &'a Content,
        may_go_on: MayGoOn,
    ) -> Asking<'a, ()> {
        let (options, output, content) = (self.options.clone(), output.clone(), content.clone());
        self.uploads.run(url, move |url, pulse| {
            let upload = object::Upload { output: &output, url, content: &content, may_go_on };
            object::upload(&options, upload, pulse)
        })
    }

    fn object<'a>(&'a self, url: &'a str) -> Asking<'a, Option<Content>> {
        self.looks.run(url, |url, _| object::look(url))
    }

    fn discard_object<'a>(&'a self, url: &'a str) -> Asking<'a, ()> {
        self.looks.run(url, |url, _| object::remove(url))
    }

    fn discard<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, ()> {
        let file = staged.clone();
        self.on_pool(staged, move |options, _| match place::descend(&options.staging, &file)? {
            Some((folder, name)) => folder.remove(&name),
            None => Ok(()),
        })
    }

    fn discard_part<'a>(&'a self, output: &'a Output) -> Asking<'a, ()> {
        let output = output.clone();
        self.on_pool(&self.options.output.folder, move |options, _| {
            match options.output.open()?.enter(&output.folder)? {
                Some(folder) => folder.remove(&output.part),
                None => Ok(()),
            }
        })
    }

    fn left(&self, age: Duration) -> Asking<'_, Vec<(Uid, LocalPath)>> {
        let now = self.clock.now();
        self.on_pool(&self.options.staging.folder, move |options, pulse| {
            sweep::left(&options.staging.open()?, age, now, pulse)
        })
    }

    fn sweep(&self, age: Duration) -> Asking<'_, u64> {
        let now = self.clock.now();
        self.on_pool(&self.options.output.folder, move |options, pulse| {
            let parts = sweep::sweep(&options.output.open()?, age, now, pulse)?;
            // Checks leave theirs there, too.
            Ok(parts + sweep::sweep(&options.staging.open()?, age, now, pulse)?)
        })
    }
}

/// Writes a file and removes it: permissions and free space alone do not prove that writing works. Also reserves as many
/// bytes, which a quota may refuse.
fn try_to_write(folder: &Folder, bytes: u64) -> Result<(), Trouble> {
    let random = random_bytes::<8>().map_err(|error| {
        Trouble::new(Failure::Unexpected, &format!("no random number for the name of a file: {error}"))
    })?;
    // A part's name, so that it is swept if we are killed right now.
    let uid = Uid::new(RenderId::new(0), Epoch::new(i64::from_le_bytes(random) & i64::MAX));
    let name = part_name("check", uid);
    let mut file = folder.create(&name)?;
    let reserved = match system::reserve(&file, bytes.max(1)) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Err(error),
        // Not every file system can reserve.
        _ => Ok(()),
    };
    let written = reserved.and_then(|()| file.write_all(b"x")).and_then(|()| file.sync_all());
    let removed = folder.remove(&name);
    written.map_err(|error| match folder.path_of(&name) {
        Ok(path) => io_trouble(path, &error),
        Err(trouble) => trouble,
    })?;
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_store_that_hangs_takes_no_thread_of_another_one() {
        let pools = BucketPools { patience: Duration::from_millis(60), pools: Mutex::default() };
        let (release, hang) = mpsc::channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        // More than one pool has threads.
        for _ in 0..17 {
            let hang = hang.clone();
            let hung = pools.run("s3://hung/main/a.mp4", move |_, _| {
                let _released = hang.lock().unwrap().recv();
                Ok(())
            });
            assert_eq!(hung.await.unwrap_err().failure, Failure::TargetDown);
        }

        assert_eq!(pools.run("s3://well/main/a.mp4", |_, _| Ok(7)).await, Ok(7));
        drop(release);
    }
}
