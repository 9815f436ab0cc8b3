//! The reader of files, for all formats: finds files, cuts them into records, and saves its position for a restart.

use crate::item::reader::error::InputError;
use crate::item::reader::files::{
    Files, READ_COUNT, StopPoint, check_version, key, left, save_version, saved_number, saved_version,
};
use crate::item::reader::input::{Input, Opening, Place};
use crate::item::reader::record::Scanner;
use crate::item::{Compression, Encoding, Roots, storage};
use crate::job::{ItemPlace, ItemReader, ItemStream};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row};
use tidemill_domain::job::ExecutionContext;

/// Position and line of the next record, and what is open around it, for formats that nest.
const POSITION: &str = "position";
const LINE: &str = "line";
const DEPTH: &str = "depth";

/// A file format: [`Csv`](super::csv::Csv), [`FixedWidth`](super::fixed_width::FixedWidth),
/// [`JsonLines`](super::json_lines::JsonLines), [`JsonArray`](super::json_array::JsonArray) or [`Xml`](super::xml::Xml).
pub trait Format: Clone + Default + Send + 'static {
    /// Finds the ends of records.
    #[doc(hidden)]
    type Scanner: Scanner;

    /// Why these options cannot work.
    #[doc(hidden)]
    fn refusal(&self) -> Option<String> {
        None
    }

    #[doc(hidden)]
    fn scanner(&mut self) -> &mut Self::Scanner;

    /// Whether each file begins with a header.
    #[doc(hidden)]
    fn has_header(&self) -> bool {
        false
    }

    /// Takes the column names from the header.
    #[doc(hidden)]
    fn take_header(&mut self, bytes: &[u8], encoding: Encoding) -> Result<(), String> {
        let (_no_header, _) = (bytes, encoding);
        Ok(())
    }

    /// The columns that the header of the current file names.
    #[doc(hidden)]
    fn columns(&self) -> Option<Arc<[String]>> {
        None
    }

    /// Makes a serde type of a record that the scanner has just found.
    #[doc(hidden)]
    fn typed<T: DeserializeOwned>(&mut self, bytes: &[u8], encoding: Encoding) -> Result<T, String>;

    #[doc(hidden)]
    fn row(&mut self, bytes: &[u8], encoding: Encoding) -> Result<Row, String>;
}

type Parse<F, T> = fn(&mut F, &[u8], Encoding) -> Result<T, String>;

/// Reads the records of one file or of many; see [`CsvReader`](super::CsvReader),
/// [`FixedWidthReader`](super::FixedWidthReader), [`JsonLinesReader`](super::JsonLinesReader),
/// [`JsonReader`](super::JsonReader) and [`XmlReader`](super::XmlReader).
///
/// Packed files are recognized by their first bytes or their name (`.gz`, `.zst`). Lines end with LF or CRLF. Records of over 1 MiB are errors.
#[must_use]
pub struct FileReader<F, T> {
    name: String,
    files: Files,
    opening: Opening,
    is_counting: bool,
    pub(super) format: F,
    parse: Parse<F, T>,
    queue: VecDeque<PathBuf>,
    current: Option<Current>,
    read_count: u64,
    /// Where the last run stopped.
    saved: Option<SavedPosition>,
    total: Option<u64>,
}

struct Current {
    input: Input,
    name: Arc<str>,
    /// The line in which the last record began.
    line: u64,
    is_finished: bool,
}

impl Current {
    /// A file of which nothing is left is finished even before a read returns its end: it may then be moved away.
    fn stopped(&mut self, scanner: &impl Scanner) -> Result<StopPoint, InputError> {
        let is_finished = self.is_finished || (self.input.is_at_end()? && scanner.missing_at_end().is_none());
        Ok(StopPoint { file: self.input.path().to_owned(), is_finished })
    }
}

struct SavedPosition {
    read_count: u64,
    stopped: Option<StopPoint>,
    place: Option<Place>,
}

impl<F: Format, T: DeserializeOwned> FileReader<F, T> {
    /// Reads one file. Its position is saved under `name`, which must be unique within the step.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name.into(), Files::One(path.into()), F::typed)
    }

    /// Reads all files that match a pattern such as `in/*.csv`, sorted by name.
    pub fn pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name.into(), Files::matching(pattern), F::typed)
    }
}

impl<F: Format> FileReader<F, Row> {
    /// Reads one file as rows. Values are text, unless the file itself has types.
    pub fn rows(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name.into(), Files::One(path.into()), F::row)
    }

    /// Reads all files that match a pattern as rows.
    pub fn rows_pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name.into(), Files::matching(pattern), F::row)
    }
}

impl<F: Format, T> Clone for FileReader<F, T> {
    /// The clone is not open.
    fn clone(&self) -> Self {
        Self {
            opening: self.opening.clone(),
            is_counting: self.is_counting,
            format: self.format.clone(),
            ..Self::of(self.name.clone(), self.files.clone(), self.parse)
        }
    }
}

impl<F: Format, T> FileReader<F, T> {
    fn of(name: String, files: Files, parse: Parse<F, T>) -> Self {
        Self {
            name,
            files,
            opening: Opening::default(),
            is_counting: false,
            format: F::default(),
            parse,
            queue: VecDeque::new(),
            current: None,
            read_count: 0,
            saved: None,
            total: None,
        }
    }

    tidemill_domain::setters! {
        /// Text encoding; UTF-8 by default. Invalid bytes are a parse error.
        pub fn encoding(self, encoding: Encoding) { self.opening.encoding = encoding }
        /// How the files are packed; by default their first bytes and their names tell.
        pub fn compression(self, compression: Compression) { self.opening.compression = Some(compression) }
        /// Skips so many lines at the beginning of each file, before its header.
        pub fn skip_lines(self, lines: u64) { self.opening.skip_lines = lines }
        /// Counts all records before the first read, for the progress bar. This reads every file twice.
        pub fn count_total(self) { self.is_counting = true }
        /// Reads only files in these folders.
        pub fn within(self, roots: Roots) { self.opening.roots = Some(roots) }
        /// Allows the pattern to match no file: then there are no items.
        pub fn allow_none(self) {
            if let Files::Pattern { may_be_none, .. } = &mut self.files {
                *may_be_none = true;
            }
        }
    }

    fn next(&mut self) -> Result<Option<T>, ItemError> {
        self.read_count += 1;
        let encoding = self.opening.encoding;
        loop {
            let Some(current) = &mut self.current else { return Ok(None) };
            if let Some(cut) = current.input.cut(self.format.scanner())? {
                current.line = cut.line;
                let bytes = current.input.bytes(&cut);
                return (self.parse)(&mut self.format, bytes, encoding).map(Some).map_err(|fault| {
                    let raw = encoding.decode_lossy(bytes);
                    let error = ItemError::new(ErrorKind::PARSE, fault);
                    error.at(current.input.place_of(&cut), raw).below(self.format.columns())
                });
            }
            current.is_finished = true;
            if !self.open_next(None)? {
                return Ok(None);
            }
        }
    }

    /// Opens the next file of the queue, at the place in the version that the last run has saved. False if there is none; the last file then stays open, because its
    /// position is saved once more.
    fn open_next(&mut self, resumed: Option<(Place, Option<&str>)>) -> Result<bool, ItemError> {
        let Some(file) = self.queue.pop_front() else { return Ok(false) };
        let mut input = Input::open(&file, &self.opening).map_err(InputError::ending)?;
        if let Some((_, version)) = resumed {
            check_version(input.path(), version, input.version()).map_err(ItemError::fatal)?;
        }
        self.format.scanner().begin(None);
        if self.format.has_header()
            && let Some(cut) = input.cut(self.format.scanner())?
        {
            let (bytes, encoding) = (input.bytes(&cut), self.opening.encoding);
            self.format.take_header(bytes, encoding).map_err(|fault| {
                let raw = encoding.decode_lossy(bytes);
                ItemError::new(ErrorKind::FATAL, format!("the header cannot be read: {fault}"))
                    .at(input.place_of(&cut), raw)
            })?;
        }
        if let Some((place, _)) = resumed {
            input.go_to(place, self.format.scanner()).map_err(ItemError::fatal)?;
        }
        let name = input.path().into();
        self.current = Some(Current { input, name, line: 0, is_finished: false });
        Ok(true)
    }

    fn key(&self, what: &str) -> String {
        key(&self.name, what)
    }

    fn saved(&self, context: &ExecutionContext) -> Result<SavedPosition, InputError> {
        let number = |what: &str| saved_number(context, &self.name, what);
        let (line, depth) = (number(LINE)?.unwrap_or(1), number(DEPTH)?.unwrap_or(0));
        let place = number(POSITION)?.map(|position| Place { position, line, depth });
        let stopped = StopPoint::saved(context, &self.name);
        Ok(SavedPosition { read_count: number(READ_COUNT)?.unwrap_or(0), stopped, place })
    }

    /// Skips records when only their number was saved, as Spring Batch does.
    fn drop_first(&mut self, records: u64) -> Result<(), ItemError> {
        let mut left = records;
        while left > 0 {
            let Some(current) = &mut self.current else { return Ok(()) };
            match current.input.cut(self.format.scanner()) {
                Ok(None) if !self.open_next(None)? => return Ok(()),
                Ok(None) => {}
                Ok(Some(_)) => left -= 1,
                Err(error) if is_about_one_record(&error) => left -= 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Counts records that are too long too, because reading them returns an error each.
    async fn count(&mut self, files: Vec<PathBuf>) -> Result<u64, ItemError> {
        let mut scanner = self.format.scanner().clone();
        let opening = self.opening.clone();
        let headers = u64::from(self.format.has_header());
        let counting = move || {
            let mut total = 0;
            for file in files {
                let mut input = Input::open(&file, &opening).map_err(InputError::ending)?;
                scanner.begin(None);
                let mut records: u64 = 0;
                loop {
                    match input.cut(&mut scanner) {
                        Ok(Some(_)) => records += 1,
                        Ok(None) => break,
                        Err(error) if is_about_one_record(&error) => records += 1,
                        Err(error) => return Err(error),
                    }
                }
                total += records.saturating_sub(headers);
            }
            Ok(total)
        };
        tokio::task::spawn_blocking(counting).await.map_err(ItemError::fatal)?
    }
}

fn is_about_one_record(error: &ItemError) -> bool {
    error.kind_in(Phase::Read) == ErrorKind::PARSE
}

impl<F: Format, T: Send + Sync + 'static> ItemStream for FileReader<F, T> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        if let Some(reason) = self.format.refusal() {
            let error = InputError::Setup { reader: self.name.clone(), path: self.files.shown(), reason };
            return Err(ItemError::fatal(error));
        }
        let saved = self.saved(context).map_err(ItemError::fatal)?;
        let files = self.files.list(saved.stopped.as_ref()).map_err(ItemError::fatal)?;
        // Counting would fetch objects twice.
        if self.is_counting && files.iter().all(|file| storage::url(file).is_none()) {
            self.total = Some(self.count(files.clone()).await?);
        }
        self.queue = match &saved.stopped {
            Some(stopped) => left(files, stopped).map_err(ItemError::fatal)?,
            None => files.into(),
        };
        let is_finished = saved.stopped.as_ref().is_some_and(|stopped| stopped.is_finished);
        let version = saved_version(context, &self.name);
        let resumed = saved.place.filter(|_| !is_finished);
        self.open_next(resumed.map(|place| (place, version.as_deref())))?;
        if saved.place.is_none() && saved.stopped.is_none() {
            self.drop_first(saved.read_count)?;
        }
        self.read_count = saved.read_count;
        self.saved = Some(saved);
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        context.put(&self.key(READ_COUNT), self.read_count);
        let (place, stopped) = match (&mut self.current, &self.saved) {
            (Some(current), _) => {
                save_version(context, &self.name, current.input.version());
                let stopped = match self.files {
                    Files::One(_) => None,
                    Files::Pattern { .. } => {
                        Some(current.stopped(self.format.scanner()).map_err(ItemError::fatal)?)
                    }
                };
                (Some(current.input.place(self.format.scanner())), stopped)
            }
            // All files were finished before: the saved position still holds.
            (None, Some(saved)) => (saved.place, saved.stopped.clone()),
            (None, None) => (None, None),
        };
        if let Some(Place { position, line, depth }) = place {
            context.put(&self.key(POSITION), position);
            context.put(&self.key(LINE), line);
            // The depth that an earlier run saved is not left there.
            let saved = self.saved.as_ref().and_then(|saved| saved.place);
            if depth > 0 || saved.is_some_and(|saved| saved.depth > 0) {
                context.put(&self.key(DEPTH), depth);
            }
        }
        if let Some(stopped) = stopped {
            stopped.save(context, &self.name);
        }
        Ok(())
    }

    async fn close(&mut self, _is_complete: bool) -> Result<(), ItemError> {
        self.current = None;
        Ok(())
    }
}

impl<F: Format, T: Send + Sync + 'static> ItemReader for FileReader<F, T> {
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        self.next()
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    /// Spring Batch counts the items of each of several files apart.
    fn has_fixed_order(&self) -> bool {
        matches!(self.files, Files::One(_))
    }

    fn place(&self) -> Option<ItemPlace> {
        let current = self.current.as_ref()?;
        Some(ItemPlace { source: Arc::clone(&current.name), unit: "line", number: current.line })
    }
}
