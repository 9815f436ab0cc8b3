//! Writers of files, through crashes and rollbacks. Here rather than under `tests`, because only the crate
//! itself can make a chunk.

mod finished;
mod format;
mod output;
mod packed;
mod restart;

use crate::item::{CsvWriter, Encoding, JsonLinesWriter, TextWriter};
use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidemill_domain::item::{ErrorKind, ItemError, Phase, Row, Value};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tokio::sync::OnceCell;

#[derive(Serialize, Clone, PartialEq, Debug)]
struct Balance {
    account: String,
    amount: i64,
}

fn balances(numbers: std::ops::Range<i64>) -> Vec<Balance> {
    let account = |number| ["김철수", "two\nlines", "say \"x\"", "plain"][number as usize % 4].to_owned();
    numbers.map(|number| Balance { account: account(number), amount: number }).collect()
}

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
}

/// A chunk whose transaction never begins, so one database serves all tests.
async fn chunk() -> ChunkScope {
    static STORE: OnceCell<Store> = OnceCell::const_new();
    let store = STORE.get_or_init(|| async { Scratch::memory().store(None).await.unwrap() }).await;
    ChunkScope::new(store.clone(), None, None)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// A running step with one writer, as the engine drives it.
struct Run<W> {
    writer: W,
    context: ExecutionContext,
}

impl<W> Run<W> {
    /// Opens a writer with the context of an earlier run.
    async fn open<O>(mut writer: W, saved: &ExecutionContext) -> Result<Self, ItemError>
    where
        W: ItemWriter<O>,
    {
        writer.open(saved).await?;
        Ok(Self { writer, context: saved.clone() })
    }

    /// A chunk that commits.
    async fn commit<O>(&mut self, items: &[O])
    where
        W: ItemWriter<O>,
    {
        self.writer.write(items, &mut chunk().await).await.unwrap();
        self.writer.update(&mut self.context).unwrap();
    }

    /// Dies: this chunk does not commit, although it is on disk. Returns what was saved.
    async fn die_in<O>(mut self, lost: Option<&[O]>) -> ExecutionContext
    where
        W: ItemWriter<O>,
    {
        if let Some(lost) = lost {
            self.writer.write(lost, &mut chunk().await).await.unwrap();
        }
        ExecutionContext::from_text(&self.context.to_text().unwrap()).unwrap()
    }

    /// The end of a step that has done everything.
    async fn complete<O>(mut self) -> ExecutionContext
    where
        W: ItemWriter<O>,
    {
        self.writer.close(true).await.unwrap();
        self.context
    }
}

fn fatal<T>(result: Result<T, ItemError>) -> String {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => {
            assert_eq!(error.kind_in(Phase::Write), ErrorKind::FATAL, "{error}");
            error.text()
        }
    }
}

#[tokio::test]
async fn a_file_appears_under_its_name_only_when_it_is_complete() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();

    run.commit(&balances(0..2)).await;
    assert_eq!(folder.names(), ["out.csv.part"]);
    run.commit(&balances(2..4)).await;
    assert_eq!(folder.names(), ["out.csv.part"]);
    run.complete::<Balance>().await;

    assert_eq!(folder.names(), ["out.csv"]);
    let expected = "account,amount\n김철수,0\n\"two\nlines\",1\n\"say \"\"x\"\"\",2\nplain,3\n";
    assert_eq!(text(&path), expected);
}

#[tokio::test]
async fn a_step_that_fails_publishes_nothing() {
    let folder = Folder::new();
    let writer = CsvWriter::<Balance>::new("out", folder.path("out.csv"));
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(0..2)).await;

    ItemStream::close(&mut run.writer, false).await.unwrap();

    assert_eq!(folder.names(), ["out.csv.part"]);
}

#[tokio::test]
async fn each_format_has_its_own_lines_and_all_of_them_arrive_once() {
    let folder = Folder::new();
    let first = ExecutionContext::new();
    let row = Row::new(["id".to_owned(), "memo".to_owned()].into(), vec![7.into(), Value::Null]);
    let (csv, rows) = (folder.path("csv"), folder.path("rows"));
    let (json, plain) = (folder.path("json"), folder.path("plain"));

    let writer = CsvWriter::new("out", &csv).delimiter(b';').crlf().columns(["계좌", "금액"]);
    let mut run = Run::open(writer, &first).await.unwrap();
    run.commit(&balances(3..4)).await;
    run.complete::<Balance>().await;
    let mut run = Run::open(CsvWriter::rows("out", &rows), &first).await.unwrap();
    run.commit(&[row.clone(), row]).await;
    run.complete::<Row>().await;
    let mut run = Run::open(JsonLinesWriter::new("out", &json), &first).await.unwrap();
    run.commit(&balances(1..2)).await;
    assert_eq!(ItemWriter::<Balance>::delivery(&run.writer), Delivery::ExactlyOnce);
    run.complete::<Balance>().await;
    let writer = TextWriter::new("out", &plain, |number: &i64| format!("{number:04}"));
    let mut run = Run::open(writer, &first).await.unwrap();
    run.commit(&[5, 60]).await;
    run.complete::<i64>().await;

    assert_eq!(text(&csv), "계좌;금액\r\nplain;3\r\n");
    assert_eq!(text(&rows), "id,memo\n7,\n7,\n");
    assert_eq!(text(&json), "{\"account\":\"two\\nlines\",\"amount\":1}\n");
    assert_eq!(text(&plain), "0005\n0060\n");
}

#[tokio::test]
async fn korean_files_are_written_and_what_they_cannot_hold_is_an_error() {
    let folder = Folder::new();
    let path = folder.path("out.txt");
    let writer = TextWriter::new("out", &path, |text: &String| text.clone()).encoding(Encoding::EucKr);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();
    run.commit(&["김철수".to_owned()]).await;

    let error = run.writer.write(&["🙂".to_owned()], &mut chunk().await).await.unwrap_err();
    run.complete::<String>().await;

    assert_eq!(error.kind_in(Phase::Write), ErrorKind::WRITE);
    assert_eq!(std::fs::read(&path).unwrap(), b"\xb1\xe8\xc3\xb6\xbc\xf6\n");
}

#[tokio::test]
async fn an_item_that_cannot_be_written_leaves_nothing_of_its_chunk() {
    let folder = Folder::new();
    let path = folder.path("out.jsonl");
    type Keys = std::collections::BTreeMap<(u8, u8), u8>;
    let mut run =
        Run::open(JsonLinesWriter::<Keys>::new("out", &path), &ExecutionContext::new()).await.unwrap();
    run.commit(&[Keys::new()]).await;

    let items = [Keys::new(), Keys::from([((1, 2), 3)])];
    let error = run.writer.write(&items, &mut chunk().await).await.unwrap_err();
    run.writer.update(&mut run.context).unwrap();
    let context = run.complete::<Keys>().await;

    assert_eq!(error.kind_in(Phase::Write), ErrorKind::WRITE);
    assert_eq!(text(&path), "{}\n");
    assert_eq!(context.get_long("out.written"), Some(1));
}

#[tokio::test]
async fn a_file_without_items_has_its_header_or_is_not_published() {
    let folder = Folder::new();
    let first = ExecutionContext::new();
    let writer = |name: &str| CsvWriter::<Balance>::new("out", folder.path(name));

    Run::open(writer("empty"), &first).await.unwrap().complete::<Balance>().await;
    Run::open(writer("named").columns(["a", "b"]), &first).await.unwrap().complete::<Balance>().await;
    Run::open(writer("skipped").skip_if_empty(), &first).await.unwrap().complete::<Balance>().await;

    assert_eq!(folder.names(), ["empty", "named"]);
    assert_eq!(
        (text(&folder.path("empty")), text(&folder.path("named"))),
        (String::new(), "a,b\n".to_owned())
    );
}

#[tokio::test]
async fn a_file_that_is_there_already_is_refused_unless_it_may_be_replaced() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    std::fs::write(&path, "old").unwrap();
    let writer = || CsvWriter::<Balance>::new("out", &path);

    let error = fatal(Run::open(writer(), &ExecutionContext::new()).await);
    let mut run = Run::open(writer().overwrite(), &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(3..4)).await;
    let meanwhile = text(&path);
    run.complete::<Balance>().await;

    assert!(error.contains("exists already; move it away"), "{error}");
    assert_eq!(meanwhile, "old");
    assert_eq!(text(&path), "account,amount\nplain,3\n");
}

#[tokio::test]
async fn a_file_that_appears_meanwhile_is_not_replaced() {
    let folder = Folder::new();
    let path = folder.path("out.csv");
    let writer = CsvWriter::<Balance>::new("out", &path);
    let mut run = Run::open(writer, &ExecutionContext::new()).await.unwrap();
    run.commit(&balances(0..1)).await;

    std::fs::write(&path, "of somebody else").unwrap();

    fatal(ItemStream::close(&mut run.writer, true).await);
    assert_eq!(text(&path), "of somebody else");
}

#[tokio::test]
async fn a_folder_that_is_not_there_and_a_file_that_another_run_writes_are_refused() {
    let folder = Folder::new();
    let first = ExecutionContext::new();
    let writer = |name: &str| CsvWriter::<Balance>::new("out", folder.path(name));
    let mut run = Run::open(writer("out.csv"), &first).await.unwrap();
    run.commit(&balances(0..1)).await;

    let missing = fatal(Run::open(writer("missing/out.csv"), &first).await);
    let rival = fatal(Run::open(writer("out.csv"), &first).await);

    assert!(missing.contains("check that its folder exists"), "{missing}");
    assert!(rival.contains("another run"), "{rival}");
    assert!(!text(&folder.path("out.csv.part")).is_empty(), "the rival must not empty it");
}
