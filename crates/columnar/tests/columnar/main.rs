//! Files that pyarrow and fastavro have made, and files that they read.
#![cfg(test)]

mod damaged;
mod reader;
mod writer;

use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_testkit::skip;

/// The variable that names a Python with pyarrow and fastavro.
const PYTHON: &str = "TIDEMILL_TEST_FORMATS_PYTHON";

const IMPORTS: &str = "
import json, os, sys, uuid, fastavro, pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc as ipc
from datetime import date, datetime, time, timezone
from decimal import Decimal
";

/// Files of all formats with the numbers up to 2,500: more than is decoded at once, in three groups.
const NUMBERS: &str = "
table = pa.table({'id': pa.array(range(2500), pa.int64()), 'name': [f'이름 {n}' for n in range(2500)]})
pq.write_table(table, 'a.parquet', row_group_size=1000, compression='zstd')
pq.write_table(table, 'gzip.parquet', compression='gzip')
pq.write_table(table, 'lz4.parquet', compression='lz4', use_dictionary=False)
with ipc.new_file('a.arrow', table.schema, options=ipc.IpcWriteOptions(compression='zstd')) as f:
    f.write_table(table, max_chunksize=1000)
with ipc.new_file('lz4.arrow', table.schema, options=ipc.IpcWriteOptions(compression='lz4')) as f:
    f.write_table(table)
with ipc.new_stream('stream.arrow', table.schema) as f:
    f.write_table(table, max_chunksize=1000)
schema = {'type': 'record', 'name': 'r', 'fields': [{'name': 'id', 'type': 'long'}, {'name': 'name', 'type': 'string'}]}
for codec in ['null', 'deflate', 'snappy', 'zstandard']:
    with open(f'{codec}.avro', 'wb') as f:
        fastavro.writer(f, schema, table.to_pylist(), codec=codec, sync_interval=4000)
";

const FILES: [&str; 10] = [
    "a.parquet",
    "gzip.parquet",
    "lz4.parquet",
    "a.arrow",
    "lz4.arrow",
    "stream.arrow",
    "null.avro",
    "deflate.avro",
    "snappy.avro",
    "zstandard.avro",
];

/// Threads of pyarrow may still end while Python does, which aborts it.
const END: &str = "\nsys.stdout.flush()\nos._exit(0)\n";

/// A folder for the files of one test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a program in Python prints; none if these tests are skipped.
    fn python(&self, program: &str) -> Option<String> {
        let python = skip::require("formats", std::env::var_os(PYTHON))?;
        let program = format!("{IMPORTS}{program}{END}");
        let ran = Command::new(python).arg("-c").arg(program).current_dir(&self.0).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Some(String::from_utf8(ran.stdout).unwrap().trim().to_owned())
    }
}

/// The error of a step that cannot go on.
fn fatal<T>(result: Result<T, ItemError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => {
            assert_eq!(error.kind_in(Phase::Read), ErrorKind::FATAL, "{error}");
            error.text()
        }
    }
}
