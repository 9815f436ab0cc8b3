//! Parquet, Arrow and Avro files.

use super::{Source, source};
use crate::build::endpoint::READ;
use crate::build::path::FilePath;
use crate::model::Names;
pub(in crate::build) use tidemill_columnar::row_groups;
use tidemill_columnar::{Columnar, ColumnarReader, ColumnarWriter, row_writer};
use tidemill_domain::item::{ColumnarFormat, ItemError, Row};
use tidemill_engine::item::{BoxReader, BoxWriter};
use tidemill_engine::job::StepScope;

pub(super) fn reader(
    format: &ColumnarFormat,
    (path, scope, names): (&FilePath, &StepScope, &Names),
) -> Result<BoxReader<Row>, ItemError> {
    let reader = match source(path, scope, names)? {
        Source::Pattern(pattern) => ColumnarReader::rows_pattern(READ, pattern),
        Source::One(path) => ColumnarReader::rows(READ, path),
    };
    let group = scope.context().get_long("row_group").and_then(|group| usize::try_from(group).ok());
    let whole = Columnar::of(format);
    let format = match (group, scope.context().get_text("version")) {
        (Some(group), Some(version)) => whole.group(group).version(version),
        (Some(group), None) => whole.group(group),
        (None, _) => whole,
    };
    let reader = reader.format(format);
    Ok(BoxReader::new(path.limit(reader, ColumnarReader::within)))
}

pub(super) fn writer(
    name: &str,
    target: String,
    format: &ColumnarFormat,
    path: &FilePath,
) -> Result<BoxWriter<Row>, ItemError> {
    let writer = row_writer(name, target, format.clone());
    Ok(BoxWriter::new(path.limit(writer, ColumnarWriter::within)))
}
