//! A reader that sorts the rows of another one, and finds duplicates, in bounded memory.

mod codec;
mod merge;

#[cfg(test)]
mod tests;

use crate::job::{ItemPlace, ItemReader, ItemStream};
use codec::{PLACE_LENGTH, Shared};
use merge::{Merge, Record, Sorter};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use tidemill_domain::item::{Direction, ErrorKind, ItemError, Phase, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::words::plural;
use tokio::task::spawn_blocking;

/// Rows that are kept in memory, in bytes.
const MEMORY: usize = 64 * 1024 * 1024;

/// Rows that could not be read are kept in memory until they are reported.
const ERRORS_MAX: usize = 10_000;

/// Sorts the rows of a reader, and marks all but the first of those with the same values in some columns.
///
/// When it opens, it reads all rows. What does not fit into memory is kept in files without names, which need no cleaning
/// up. Rows that compare equal stay in the order in which they were read. Duplicates come last, as rows that
/// [`is_duplicate`](Self::is_duplicate) recognizes, so that a processor can filter and count them.
///
/// A restart reads and sorts again, and skips the rows that were read before. It fails if those are no longer the same.
///
/// ```
/// use tidemill_domain::item::Direction;
/// use tidemill_engine::item::{CsvReader, SortedReader};
///
/// let orders = SortedReader::new("orders", CsvReader::rows("file", "in/orders.csv"))
///     .by("account", Direction::Ascending)
///     .by_value(|row| Ok(row.get::<String>("amount")?.parse::<i64>()?.into()), Direction::Descending)
///     .distinct(["id"]);
/// ```
#[must_use]
pub struct SortedReader<R> {
    name: String,
    reader: R,
    order: Vec<(MakeKey, Direction)>,
    distinct: Vec<String>,
    memory: usize,
    folder: PathBuf,
    shared: Shared,
    errors: VecDeque<ItemError>,
    sorted: Option<Merge>,
    duplicates: u64,
    total: u64,
    count: u64,
    /// Of the rows that were read so far, for a restart.
    digest: Sha256,
    place: Option<ItemPlace>,
}

type MakeKey = Arc<dyn Fn(&Row) -> Result<Value, ItemError> + Send + Sync>;

/// The columns of all duplicates: recognized by identity, since a source may have rows without columns.
static DUPLICATE: LazyLock<Arc<[String]>> = LazyLock::new(|| Arc::new([]));

impl SortedReader<()> {
    /// Whether a row stands for a duplicate. It has no columns.
    pub fn is_duplicate(row: &Row) -> bool {
        Arc::ptr_eq(row.columns(), &DUPLICATE)
    }
}

impl<R: ItemReader<Item = Row>> SortedReader<R> {
    /// Sorts by nothing yet, so that rows stay in their order. Its position is saved under `name`.
    pub fn new(name: impl Into<String>, reader: R) -> Self {
        Self {
            name: name.into(),
            reader,
            order: Vec::new(),
            distinct: Vec::new(),
            memory: MEMORY,
            folder: std::env::temp_dir(),
            shared: Shared::default(),
            errors: VecDeque::new(),
            sorted: None,
            duplicates: 0,
            total: 0,
            count: 0,
            digest: Sha256::new(),
            place: None,
        }
    }

    tidemill_domain::setters! {
        /// Sorts by a column, after the keys that were added before. Null comes last in ascending order.
        pub fn by(self, column: impl Into<String>, direction: Direction) {
            let column = column.into();
            self.order.push((Arc::new(move |row: &Row| -> Result<Value, ItemError> { Ok(row.value(&column)?.clone()) }), direction))
        }
        /// Sorts by a value that is computed from the row.
        pub fn by_value(
            self,
            value: impl Fn(&Row) -> Result<Value, ItemError> + Send + Sync + 'static,
            direction: Direction,
        ) {
            self.order.push((Arc::new(value), direction))
        }
        /// Marks all rows as duplicates that have the same values in these columns as one before them in the order.
        pub fn distinct(self, columns: impl IntoIterator<Item = impl Into<String>>) {
            self.distinct = columns.into_iter().map(Into::into).collect()
        }
        /// Bytes of rows that are kept in memory; 64 MiB by default.
        pub fn memory(self, bytes: usize) { self.memory = bytes }
        /// Folder for what does not fit into memory; by default that for temporary files.
        pub fn folder(self, folder: impl Into<PathBuf>) { self.folder = folder.into() }
    }

    async fn load(&mut self) -> Result<(), ItemError> {
        self.reader.open(&ExecutionContext::new()).await?;
        let mut sorter = Sorter::new(&self.folder, self.memory);
        let (mut number, mut rows): (u64, u64) = (0, 0);
        loop {
            tokio::task::coop::consume_budget().await;
            let row = match self.reader.read().await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    self.keep(error)?;
                    continue;
                }
            };
            let place = self.reader.place();
            match self.key(&row, number) {
                Ok(key) => {
                    sorter.push(Record { key, content: self.shared.encode(&row, place.as_ref())? });
                    rows += 1;
                }
                Err(error) => {
                    let at = place.map_or_else(|| format!("row {}", number + 1), |place| place.to_string());
                    self.keep(error.at(at, row.to_json().to_string()))?;
                }
            }
            number += 1;
            if sorter.is_full() {
                sorter = blocking(&self.folder, move || sorter.spill().map(|()| sorter)).await?;
            }
        }
        self.reader.close(true).await?;
        if !self.distinct.is_empty() {
            let target = Sorter::new(&self.folder, self.memory);
            (sorter, self.duplicates) = blocking(&self.folder, move || first_of_each(sorter, target)).await?;
        }
        let sorted = blocking(&self.folder, move || sorter.finish()).await?;
        self.total = rows + self.errors.len() as u64;
        self.sorted = Some(sorted);
        Ok(())
    }

    /// The key of a row: the columns that make it distinct and their length, the order, and the number of the row.
    fn key(&self, row: &Row, number: u64) -> Result<Vec<u8>, ItemError> {
        let mut key = Vec::new();
        for column in &self.distinct {
            row.value(column)?.push_key(&mut key, Direction::Ascending);
        }
        let distinct = key.len() as u64;
        for (value, direction) in &self.order {
            value(row)?.push_key(&mut key, *direction);
        }
        key.extend(number.to_be_bytes());
        if !self.distinct.is_empty() {
            key.extend(distinct.to_be_bytes());
        }
        Ok(key)
    }

    /// Keeps an error of a single row, to be reported by the first reads. Other errors end the step.
    fn keep(&mut self, error: ItemError) -> Result<(), ItemError> {
        let is_of_row = [ErrorKind::PARSE, ErrorKind::VALIDATION, ErrorKind::PROCESS];
        if !is_of_row.contains(&error.kind_in(Phase::Read)) {
            return Err(error);
        }
        if self.errors.len() == ERRORS_MAX {
            let text =
                format!("more than {ERRORS_MAX} rows cannot be sorted; the last one: {}", error.text());
            return Err(ItemError::fatal(text));
        }
        self.errors.push_back(error);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Row>, ItemError> {
        if let Some(error) = self.errors.pop_front() {
            self.advance(error.text().as_bytes());
            return Err(error);
        }
        let Some(sorted) = &mut self.sorted else { return Ok(None) };
        match sorted.next().transpose().map_err(|error| unusable(&self.folder, &error))? {
            Some(Record { content, .. }) => {
                let (row, place) = self.shared.decode(&content)?;
                self.place = place;
                self.advance(content.get(PLACE_LENGTH..).unwrap_or_default());
                Ok(Some(row))
            }
            None if self.duplicates > 0 => {
                self.duplicates -= 1;
                self.place = None;
                self.advance(b"duplicate");
                Ok(Some(Row::new(DUPLICATE.clone(), Vec::new())))
            }
            None => Ok(None),
        }
    }

    fn advance(&mut self, row: &[u8]) {
        self.count += 1;
        self.digest.update((row.len() as u64).to_le_bytes());
        self.digest.update(row);
    }

    fn digest(&self) -> String {
        self.digest.clone().finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    fn keys(&self) -> [String; 2] {
        ["count", "digest"].map(|key| format!("{}.sorted.{key}", self.name))
    }
}

impl<R: ItemReader<Item = Row>> ItemStream for SortedReader<R> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.load().await?;
        let [count, digest] = self.keys();
        let skipped = context.get_long(&count).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        while self.count < skipped {
            tokio::task::coop::consume_budget().await;
            let before = self.count;
            match self.next() {
                Ok(None) => break,
                // An error of a row counts; any other ends the step.
                Err(error) if self.count == before => return Err(error),
                _ => {}
            }
        }
        let saved = context.get_text(&digest);
        if skipped > 0 && (self.count < skipped || saved.is_some_and(|saved| saved != self.digest())) {
            let text = format!(
                "{} of the sorted input {} written, and the input has changed since, so that it is not known which are \
                 missing; restore the input, or launch the job with other parameters",
                plural(skipped, "row", "rows"),
                if skipped == 1 { "was" } else { "were" },
            );
            return Err(ItemError::fatal(text));
        }
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        let [count, digest] = self.keys();
        context.put(&count, self.count);
        context.put(&digest, self.digest());
        Ok(())
    }
}

impl<R: ItemReader<Item = Row>> ItemReader for SortedReader<R> {
    type Item = Row;

    async fn read(&mut self) -> Result<Option<Row>, ItemError> {
        self.next()
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn place(&self) -> Option<ItemPlace> {
        self.place.clone()
    }
}

/// The first record of each distinct key, with the rest of its key, and how many there are more.
fn first_of_each(source: Sorter, mut target: Sorter) -> io::Result<(Sorter, u64)> {
    let (mut last, mut duplicates) = (Vec::new(), 0);
    for record in source.finish()? {
        let Record { key, content } = record?;
        let Some((key, length)) = key.split_last_chunk() else { continue };
        let (distinct, order) = key.split_at(usize::try_from(u64::from_be_bytes(*length)).unwrap_or(0));
        if last == distinct {
            duplicates += 1;
            continue;
        }
        target.push(Record { key: order.to_owned(), content });
        last = distinct.to_owned();
        if target.is_full() {
            target.spill()?;
        }
    }
    Ok((target, duplicates))
}

/// Long work with files, apart from the threads that keep the process alive.
async fn blocking<T: Send + 'static>(
    folder: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ItemError> {
    let done = spawn_blocking(work).await.map_err(ItemError::fatal)?;
    done.map_err(|error| unusable(folder, &error))
}

fn unusable(folder: &Path, error: &io::Error) -> ItemError {
    let text = format!(
        "the folder {} for what is being sorted cannot be used: {error}; correct that, or name another folder with TMPDIR",
        folder.display()
    );
    ItemError::fatal(text)
}
