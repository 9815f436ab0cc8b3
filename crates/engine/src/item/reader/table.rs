//! The reader of files that are read row by row and not byte by byte. Its position is the number of the next row.

use crate::item::reader::error::InputError;
use crate::item::reader::files::{
    Files, READ_COUNT, StopPoint, check_version, key, left, save_version, saved_number, saved_version,
};
use crate::item::{Roots, Source};
use crate::job::{ItemPlace, ItemReader, ItemStream};
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Row};
use tidemill_domain::job::ExecutionContext;

/// Number of the next row, from 0.
const ROW: &str = "row";

/// A format of tables: [`Excel`](super::excel::Excel).
pub trait TableFormat: Clone + Default + Send + 'static {
    /// An open file.
    #[doc(hidden)]
    type Table: Send + 'static;

    /// Opens a file, or says why not. Rows before `from` are not asked for.
    #[doc(hidden)]
    fn open(&self, source: Source, from: u64) -> Result<Self::Table, String>;

    /// Looks at the row with this number, from 0.
    #[doc(hidden)]
    fn row(table: &mut Self::Table, number: u64) -> Result<Found, String>;

    /// The number by which people know a row.
    #[doc(hidden)]
    fn shown(table: &Self::Table, number: u64) -> u64;

    /// Number of rows that are not blank, if that is cheap to know.
    #[doc(hidden)]
    fn count(table: &Self::Table) -> Option<u64>;
}

/// What is at the position.
#[doc(hidden)]
#[derive(Debug)]
pub enum Found {
    /// A row.
    Row(Row),
    /// A row without values.
    Blank,
    /// The end of the table.
    End,
    /// The file is damaged, and this is why. Nothing that comes after it can be read.
    Damaged(String),
}

/// Makes an item of a row, or returns the error and the row as a text.
type Make<T> = fn(Row) -> Result<T, (String, String)>;

/// Reads the rows of one file or of many; see [`ExcelReader`](super::ExcelReader).
#[must_use]
pub struct TableReader<F: TableFormat, T> {
    name: String,
    files: Files,
    roots: Option<Roots>,
    pub(super) format: F,
    make: Make<T>,
    queue: VecDeque<PathBuf>,
    current: Option<Current<F::Table>>,
    read_count: u64,
    /// Where the last run stopped.
    saved: Option<(u64, StopPoint)>,
    total: Option<u64>,
}

struct Current<Table> {
    table: Table,
    path: Arc<str>,
    version: Option<String>,
    /// The next row.
    row: u64,
    is_finished: bool,
}

impl<F: TableFormat, T: DeserializeOwned> TableReader<F, T> {
    /// Reads one file. Its position is saved under `name`, which must be unique within the step.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name.into(), Files::One(path.into()), typed)
    }

    /// Reads all files that match a pattern, sorted by name.
    pub fn pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name.into(), Files::matching(pattern), typed)
    }
}

impl<F: TableFormat> TableReader<F, Row> {
    /// Reads one file as rows.
    pub fn rows(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::of(name.into(), Files::One(path.into()), Ok)
    }

    /// Reads all files that match a pattern as rows.
    pub fn rows_pattern(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self::of(name.into(), Files::matching(pattern), Ok)
    }
}

fn typed<T: DeserializeOwned>(row: Row) -> Result<T, (String, String)> {
    let json = row.to_json();
    T::deserialize(&json).map_err(|error| (error.to_string(), json.to_string()))
}

impl<F: TableFormat, T> Clone for TableReader<F, T> {
    /// The clone is not open.
    fn clone(&self) -> Self {
        Self {
            roots: self.roots.clone(),
            format: self.format.clone(),
            ..Self::of(self.name.clone(), self.files.clone(), self.make)
        }
    }
}

impl<F: TableFormat, T> TableReader<F, T> {
    fn of(name: String, files: Files, make: Make<T>) -> Self {
        Self {
            name,
            files,
            roots: None,
            format: F::default(),
            make,
            queue: VecDeque::new(),
            current: None,
            read_count: 0,
            saved: None,
            total: None,
        }
    }

    tidemill_domain::setters! {
        /// Reads only files in these folders.
        pub fn within(self, roots: Roots) { self.roots = Some(roots) }
        /// Sets the options of the format.
        pub fn format(self, format: F) { self.format = format }
    }

    async fn next(&mut self) -> Result<Option<T>, ItemError> {
        self.read_count += 1;
        loop {
            let Some(current) = &mut self.current else { return Ok(None) };
            let found = F::row(&mut current.table, current.row);
            if !matches!(found, Ok(Found::End)) {
                current.row += 1;
            }
            match found {
                Ok(Found::Row(row)) => {
                    let made = (self.make)(row).map(Some);
                    return made.map_err(|(fault, raw)| current.fault::<F>(fault, raw));
                }
                Ok(Found::Blank) => {}
                Ok(Found::Damaged(reason)) => {
                    let (reader, path) = (self.name.clone(), current.path.to_string());
                    return Err(InputError::Setup { reader, path, reason }.ending());
                }
                Err(fault) => return Err(current.fault::<F>(fault, String::new())),
                Ok(Found::End) => {
                    current.is_finished = true;
                    if !self.open_next(0, None).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// False if there is no other file; the last one then stays open, because its position is saved once more.
    async fn open_next(&mut self, row: u64, saved_version: Option<String>) -> Result<bool, ItemError> {
        let Some(file) = self.queue.pop_front() else { return Ok(false) };
        let (format, roots, reader) = (self.format.clone(), self.roots.clone(), self.name.clone());
        let opening = move || {
            let shown = file.display().to_string();
            let source = Source::open(&file, roots.as_ref())?;
            let version = source.version().map(str::to_owned);
            check_version(&shown, saved_version.as_deref(), version.as_deref())?;
            let table = format.open(source, row);
            let table = table.map_err(|reason| InputError::Setup { reader, path: shown.clone(), reason })?;
            Ok(Current { table, path: shown.into(), version, row, is_finished: false })
        };
        let opened = tokio::task::spawn_blocking(opening).await.map_err(ItemError::fatal)?;
        self.current = Some(opened.map_err(InputError::ending)?);
        Ok(true)
    }
}

impl<Table> Current<Table> {
    /// About the row before the position.
    fn fault<F: TableFormat<Table = Table>>(&self, fault: String, raw: String) -> ItemError {
        let number = F::shown(&self.table, self.row - 1);
        ItemError::new(ErrorKind::PARSE, fault).at(format!("{} row {number}", self.path), raw)
    }
}

impl<F: TableFormat, T: Send + Sync + 'static> ItemStream for TableReader<F, T> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        let saved = |what| saved_number(context, &self.name, what).map_err(ItemError::fatal);
        let (row, read_count) = (saved(ROW)?.unwrap_or(0), saved(READ_COUNT)?.unwrap_or(0));
        self.read_count = read_count;
        let stopped = StopPoint::saved(context, &self.name);
        let is_finished = stopped.as_ref().is_some_and(|stopped| stopped.is_finished);
        let files = self.files.list(stopped.as_ref()).map_err(ItemError::fatal)?;
        self.queue = match &stopped {
            Some(stopped) => left(files, stopped).map_err(ItemError::fatal)?,
            None => files.into(),
        };
        match is_finished {
            true => self.open_next(0, None).await?,
            false => self.open_next(row, saved_version(context, &self.name)).await?,
        };
        self.saved = stopped.map(|stopped| (row, stopped));
        if let (Files::One(_), Some(current)) = (&self.files, &self.current) {
            self.total = F::count(&current.table);
        }
        Ok(())
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        context.put(&key(&self.name, READ_COUNT), self.read_count);
        let (row, stopped) = match (&self.current, &self.saved) {
            (Some(Current { path, version, row, is_finished, .. }), _) => {
                save_version(context, &self.name, version.as_deref());
                (*row, StopPoint { file: path.to_string(), is_finished: *is_finished })
            }
            // All files were finished before: the saved position still holds.
            (None, Some((row, stopped))) => (*row, stopped.clone()),
            (None, None) => return Ok(()),
        };
        context.put(&key(&self.name, ROW), row);
        if let Files::Pattern { .. } = self.files {
            stopped.save(context, &self.name);
        }
        Ok(())
    }

    async fn close(&mut self, _is_complete: bool) -> Result<(), ItemError> {
        self.current = None;
        Ok(())
    }
}

impl<F: TableFormat, T: Send + Sync + 'static> ItemReader for TableReader<F, T> {
    type Item = T;

    async fn read(&mut self) -> Result<Option<T>, ItemError> {
        self.next().await
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    fn place(&self) -> Option<ItemPlace> {
        let current = self.current.as_ref()?;
        let number = F::shown(&current.table, current.row.saturating_sub(1));
        Some(ItemPlace { source: Arc::clone(&current.path), unit: "row", number })
    }
}
