//! Rejects: skipped items with their error, kept where somebody can mend them.

use crate::item::file_output::FileOutput;
use crate::job::scope::{ChunkScope, StepScope};
use serde::Serialize;
use serde_json::json;
use std::path::PathBuf;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::{ExecutionContext, StepExecutionId};
use tidemill_store::job::RejectRow;

/// Longest text of an item that is kept with its error, in characters.
const ITEM_CHARS_MAX: usize = 10_000;

/// Under which name the file's position is remembered.
const POSITION: &str = "rejects";

/// Where skipped items go.
#[derive(Clone, Debug)]
pub enum Rejects {
    /// Into a file of JSON lines, which appears under its name when the step completes.
    File(PathBuf),
    /// Into the table `tidemill_reject`, in the transaction of the chunk.
    Table,
}

impl Rejects {
    /// Into a file of JSON lines, which appears under its name when the step completes.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    /// Into the table `tidemill_reject`, in the transaction of the chunk.
    pub fn table() -> Self {
        Self::Table
    }
}

/// An item that was skipped.
pub(crate) struct Rejected<'a, I> {
    pub(crate) phase: Phase,
    pub(crate) kind: ErrorKind,
    pub(crate) error: &'a ItemError,
    /// The item as it was read; none when it could not be.
    pub(crate) item: Option<&'a I>,
}

/// The rejects of one run of a step.
pub(crate) struct RejectSink<I> {
    rejects: Rejects,
    file: Option<FileOutput>,
    step: Option<StepExecutionId>,
    pending: Vec<RejectRow>,
    text_of: fn(&I) -> String,
}

impl<I> Clone for RejectSink<I> {
    /// A sink of the same kind that has not been opened.
    fn clone(&self) -> Self {
        let rejects = self.rejects.clone();
        Self { rejects, file: None, step: None, pending: Vec::new(), text_of: self.text_of }
    }
}

impl<I> RejectSink<I> {
    pub(crate) fn new(rejects: Rejects) -> Self
    where
        I: Serialize,
    {
        let text_of = |item: &I| serde_json::to_string(item).unwrap_or_else(|error| format!("({error})"));
        Self { rejects, file: None, step: None, pending: Vec::new(), text_of }
    }

    pub(crate) async fn open(
        &mut self,
        scope: &StepScope,
        context: &ExecutionContext,
    ) -> Result<(), ItemError> {
        self.step = Some(scope.step_execution());
        if let Rejects::File(path) = &self.rejects {
            let mut file = FileOutput::lazy(POSITION, path);
            file.open(context).await?;
            self.file = Some(file);
        }
        Ok(())
    }

    /// Notes a skipped item; [`flush`](Self::flush) writes it.
    pub(crate) fn add(&mut self, rejected: Rejected<'_, I>) -> Result<(), ItemError> {
        let origin = rejected.error.origin();
        let item = match (rejected.item, origin) {
            (Some(item), _) => Some((self.text_of)(item)),
            (None, Some(origin)) => Some(origin.raw.clone()),
            (None, None) => None,
        };
        self.pending.push(RejectRow {
            phase: rejected.phase.as_str(),
            kind: rejected.kind.as_str().to_owned(),
            error: rejected.error.text(),
            place: origin.map(|origin| origin.place.clone()),
            item: item.map(|text| text.chars().take(ITEM_CHARS_MAX).collect()),
        });
        Ok(())
    }

    /// Writes what was noted, before the chunk commits.
    pub(crate) async fn flush(
        &mut self,
        chunk: &mut ChunkScope,
        context: &mut ExecutionContext,
    ) -> Result<(), ItemError> {
        let pending = std::mem::take(&mut self.pending);
        match (&mut self.file, self.step) {
            (Some(file), _) => {
                for row in &pending {
                    let line = json!({
                        "phase": row.phase,
                        "kind": row.kind,
                        "error": row.error,
                        "place": row.place,
                        "item": row.item,
                    });
                    file.append(format!("{line}\n").as_bytes());
                }
                file.flush().await?;
                file.update(context);
            }
            (None, Some(step)) if !pending.is_empty() => {
                chunk.tx().await?.insert_rejects(step, &pending).await?;
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Forgets what the chunk that is rolled back has written.
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
