//! Stands for `columnar` in a build without the feature. The check of a job file refuses such steps earlier.

use crate::build::path::FilePath;
use crate::check::BUILT_WITHOUT_COLUMNAR;
use crate::model::Names;
use tidemill_domain::item::{ColumnarFormat, ItemError, Row};
use tidemill_engine::item::{BoxReader, BoxWriter, Roots};
use tidemill_engine::job::{Partition, StepScope};

fn refusal<T>() -> Result<T, ItemError> {
    Err(ItemError::fatal(BUILT_WITHOUT_COLUMNAR))
}

pub(in crate::build) fn row_groups(_: &str, _: Option<&Roots>) -> Result<Vec<Partition>, ItemError> {
    refusal()
}

pub(super) fn reader(
    _: &ColumnarFormat,
    _: (&FilePath, &StepScope, &Names),
) -> Result<BoxReader<Row>, ItemError> {
    refusal()
}

pub(super) fn writer(
    _: &str,
    _: String,
    _: &ColumnarFormat,
    _: &FilePath,
) -> Result<BoxWriter<Row>, ItemError> {
    refusal()
}
