//! Partitions: a step that is divided. Its parts have its own name, with a key behind it.

use super::Builder;
use crate::model::{PartitionBy, PartitionsFile};
use tidemill_engine::job::{Partition, PartitionedStep, RangePartitioner, Step, StepScope};

impl Builder<'_> {
    pub(super) fn partitioned(&mut self, worker: Step, file: &PartitionsFile) -> Option<Step> {
        let name = worker.name().to_owned();
        let divided = match &file.by {
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
        Some(placed(divided, file).build())
    }
}

fn placed(mut divided: PartitionedStep, file: &PartitionsFile) -> PartitionedStep {
    if let Some(concurrency) = file.concurrency {
        divided = divided.concurrency(concurrency);
    }
    if file.is_local { divided.local() } else { divided }
}
