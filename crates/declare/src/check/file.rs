//! Files of a chunk step: options that go together, and columns that do.

use super::Checker;
use crate::model::{
    At, ChunkFile, CsvFormat, DataFile, FileFormat, FixedFormat, PartitionBy, ReadFile, StepFile, Work,
    WriteFile, XmlFormat,
};
use std::path::Path;
use tidemill_engine::item::Compression;
use tidemill_engine::item::storage::SCHEMES;
use tidemill_engine::item::writer::xml::is_xml_name;

pub(crate) const BUILT_WITHOUT_COLUMNAR: &str = "this program was built without Parquet, Arrow and Avro";

impl Checker<'_> {
    pub(super) fn data_files(&mut self, chunk: &ChunkFile) {
        for read in chunk.reads() {
            let ReadFile::File(file) = read else { continue };
            match &file.format {
                FileFormat::Csv(csv) if !csv.has_headers && csv.columns.is_empty() => {
                    let what = "a file without a header needs the names of its columns";
                    self.wrong(&file.path, what, "add columns: [first, second]");
                }
                FileFormat::Csv(csv) => self.csv_columns_twice(file, csv),
                _ => {}
            }
            self.data_file(file);
        }
        if let Some(reject) = chunk.reject_source() {
            match &chunk.read.value {
                ReadFile::File(DataFile { format: FileFormat::FixedWidth(fixed), .. }) => {
                    self.overlapping(fixed);
                }
                ReadFile::File(DataFile { format: FileFormat::Csv(_) | FileFormat::JsonLines, .. }) => {}
                _ => {
                    let what = "reject_source needs a source of lines: csv, jsonl or fixed_width";
                    self.wrong(reject, what, "write reject: with a file, which keeps items as JSON");
                }
            }
        }
        for write in chunk.write.value.all() {
            let WriteFile::File(file) = write else { continue };
            self.data_file(file);
            self.packed_name(file);
            match &file.format {
                FileFormat::FixedWidth(fixed) => self.overlapping(fixed),
                FileFormat::Xml(xml) => self.xml_names(xml, chunk),
                _ => {}
            }
        }
    }

    /// Refuses paths in object stores.
    pub(super) fn objects(&mut self, step: &StepFile) {
        let Work::Chunk(chunk) = &step.work else { return };
        let reads = chunk.reads().filter_map(|read| match read {
            ReadFile::File(file) => Some(&file.path),
            _ => None,
        });
        let writes = chunk.write.value.all().into_iter().filter_map(|write| match write {
            WriteFile::File(file) => Some(&file.path),
            _ => None,
        });
        let pattern = chunk.partitions.as_ref().and_then(|partitions| match &partitions.value.by {
            PartitionBy::File { pattern } | PartitionBy::RowGroup { pattern } => Some(pattern),
            PartitionBy::Range { .. } => None,
        });
        let others = pattern.into_iter().chain(chunk.reject()).chain(chunk.reject_source());
        for path in reads.chain(writes).chain(others) {
            if SCHEMES.iter().any(|scheme| path.value.starts_with(scheme)) {
                let fix =
                    "build it with `cargo build --release --features objects`, or use a packaged program";
                self.wrong(path, "this program was built without object stores", fix);
            }
        }
    }

    /// Checks what is the same for reading and writing.
    fn data_file(&mut self, file: &DataFile) {
        if let Some((scheme, _)) = file.path.value.split_once("://")
            && !SCHEMES.iter().any(|known| file.path.value.starts_with(known))
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            let what = format!("there are no files under {scheme}://");
            let fix = format!("write the path of a local file, or one of {}", SCHEMES.join(", "));
            self.wrong(&file.path, what, fix);
        }
        let object = SCHEMES.iter().find_map(|scheme| file.path.value.strip_prefix(scheme));
        if let Some(object) = object
            && (object.ends_with('/') || !object.contains(['/', '$']))
        {
            let what = format!("{} is a bucket or a folder, and not an object", file.path.value);
            self.wrong(
                &file.path,
                what,
                "write the key of the object after the bucket, as in s3://lake/out.csv",
            );
        }
        if matches!(file.format, FileFormat::Columnar(_)) && !cfg!(feature = "columnar") {
            let fix = "build it with `cargo build --release --features columnar`, or use a packaged program";
            self.wrong(&file.path, BUILT_WITHOUT_COLUMNAR, fix);
        }
        if let FileFormat::Csv(csv) = &file.format {
            let marks: Vec<u8> =
                [Some(csv.delimiter), csv.quote, csv.comment].into_iter().flatten().collect();
            if (1..marks.len()).any(|index| marks[..index].contains(&marks[index])) {
                let what = "delimiter, quote and comment are the same character";
                self.wrong(&file.path, what, "choose different characters");
            }
        }
    }

    /// Such a file would not be what its name says.
    fn packed_name(&mut self, file: &DataFile) {
        let FileFormat::Columnar(columnar) = &file.format else { return };
        if Compression::of_name(Path::new(&file.path.value)) != Compression::None {
            let what = format!("a file of {} is not packed as a whole", columnar.kind);
            self.wrong(
                &file.path,
                what,
                "leave out the end of the name; its data is packed as compression says",
            );
        }
    }

    fn csv_columns_twice(&mut self, file: &DataFile, csv: &CsvFormat) {
        for (index, name) in csv.columns.iter().enumerate() {
            if let Some(first) = csv.columns[..index].iter().position(|other| other == name) {
                let what = format!("columns {} and {} are both named {name:?}", first + 1, index + 1);
                self.wrong(&file.path, what, "give one of them another name");
            }
        }
    }

    fn xml_names(&mut self, xml: &XmlFormat, chunk: &ChunkFile) {
        let columns = chunk.process.map.iter().map(|(column, _)| column);
        for name in [&xml.record].into_iter().chain(&xml.root).chain(columns) {
            if !is_xml_name(&name.value) {
                let what = format!("{:?} cannot be the name of an XML element", name.value);
                self.wrong(
                    name,
                    what,
                    "choose a name of letters, digits, - _ and . that begins with a letter",
                );
            }
        }
    }

    fn overlapping(&mut self, fixed: &FixedFormat) {
        let mut columns: Vec<_> = fixed.columns.iter().collect();
        columns.sort_by_key(|column| column.range.start);
        for pair in columns.windows(2) {
            if pair[0].range.end > pair[1].range.start {
                let other: &At<String> = &pair[1].name;
                let what = format!("the columns {:?} and {:?} overlap", pair[0].name.value, other.value);
                self.wrong(other, what, "give each column its own positions");
            }
        }
    }
}
