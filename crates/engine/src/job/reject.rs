//! Rejects: skipped items with their errors, kept for correction.

use crate::item::Roots;
use crate::item::file_output::FileOutput;
use crate::job::{ChunkScope, StepScope};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Origin, Phase};
use tidemill_domain::job::{ExecutionContext, StepExecutionId};
use tidemill_store::job::RejectRow;

const ITEM_CHARS_MAX: usize = 10_000;

/// Name under which the file's position is saved.
const POSITION: &str = "rejects";

/// Name under which the hash of the header of rejects in the format of their source is saved.
const HEADER: &str = "rejects.header";

const OTHER_HEADER: &str = "a skipped record has other columns than the records in the file of reject_source, which has one \
    header; let each file have its own with `partitions: { by: file }`";

/// Where skipped items are kept.
#[derive(Clone, Debug)]
#[must_use]
pub enum Rejects {
    /// In a file, which gets its name when the step completes: CSV if the name ends in `.csv`, JSON lines otherwise.
    File {
        /// The file.
        path: PathBuf,
        /// The folders that it must be in, if any.
        roots: Option<Roots>,
    },
    /// In the table `tidemill_reject`, in the chunk's transaction.
    Table,
}

impl Rejects {
    /// In this [file](Self::File).
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), roots: None }
    }

    /// Requires a file to be in these folders.
    pub fn within(self, within: Roots) -> Self {
        match self {
            Self::File { path, .. } => Self::File { path, roots: Some(within) },
            Self::Table => Self::Table,
        }
    }

    /// In the [table](Self::Table).
    pub fn table() -> Self {
        Self::Table
    }
}

/// Skipped items in the format of their source, so that they can be read again once they are corrected. See
/// [`FileWriter::for_rejects`](crate::item::writer::FileWriter::for_rejects).
#[must_use]
pub struct SourceRejects<I> {
    pub(crate) output: FileOutput,
    pub(crate) encode: Arc<EncodeReject<I>>,
    /// Encodes the beginning of the file, with its header.
    pub(crate) begin: Arc<EncodeBeginning>,
    /// Hash of the header that the file has.
    pub(crate) header: Option<i64>,
}

/// The line of an item, or else that of the record it was read from; none if neither is known.
pub(crate) type EncodeReject<I> =
    dyn Fn(Option<&I>, Option<&Origin>) -> Result<Option<RejectLine>, ItemError> + Send + Sync;

pub(crate) type EncodeBeginning = dyn Fn(&[u8]) -> Result<Vec<u8>, ItemError> + Send + Sync;

impl<I> SourceRejects<I> {
    async fn open(&mut self, context: &ExecutionContext) -> Result<(), ItemError> {
        self.header = context.get_long(HEADER);
        self.output.open(context).await
    }

    async fn add(
        &mut self,
        lines: Vec<Result<Option<RejectLine>, ItemError>>,
        context: &mut ExecutionContext,
    ) -> Result<(), ItemError> {
        for line in lines {
            let Some(RejectLine { header, line }) = line? else { continue };
            let digest = Sha256::digest(&header);
            let hash = i64::from_be_bytes(std::array::from_fn(|index| digest[index]));
            if self.output.offset() == 0 {
                self.output.append(&(self.begin)(&header)?);
            } else if self.header.is_some_and(|known| known != hash) {
                return Err(ItemError::new(ErrorKind::FATAL, OTHER_HEADER));
            }
            self.header = Some(hash);
            self.output.append(&line);
        }
        self.output.flush().await?;
        self.output.update(context);
        context.put(HEADER, self.header);
        Ok(())
    }
}

/// A line, and the header of the file that it is from, which is not encoded.
pub(crate) struct RejectLine {
    pub(crate) header: Vec<u8>,
    pub(crate) line: Vec<u8>,
}

pub(crate) struct RejectSink<I> {
    /// Called for each run of the step; and the text kept of an item.
    pub(super) kept: Option<Kept<I>>,
    /// Called for each run of the step.
    pub(super) source: Option<Arc<MakeSourceRejects<I>>>,
    file: Option<FileOutput>,
    lines: LineFormat,
    /// Where rejects go into the table.
    table_of: Option<StepExecutionId>,
    pending: Vec<RejectRow>,
    source_file: Option<SourceRejects<I>>,
    pending_lines: Vec<Result<Option<RejectLine>, ItemError>>,
}

type Kept<I> = (Arc<MakeRejects>, fn(&I) -> String);

pub(crate) type MakeRejects = dyn Fn(&StepScope) -> Result<Rejects, ItemError> + Send + Sync;

pub(crate) type MakeSourceRejects<I> =
    dyn Fn(&StepScope) -> Result<SourceRejects<I>, ItemError> + Send + Sync;

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineFormat {
    Json,
    Csv,
}

impl LineFormat {
    fn line(self, row: &RejectRow) -> Result<Vec<u8>, ItemError> {
        match self {
            Self::Json => {
                let line = json!({
                    "phase": row.phase,
                    "kind": row.kind,
                    "error": row.error,
                    "place": row.place,
                    "item": row.item,
                    "columns": row.columns,
                });
                Ok(format!("{line}\n").into_bytes())
            }
            Self::Csv => {
                let place = row.place.as_deref().unwrap_or_default();
                let item = row.item.as_deref().unwrap_or_default();
                let columns = row.columns.as_deref().unwrap_or_default();
                let mut lines = csv::Writer::from_writer(Vec::new());
                lines.write_record([row.phase, &row.kind, &row.error, place, item, columns])?;
                lines.into_inner().map_err(|error| ItemError::fatal(error.into_error()))
            }
        }
    }
}

impl<I> Default for RejectSink<I> {
    fn default() -> Self {
        Self {
            kept: None,
            source: None,
            file: None,
            lines: LineFormat::Json,
            table_of: None,
            pending: Vec::new(),
            source_file: None,
            pending_lines: Vec::new(),
        }
    }
}

impl<I> Clone for RejectSink<I> {
    /// The clone is not open.
    fn clone(&self) -> Self {
        Self { kept: self.kept.clone(), source: self.source.clone(), ..Self::default() }
    }
}

impl<I> RejectSink<I> {
    pub(crate) async fn open(
        &mut self,
        scope: &StepScope,
        context: &ExecutionContext,
    ) -> Result<(), ItemError> {
        if let Some((make, _)) = &self.kept {
            match make(scope)? {
                Rejects::File { path, roots } => {
                    let is_csv =
                        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
                    self.lines = if is_csv { LineFormat::Csv } else { LineFormat::Json };
                    let mut file = FileOutput::lazy(POSITION, path);
                    file.roots = roots;
                    file.open(context).await?;
                    self.file = Some(file);
                }
                Rejects::Table => self.table_of = Some(scope.step_execution()),
            }
        }
        if let Some(make) = &self.source {
            let mut rejects = make(scope)?;
            rejects.open(context).await?;
            self.source_file = Some(rejects);
        }
        Ok(())
    }

    /// Adds a skipped item, which is unknown after a failed read; [`flush`](Self::flush) writes it.
    pub(crate) fn add(&mut self, phase: Phase, kind: &ErrorKind, error: &ItemError, item: Option<&I>) {
        let origin = error.origin();
        if let Some(rejects) = &self.source_file {
            self.pending_lines.push((rejects.encode)(item, origin));
        }
        let Some((_, text_of)) = &self.kept else { return };
        let raw = || origin.map(|origin| origin.raw.clone());
        let item = item.map(text_of).or_else(raw);
        self.pending.push(RejectRow {
            phase: phase.as_str(),
            kind: kind.as_str().to_owned(),
            error: error.text(),
            place: origin.map(|origin| origin.place.clone()),
            item: item.map(|text| text.chars().take(ITEM_CHARS_MAX).collect()),
            columns: error.columns().map(str::to_owned),
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.pending_lines.is_empty()
    }

    /// Writes the added items before the chunk commits.
    pub(crate) async fn flush(
        &mut self,
        chunk: &mut ChunkScope,
        context: &mut ExecutionContext,
    ) -> Result<(), ItemError> {
        let (pending, pending_lines) =
            (std::mem::take(&mut self.pending), std::mem::take(&mut self.pending_lines));
        if let Some(rejects) = &mut self.source_file {
            rejects.add(pending_lines, context).await?;
        }
        if let Some(file) = &mut self.file {
            if file.offset() == 0 && !pending.is_empty() && self.lines == LineFormat::Csv {
                file.append(b"phase,kind,error,place,item,columns\n");
            }
            for row in &pending {
                file.append(&self.lines.line(row)?);
            }
            file.flush().await?;
            file.update(context);
        } else if let Some(step) = self.table_of
            && !pending.is_empty()
        {
            chunk.tx().await?.jobs().insert_rejects(step, &pending).await?;
        }
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), ItemError> {
        for file in self.files() {
            file.roll_back().await?;
        }
        Ok(())
    }

    pub(crate) async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        for file in self.files().filter(|_| is_complete) {
            file.publish().await?;
        }
        Ok(())
    }

    fn files(&mut self) -> impl Iterator<Item = &mut FileOutput> {
        let source = self.source_file.as_mut().map(|rejects| &mut rejects.output);
        self.file.iter_mut().chain(source)
    }
}
