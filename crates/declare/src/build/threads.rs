//! Threads: chunks that are processed at the same time.

use super::NotYet;
use tidemill_domain::item::Row;
use tidemill_engine::item::{BoxReader, BoxWriter};
use tidemill_engine::job::{ChunkStep, ItemProcessor};

type RowStep<P> = ChunkStep<BoxReader<Row>, P, BoxWriter<Row>>;

/// The step with so many threads.
pub(super) fn threads<P: ItemProcessor<Row, Output = Row>>(
    step: RowStep<P>,
    count: usize,
) -> Result<RowStep<P>, NotYet> {
    if count > 1 { Err(NotYet("threads")) } else { Ok(step) }
}
