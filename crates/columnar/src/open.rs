//! Opening files of all formats as sequences of record batches.

use crate::Columnar;
use crate::arrow::ArrowMessages;
use crate::avro::AvroBlocks;
use crate::page::Chunks;
use arrow_array::RecordBatchReader;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use std::fmt::Display;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidemill_domain::item::ColumnarKind;
use tidemill_engine::item::Source;

/// Rows that are decoded at once.
pub(crate) const BATCH_ROWS: usize = 1024;

const NO_GROUPS: &str =
    "only Parquet files and Arrow files with an index have row groups; divide the step by file";

/// What is said about the codecs that the libraries are built without.
const MISSING_CODECS: [(&str, &str); 3] =
    [("at compile time: brotli", "brotli"), ("has the codec Bzip2", "bzip2"), ("has the codec Xz", "xz")];

pub(crate) type Batches = Box<dyn RecordBatchReader + Send>;

/// An open file, or a row group of it.
pub(crate) struct Opened {
    pub(crate) batches: Batches,
    /// Number of the first row of the first batch.
    pub(crate) first: u64,
    /// All rows, if that is cheap to know.
    pub(crate) rows: Option<u64>,
    /// Rows of the file before the row group, as far as that is known.
    pub(crate) before: u64,
}

/// Opens a file. The first batch has row `from`, or begins before it.
pub(crate) fn open(source: &Source, options: &Columnar, from: u64) -> Result<Opened, String> {
    if let (Some(divided), Some(found)) = (options.version.as_deref(), source.version())
        && divided != found
    {
        return Err("the object was replaced after the step was divided; \
                    put back the object as it was and restart the job, or start the job anew"
            .to_owned());
    }
    let (kind, is_stream) = kind_of(source)?;
    if let Some(only) = options.only.filter(|only| *only != kind) {
        return Err(format!("it is a file of {kind}, not of {only}; read it with {kind}"));
    }
    if options.group.is_some() && (is_stream || kind == ColumnarKind::Avro) {
        return Err(NO_GROUPS.to_owned());
    }
    let whole = |batches| Opened { batches, first: 0, rows: None, before: 0 };
    Ok(match kind {
        ColumnarKind::Parquet => return open_parquet(source, options, from),
        ColumnarKind::Avro => whole(Box::new(AvroBlocks::open(source).map_err(unreadable)?)),
        ColumnarKind::Arrow if is_stream => {
            whole(Box::new(ArrowMessages::stream(source).map_err(unreadable)?))
        }
        ColumnarKind::Arrow => {
            let messages = ArrowMessages::file(source).map_err(unreadable)?;
            let Some(group) = options.group else { return Ok(whole(Box::new(messages))) };
            check_group(group, messages.group_count())?;
            whole(Box::new(messages.only(group)))
        }
    })
}

/// Number of row groups or record batches.
pub(crate) fn count_groups(source: &Source) -> Result<usize, String> {
    match kind_of(source)? {
        (ColumnarKind::Parquet, _) => Ok(metadata(source)?.metadata().num_row_groups()),
        (ColumnarKind::Arrow, false) => Ok(ArrowMessages::file(source).map_err(unreadable)?.group_count()),
        _ => Err(NO_GROUPS.to_owned()),
    }
}

/// By the first bytes, and whether it is a stream, which has no index.
fn kind_of(source: &Source) -> Result<(ColumnarKind, bool), String> {
    let mut start = Vec::new();
    source.clone().take(6).read_to_end(&mut start).map_err(unreadable)?;
    match start.as_slice() {
        [b'P', b'A', b'R', b'1', ..] => Ok((ColumnarKind::Parquet, false)),
        b"ARROW1" => Ok((ColumnarKind::Arrow, false)),
        [0xff, 0xff, 0xff, 0xff, ..] => Ok((ColumnarKind::Arrow, true)),
        [b'O', b'b', b'j', 1, ..] => Ok((ColumnarKind::Avro, false)),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Err("it is packed as a whole with gzip or zstd; unpack it, then restart the job".to_owned())
        }
        _ => Err("it is not a Parquet, Arrow or Avro file; read it in the format that it has".to_owned()),
    }
}

/// The libraries panic on some files that are damaged.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| unreadable("what it declares is not what it has"))
}

fn open_parquet(source: &Source, options: &Columnar, from: u64) -> Result<Opened, String> {
    let metadata = metadata(source)?;
    let file = metadata.metadata().clone();
    check_rows(&file)?;
    let rows_of = |group: usize| u64::try_from(file.row_group(group).num_rows()).unwrap_or(0);
    let groups = match options.group {
        Some(group) => check_group(group, file.num_row_groups()).map(|()| group..group + 1)?,
        None => 0..file.num_row_groups(),
    };
    let (before, rows) = ((0..groups.start).map(rows_of).sum(), groups.clone().map(rows_of).sum());
    if from > rows {
        return Err(shrunk(rows));
    }
    let mut columns = file.file_metadata().schema_descr().num_columns();
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(Chunks(source.clone()), metadata);
    if !options.columns.is_empty() {
        // Names of columns can have dots, which a mask by name would take for nesting.
        let is_read = |name: &str| options.columns.iter().any(|(column, _)| column == name);
        let roots = builder.schema().fields().iter().enumerate();
        let roots = roots.filter(|(_, field)| is_read(field.name())).map(|(index, _)| index);
        let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
        columns = (0..columns).filter(|column| mask.leaf_included(*column)).count();
        builder = builder.with_projection(mask);
    }
    source.expect_places(columns);
    let skipped = usize::try_from(from).unwrap_or(usize::MAX);
    let builder = builder.with_row_groups(groups.collect()).with_batch_size(BATCH_ROWS).with_offset(skipped);
    let reader = builder.build().map_err(unreadable)?;
    Ok(Opened { batches: Box::new(reader), first: from, rows: Some(rows), before })
}

fn metadata(source: &Source) -> Result<ArrowReaderMetadata, String> {
    ArrowReaderMetadata::load(&Chunks(source.clone()), Default::default()).map_err(unreadable)
}

/// Refuses a file whose numbers of rows contradict each other: rows would be lost.
fn check_rows(file: &ParquetMetaData) -> Result<(), String> {
    let contradicts = || unreadable("its numbers of rows contradict each other");
    let mut rows = 0_i64;
    for group in file.row_groups() {
        // A column of lists has more values than rows.
        let mut flat = group.columns().iter().filter(|column| column.column_descr().max_rep_level() == 0);
        if group.num_rows() < 0 || flat.any(|column| column.num_values() != group.num_rows()) {
            return Err(contradicts());
        }
        rows = rows.checked_add(group.num_rows()).ok_or_else(contradicts)?;
    }
    if rows == file.file_metadata().num_rows() { Ok(()) } else { Err(contradicts()) }
}

fn check_group(group: usize, count: usize) -> Result<(), String> {
    let gone = || {
        format!(
            "it has {count} row groups now, and had one with the number {group} (from 0) when the step was divided; \
             put back the file as it was and restart the job, or start the job anew"
        )
    };
    (group < count).then_some(()).ok_or_else(gone)
}

pub(crate) fn shrunk(rows: u64) -> String {
    format!(
        "it has only {rows} rows, and the last run stopped in a later one; \
         put back the file as it was and restart the job, or start the job anew"
    )
}

pub(crate) fn unreadable(error: impl Display) -> String {
    let text = error.to_string();
    if let Some((_, codec)) = MISSING_CODECS.iter().find(|(fault, _)| text.contains(fault)) {
        return format!(
            "it is packed with {codec}, which cannot be read; write it with zstd, snappy or no compression"
        );
    }
    format!("the file is damaged or cannot be read: {text}; put back a whole file and restart the job")
}
