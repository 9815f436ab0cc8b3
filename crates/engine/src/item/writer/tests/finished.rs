//! Files that are made of their rows at the end of the step, through crashes at every point.

use super::{Folder, Run, chunk, fatal, text};
use crate::item::writer::file::{Beginning, FileWriter, Finish, Layout};
use crate::job::{ItemStream, ItemWriter};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::item::{ItemError, Row};
use tidemill_domain::job::ExecutionContext;

/// Lines, and their number at the end.
#[derive(Clone, Default)]
struct Counted {
    /// Whether the process dies while it makes the file.
    dies: Arc<AtomicBool>,
}

impl Layout for Counted {
    type Item = Row;

    fn add(&mut self, rows: &[Row], _: Beginning, text: &mut Vec<u8>) -> Result<(), ItemError> {
        rows.iter().for_each(|row| text.extend(format!("{}\n", row.values()[0]).bytes()));
        Ok(())
    }

    fn finish(&self) -> Result<Option<Finish>, String> {
        let dies = self.dies.clone();
        Ok(Some(Arc::new(move |mut part, mut file| {
            let mut lines = String::new();
            part.read_to_string(&mut lines).unwrap();
            file.write_all(lines.as_bytes()).unwrap();
            if dies.load(Ordering::Relaxed) {
                return Err("no space".to_owned());
            }
            writeln!(file, "{} lines", lines.lines().count()).map_err(|error| error.to_string())
        })))
    }
}

fn rows(numbers: std::ops::Range<i64>) -> Vec<Row> {
    numbers.map(|number| Row::new(["n".to_owned()].into(), vec![number.into()])).collect()
}

#[tokio::test]
async fn a_crash_at_any_point_leaves_each_item_in_the_file_once() {
    let folder = Folder::new();
    let path = folder.path("out");
    let writer = || FileWriter::of("out", &path, Counted::default()).sync(false);
    let all = rows(0..5);
    let chunks: Vec<_> = all.chunks(2).collect();
    for crash in 0..=chunks.len() {
        let mut first = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
        for chunk in &chunks[..crash] {
            first.commit(chunk).await;
        }
        // This chunk does not commit, although it is on disk.
        if let Some(lost) = chunks.get(crash) {
            first.writer.write(lost, &mut chunk().await).await.unwrap();
        }
        let saved = ExecutionContext::from_text(&first.context.to_text().unwrap()).unwrap();
        drop(first);
        assert!(!path.exists());

        let mut second = Run::open(writer(), &saved).await.unwrap();
        for chunk in &chunks[crash..] {
            second.commit(chunk).await;
        }
        let context = second.complete::<Row>().await;

        assert_eq!(text(&path), "0\n1\n2\n3\n4\n5 lines\n", "crash in chunk {crash}");
        assert_eq!(folder.names(), ["out"]);
        assert_eq!(context.get_long("out.written"), Some(5));
        std::fs::remove_file(&path).unwrap();
    }
}

#[tokio::test]
async fn a_crash_while_the_file_is_made_or_named_or_before_that_is_recorded_is_found_out() {
    let folder = Folder::new();
    let path = folder.path("out");
    let format = Counted::default();
    let writer = || FileWriter::of("out", &path, format.clone());
    let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
    run.commit(&rows(0..3)).await;
    let saved = run.context.clone();
    format.dies.store(true, Ordering::Relaxed);
    assert!(fatal(run.writer.close(true).await).contains("no space"));
    drop(run);
    format.dies.store(false, Ordering::Relaxed);
    assert_eq!(folder.names(), ["out.part", "out.whole"]);
    let part = std::fs::read(folder.path("out.part")).unwrap();

    Run::open(writer(), &saved).await.unwrap().complete::<Row>().await;
    assert_eq!((text(&path).as_str(), folder.names().len()), ("0\n1\n2\n3 lines\n", 1));

    // The file has its name, and the part is still there or is gone.
    for is_there in [true, false] {
        if is_there {
            std::fs::write(folder.path("out.part"), &part).unwrap();
        }
        let mut again = Run::open(writer(), &saved).await.unwrap();
        let more = again.writer.write(&rows(3..4), &mut chunk().await).await;
        again.writer.roll_back().await.unwrap();
        again.complete::<Row>().await;

        assert!(fatal(more).contains("already published"));
        assert_eq!((text(&path).as_str(), folder.names().len()), ("0\n1\n2\n3 lines\n", 1));
    }
}

#[tokio::test]
async fn a_rollback_forgets_its_chunk_and_a_lost_part_is_refused() {
    let folder = Folder::new();
    let path = folder.path("out");
    let writer = || FileWriter::of("out", &path, Counted::default());
    let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
    run.commit(&rows(0..1)).await;
    run.writer.write(&rows(1..3), &mut chunk().await).await.unwrap();
    run.writer.roll_back().await.unwrap();
    run.commit(&rows(3..4)).await;
    let saved = run.context.clone();
    run.complete::<Row>().await;

    assert_eq!(text(&path), "0\n3\n2 lines\n");
    std::fs::remove_file(&path).unwrap();
    assert!(fatal(Run::open(writer(), &saved).await).contains("is gone"));
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_when_that_is_allowed() {
    let folder = Folder::new();
    let path = folder.path("out");
    std::fs::write(&path, "old").unwrap();
    let writer = || FileWriter::of("out", &path, Counted::default());

    assert!(fatal(Run::open(writer(), &ExecutionContext::new()).await).contains("exists already"));
    Run::open(writer().overwrite(), &ExecutionContext::new()).await.unwrap().complete::<Row>().await;

    assert_eq!(text(&path), "0 lines\n");
}
