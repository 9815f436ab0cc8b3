//! The output that exists only when something is written into it, as used for rejects.

use super::{Folder, text};
use crate::item::file_output::FileOutput;
use tidemill_domain::job::ExecutionContext;

async fn open(folder: &Folder, saved: &ExecutionContext) -> FileOutput {
    let mut output = FileOutput::lazy("rejects", folder.path("rejects.jsonl"));
    output.open(saved).await.unwrap();
    output
}

#[tokio::test]
async fn without_a_line_there_is_never_a_file() {
    let folder = Folder::new();
    std::fs::write(folder.path("rejects.jsonl.part"), "left behind").unwrap();
    let mut context = ExecutionContext::new();
    let mut output = open(&folder, &context).await;

    output.flush().await.unwrap();
    output.update(&mut context);
    output.roll_back().await.unwrap();
    output.publish().await.unwrap();

    assert_eq!(folder.names(), Vec::<String>::new());
    assert!(context.is_empty());
}

#[tokio::test]
async fn a_file_whose_only_lines_were_rolled_back_is_not_published() {
    let folder = Folder::new();
    let mut output = open(&folder, &ExecutionContext::new()).await;

    output.append(b"{}\n");
    output.flush().await.unwrap();
    output.roll_back().await.unwrap();
    output.publish().await.unwrap();

    assert_eq!(folder.names(), Vec::<String>::new());
}

#[tokio::test]
async fn lines_that_were_kept_survive_a_crash_and_others_do_not() {
    let folder = Folder::new();
    let mut context = ExecutionContext::new();
    let mut first = open(&folder, &context).await;
    first.append(b"1\n");
    first.flush().await.unwrap();
    first.update(&mut context);
    first.append(b"lost\n");
    first.flush().await.unwrap();
    drop(first);

    let mut second = open(&folder, &context).await;
    second.append(b"not flushed\n");
    second.roll_back().await.unwrap();
    second.append(b"2\n");
    assert_eq!(second.offset(), 4);
    second.publish().await.unwrap();

    assert_eq!(folder.names(), ["rejects.jsonl"]);
    assert_eq!(text(&folder.path("rejects.jsonl")), "1\n2\n");
}
