//! Chunk steps, and the partitions that they are divided into.

use super::names::ParameterNames;
use super::path::FilePath;
use super::process::{Mapping, Process, RowProcessor};
use super::{Builder, optional, write};
use crate::model::{At, ChunkFile, PartitionBy, PartitionsFile};
use crate::parse::all;
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
    pub(super) fn chunk(&mut self, name: &str, file: &ChunkFile, is_repeated: bool) -> Option<Step> {
        let reader = self.reader(file);
        let writer = self.writer(file);
        let process = self.process(file);
        let reject = file.skip.as_ref().and_then(|skip| skip.reject.as_ref());
        let reject = optional(reject, |text| self.path(text, Some(file)))?;
        let (reader, writer, mut process) = (reader?, writer?, process?);
        process.project = write::order(file).map(Into::into);
        let declared = self.parameter_names();
        let (names, of_processor) = (declared.clone(), declared.clone());
        let read =
            Step::chunk(name, file.size).reader_with(move |scope| reader(scope, &names.in_step(scope)));
        let names = declared.clone();
        let make_writer = move |scope: &StepScope| writer(scope, &names.in_step(scope));
        let step = if process.is_nothing() {
            self.finished(read.process(PassThrough).writer_with(make_writer), file, reject, declared)?
        } else {
            let make =
                move |scope: &StepScope| Ok(RowProcessor::new(process.clone(), of_processor.in_step(scope)));
            self.finished(read.process_with(make).writer_with(make_writer), file, reject, declared)?
        };
        match &file.partitions {
            // The divided step and its partitions are repeated together.
            Some(partitions) if is_repeated => {
                self.partitioned(step.allow_start_if_complete(), &partitions.value)
            }
            Some(partitions) => self.partitioned(step, &partitions.value),
            None => Some(step),
        }
    }

    fn process(&mut self, file: &ChunkFile) -> Option<Process> {
        let filter = optional(file.filter.as_ref(), |text| self.expression(text))?;
        if file.map.is_empty() {
            return Some(Process { filter, ..Process::default() });
        }
        let columns = file.map.iter().map(|(column, _)| column.value.clone()).collect();
        let expressions = all(file.map.iter().map(|(_, text)| self.expression(text)))?.into();
        Some(Process { filter, map: Some(Mapping { columns, expressions }), project: None })
    }

    fn finished<P: ItemProcessor<Row, Output = Row>>(
        &mut self,
        mut step: RowStep<P>,
        file: &ChunkFile,
        reject: Option<FilePath>,
        declared: ParameterNames,
    ) -> Option<Step> {
        let kinds = |on: &[At<ErrorKind>]| on.iter().map(|kind| kind.value.clone()).collect::<Vec<_>>();
        if let Some(skip) = &file.skip {
            step = match skip.on.is_empty() {
                true => step.skip_all(skip.limit),
                false => step.skip(kinds(&skip.on), skip.limit),
            };
        }
        if let Some(retry) = &file.retry {
            step = match retry.on.is_empty() {
                true => step.retry_all(retry.limit),
                false => step.retry(kinds(&retry.on), retry.limit),
            };
            if let Some(base) = retry.backoff {
                let backoff = Backoff::new(base, 2.0, BACKOFF_CAP.max(base), BACKOFF_JITTER);
                step =
                    step.backoff(backoff.expect("the cap is not below the base, and the numbers are shares"));
            }
        }
        if let Some(template) = reject {
            let make = move |scope: &StepScope| {
                let path = template.rendered(scope, &declared.in_step(scope))?;
                let rejects =
                    if path == TABLE { Rejects::table() } else { Rejects::file(own(&path, scope.step())) };
                Ok(match &template.roots {
                    Some(roots) => rejects.within(roots.clone()),
                    None => rejects,
                })
            };
            step = step.rejects_of(make, |row| row.to_json().to_string());
        }
        Some(step.threads(file.threads).build())
    }

    /// The worker keeps the name of the step; partitions add their key to it.
    fn partitioned(&mut self, worker: Step, file: &PartitionsFile) -> Option<Step> {
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
        Some(if file.is_local { divided.local() } else { divided }.build())
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
