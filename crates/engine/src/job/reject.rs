//! Rejects: skipped items with their errors, kept for correction.

use crate::item::Roots;
use crate::item::file_output::FileOutput;
use crate::job::{ChunkScope, StepScope};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::{ExecutionContext, StepExecutionId};
use tidemill_store::job::RejectRow;

const ITEM_CHARS_MAX: usize = 10_000;

/// Name under which the file's position is saved.
const POSITION: &str = "rejects";

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

pub(crate) struct RejectSink<I> {
    make: Arc<MakeRejects>,
    file: Option<FileOutput>,
    lines: LineFormat,
    step: Option<StepExecutionId>,
    pending: Vec<RejectRow>,
    text_of: fn(&I) -> String,
}

pub(crate) type MakeRejects = dyn Fn(&StepScope) -> Result<Rejects, ItemError> + Send + Sync;

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

impl<I> Clone for RejectSink<I> {
    /// The clone is not open.
    fn clone(&self) -> Self {
        Self::new(self.make.clone(), self.text_of)
    }
}

impl<I> RejectSink<I> {
    /// `make` is called for each run of the step; `text_of` is the text kept of an item.
    pub(crate) fn new(make: Arc<MakeRejects>, text_of: fn(&I) -> String) -> Self {
        Self { make, file: None, lines: LineFormat::Json, step: None, pending: Vec::new(), text_of }
    }

    pub(crate) async fn open(
        &mut self,
        scope: &StepScope,
        context: &ExecutionContext,
    ) -> Result<(), ItemError> {
        self.step = Some(scope.step_execution());
        if let Rejects::File { path, roots } = (self.make)(scope)? {
            let is_csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
            self.lines = if is_csv { LineFormat::Csv } else { LineFormat::Json };
            let mut file = FileOutput::lazy(POSITION, path);
            file.roots = roots;
            file.open(context).await?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// Adds a skipped item, which is unknown after a failed read; [`flush`](Self::flush) writes it.
    pub(crate) fn add(&mut self, phase: Phase, kind: &ErrorKind, error: &ItemError, item: Option<&I>) {
        let origin = error.origin();
        let raw = || origin.map(|origin| origin.raw.clone());
        let item = item.map(self.text_of).or_else(raw);
        self.pending.push(RejectRow {
            phase: phase.as_str(),
            kind: kind.as_str().to_owned(),
            error: error.text(),
            place: origin.map(|origin| origin.place.clone()),
            item: item.map(|text| text.chars().take(ITEM_CHARS_MAX).collect()),
            columns: error.columns().map(str::to_owned),
        });
    }

    /// Writes the added items before the chunk commits.
    pub(crate) async fn flush(
        &mut self,
        chunk: &mut ChunkScope,
        context: &mut ExecutionContext,
    ) -> Result<(), ItemError> {
        let pending = std::mem::take(&mut self.pending);
        match (&mut self.file, self.step) {
            (Some(file), _) => {
                if file.offset() == 0 && !pending.is_empty() && self.lines == LineFormat::Csv {
                    file.append(b"phase,kind,error,place,item,columns\n");
                }
                for row in &pending {
                    file.append(&self.lines.line(row)?);
                }
                file.flush().await?;
                file.update(context);
            }
            (None, Some(step)) if !pending.is_empty() => {
                chunk.tx().await?.jobs().insert_rejects(step, &pending).await?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) -> Result<(), ItemError> {
        match &mut self.file {
            Some(file) => file.roll_back().await,
            None => Ok(()),
        }
    }

    pub(crate) async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        match &mut self.file {
            Some(file) if is_complete => file.publish().await,
            _ => Ok(()),
        }
    }
}
