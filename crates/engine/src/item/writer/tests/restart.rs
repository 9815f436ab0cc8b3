//! The content of the file after crashes, rollbacks and restarts.

use super::{Balance, Folder, Run, balances, chunk, fatal, text};
use crate::item::CsvWriter;
use crate::job::{ItemStream, ItemWriter};
use tidemill_domain::job::ExecutionContext;

#[tokio::test]
async fn a_crash_at_any_point_leaves_each_item_in_the_file_once() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = || CsvWriter::<Balance>::new("out", &path).sync(false);
    for items in 1..8 {
        for size in 1..4 {
            let all = balances(0..items);
            let chunks: Vec<_> = all.chunks(size).collect();
            for crash in 0..=chunks.len() {
                let mut first = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
                for chunk in &chunks[..crash] {
                    first.commit(chunk).await;
                }
                let saved = first.die_in(chunks.get(crash).copied()).await;

                let mut second = Run::open(writer(), &saved).await.unwrap();
                for chunk in &chunks[crash..] {
                    second.commit(chunk).await;
                }
                let context = second.complete::<Balance>().await;

                let mut expected = csv::Writer::from_writer(Vec::new());
                all.iter().for_each(|item| expected.serialize(item).unwrap());
                let expected = String::from_utf8(expected.into_inner().unwrap()).unwrap();
                assert_eq!(text(&path), expected, "{items} items by {size}, crash in chunk {crash}");
                assert_eq!(context.get_long("out.written"), Some(items));
                assert_eq!(context.get_long("out.current.count"), Some(expected.len() as i64));
                std::fs::remove_file(&path).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_rollback_forgets_its_chunk_and_only_that() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();

    run.writer.write(&balances(0..2), &mut chunk().await).await.unwrap();
    run.writer.roll_back().await.unwrap();
    run.commit(&balances(0..1)).await;
    run.writer.write(&balances(1..3), &mut chunk().await).await.unwrap();
    run.writer.roll_back().await.unwrap();
    run.commit(&balances(2..4)).await;
    let context = run.complete::<Balance>().await;

    assert_eq!(text(&path), "account,amount\n김철수,0\n\"say \"\"x\"\"\",2\nplain,3\n");
    assert_eq!(context.get_long("out.written"), Some(3));
}

#[tokio::test]
async fn a_rollback_before_anything_was_written_leaves_the_last_chunk_alone() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(0..1)).await;

    // A processor failed, so this chunk never reached its writer.
    run.writer.roll_back().await.unwrap();
    run.writer.roll_back().await.unwrap();
    run.commit(&balances(3..4)).await;
    run.complete::<Balance>().await;

    assert_eq!(text(&path), "account,amount\n김철수,0\nplain,3\n");
}

#[tokio::test]
async fn an_unfinished_file_that_is_gone_or_too_short_is_refused() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let part = folder.path("out.csv.part");
    let writer = || CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(3..4)).await;
    ItemStream::close(&mut run.writer, false).await.unwrap();
    let length = text(&part).len() as u64;

    std::fs::File::options().write(true).open(&part).unwrap().set_len(length - 1).unwrap();
    let short = fatal(Run::open(writer(), &run.context).await);
    std::fs::remove_file(&part).unwrap();
    let missing = fatal(Run::open(writer(), &run.context).await);

    let lengths = format!("has {} bytes, but the last run had committed {length}", length - 1);
    assert!(short.contains(&lengths) && short.contains("put it back"), "{short}");
    assert!(missing.contains("is gone; put it back"), "{missing}");
}

#[tokio::test]
async fn what_an_earlier_job_left_unfinished_is_not_taken_over_by_a_first_run() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    std::fs::write(folder.path("out.csv.part"), "left behind").unwrap();

    let writer = CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(3..4)).await;
    run.complete::<Balance>().await;

    assert_eq!(text(&path), "account,amount\nplain,3\n");
}

#[tokio::test]
async fn a_crash_between_publishing_and_recording_it_is_found_out() {
    let folder = Folder::new();
    for (name, is_replacing) in [("kept", false), ("replaced", true)] {
        let path = folder.path(name);
        let writer = || {
            let writer = CsvWriter::<Balance>::new("out", &path).columns(["account", "amount"]);
            if is_replacing { writer.overwrite() } else { writer }
        };
        for items in [balances(0..0), balances(2..4)] {
            let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
            run.commit(&items).await;
            let saved = run.complete::<Balance>().await;
            let published = text(&path);

            let mut again = Run::open(writer(), &saved).await.unwrap();
            let more = again.writer.write(&balances(0..1), &mut chunk().await).await;
            again.writer.roll_back().await.unwrap();
            again.complete::<Balance>().await;

            assert!(fatal(more).contains("already published"));
            assert_eq!(text(&path), published);
            std::fs::remove_file(&path).unwrap();
        }
    }
}

#[tokio::test]
async fn an_old_file_is_not_mistaken_for_the_published_one() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = || CsvWriter::<Balance>::new("out", &path).overwrite();
    std::fs::write(&path, "account,amount\nplain,7\n").unwrap();
    let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(3..4)).await;
    ItemStream::close(&mut run.writer, false).await.unwrap();

    std::fs::remove_file(folder.path("out.csv.part")).unwrap();

    assert!(fatal(Run::open(writer(), &run.context).await).contains("is gone"));
}

#[tokio::test]
async fn a_file_that_was_skipped_because_it_was_empty_does_not_stop_a_restart() {
    let folder = Folder::new();
    let writer = || CsvWriter::<Balance>::new("out", folder.path("out.csv")).skip_if_empty();
    let mut run = Run::open(writer(), &ExecutionContext::new()).await.unwrap();
    run.commit(&[]).await;
    let saved = run.complete::<Balance>().await;

    Run::open(writer(), &saved).await.unwrap().complete::<Balance>().await;

    assert_eq!(folder.names(), Vec::<String>::new());
}
