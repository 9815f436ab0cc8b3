//! What was published is compared with the table, also while it grows.

use super::{options, record};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tidemill_domain::outbox::verify::Place;
use tidemill_domain::outbox::{EventId, Record, Seq, Snapshot, Window};
use tidemill_engine::outbox::sink::{FileSink, SinkAddress};
use tidemill_engine::outbox::{Outcome, Publisher, Verifier};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

/// A table, a file, and one who does what a relay does, without leases.
struct Outbox {
    store: Store,
    sink: FileSink,
    path: PathBuf,
    _scratch: Scratch,
    _folder: TempDir,
}

impl Outbox {
    async fn new() -> Self {
        let scratch = Scratch::file();
        let store = scratch.store(None).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let sink = FileSink::new(&path, options());
        Self { store, sink, path, _scratch: scratch, _folder: folder }
    }

    async fn execute(&self, sql: &str) {
        let mut tx = self.store.begin().await.unwrap();
        tx.execute_for_test(sql).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Events of the aggregates a and b in turn, with these ids; all are in the slots of those.
    async fn add(&self, ids: std::ops::RangeInclusive<i64>) -> Vec<Record> {
        let records: Vec<Record> = ids
            .map(|id| Record {
                seq: Seq::new((id + 1) / 2),
                ..record(id, if id % 2 == 1 { "a" } else { "b" })
            })
            .collect();
        let values: Vec<String> = records
            .iter()
            .map(|record| {
                format!("({}, 'order', '{}', 'order.paid', 'orders')", record.id, record.aggregate.id)
            })
            .collect();
        self.execute(&format!(
            "insert into outbox_event (id, aggregate_type, aggregate_id, event_type, topic) values {}",
            values.join(", ")
        ))
        .await;
        records
    }

    async fn publish(&self, records: &[Record]) {
        assert_eq!(self.sink.publish(records).await, vec![Outcome::Delivered; records.len()]);
    }

    /// All slots were read up to this event.
    async fn acknowledge(&self, id: i64) {
        let place = serde_json::to_string(&Window::at(Snapshot::up_to(id))).unwrap();
        self.execute(&format!("update tidemill_outbox_slot set place = '{place}'")).await;
    }

    fn verifier(&self) -> Verifier {
        Verifier::new(self.store.clone(), &[SinkAddress::File(self.path.clone())]).unwrap()
    }
}

fn place(line: u64) -> Place {
    Place { file: 0, line }
}

#[tokio::test]
async fn what_was_published_and_acknowledged_is_clean() {
    let outbox = Outbox::new().await;
    let records = outbox.add(1..=6).await;
    outbox.publish(&records[..4]).await;
    outbox.acknowledge(4).await;

    let verified = outbox.verifier().look().await.unwrap();

    let expected = "4 records of 4 events: 0 lost, 0 reordered, 0 duplicated, 0 unknown, 0 torn, 0 gaps, 2 pending, 0 excused";
    assert_eq!(verified.verdict.to_string(), expected);
}

#[tokio::test]
async fn faults_are_found_with_their_places() {
    let outbox = Outbox::new().await;
    let records = outbox.add(1..=6).await;
    // Event 1 is missing, 5 comes before 3, 2 comes twice, and the last line is torn.
    outbox.publish(&[records[4].clone(), records[1].clone(), records[2].clone(), records[1].clone()]).await;
    outbox.publish(&[records[3].clone(), records[5].clone(), record(900, "c")]).await;
    let mut text = fs::read(&outbox.path).unwrap();
    text.extend_from_slice(b"{\"id\":1,\"slo");
    fs::write(&outbox.path, text).unwrap();
    outbox.acknowledge(6).await;

    let mut verifier = outbox.verifier();
    let verified = verifier.look().await.unwrap();

    let verdict = &verified.verdict;
    assert!(!verdict.is_clean());
    assert_eq!(verdict.lost.first, [EventId::new(1)]);
    assert_eq!(verified.lost[&EventId::new(1)].to_string(), "order/a");
    assert_eq!((verdict.reordered.count, verdict.reordered.first[0].place), (1, place(3)));
    assert_eq!(verdict.reordered.first[0].after_place, place(1));
    assert_eq!((verdict.repeated.count, verdict.repeated.first[0].place), (1, place(4)));
    assert_eq!(verdict.unknown.first, [EventId::new(900)]);
    assert_eq!(verdict.torn.first, [place(8)]);
    assert_eq!(verifier.place(place(8)), format!("{}:8", outbox.path.display()));
}

#[tokio::test]
async fn a_failed_event_excuses_its_event_and_no_other() {
    let outbox = Outbox::new().await;
    let records = outbox.add(1..=4).await;
    outbox.publish(&records[1..2]).await;
    outbox.acknowledge(4).await;
    let slot = records[0].slot;
    outbox
        .execute(&format!(
            "insert into tidemill_outbox_exception
                 (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, since, updated_at)
             values (1, {slot}, 1, 'order', 'a', 'order.paid', 'parked', 0, 0),
                    (3, {slot}, 2, 'order', 'a', 'order.paid', 'held', 0, 0)"
        ))
        .await;

    let verdict = outbox.verifier().look().await.unwrap().verdict;

    assert_eq!(verdict.lost.first, [EventId::new(4)]);
    assert_eq!((verdict.excused.parked, verdict.excused.held, verdict.excused.total()), (1, 1, 2));
}

#[tokio::test]
async fn rotated_files_are_read_in_their_order_and_the_look_goes_on() {
    let outbox = Outbox::new().await;
    let rotated = outbox.path.with_extension("1");
    let records = outbox.add(1..=6).await;
    outbox.publish(&records[..2]).await;
    fs::rename(&outbox.path, &rotated).unwrap();
    outbox.publish(&records[2..4]).await;
    outbox.acknowledge(4).await;
    let sinks = [SinkAddress::File(rotated), SinkAddress::File(outbox.path.clone())];
    let mut verifier = Verifier::new(outbox.store.clone(), &sinks).unwrap();

    let first = verifier.look().await.unwrap().verdict;
    outbox.publish(&records[4..]).await;
    fs::rename(&outbox.path, outbox.path.with_extension("0")).unwrap();
    let more = outbox.add(7..=8).await;
    outbox.publish(&more).await;
    outbox.acknowledge(8).await;
    let second = verifier.look().await.unwrap().verdict;

    assert!(first.is_clean() && second.is_clean(), "{first}; {second}");
    assert_eq!((first.events, first.pending), (4, 2));
    assert_eq!((second.events, second.pending, second.unknown.count), (8, 0, 0));
}

#[tokio::test]
async fn what_was_forgotten_is_not_unknown() {
    let outbox = Outbox::new().await;
    let records = outbox.add(1..=6).await;
    outbox.publish(&records).await;
    outbox.acknowledge(6).await;
    outbox.execute("delete from outbox_event where id <= 4").await;

    let verdict = outbox.verifier().look().await.unwrap().verdict;

    assert!(verdict.is_clean());
    assert_eq!((verdict.forgotten, verdict.unknown.count), (4, 0));
}

/// Files that take their time to read stand before and behind the one that grows, so that much happens between the look
/// at the table and the look at that one, whichever comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_published_meanwhile_is_neither_lost_nor_unknown() {
    let outbox = Arc::new(Outbox::new().await);
    let publish = |outbox: Arc<Outbox>, first: i64| async move {
        let records = outbox.add(first..=first + 9).await;
        outbox.publish(&records).await;
        outbox.acknowledge(first + 9).await;
    };
    publish(outbox.clone(), 1).await;
    let text = fs::read_to_string(&outbox.path).unwrap();
    let long = [outbox.path.with_extension("before"), outbox.path.with_extension("behind")];
    for path in &long {
        fs::write(path, text.repeat(2_000)).unwrap();
    }
    let sinks = [long[0].clone(), outbox.path.clone(), long[1].clone()].map(SinkAddress::File);
    let mut verifier = Verifier::new(outbox.store.clone(), &sinks).unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let busy = tokio::spawn({
        let (outbox, is_over) = (outbox.clone(), is_over.clone());
        async move {
            let mut events = 10;
            while !is_over.load(Ordering::Relaxed) {
                publish(outbox.clone(), events + 1).await;
                events += 10;
            }
            events
        }
    });
    let mut events = 10;
    for _ in 0..4 {
        let verdict = verifier.look().await.unwrap().verdict;
        assert!(verdict.is_clean(), "{verdict}");
        assert_eq!((verdict.unknown.count, verdict.gaps.count), (0, 0), "{verdict}");
        assert!(verdict.events >= events);
        events = verdict.events;
    }
    is_over.store(true, Ordering::Relaxed);
    let published: i64 = busy.await.unwrap();

    let verdict = verifier.look().await.unwrap().verdict;
    assert!(events > 10, "nothing was published meanwhile");
    assert_eq!((verdict.events, verdict.pending), (published.unsigned_abs(), 0));
    assert!(verdict.is_clean(), "{verdict}");
}
