//! Sorts records by their keys in bounded memory: full buffers become sorted files, which are merged.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// As many files are merged into one, so that a sort of any size needs few open files.
const FILES_MAX: usize = 64;

/// Memory of a record besides its bytes.
const OVERHEAD: usize = 64;

/// No two records of a sort have the same key.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) content: Vec<u8>,
}

pub(super) struct Sorter {
    folder: PathBuf,
    memory_max: usize,
    memory: usize,
    records: Vec<Record>,
    /// Sorted files; one of each further level holds the records of [`FILES_MAX`] of the level before.
    levels: Vec<Vec<File>>,
}

impl Sorter {
    pub(super) fn new(folder: &Path, memory_max: usize) -> Self {
        let folder = folder.to_owned();
        Self { folder, memory_max, memory: 0, records: Vec::new(), levels: Vec::new() }
    }

    pub(super) fn push(&mut self, record: Record) {
        self.memory += record.key.len() + record.content.len() + OVERHEAD;
        self.records.push(record);
    }

    pub(super) fn is_full(&self) -> bool {
        self.memory >= self.memory_max
    }

    /// Writes the records in memory to a file.
    pub(super) fn spill(&mut self) -> io::Result<()> {
        self.records.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.memory = 0;
        let records = std::mem::take(&mut self.records);
        let mut file = write(&self.folder, records.into_iter().map(Ok))?;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(file);
            if self.levels[level].len() < FILES_MAX {
                break;
            }
            file = write(&self.folder, Merge::of(std::mem::take(&mut self.levels[level]))?)?;
        }
        Ok(())
    }

    /// The records in order.
    pub(super) fn finish(mut self) -> io::Result<Merge> {
        if self.levels.is_empty() {
            self.records.sort_unstable_by(|a, b| b.key.cmp(&a.key));
            return Ok(Merge { heads: BinaryHeap::new(), files: Vec::new(), records: self.records });
        }
        self.spill()?;
        Merge::of(self.levels.into_iter().flatten().collect())
    }
}

/// Records of sorted files, or of memory, in order.
pub(super) struct Merge {
    heads: BinaryHeap<Head>,
    files: Vec<BufReader<File>>,
    /// The last one comes first.
    records: Vec<Record>,
}

impl Merge {
    fn of(files: Vec<File>) -> io::Result<Self> {
        let files = files.into_iter().map(BufReader::new).collect();
        let mut merge = Self { heads: BinaryHeap::new(), files, records: Vec::new() };
        for index in 0..merge.files.len() {
            merge.refill(index)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, file: usize) -> io::Result<()> {
        if let Some(record) = read(&mut self.files[file])? {
            self.heads.push(Head { record, file });
        }
        Ok(())
    }
}

impl Iterator for Merge {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        let Some(Head { record, file }) = self.heads.pop() else { return self.records.pop().map(Ok) };
        match self.refill(file) {
            Ok(()) => Some(Ok(record)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// The first record that is left of a file. The least one is the greatest head.
#[derive(PartialEq, Eq)]
struct Head {
    record: Record,
    file: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.record.key.cmp(&self.record.key)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn write(folder: &Path, records: impl Iterator<Item = io::Result<Record>>) -> io::Result<File> {
    // A file without a name: its space is free again when it is closed, even if the process is killed.
    let mut output = BufWriter::new(tempfile::tempfile_in(folder)?);
    for record in records {
        let record = record?;
        for part in [&record.key, &record.content] {
            output.write_all(&(part.len() as u64).to_le_bytes())?;
            output.write_all(part)?;
        }
    }
    let mut file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    Ok(file)
}

fn read(input: &mut BufReader<File>) -> io::Result<Option<Record>> {
    let key = match part(input) {
        Ok(key) => key,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Record { key, content: part(input)? }))
}

fn part(input: &mut BufReader<File>) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    match input.take(length).read_to_end(&mut bytes)? as u64 == length {
        true => Ok(bytes),
        false => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(keys: &[Vec<u8>], memory_max: usize) -> (Vec<Vec<u8>>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(folder.path(), memory_max);
        for key in keys {
            sorter.push(Record { key: key.clone(), content: key.iter().rev().copied().collect() });
            if sorter.is_full() {
                sorter.spill().unwrap();
            }
        }
        let files = sorter.levels.iter().map(Vec::len).sum();
        let all: Vec<Record> = sorter.finish().unwrap().collect::<io::Result<_>>().unwrap();
        assert!(all.iter().all(|record| record.content.iter().rev().eq(record.key.iter())));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
        (all.into_iter().map(|record| record.key).collect(), files)
    }

    #[test]
    fn more_files_than_may_be_open_are_merged_in_levels() {
        let keys: Vec<Vec<u8>> =
            (0..20_000_u32).map(|n| (n * 7919 % 20_011).to_be_bytes().to_vec()).collect();

        let (found, files) = sorted(&keys, 3 * (OVERHEAD + 8));

        let mut expected = keys;
        expected.sort();
        assert_eq!(found, expected);
        assert!(files < 3 * FILES_MAX, "{files} files are open");
    }

    proptest! {
        #[test]
        fn any_keys_are_sorted_whether_they_fit_into_memory_or_not(
            keys in prop::collection::hash_set(prop::collection::vec(any::<u8>(), 0..6), 0..60),
            memory in 1..2000_usize,
        ) {
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let mut expected = keys.clone();
            expected.sort();
            prop_assert_eq!(sorted(&keys, memory).0, expected);
        }
    }
}
