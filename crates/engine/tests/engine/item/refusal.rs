//! Files that cannot be read at all, or not from where the last run stopped.

use super::{Folder, fatal, gzip, open, read, saved};
use std::path::Path;
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::{CsvReader, FixedWidthReader};
use tidemill_engine::job::component::ItemReader;

type Pair = (u32, String);

fn reader(path: &Path) -> CsvReader<Pair> {
    CsvReader::new("in", path).no_headers()
}

/// What is saved after two records of a file.
async fn stopped_after_two(path: &Path) -> ExecutionContext {
    let mut first = open(reader(path), &ExecutionContext::new()).await.unwrap();
    assert_eq!(read(&mut first, 2).await.len(), 2);
    saved(&mut first)
}

#[tokio::test]
async fn a_missing_file_is_named_with_a_remedy() {
    let folder = Folder::new();
    let path = folder.path("missing.csv");

    let error = fatal(open(reader(&path), &ExecutionContext::new()).await);

    assert!(error.contains(path.to_str().unwrap()) && error.contains("check that it exists"), "{error}");
    fatal(open(reader(folder.path("").as_path()), &ExecutionContext::new()).await);
}

#[tokio::test]
async fn a_file_that_has_shrunk_is_refused() {
    let folder = Folder::new();
    for (before, after) in [
        (b"1,a\n2,b\n3,c\n".to_vec(), b"1,a\n".to_vec()),
        (b"1,a\n2,b\n3,c\n".to_vec(), b"".to_vec()),
        (gzip("1,a\n2,b\n3,c\n"), gzip("1,a\n")),
    ] {
        let path = folder.put("in.csv", before);
        let context = stopped_after_two(&path).await;

        folder.put("in.csv", after);

        let error = fatal(open(reader(&path), &context).await);
        assert!(error.contains("ends before byte 8") && error.contains("put back the file"), "{error}");
    }
}

#[tokio::test]
async fn a_large_file_that_has_shrunk_is_refused_too() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "1,a\n".repeat(100_000));
    let mut first = open(reader(&path), &ExecutionContext::new()).await.unwrap();
    read(&mut first, 90_000).await;
    let context = saved(&mut first);

    folder.put("in.csv", "1,a\n".repeat(80_000));

    assert!(fatal(open(reader(&path), &context).await).contains("ends before byte 360000"));
}

#[tokio::test]
async fn a_file_in_which_no_record_begins_there_any_more_is_refused() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "1,a\n2,b\n3,c\n");
    let context = stopped_after_two(&path).await;

    folder.put("in.csv", "10,aa\n20,bb\n30,cc\n");

    assert!(fatal(open(reader(&path), &context).await).contains("was changed"));
}

#[tokio::test]
async fn a_quote_that_is_never_closed_ends_the_step_instead_of_swallowing_the_rest() {
    let folder = Folder::new();
    for rest in ["2,b\n".repeat(3), "2,b\n".repeat(500_000)] {
        let path = folder.put("in.csv", format!("1,a\n1,\"a\n{rest}"));
        let mut reader = open(reader(&path), &ExecutionContext::new()).await.unwrap();
        read(&mut reader, 1).await;

        let error = fatal(reader.read().await);

        assert!(error.contains("line 2 is not closed"), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_gzip_or_ends_early_or_is_utf_16_is_refused() {
    let folder = Folder::new();
    let packed = gzip("1,a\n".repeat(1000));
    let context = ExecutionContext::new();

    let not_packed = fatal(open(reader(&folder.put("a.gz", "1,a\n")), &context).await);
    let cut = fatal(open(reader(&folder.put("b.gz", &packed[..packed.len() - 9])), &context).await);
    let utf_16 = fatal(open(reader(&folder.put("c.csv", b"\xff\xfe1\0,\0")), &context).await);

    assert!(not_packed.contains("mend or replace it") && cut.contains("mend or replace it"));
    assert!(utf_16.contains("convert it to UTF-8"));
}

#[tokio::test]
async fn a_reader_that_cannot_work_says_so_when_it_is_opened() {
    let folder = Folder::new();
    let path = folder.put("in.csv", "1,a\n");
    let context = ExecutionContext::new();
    let mut odd = ExecutionContext::new();
    odd.put("in.position", -5);

    assert!(fatal(open(reader(&path).delimiter(b'x'), &context).await).contains("cannot be a delimiter"));
    assert!(fatal(open(reader(&path).quote(b','), &context).await).contains("must differ"));
    let fixed = || FixedWidthReader::<Pair>::new("in", &path);
    assert!(fatal(open(fixed(), &context).await).contains("no column"));
    assert!(fatal(open(fixed().column("id", 3..3), &context).await).contains("\"id\" has no characters"));
    assert!(fatal(open(reader(&path), &odd).await).contains("in.position is -5"));
}
