//! The writer of files, for all formats: the file gets its name when the step completes, with each item exactly once.

use crate::item::file_output::FileOutput;
pub use crate::item::file_output::Finish;
use crate::item::storage::Existing;
use crate::item::{Compression, Encoding, Roots};
use crate::job::reject::{RejectLine, SourceRejects};
use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Origin};
use tidemill_domain::job::ExecutionContext;

/// How items are written.
pub trait Layout: Clone + Send + 'static {
    /// The type of the items.
    type Item: Send + Sync + 'static;

    /// Adds items to the text of the file.
    #[doc(hidden)]
    fn add(
        &mut self,
        items: &[Self::Item],
        beginning: Beginning,
        text: &mut Vec<u8>,
    ) -> Result<(), ItemError>;

    /// Adds the header of a file with these columns, if the format has headers.
    #[doc(hidden)]
    fn header(&self, columns: &[String], text: &mut Vec<u8>) -> Result<(), ItemError> {
        let (_no_header, _) = (columns, text);
        Ok(())
    }

    /// Tells the encoding of the file. The text is UTF-8 and encoded afterwards.
    #[doc(hidden)]
    fn set_encoding(&mut self, encoding: Encoding) {
        let _unused = encoding;
    }

    /// For formats that cannot be appended to: makes the file of all that was added, which is never packed. Fails if the
    /// options cannot work.
    #[doc(hidden)]
    fn finish(&self) -> Result<Option<Finish>, String> {
        Ok(None)
    }

    /// What comes after the last item.
    #[doc(hidden)]
    fn end(&self) -> &str {
        ""
    }
}

/// Whether the file is still empty.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// It is empty.
    OfFile,
    /// It has text.
    OfChunk,
}

/// Writes items into a file; see [`CsvWriter`](super::CsvWriter), [`JsonLinesWriter`](super::JsonLinesWriter),
/// [`JsonWriter`](super::JsonWriter), [`FixedWidthWriter`](super::FixedWidthWriter),
/// [`XmlWriter`](super::XmlWriter) and [`TextWriter`](super::TextWriter).
///
/// It writes to `<path>.part`, and renames the file when the step completes, so the file is always complete. Each chunk
/// is on disk before it commits; a restart truncates the part to the last committed chunk. So every item is in the file
/// exactly once. It saves its length as `<name>.current.count` and the number of items as `<name>.written`.
///
/// A file whose name ends in `.gz` or `.zst` is packed, each chunk as a whole gzip member or zstd frame.
///
/// An existing file is an error, unless [`overwrite`](Self::overwrite) is set. A clone is not open.
#[derive(Clone)]
#[must_use]
pub struct FileWriter<L: Layout> {
    output: FileOutput,
    pub(super) layout: L,
    encoding: Encoding,
    compression: Compression,
    text: Vec<u8>,
    written_key: String,
    written: u64,
    /// Number of items at the last update.
    kept: u64,
    is_skipping_empty: bool,
}

impl<L: Layout> FileWriter<L> {
    /// Writes a file. Its position is saved under `name`, which must be unique within the step.
    pub fn of(name: &str, path: impl Into<PathBuf>, layout: L) -> Self {
        let path = path.into();
        let compression = Compression::of_name(&path);
        Self {
            output: FileOutput::new(name, path),
            layout,
            encoding: Encoding::default(),
            compression,
            text: Vec::new(),
            written_key: format!("{name}.written"),
            written: 0,
            kept: 0,
            is_skipping_empty: false,
        }
    }

    tidemill_domain::setters! {
        /// Replaces an existing file, once the new one is complete.
        pub fn overwrite(self) { self.output.existing = Existing::Replace }
        /// Writes only into these folders.
        pub fn within(self, roots: Roots) { self.output.roots = Some(roots) }
        /// Writes no file when there are no items. An existing file is then left alone.
        pub fn skip_if_empty(self) { self.is_skipping_empty = true }
        /// Text encoding; UTF-8 by default. Characters that it does not have are an error.
        pub fn encoding(self, encoding: Encoding) {
            self.encoding = encoding;
            self.layout.set_encoding(encoding)
        }
        /// How the file is packed; by default its name tells.
        pub fn compression(self, compression: Compression) { self.compression = compression }
        /// Whether each chunk is fsynced before it commits; true by default. Without it, a power failure can lose committed
        /// items, and the next run then refuses to continue. A crash of the process cannot.
        pub fn sync(self, is_syncing: bool) { self.output.is_syncing = is_syncing }
    }

    /// Its file and format for [rejects](crate::job::ChunkStep::source_rejects): lines for items, and lines as they were
    /// read for records that could not be parsed. The file begins with so many empty lines, which a reader skips.
    pub fn for_rejects(self, skipped_lines: usize) -> SourceRejects<L::Item>
    where
        L: Sync,
    {
        let Self { output, layout, encoding, compression, .. } = self;
        let encoded = move |text: &[u8]| {
            let bytes = encoding.encode(text).map_err(ItemError::fatal)?;
            compression.pack(&bytes).map_err(ItemError::fatal)
        };
        let encode = move |item: Option<&L::Item>, origin: Option<&Origin>| {
            let (mut header, mut line) = (Vec::new(), Vec::new());
            if let Some(item) = item.map(std::slice::from_ref) {
                let mut layout = layout.clone();
                layout.add(item, Beginning::OfFile, &mut header)?;
                layout.add(item, Beginning::OfChunk, &mut line)?;
                header.truncate(header.len().saturating_sub(line.len()));
            } else if let Some(origin) = origin {
                if let Some(columns) = &origin.header {
                    layout.header(columns, &mut header)?;
                }
                // Stands for bytes that could not be decoded, and not every encoding has it.
                line.extend(origin.raw.replace('\u{FFFD}', "?").bytes().chain([b'\n']));
            } else {
                return Ok(None);
            }
            Ok(Some(RejectLine { header, line: encoded(&line)? }))
        };
        let begin = move |header: &[u8]| encoded(&[&vec![b'\n'; skipped_lines], header].concat());
        let (encode, begin) = (Arc::new(encode), Arc::new(begin));
        SourceRejects { output: output.into_lazy(), encode, begin, header: None }
    }

    async fn add(&mut self, items: &[L::Item]) -> Result<(), ItemError> {
        let beginning = if self.output.offset() == 0 { Beginning::OfFile } else { Beginning::OfChunk };
        self.text.clear();
        self.layout.add(items, beginning, &mut self.text)?;
        self.append_text().await
    }

    /// The end belongs to no chunk: a restart truncates it, and writes it again.
    async fn end(&mut self) -> Result<(), ItemError> {
        if self.output.offset() == 0 {
            self.add(&[]).await?;
        }
        self.text.clear();
        self.text.extend_from_slice(self.layout.end().as_bytes());
        if self.text.is_empty() { Ok(()) } else { self.append_text().await }
    }

    async fn append_text(&mut self) -> Result<(), ItemError> {
        let bytes =
            self.encoding.encode(&self.text).map_err(|fault| ItemError::new(ErrorKind::WRITE, fault))?;
        match self.compression {
            _ if self.output.finish.is_some() => self.output.append(&bytes),
            Compression::None => self.output.append(&bytes),
            packed => self.output.append(&packed.pack(&bytes).map_err(ItemError::fatal)?),
        }
        self.output.flush().await
    }
}

impl<L: Layout> ItemStream for FileWriter<L> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.written = context.get(&self.written_key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        self.kept = self.written;
        let refused = |reason| ItemError::fatal(format!("the file cannot be written: {reason}"));
        self.output.finish = self.layout.finish().map_err(refused)?;
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
        if self.output.is_open() {
            self.end().await?;
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
