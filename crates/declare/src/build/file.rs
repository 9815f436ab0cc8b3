//! Readers and writers of files, by format.

#[cfg_attr(not(feature = "columnar"), path = "file/no_columnar.rs")]
pub(super) mod columnar;

use super::endpoint::{Make, READ};
use super::path::FilePath;
use super::{Builder, Built};
use crate::model::{
    ChunkFile, CsvFormat, DataFile, ExcelFormat, FileFormat, FixedColumn, FixedFormat, Names,
};
use std::path::PathBuf;
use tidemill_domain::item::{ItemError, Row};
use tidemill_engine::item::reader::FileReader;
use tidemill_engine::item::reader::file::Format;
use tidemill_engine::item::writer::FileWriter;
use tidemill_engine::item::writer::file::Layout;
use tidemill_engine::item::{
    BoxReader, BoxWriter, CsvReader, CsvWriter, ExcelReader, FixedWidthReader, FixedWidthWriter,
    JsonLinesReader, JsonLinesWriter, JsonReader, JsonWriter, XmlReader, XmlWriter, storage,
};
use tidemill_engine::job::StepScope;
use tidemill_engine::job::reject::SourceRejects;

/// Name under which the position of rejects in the format of their source is saved.
const REJECTS: &str = "rejects.source";

impl Builder<'_> {
    pub(super) fn file_reader(&self, file: &DataFile, chunk: &ChunkFile) -> Built<Make<BoxReader<Row>>> {
        let (path, file) = (self.path(&file.path, Some(chunk))?, file.clone());
        Ok(Box::new(move |scope, names| {
            let place = (&path, scope, names);
            Ok(match &file.format {
                FileFormat::Csv(csv) => BoxReader::new(csv_reader(reader(&file, place)?, csv)),
                FileFormat::JsonLines => {
                    let reader: JsonLinesReader<Row> = reader(&file, place)?;
                    BoxReader::new(reader)
                }
                FileFormat::FixedWidth(fixed) => {
                    let mut reader: FixedWidthReader<Row> = reader(&file, place)?;
                    for column in &fixed.columns {
                        reader = reader.column(&column.name.value, column.range.clone());
                    }
                    BoxReader::new(if fixed.counts_bytes { reader.in_bytes() } else { reader })
                }
                FileFormat::Xml(xml) => {
                    let reader: XmlReader<Row> = reader(&file, place)?;
                    let reader = reader.record(&xml.record.value);
                    BoxReader::new(if xml.columns.is_empty() { reader } else { reader.columns(&xml.columns) })
                }
                FileFormat::Excel(excel) => excel_reader(excel, place)?,
                FileFormat::Columnar(columnar) => columnar::reader(columnar, place)?,
                FileFormat::Json => {
                    let reader: JsonReader<Row> = reader(&file, place)?;
                    BoxReader::new(reader)
                }
            })
        }))
    }

    pub(super) fn file_writer(
        &self,
        name: String,
        file: &DataFile,
        chunk: &ChunkFile,
    ) -> Built<Make<BoxWriter<Row>>> {
        let columns = order(file, chunk);
        let (path, file) = (self.path(&file.path, Some(chunk))?, file.clone());
        Ok(Box::new(move |scope, names| {
            let target = path.rendered(scope, names)?;
            Ok(match &file.format {
                FileFormat::Csv(csv) => {
                    let writer = CsvWriter::rows(&name, target).delimiter(csv.delimiter);
                    let writer = writer.quote(csv.quote.unwrap_or(b'"'));
                    let writer = match &columns {
                        _ if !csv.has_headers => writer.no_headers(),
                        Some(columns) => writer.columns(columns),
                        None => writer,
                    };
                    finished(writer, &file, &path)
                }
                FileFormat::FixedWidth(fixed) => finished(fixed_writer(&name, target, fixed), &file, &path),
                FileFormat::Xml(xml) => {
                    let writer = XmlWriter::rows(&name, target).record(&xml.record.value);
                    let writer = writer.attributes(&xml.attributes);
                    let writer = match &xml.root {
                        Some(root) => writer.root(&root.value),
                        None => writer,
                    };
                    finished(writer, &file, &path)
                }
                FileFormat::Excel(_) => return Err(ItemError::fatal("spreadsheets are only read")),
                FileFormat::Columnar(columnar) => columnar::writer(&name, target, columnar, &path)?,
                FileFormat::JsonLines => finished(JsonLinesWriter::rows(&name, target), &file, &path),
                FileFormat::Json => finished(JsonWriter::rows(&name, target), &file, &path),
            })
        }))
    }
}

enum Source {
    One(String),
    Pattern(String),
}

fn source(path: &FilePath, scope: &StepScope, names: &Names) -> Result<Source, ItemError> {
    let rendered = path.rendered(scope, names)?;
    // The file of a partition is not a pattern, nor is one that exists under this very name.
    let is_of_partition = scope.context().get_text("file") == Some(rendered.as_str());
    let is_pattern = rendered.contains(['*', '?', '['])
        && !is_of_partition
        && !storage::is_file(std::path::Path::new(&rendered));
    Ok(if is_pattern { Source::Pattern(rendered) } else { Source::One(rendered) })
}

fn excel_reader(
    excel: &ExcelFormat,
    (path, scope, names): (&FilePath, &StepScope, &Names),
) -> Result<BoxReader<Row>, ItemError> {
    let mut reader = match source(path, scope, names)? {
        Source::Pattern(pattern) => ExcelReader::rows_pattern(READ, pattern),
        Source::One(path) => ExcelReader::rows(READ, path),
    };
    if let Some(sheet) = &excel.sheet {
        reader = reader.sheet(&sheet.value);
    }
    if let Some(row) = excel.header_row {
        reader = reader.header_row(row);
    }
    if !excel.columns.is_empty() {
        reader = reader.columns(&excel.columns);
    }
    Ok(BoxReader::new(path.limit(reader, ExcelReader::within)))
}

/// A reader with the options that all text formats share.
fn reader<F: Format>(
    file: &DataFile,
    (path, scope, names): (&FilePath, &StepScope, &Names),
) -> Result<FileReader<F, Row>, ItemError> {
    let reader = match source(path, scope, names)? {
        Source::Pattern(pattern) => FileReader::rows_pattern(READ, pattern),
        Source::One(path) => FileReader::rows(READ, path),
    };
    let reader = reader.encoding(file.encoding).skip_lines(file.skip_lines);
    let reader = if file.is_counted { reader.count_total() } else { reader };
    let reader = match file.compression {
        Some(compression) => reader.compression(compression),
        None => reader,
    };
    Ok(path.limit(reader, FileReader::within))
}

fn csv_reader(reader: CsvReader<Row>, csv: &CsvFormat) -> CsvReader<Row> {
    let reader = reader.delimiter(csv.delimiter).quote(csv.quote);
    let reader = match csv.comment {
        Some(mark) => reader.comment(mark),
        None => reader,
    };
    match (csv.columns.is_empty(), csv.has_headers) {
        (true, true) => reader,
        (true, false) => reader.no_headers(),
        (false, false) => reader.columns(&csv.columns),
        (false, true) => reader.columns(&csv.columns).has_headers(),
    }
}

/// A writer with the options that all formats share.
fn finished<L: Layout<Item = Row>>(
    writer: FileWriter<L>,
    file: &DataFile,
    path: &FilePath,
) -> BoxWriter<Row> {
    let writer = writer.encoding(file.encoding);
    let writer = match file.compression {
        Some(compression) => writer.compression(compression),
        None => writer,
    };
    BoxWriter::new(path.limit(writer, FileWriter::within))
}

/// The file for skipped rows in the format of their source.
pub(super) fn source_rejects(
    source: &DataFile,
    target: PathBuf,
    path: &FilePath,
) -> Result<SourceRejects<Row>, ItemError> {
    Ok(match &source.format {
        FileFormat::Csv(csv) => {
            let writer = CsvWriter::rows(REJECTS, target).delimiter(csv.delimiter);
            let writer = match csv.quote {
                Some(quote) => writer.quote(quote),
                None => writer.no_quotes(),
            };
            let writer = match csv.comment {
                Some(mark) => writer.comment(mark),
                None => writer,
            };
            let writer = if csv.has_headers { writer } else { writer.no_headers() };
            as_rejects(writer, source, path)
        }
        FileFormat::FixedWidth(fixed) => as_rejects(fixed_writer(REJECTS, target, fixed), source, path),
        FileFormat::JsonLines => as_rejects(JsonLinesWriter::rows(REJECTS, target), source, path),
        _ => return Err(ItemError::fatal("rejects cannot be written in the format of this source")),
    })
}

fn as_rejects<L: Layout<Item = Row> + Sync>(
    writer: FileWriter<L>,
    source: &DataFile,
    path: &FilePath,
) -> SourceRejects<Row> {
    let writer = path.limit(writer.encoding(source.encoding), FileWriter::within);
    writer.for_rejects(source.skip_lines.try_into().unwrap_or(usize::MAX))
}

fn fixed_writer(name: &str, target: impl Into<PathBuf>, fixed: &FixedFormat) -> FixedWidthWriter<Row> {
    let mut writer = FixedWidthWriter::rows(name, target);
    for FixedColumn { name, range, align, pad } in &fixed.columns {
        writer = writer.column(&name.value, range.clone(), *align, *pad);
    }
    if fixed.counts_bytes { writer.in_bytes() } else { writer }
}

/// Required columns in order, if the output goes by order and not by name.
pub(super) fn order(file: &DataFile, chunk: &ChunkFile) -> Option<Vec<String>> {
    let named = file.format.columns();
    let columns = match file.format.is_ordered() {
        true if named.is_empty() => chunk.columns(),
        true => named,
        false => return None,
    };
    Some(columns).filter(|columns| !columns.is_empty())
}
