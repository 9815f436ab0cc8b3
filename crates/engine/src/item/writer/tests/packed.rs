//! Packed files, through crashes and rollbacks: valid at every commit, and each item in them once.

use super::{Balance, Folder, Run, balances};
use crate::item::compression::Unpacked;
use crate::item::{Compression, CsvWriter, Source};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tidemill_domain::job::ExecutionContext;

const PACKED: [(&str, Compression); 2] =
    [("out.csv.gz", Compression::Gzip), ("out.csv.zst", Compression::Zstd)];

fn unpacked(path: &Path, compression: Compression) -> String {
    let mut text = String::new();
    let file = Source::new(File::open(path).unwrap());
    Unpacked::new(file, compression).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn lines(items: std::ops::Range<i64>) -> String {
    let mut expected = csv::Writer::from_writer(Vec::new());
    balances(items).iter().for_each(|item| expected.serialize(item).unwrap());
    String::from_utf8(expected.into_inner().unwrap()).unwrap()
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_each_item_in_the_packed_file_once() {
    for (name, compression) in PACKED {
        for crash in 0..=4 {
            let folder = Folder::new();
            let (path, part) = (folder.path(name), folder.path(&format!("{name}.part")));
            let writer = || CsvWriter::<Balance>::new("out", &path).sync(false);
            let all = balances(0..8);
            let chunks: Vec<_> = all.chunks(2).collect();
            let mut first = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
            for (index, chunk) in chunks[..crash].iter().enumerate() {
                first.commit(chunk).await;
                let so_far = 2 * (index as i64 + 1);
                assert_eq!(unpacked(&part, compression), lines(0..so_far), "valid after each commit");
            }
            let saved = first.die_in(chunks.get(crash).copied()).await;

            let mut second = Run::open(writer(), &saved).await.unwrap();
            for chunk in &chunks[crash..] {
                second.commit(chunk).await;
            }
            second.complete::<Balance>().await;

            assert_eq!(unpacked(&path, compression), lines(0..8), "{name}, crash in chunk {crash}");
        }
    }
}

#[tokio::test]
async fn a_packed_file_without_items_can_be_unpacked() {
    for (name, compression) in PACKED {
        let folder = Folder::new();
        let path = folder.path(name);

        let run = Run::open(CsvWriter::<Balance>::new("out", &path), &ExecutionContext::new()).await.unwrap();
        run.complete::<Balance>().await;

        assert_ne!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(unpacked(&path, compression), "");
    }
}
