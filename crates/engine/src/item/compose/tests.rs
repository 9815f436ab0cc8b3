//! Composed writers. Here rather than under `tests`, because only the crate itself can make a chunk.

use crate::item::{BoxWriter, ClassifierWriter, CompositeWriter, MappedWriter};
use crate::job::{ChunkScope, Delivery, ItemStream, ItemWriter};
use std::sync::{Arc, Mutex};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::ExecutionContext;
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tokio::sync::OnceCell;

/// The calls to the writers of a test, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn writer(&self, name: &'static str) -> Noting {
        Noting { name, journal: self.clone(), fails_to: "", delivery: Delivery::ExactlyOnce }
    }
}

/// Records its calls, and fails at one of them.
struct Noting {
    name: &'static str,
    journal: Journal,
    fails_to: &'static str,
    delivery: Delivery,
}

impl Noting {
    fn note(&self, what: &str) -> Result<(), ItemError> {
        self.journal.note(format!("{} {what}", self.name));
        if !self.fails_to.is_empty() && what.starts_with(self.fails_to) {
            return Err(ItemError::new(ErrorKind::WRITE, format!("{} cannot {what}", self.name)));
        }
        Ok(())
    }
}

impl ItemStream for Noting {
    async fn open(&mut self, _: &ExecutionContext) -> Result<(), ItemError> {
        self.note("open")
    }

    fn update(&mut self, context: &mut ExecutionContext) -> Result<(), ItemError> {
        context.put(self.name, 1);
        self.note("update")
    }

    async fn close(&mut self, is_complete: bool) -> Result<(), ItemError> {
        self.note(if is_complete { "close complete" } else { "close" })
    }
}

impl ItemWriter<i64> for Noting {
    async fn write(&mut self, items: &[i64], chunk: &mut ChunkScope) -> Result<(), ItemError> {
        let numbers: Vec<u64> = chunk.numbers().collect();
        let numbers = if numbers.is_empty() { String::new() } else { format!(" as {numbers:?}") };
        self.note(&format!("write {items:?}{numbers}"))
    }

    async fn roll_back(&mut self) -> Result<(), ItemError> {
        self.note("roll back")
    }

    fn is_concurrent(&self) -> bool {
        self.delivery == Delivery::ExactlyOnce
    }

    fn delivery(&self) -> Delivery {
        self.delivery
    }
}

/// A chunk whose transaction never begins, so one database serves all tests.
async fn chunk() -> ChunkScope {
    static STORE: OnceCell<Store> = OnceCell::const_new();
    let store = STORE.get_or_init(|| async { Scratch::memory().store(None).await.unwrap() }).await;
    ChunkScope::new(store.clone(), None, None)
}

#[tokio::test]
async fn all_writers_get_every_item_in_the_order_in_which_they_were_added() {
    let journal = Journal::default();
    let mut writer = CompositeWriter::new().and(journal.writer("a")).and(BoxWriter::new(journal.writer("b")));
    let mut context = ExecutionContext::new();

    writer.open(&context).await.unwrap();
    writer.write(&[1, 2], &mut chunk().await).await.unwrap();
    writer.update(&mut context).unwrap();
    writer.roll_back().await.unwrap();
    writer.close(true).await.unwrap();

    let whats = ["open", "write [1, 2]", "update", "roll back", "close complete"];
    let expected: Vec<_> = whats.iter().flat_map(|what| [format!("a {what}"), format!("b {what}")]).collect();
    assert_eq!(journal.take(), expected);
    assert_eq!((context.get_long("a"), context.get_long("b")), (Some(1), Some(1)));
}

#[tokio::test]
async fn it_promises_as_much_as_the_weakest() {
    let journal = Journal::default();
    let weak = Noting { delivery: Delivery::AtLeastOnce, ..journal.writer("weak") };

    let strong = CompositeWriter::new().and(journal.writer("a")).and(journal.writer("b"));
    let mixed = CompositeWriter::new().and(journal.writer("a")).and(weak);

    assert_eq!((strong.delivery(), mixed.delivery()), (Delivery::ExactlyOnce, Delivery::AtLeastOnce));
    assert_eq!((strong.is_concurrent(), mixed.is_concurrent()), (true, false));
}

#[tokio::test]
async fn where_one_fails_to_write_none_keeps_what_it_has_of_the_chunk() {
    let journal = Journal::default();
    let failing = Noting { fails_to: "write", ..journal.writer("b") };
    let mut writer = CompositeWriter::new().and(journal.writer("a")).and(failing).and(journal.writer("c"));

    let error = writer.write(&[1], &mut chunk().await).await.unwrap_err();

    assert_eq!(error.message(), "b cannot write [1]");
    let expected = ["a write [1]", "b write [1]", "a roll back", "b roll back", "c roll back"];
    assert_eq!(journal.take(), expected);
}

#[tokio::test]
async fn all_are_closed_and_none_is_complete_behind_one_that_failed() {
    let journal = Journal::default();
    let failing = Noting { fails_to: "close", ..journal.writer("b") };
    let mut writer = CompositeWriter::new().and(journal.writer("a")).and(failing).and(journal.writer("c"));

    let error = writer.close(true).await.unwrap_err();

    assert_eq!(error.message(), "b cannot close complete");
    assert_eq!(journal.take(), ["a close complete", "b close complete", "c close"]);
}

#[tokio::test]
async fn a_closure_picks_the_writer_of_an_item_and_each_gets_its_items_at_once() {
    let journal = Journal::default();
    let classes = || {
        ClassifierWriter::new(|number: &i64| number % 3)
            .on(0, journal.writer("zero"))
            .on(1, journal.writer("one"))
    };
    let mut strict = classes();
    let mut lenient = classes().otherwise(journal.writer("other"));

    strict.write(&[4, 3, 1, 6], &mut chunk().await).await.unwrap();
    assert_eq!(journal.take(), ["one write [4, 1]", "zero write [3, 6]"]);
    let error = strict.write(&[4, 5], &mut chunk().await).await.unwrap_err();
    assert_eq!(error.message(), "no writer was named for items of class 2");
    assert_eq!(journal.take(), Vec::<String>::new());
    lenient.write(&[4, 5], &mut chunk().await).await.unwrap();

    assert_eq!(journal.take(), ["one write [4]", "other write [5]"]);
}

#[tokio::test]
async fn each_writer_sees_the_numbers_of_its_own_items() {
    let journal = Journal::default();
    let tens = MappedWriter::new(journal.writer("tens"), |number: &i64| Ok(number * 10));
    let odd = ClassifierWriter::new(|number: &i64| number % 2).on(0, journal.writer("even")).on(1, tens);
    let mut writer = CompositeWriter::new().and(odd).and(journal.writer("all"));
    let mut chunk = chunk().await;
    chunk.written = (100, vec![0, 2, 3]);

    writer.write(&[7, 8, 9], &mut chunk).await.unwrap();

    let expected = [
        "tens write [70, 90] as [100, 103]",
        "even write [8] as [102]",
        "all write [7, 8, 9] as [100, 102, 103]",
    ];
    assert_eq!(journal.take(), expected);
    assert_eq!(chunk.written, (100, vec![0, 2, 3]));
}

#[tokio::test]
async fn where_a_closure_fails_nothing_is_written() {
    let journal = Journal::default();
    let fails = |number: &i64| match number {
        5 => Err(ItemError::new(ErrorKind::PROCESS, "five")),
        number => Ok(*number),
    };
    let mut choice = ClassifierWriter::fallible(fails).otherwise(journal.writer("a"));
    let mut mapped = MappedWriter::new(journal.writer("b"), fails);

    for error in [
        choice.write(&[4, 5], &mut chunk().await).await.unwrap_err(),
        mapped.write(&[4, 5], &mut chunk().await).await.unwrap_err(),
    ] {
        assert_eq!(error.message(), "five");
    }

    assert_eq!(journal.take(), Vec::<String>::new());
}
