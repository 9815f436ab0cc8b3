//! Chunk steps: their parts, their policies, and the partitions that a step is divided into.

use super::file::columnar::row_groups;
use super::file::source_rejects;
use super::names::ParameterNames;
use super::path::FilePath;
use super::process::RowProcessor;
use super::{Builder, Built};
use crate::Diagnostics;
use crate::model::{ChunkFile, DataFile, PartitionBy, PartitionsFile, ReadFile};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::item::{ErrorKind, Row};
use tidemill_engine::item::{BoxReader, BoxWriter};
use tidemill_engine::job::{
    ChunkStep, ItemProcessor, Partition, PassThrough, RangePartitioner, Rejects, Step, StepScope,
};

/// Each pause before a retry is twice as long as the previous one, up to this.
const BACKOFF_CAP: Duration = Duration::from_secs(60);

const BACKOFF_JITTER: f64 = 0.2;

/// Means the table for rejects, instead of a file.
const TABLE: &str = "table";

type RowStep<P> = ChunkStep<BoxReader<Row>, P, BoxWriter<Row>>;

impl Builder<'_> {
    pub(super) fn chunk(&self, name: &str, file: &ChunkFile, is_repeated: bool) -> Built<Step> {
        let reader = self.reader(file).and_then(|reader| self.sorted(file, reader));
        let (reader, writer, process) = match (reader, self.writer(file), self.process(file)) {
            (Ok(reader), Ok(writer), Ok(process)) => (reader, writer, process),
            (reader, writer, process) => {
                let failed = [reader.err(), writer.err(), process.err()];
                return Err(Diagnostics::join(failed.into_iter().flatten()).expect("one of them failed"));
            }
        };
        let reject = file.reject().map(|text| self.path(text, Some(file))).transpose()?;
        let source = file.reject_source().map(|text| self.path(text, Some(file))).transpose()?;
        let rejects = (reject, source.zip(source_file(file)));
        let declared = self.parameter_names();
        let names = declared.clone();
        let read =
            Step::chunk(name, file.size).reader_with(move |scope| reader(scope, &names.in_step(scope)));
        let names = declared.clone();
        let make_writer = move |scope: &StepScope| writer(scope, &names.in_step(scope));
        let step = if process.is_nothing() {
            finished(read.process(PassThrough).writer_with(make_writer), file, rejects, declared)
        } else {
            let names = declared.clone();
            let make =
                move |scope: &StepScope| Ok(RowProcessor::new(process.clone(), scope, names.in_step(scope)));
            finished(read.process_with(make).writer_with(make_writer), file, rejects, declared)
        };
        match &file.partitions {
            // The divided step and its partitions are repeated together.
            Some(partitions) if is_repeated => {
                self.partitioned(step.allow_start_if_complete(), &partitions.value)
            }
            Some(partitions) => self.partitioned(step, &partitions.value),
            None => Ok(step),
        }
    }

    /// The worker keeps the name of the step; partitions add their key to it.
    fn partitioned(&self, worker: Step, file: &PartitionsFile) -> Built<Step> {
        let name = worker.name().to_owned();
        let mut divided = match &file.by {
            PartitionBy::File { pattern } => {
                let (pattern, declared) = (self.path(pattern, None)?, self.parameter_names());
                let files = move |scope: &StepScope, _grid: usize| {
                    let files = pattern.rendered(scope, &declared.in_step(scope))?;
                    match &pattern.roots {
                        Some(roots) => Partition::files_within(&files, roots),
                        None => Partition::files(&files),
                    }
                };
                Step::partitioned(name, worker, files)
            }
            PartitionBy::RowGroup { pattern } => {
                let (pattern, declared) = (self.path(pattern, None)?, self.parameter_names());
                Step::partitioned(name, worker, move |scope: &StepScope, _grid: usize| {
                    let files = pattern.rendered(scope, &declared.in_step(scope))?;
                    row_groups(&files, pattern.roots.as_ref())
                })
            }
            PartitionBy::Range { column, table, count, connection } => {
                let mut ranges = RangePartitioner::new(&table.value, &column.value);
                if let Some(database) = self.connection(connection.as_ref())? {
                    ranges = ranges.database(database);
                }
                let divided = Step::partitioned(name, worker, ranges);
                match count {
                    Some(count) => divided.grid(*count),
                    None => divided.grid_granted(),
                }
            }
        };
        if let Some(concurrency) = file.concurrency {
            divided = divided.concurrency(concurrency);
        }
        Ok(if file.is_local { divided.local() } else { divided }.build())
    }
}

fn finished<P: ItemProcessor<Row, Output = Row>>(
    mut step: RowStep<P>,
    file: &ChunkFile,
    (reject, source): (Option<FilePath>, Option<(FilePath, DataFile)>),
    declared: ParameterNames,
) -> Step {
    if let Some(skip) = &file.skip {
        step = match skip.on.is_empty() {
            true => step.skip_all(skip.limit),
            false => step.skip(skip.on.clone(), skip.limit),
        };
        // A row that breaks a rule has written nothing, and breaks it again in every attempt.
        let is_skipped = skip.on.is_empty() || skip.on.contains(&ErrorKind::VALIDATION);
        if is_skipped && file.process.has_rules() {
            step = step.no_rollback([ErrorKind::VALIDATION]);
        }
    }
    if let Some(retry) = &file.retry {
        step = match retry.on.is_empty() {
            true => step.retry_all(retry.limit),
            false => step.retry(retry.on.clone(), retry.limit),
        };
        if let Some(base) = retry.backoff {
            let backoff = Backoff::new(base, 2.0, BACKOFF_CAP.max(base), BACKOFF_JITTER);
            step = step.backoff(backoff.expect("the cap is not below the base, and the numbers are shares"));
        }
    }
    if let Some((template, source)) = source {
        let declared = declared.clone();
        step = step.source_rejects(move |scope| {
            let path = own(&template.rendered(scope, &declared.in_step(scope))?, scope.step());
            source_rejects(&source, path, &template)
        });
    }
    if let Some(template) = reject {
        let make = move |scope: &StepScope| {
            let path = template.rendered(scope, &declared.in_step(scope))?;
            let rejects =
                if path == TABLE { Rejects::table() } else { Rejects::file(own(&path, scope.step())) };
            Ok(template.limit(rejects, Rejects::within))
        };
        step = step.rejects_of(make, |row| row.to_json().to_string());
    }
    step.threads(file.threads).build()
}

fn source_file(file: &ChunkFile) -> Option<DataFile> {
    match &file.read.value {
        ReadFile::File(source) => Some(source.clone()),
        _ => None,
    }
}

/// Partitions run concurrently, so each has its own file, with the key of the partition before the extension.
fn own(path: &str, step: &str) -> PathBuf {
    let path = Path::new(path);
    let Some((_, key)) = step.split_once(':') else { return path.to_owned() };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(ending) => path.with_file_name(format!("{stem}-{key}.{}", ending.to_string_lossy())),
        None => path.with_file_name(format!("{stem}-{key}")),
    }
}
