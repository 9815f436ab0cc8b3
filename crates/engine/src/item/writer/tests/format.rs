//! Formats that have more than lines: what a crash and a rollback at any point leave.

use super::{Folder, Run, balances, chunk, text};
use crate::item::JsonWriter;
use crate::item::writer::FileWriter;
use crate::item::writer::file::Layout;
use crate::job::{ItemStream, ItemWriter};
use std::path::Path;
use tidemill_domain::job::ExecutionContext;

/// The content of the file, which is the same wherever the writer dies or rolls back.
async fn check_every_crash<L: Layout>(make: impl Fn(&Path) -> FileWriter<L>, items: &[L::Item]) -> String {
    let folder = Folder::new();
    let path = folder.path("out");
    let mut whole = Run::open(make(&path).sync(false), &ExecutionContext::new()).await.unwrap();
    whole.commit(items).await;
    whole.complete::<L::Item>().await;
    let expected = text(&path);
    for size in 1..=3 {
        let chunks: Vec<_> = items.chunks(size).collect();
        for crash in 0..=chunks.len() {
            std::fs::remove_file(&path).unwrap();
            let mut first = Run::open(make(&path).sync(false), &ExecutionContext::new()).await.unwrap();
            for items in &chunks[..crash] {
                first.writer.write(items, &mut chunk().await).await.unwrap();
                first.writer.roll_back().await.unwrap();
                first.commit(items).await;
            }
            match chunks.get(crash) {
                // This chunk does not commit, although it is on disk.
                Some(lost) => first.writer.write(lost, &mut chunk().await).await.unwrap(),
                // The end is written, and the file not renamed: its place is taken.
                None => {
                    std::fs::create_dir(&path).unwrap();
                    first.writer.close(true).await.unwrap_err();
                    std::fs::remove_dir(&path).unwrap();
                }
            }
            let saved = ExecutionContext::from_text(&first.context.to_text().unwrap()).unwrap();
            drop(first);

            let mut second = Run::open(make(&path).sync(false), &saved).await.unwrap();
            for items in &chunks[crash..] {
                second.commit(items).await;
            }
            second.complete::<L::Item>().await;

            assert_eq!(text(&path), expected, "chunks of {size}, crash in chunk {crash}");
        }
    }
    expected
}

#[tokio::test]
async fn an_array_is_closed_once_and_has_each_value_once() {
    let written = check_every_crash(|path| JsonWriter::new("out", path), &balances(0..7)).await;

    let values: Vec<serde_json::Value> = serde_json::from_str(&written).unwrap();
    let expected = serde_json::to_value(balances(0..7)).unwrap();
    assert_eq!(serde_json::Value::from(values), expected);
    assert_eq!(written.lines().count(), 9, "one value per line");
}

#[tokio::test]
async fn an_array_without_values_is_an_array() {
    let folder = Folder::new();
    let path = folder.path("out.json");

    let run = Run::open(JsonWriter::<u8>::new("out", &path), &ExecutionContext::new()).await.unwrap();
    run.complete::<u8>().await;

    assert_eq!(serde_json::from_str::<Vec<u8>>(&text(&path)).unwrap(), [0; 0]);
}
