//! Reads a window page by page.
//!
//! On PostgreSQL there are two ways. A window of at most one page is read at once by the index of transactions. A
//! larger one is frozen first and read by id, from its lowest id to its highest. Transactions that were running at its
//! first snapshot may have much lower ids and are found by the index of transactions, so that one late event does not
//! make the reader scan everything written since.

use super::event::EventRow;
use crate::error::{Result, damaged};
use crate::statements::outbox::reading::{Most, Size, Span};
use crate::store::Store;
use crate::tx::Outbox;
use tidemill_domain::outbox::cursor::Cursor;
use tidemill_domain::outbox::snapshot::Snapshot;
use tidemill_domain::outbox::stored::StoredEvent;
use tidemill_domain::outbox::{EventId, IdRange, Slot, Window};

/// A page ends with the event that exceeds this size of payloads and headers: two pages are in memory at once.
pub(crate) const PAGE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// How far these slots were read.
    pub cursor: &'a Cursor,
    /// Where a new window ends; `None`: now.
    pub stop: Option<&'a Snapshot>,
    /// Nothing up to this id is read.
    pub floor: EventId,
    /// From the previous page of the same window.
    pub low: Option<Low>,
    /// Most events per page; fewer if they are large.
    pub limit: u32,
}

/// The lowest and the highest id of a window, and its name: for another window they would lose events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Low {
    from: Snapshot,
    to: Option<Snapshot>,
    span: Span,
    /// The size of its events so far.
    size: Size,
}

impl Low {
    fn is_of(&self, window: &Window) -> bool {
        (&self.from, &self.to) == (&window.from, &window.to)
    }
}

#[derive(Clone, Debug)]
pub struct Page {
    /// In publishing order.
    pub events: Vec<StoredEvent>,
    /// The window before this page.
    pub opened: Window,
    /// The window after this page.
    pub window: Window,
    /// For the next page.
    pub low: Option<Low>,
    /// If a window was opened: the snapshot at reading time and the server's timeline.
    pub seen: Option<(Snapshot, Option<String>)>,
    /// The number of statements.
    pub queries: u32,
}

/// Slots to fill in per transaction.
const SLOTS_FILLED: u32 = 10_000;
const QUERIES_PER_FILLING: u32 = 4;

impl Store {
    /// Reads the next page. Fills in slots first that other programs have left out.
    #[crate::boxed]
    pub async fn read_outbox(&self, reading: &Reading<'_>) -> Result<Page> {
        let mut queries = 0;
        loop {
            let mut tx = self.alone_reading().await?;
            let page = tx.outbox().read(reading).await?;
            tx.commit().await?;
            if let Some(page) = page {
                return Ok(Page { queries: page.queries + queries, ..page });
            }
            let mut tx = self.begin().await?;
            tx.outbox().fill_slots(SLOTS_FILLED).await?;
            tx.commit().await?;
            queries += QUERIES_PER_FILLING;
        }
    }
}

impl Outbox<'_> {
    /// Reads the next page. `None` on SQLite if other programs have left out slots: fill them in first.
    #[crate::boxed]
    pub async fn read(&mut self, reading: &Reading<'_>) -> Result<Option<Page>> {
        let slots: Vec<Slot> = reading.cursor.slots.keys().copied().collect();
        let mut page = Page {
            events: Vec::new(),
            opened: reading.cursor.window.clone(),
            window: reading.cursor.window.clone(),
            low: reading.low.clone().filter(|low| low.is_of(&reading.cursor.window)),
            seen: None,
            queries: 0,
        };
        let mut size = page.low.as_ref().map_or(Size::Small, |low| low.size);
        if page.window.to.is_none() {
            let one_more = Most::of(reading.limit.saturating_add(1), Size::Small);
            page.queries += 1;
            let Some((now, timeline, rows)) = self
                .outbox_read_new(&page.window.from, reading.stop, reading.floor, &slots, one_more)
                .await?
            else {
                return Ok(None);
            };
            let now: Snapshot = now.parse().map_err(|_| damaged("pg_current_snapshot", "snapshot", &now))?;
            size = size_of(&rows);
            let is_whole = rows.len() <= reading.limit as usize && size == Size::Small;
            page.window = page.window.opened(reading.stop.unwrap_or(&now).clone());
            page.opened = page.window.clone();
            page.seen = Some((now, timeline));
            page.low = None;
            if is_whole {
                page.events = sorted(rows, &page.window)?;
                if let Some(last) = page.events.last() {
                    page.window = page.window.after(last.id);
                }
                page.window = page.window.closed();
                return Ok(Some(page));
            }
        }
        let span = match &page.low {
            Some(low) => low.span,
            None => {
                page.queries += 1;
                let (lowest, highest) = self.outbox_read_span(&page.window).await?.unwrap_or((0, 0));
                Span { lowest: EventId::new(lowest), highest: EventId::new(highest) }
            }
        };
        let after = page.window.last.max(reading.floor);
        let mut stretch = IdRange::first(after, (span.lowest, span.highest), reading.limit, slots.len());
        let mut rows = Vec::new();
        let is_last = loop {
            let wanted = reading.limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            page.queries += 1;
            rows.extend(
                self.outbox_read_page(&page.window, span, stretch, &slots, Most::of(wanted, size)).await?,
            );
            size = size.max(size_of(&rows));
            let is_full = rows.len() >= reading.limit as usize || size_of(&rows) == Size::Large;
            match stretch.next(span.highest) {
                _ if is_full => break false,
                Some(next) => stretch = next,
                None => break true,
            }
        };
        page.low = Some(Low { from: page.window.from.clone(), to: page.window.to.clone(), span, size });
        page.events = sorted(rows, &page.window)?;
        if let Some(last) = page.events.last() {
            page.window = page.window.after(last.id);
        }
        if is_last {
            page.window = page.window.closed();
            page.low = None;
        }
        Ok(Some(page))
    }

    /// Computes slots that other programs have left out, on SQLite; returns how many. Ids count as they are displayed.
    pub async fn fill_slots(&mut self, limit: u32) -> Result<u64> {
        let rows = self.outbox_slotless(limit.into()).await?;
        let slots: Vec<(i64, u8)> =
            rows.iter().map(|(id, aggregate)| (*id, Slot::of(&aggregate.text).get())).collect();
        self.outbox_set_slots(&slots).await?;
        Ok(slots.len() as u64)
    }
}

/// Whether the size limit cut off rows.
fn size_of(rows: &[EventRow]) -> Size {
    let bytes: usize = rows.iter().map(EventRow::bytes).sum();
    if bytes > PAGE_BYTES { Size::Large } else { Size::Small }
}

/// By id, without duplicates, and only events of the window.
fn sorted(rows: Vec<EventRow>, window: &Window) -> Result<Vec<StoredEvent>> {
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let event = StoredEvent::try_from(row)?;
        let is_in = window.to.as_ref().is_none_or(|to| to.sees(event.xid));
        if is_in && !window.covers(event.id, event.xid) {
            events.push(event);
        }
    }
    events.sort_unstable_by_key(|event| event.id);
    events.dedup_by_key(|event| event.id);
    Ok(events)
}
