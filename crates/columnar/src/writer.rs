//! Writing Parquet, Arrow and Avro files.

use crate::batch::{batch, schema};
use arrow_array::{Array, RecordBatch};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter as ArrowFileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::Schema;
use arrow_select::coalesce::BatchCoalescer;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tidemill_domain::item::{Codec, ColumnarFormat, ColumnarKind, ErrorKind, ItemError, Row};
use tidemill_engine::item::writer::FileWriter;
use tidemill_engine::item::writer::as_row::{AsRow, row_itself, row_of};
use tidemill_engine::item::writer::file::{Beginning, Finish, Layout};

/// Default number of rows in a row group of Parquet or a record batch of Arrow.
pub const GROUP_ROWS: usize = 100_000;

/// A row group, record batch or block is kept in memory, so it ends at this size too.
const GROUP_BYTES: usize = 64 * 1024 * 1024;

/// Rows in a block of Avro.
const BLOCK_ROWS: usize = 1000;

/// The step was changed between two runs.
const OTHER_COLUMNS: &str =
    "some of its rows were committed with other columns or types than now; start the job anew";

/// Writes Parquet, Arrow and Avro files with the columns that you name.
///
/// A value that does not fit the type of its column is an error of the kind `write`. The rows are kept in `<path>.part`, and
/// the file is made of them when the step completes; during the step the disk has to hold both.
///
/// ```
/// use tidemill_columnar::writer;
/// use tidemill_domain::item::{ColumnarFormat, ColumnarKind, FieldType};
///
/// let format = ColumnarFormat::new(ColumnarKind::Parquet).column("id", FieldType::Long);
/// let writer = writer::<serde_json::Value>("orders", "out/orders.parquet", format).overwrite();
/// ```
pub type ColumnarWriter<T> = FileWriter<ColumnarLayout<T>>;

/// Writes a file of items, whose fields are the columns. Its position is saved under `name`, which must be unique within the
/// step.
pub fn writer<T: Serialize + Send + Sync + 'static>(
    name: &str,
    path: impl Into<PathBuf>,
    format: ColumnarFormat,
) -> ColumnarWriter<T> {
    FileWriter::of(name, path, ColumnarLayout { format, as_row: row_of })
}

/// Writes a file of rows.
pub fn row_writer(name: &str, path: impl Into<PathBuf>, format: ColumnarFormat) -> ColumnarWriter<Row> {
    FileWriter::of(name, path, ColumnarLayout { format, as_row: row_itself })
}

/// Items as record batches, of which the file is made.
pub struct ColumnarLayout<T> {
    format: ColumnarFormat,
    as_row: AsRow<T>,
}

impl<T> Clone for ColumnarLayout<T> {
    fn clone(&self) -> Self {
        Self { format: self.format.clone(), as_row: self.as_row }
    }
}

impl<T: Send + Sync + 'static> Layout for ColumnarLayout<T> {
    type Item = T;

    /// Adds a whole stream of Arrow.
    fn add(&mut self, items: &[T], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        let rows = items.iter().map(self.as_row).collect::<Result<Vec<_>, _>>()?;
        let batch =
            batch(&self.format.columns, &rows).map_err(|fault| ItemError::new(ErrorKind::WRITE, fault))?;
        let added = StreamWriter::try_new(text, &batch.schema()).and_then(|mut stream| {
            stream.write(&batch)?;
            stream.finish()
        });
        added.map_err(ItemError::fatal)
    }

    fn finish(&self) -> Result<Option<Finish>, String> {
        if let Some(refusal) = self.format.refusal() {
            return Err(refusal);
        }
        let format = self.format.clone();
        Ok(Some(Arc::new(move |rows, file| make(&format, rows, file).map_err(told))))
    }
}

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn told(error: Box<dyn Error + Send + Sync>) -> String {
    match error.to_string() {
        text if text == OTHER_COLUMNS => text,
        text => format!("{text}; check the space on its disk, then restart the job"),
    }
}

fn make(format: &ColumnarFormat, rows: File, file: File) -> Done {
    let (file, schema) = (BufWriter::new(file), schema(&format.columns));
    let codec = format.codec.unwrap_or(format.kind.codecs()[0]);
    let mut file = match format.kind {
        ColumnarKind::Parquet => {
            let properties = WriterProperties::builder()
                .set_compression(match codec {
                    Codec::None => Compression::UNCOMPRESSED,
                    Codec::Snappy => Compression::SNAPPY,
                    Codec::Gzip | Codec::Deflate => Compression::GZIP(GzipLevel::default()),
                    Codec::Zstd => Compression::ZSTD(ZstdLevel::try_new(3)?),
                })
                .set_max_row_group_row_count(Some(format.group_rows.unwrap_or(GROUP_ROWS)))
                .set_max_row_group_bytes(Some(GROUP_BYTES));
            let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties.build()))?;
            each_chunk(&schema, rows, |chunk| Ok(writer.write(&chunk)?))?;
            writer.into_inner()?
        }
        ColumnarKind::Arrow => {
            let codec = (codec == Codec::Zstd).then_some(CompressionType::ZSTD);
            let options = IpcWriteOptions::default().try_with_compression(codec)?;
            let mut writer = ArrowFileWriter::try_new_with_options(file, &schema, options)?;
            each_group(format, rows, |group| Ok(writer.write(&group)?))?;
            writer.into_inner()?
        }
        ColumnarKind::Avro => {
            let builder = WriterBuilder::new(schema.as_ref().clone()).with_compression(match codec {
                Codec::None => None,
                Codec::Snappy => Some(CompressionCodec::Snappy),
                Codec::Gzip | Codec::Deflate => Some(CompressionCodec::Deflate),
                Codec::Zstd => Some(CompressionCodec::ZStandard),
            });
            let mut writer = builder.build::<_, AvroOcfFormat>(file)?;
            each_group(format, rows, |block| Ok(writer.write(&block)?))?;
            writer.finish()?;
            writer.into_inner()
        }
    };
    Ok(file.flush()?)
}

/// Each chunk is a whole stream of Arrow.
fn each_chunk(schema: &Schema, rows: File, mut write: impl FnMut(RecordBatch) -> Done) -> Done {
    let mut rows = BufReader::new(rows);
    while !rows.fill_buf()?.is_empty() {
        let chunks = StreamReader::try_new(&mut rows, None)?;
        if chunks.schema().fields() != schema.fields() {
            return Err(OTHER_COLUMNS.into());
        }
        for chunk in chunks {
            write(chunk?)?;
        }
    }
    Ok(())
}

/// Many rows at a time, whatever the size of the chunks was.
fn each_group(format: &ColumnarFormat, rows: File, mut write: impl FnMut(RecordBatch) -> Done) -> Done {
    let default = if format.kind == ColumnarKind::Avro { BLOCK_ROWS } else { GROUP_ROWS };
    let schema = schema(&format.columns);
    let mut groups = BatchCoalescer::new(schema.clone(), format.group_rows.unwrap_or(default));
    let mut bytes = 0;
    each_chunk(&schema, rows, |chunk| {
        for column in chunk.columns() {
            bytes += column.to_data().get_slice_memory_size()?;
        }
        groups.push_batch(chunk)?;
        if bytes > GROUP_BYTES {
            groups.finish_buffered_batch()?;
            bytes = 0;
        }
        while let Some(group) = groups.next_completed_batch() {
            write(group)?;
        }
        Ok(())
    })?;
    groups.finish_buffered_batch()?;
    groups.next_completed_batch().map_or(Ok(()), write)
}
