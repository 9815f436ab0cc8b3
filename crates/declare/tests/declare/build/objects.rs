//! Names of objects that look like patterns.

use super::Stand;
use std::io;
use std::path::Path;
use tidemill_engine::item::storage::{self, Content, Depth, Existing, Listed, Storage};
use tidemill_engine::item::{ReadAt, Source};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![names_of_objects_are_not_patterns];

/// Each has its own name as its only line.
const OBJECTS: [&str; 3] = ["s3://lake/in/r1.txt", "s3://lake/in/r[1].txt", "s3://lake/in/what?.txt"];

struct Lake;

struct Text(&'static str);

impl ReadAt for Text {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = &self.0.as_bytes()[usize::try_from(offset).unwrap().min(self.0.len())..];
        let got = rest.len().min(buffer.len());
        buffer[..got].copy_from_slice(&rest[..got]);
        Ok(got)
    }
}

impl Storage for Lake {
    fn open(&self, url: &str) -> io::Result<Source> {
        let text = OBJECTS.iter().find(|object| **object == url).ok_or(io::ErrorKind::NotFound)?;
        Ok(Source::new(Text(text)))
    }

    fn list(&self, folder: &str, _: Depth, _: usize) -> io::Result<Vec<Listed>> {
        let found = OBJECTS.iter().filter(|object| object.starts_with(folder));
        Ok(found.map(|url| Listed { url: url.to_string(), size: url.len() as u64 }).collect())
    }

    fn find(&self, url: &str) -> io::Result<Option<String>> {
        Ok(OBJECTS.contains(&url).then(String::new))
    }

    fn put(&self, _: Content, _: &str, _: Existing, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn delete(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn spool(&self) -> io::Result<&Path> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

async fn names_of_objects_are_not_patterns(scratch: Scratch) {
    storage::install(Lake);
    let stand = Stand::on(scratch).await;
    stand.sql(&["create table lines (line varchar(100))"]).await;
    let read = |path: &str, partitions: &str| {
        let name = if partitions.is_empty() { "one" } else { "divided" };
        format!(
            "job: {name}\nsteps:\n  - name: lines\n    chunk: 10\n{partitions}    \
             read: {{ csv: {{ path: \"{path}\", header: false, columns: [line] }} }}\n    \
             write: {{ sql: {{ table: lines, columns: [line] }} }}\n"
        )
    };

    let divided = stand
        .run(&read("${file}", "    partitions: { by: file, pattern: 's3://lake/in/*.txt' }\n"), &[])
        .await;
    let parts = stand.texts("select line from lines order by line").await;
    stand.sql(&["delete from lines"]).await;
    let one = stand.run(&read("s3://lake/in/r[1].txt", ""), &[]).await;

    assert!(divided.is_completed() && one.is_completed(), "{:?}, {:?}", divided.end, one.end);
    assert_eq!(parts, OBJECTS);
    assert_eq!(stand.texts("select line from lines").await, [OBJECTS[1]]);
}
