//! The writer of files: whatever their format, they appear under their name when the step completes, with
//! each item in them exactly once.

use crate::item::encoding::Encoding;
use crate::item::file_output::{Creation, Existing, FileOutput, OutputOptions};
use crate::item::roots::Roots;
use crate::job::component::{Delivery, ItemStream, ItemWriter};
use crate::job::scope::ChunkScope;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;

/// How items are written down.
pub trait Layout: Clone + Send + 'static {
    /// What is written.
    type Item: Send + Sync + 'static;

    /// Adds these items to the text of the file; `beginning` when nothing is in it yet.
    #[doc(hidden)]
    fn add(
        &mut self,
        items: &[Self::Item],
        beginning: Beginning,
        text: &mut Vec<u8>,
    ) -> Result<(), ItemError>;
}

/// Whether something is in the file already.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// No.
    OfFile,
    /// Yes.
    OfChunk,
}

/// Writes items into a file; see [`CsvWriter`](super::CsvWriter), [`JsonLinesWriter`](super::JsonLinesWriter)
/// and [`TextWriter`](super::TextWriter).
///
/// It writes into `<path>.part`, and gives the file its name when the step completes: whoever finds it there
/// finds all of it. Each chunk is on the disk before it commits; a restart cuts the part back to the last
/// chunk that did. So every item is in the file exactly once. It saves `<name>.current.count`, the length,
/// and `<name>.written`, the number of items.
///
/// A file that is there already is refused, unless [`overwrite`](Self::overwrite) allows to replace it. A clone of it is
/// one that is not open.
#[derive(Clone)]
#[must_use]
pub struct FileWriter<L: Layout> {
    output: FileOutput,
    pub(super) layout: L,
    encoding: Encoding,
    text: Vec<u8>,
    written_key: String,
    written: u64,
    /// How many there were at the last update.
    kept: u64,
    is_skipping_empty: bool,
}

impl<L: Layout> FileWriter<L> {
    pub(super) fn of(name: &str, path: impl Into<PathBuf>, layout: L) -> Self {
        let options =
            OutputOptions { creation: Creation::AtOpen, existing: Existing::Refuse, is_syncing: true };
        Self {
            output: FileOutput::new(name, path, options),
            layout,
            encoding: Encoding::default(),
            text: Vec::new(),
            written_key: format!("{name}.written"),
            written: 0,
            kept: 0,
            is_skipping_empty: false,
        }
    }

    /// Replaces a file that is there already, once the new one is complete.
    pub fn overwrite(mut self) -> Self {
        self.output.options().existing = Existing::Replace;
        self
    }

    /// Writes only into these folders.
    pub fn within(mut self, roots: Roots) -> Self {
        self.output.within(Some(roots));
        self
    }

    /// Publishes no file when no item was written. A file that is there already is then left alone.
    pub fn skip_if_empty(mut self) -> Self {
        self.is_skipping_empty = true;
        self
    }

    /// How the text is encoded; UTF-8 unless said. An item with a character that the encoding does not have
    /// is an error.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// Whether each chunk is written through to the disk before it commits; it is unless said. Without, a
    /// power failure can lose what has committed; the next run then refuses to go on. The death of a process
    /// cannot.
    pub fn sync(mut self, is_syncing: bool) -> Self {
        self.output.options().is_syncing = is_syncing;
        self
    }

    async fn add(&mut self, items: &[L::Item]) -> Result<(), ItemError> {
        let beginning = if self.output.offset() == 0 { Beginning::OfFile } else { Beginning::OfChunk };
        self.text.clear();
        self.layout.add(items, beginning, &mut self.text)?;
        let bytes =
            self.encoding.encode(&self.text).map_err(|fault| ItemError::new(ErrorKind::WRITE, fault))?;
        self.output.append(&bytes);
        self.output.flush().await
    }
}

impl<L: Layout> ItemStream for FileWriter<L> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.written = context.get(&self.written_key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.kept = self.written;
        self.output.open(context).await
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        self.output.update(context);
        context.put(&self.written_key, self.written);
        self.kept = self.written;
        Ok(())
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        if !is_complete {
            self.output.leave();
            return Ok(());
        }
        if self.written == 0 && self.is_skipping_empty {
            return self.output.discard();
        }
        if self.output.is_open() && self.output.offset() == 0 {
            self.add(&[]).await?;
        }
        self.output.publish().await
    }
}

impl<L: Layout> ItemWriter<L::Item> for FileWriter<L> {
    async fn write(&mut self, items: &[L::Item], _chunk: &mut ChunkScope) -> Result<(), ItemError> {
        if items.is_empty() {
            return Ok(());
        }
        self.add(items).await?;
        self.written += items.len() as u64;
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.written = self.kept;
        self.output.roll_back().await
    }

    fn delivery(&self) -> Delivery {
        Delivery::ExactlyOnce
    }
}
