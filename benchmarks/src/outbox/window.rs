//! One late event with a low id among many that were read long ago. Reading a page with it must not take much longer than
//! reading one without it.

use super::case::BATCH;
use super::stage::Stage;
use anyhow::{Context, Result, ensure};
use std::time::Duration;
use tidemill_domain::outbox::cursor::Cursor;
use tidemill_domain::outbox::{EventId, Seq, Slot, Snapshot, Window};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::outbox::reading::{Page, Reading};
use tidemill_store::sqlx::{self, Connection};
use tidemill_store::{Store, StoreOptions};

/// The number of reads per page.
const ROUNDS: usize = 21;

/// The number of new events besides the late one: more than a page.
const NEW: u64 = 5_000;

/// Medians in milliseconds, without and with the late event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) retained: u64,
    /// All events in one read.
    pub(super) whole_ms: (f64, f64),
    /// The first page of a larger window.
    pub(super) page_ms: (f64, f64),
}

pub(super) async fn measure(stage: &mut Stage, retained: u64) -> Result<Late> {
    stage.empty_ours().await?;
    let mut late = stage.session().await?;
    // The late event has the lowest id, and commits last.
    let mut writing = late.begin().await?;
    sqlx::query(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
         values ('account', 'late', 'transfer.completed', 'transfers', '{}')",
    )
    .execute(&mut *writing)
    .await?;
    stage.load("outbox_event", 1, retained).await?;
    let snapshot: Snapshot = stage.text("select pg_current_snapshot()::text").await?.parse()?;
    stage.load("outbox_event", retained + 1, retained + NEW).await?;
    stage.tidy("outbox_event").await?;
    let reader = Reader::new(&stage.url, snapshot).await?;
    let (whole, page) = (reader.median(limit()).await?, reader.median(BATCH).await?);
    writing.commit().await?;
    let first = reader.read(limit()).await?.events.first().map(|event| event.id);
    ensure!(first == Some(EventId::new(1)), "the late event was not read first, but {first:?}");
    let (whole_late, page_late) = (reader.median(limit()).await?, reader.median(BATCH).await?);
    reader.store.close().await;
    late.close().await?;
    eprintln!("a late event among {retained}");
    Ok(Late { retained, whole_ms: (whole, whole_late), page_ms: (page, page_late) })
}

/// A page size at which the whole window fits into one page.
fn limit() -> u32 {
    u32::try_from(NEW * 2).unwrap_or(u32::MAX)
}

/// Reads the same window repeatedly.
struct Reader {
    store: Store,
    cursor: Cursor,
    clock: SystemClock,
}

impl Reader {
    async fn new(url: &str, snapshot: Snapshot) -> Result<Self> {
        let store = Store::open(url.parse()?, &StoreOptions::default()).await?;
        let slots = (0..=255).map(|slot| (Slot::new(slot), Seq::default())).collect();
        Ok(Self { store, cursor: Cursor { window: Window::at(snapshot), slots }, clock: SystemClock::new() })
    }

    async fn read(&self, limit: u32) -> Result<Page> {
        let reading = Reading { cursor: &self.cursor, stop: None, floor: EventId::ZERO, low: None, limit };
        let mut tx = self.store.alone_reading().await?;
        let page = tx.outbox().read(&reading).await?.context("no slot is missing")?;
        tx.commit().await?;
        Ok(page)
    }

    async fn median(&self, limit: u32) -> Result<f64> {
        let mut took: Vec<Duration> = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begin = self.clock.monotonic();
            let events = self.read(limit).await?.events.len();
            took.push(self.clock.monotonic().since(begin));
            ensure!(events >= BATCH as usize, "only {events} events were read");
        }
        took.sort();
        let median = took.get(ROUNDS / 2).context("nothing was measured")?;
        Ok(median.as_secs_f64() * 1000.0)
    }
}
