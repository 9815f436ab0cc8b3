//! The listeners, what they were sent, and the latest patches.
//!
//! A slow listener never delays others: each has a bounded channel, and a listener with a full channel is dropped. It
//! reconnects and gets the missed patches from the ring, or an event to reload the page.

use crate::dashboard::region::{Audience, Page, Region, Row};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tidemill_domain::time::Monotonic;
use tokio::sync::{Notify, mpsc};

/// Maximum streams per identity.
pub const STREAMS_PER_IDENTITY: usize = 20;
/// In total.
pub const STREAMS: usize = 500;
/// Maximum patches that wait for one listener.
pub const CHANNEL: usize = 256;
/// How many patches are kept for listeners that reconnect.
pub const RING: usize = 1000;
/// Minimum time between two patches of a region.
pub const REGION_EVERY: Duration = Duration::from_secs(1);
/// When more rows than this have changed, the table is sent instead.
const ROWS_AT_ONCE: usize = 4;

#[derive(Debug)]
pub struct Message {
    /// Each patch has the next number.
    pub number: u64,
    /// `{"r": region, "h": html}`.
    pub data: String,
    audience: Audience,
}

#[derive(Clone, Debug)]
pub enum Update {
    Patch(Arc<Message>),
    /// The page missed too much and must reload.
    Reload,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// A page that was just loaded.
    Afresh,
    /// Everything up to this number.
    After(u64),
    /// Events of another run or another server.
    Elsewhere,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscribeError {
    /// The server is shutting down.
    Closed,
    /// This identity has too many streams.
    OwnLimit,
    /// There are too many streams.
    Limit,
}

/// The hub. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Live {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    hub: Mutex<Hub>,
    joined: Notify,
}

#[derive(Debug, Default)]
struct Hub {
    last: u64,
    ring: VecDeque<Arc<Message>>,
    shown: BTreeMap<String, SentRegion>,
    listeners: HashMap<u64, Listener>,
    next_listener: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Listener {
    identity: String,
    page: Page,
    sender: mpsc::Sender<Arc<Message>>,
}

#[derive(Debug)]
struct SentRegion {
    region: Region,
    sent: Monotonic,
    rows_sent: Vec<Monotonic>,
}

#[derive(Debug)]
pub struct Subscription {
    live: Live,
    id: u64,
    backlog: VecDeque<Update>,
    receiver: mpsc::Receiver<Arc<Message>>,
}

impl Live {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.shared.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener. One that reconnects gets the missed patches; any other gets the current regions, because its page may
    /// be older or newer than the last patches.
    pub fn subscribe(
        &self,
        identity: &str,
        page: Page,
        resume: Resume,
    ) -> Result<Subscription, SubscribeError> {
        let mut hub = self.hub();
        if hub.is_closed {
            return Err(SubscribeError::Closed);
        }
        if hub.listeners.len() >= STREAMS {
            return Err(SubscribeError::Limit);
        }
        if hub.listeners.values().filter(|listener| listener.identity == identity).count()
            >= STREAMS_PER_IDENTITY
        {
            return Err(SubscribeError::OwnLimit);
        }
        let backlog = hub.backlog(&page, resume);
        let (sender, receiver) = mpsc::channel(CHANNEL);
        hub.next_listener += 1;
        let id = hub.next_listener;
        hub.listeners.insert(id, Listener { identity: identity.to_owned(), page, sender });
        drop(hub);
        self.shared.joined.notify_one();
        Ok(Subscription { live: self.clone(), id, backlog, receiver })
    }

    /// Sends the regions that changed. A region that was sent less than a second ago waits for the next call.
    pub fn publish(&self, regions: Vec<Region>, now: Monotonic) {
        let mut hub = self.hub();
        for region in regions {
            hub.show(region, now);
        }
        hub.forget_closed_pages();
    }

    /// The open pages with their own regions, each once.
    pub fn particular_pages(&self) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        for listener in self.hub().listeners.values() {
            if listener.page.is_particular() && !pages.contains(&listener.page) {
                pages.push(listener.page.clone());
            }
        }
        pages.sort_by_key(Page::word);
        pages
    }

    pub fn listeners(&self) -> usize {
        self.hub().listeners.len()
    }

    /// Waits for a listener. Without listeners it forgets what was sent, so that the next listener gets everything.
    pub async fn wait_for_listener(&self) {
        loop {
            {
                let mut hub = self.hub();
                if !hub.listeners.is_empty() {
                    return;
                }
                hub.shown.clear();
            }
            self.shared.joined.notified().await;
        }
    }

    /// Ends all streams and accepts no new ones.
    pub fn close(&self) {
        let mut hub = self.hub();
        hub.is_closed = true;
        hub.listeners.clear();
    }
}

impl Hub {
    fn backlog(&self, page: &Page, resume: Resume) -> VecDeque<Update> {
        let oldest = self.ring.front().map_or(self.last + 1, |message| message.number);
        match resume {
            Resume::After(seen) if seen <= self.last && seen + 1 >= oldest => {
                let missed = self.ring.iter().filter(|message| message.number > seen);
                missed.filter(|message| message.audience.includes(page)).cloned().map(Update::Patch).collect()
            }
            Resume::Afresh => self.everything(page).collect(),
            Resume::After(_) | Resume::Elsewhere => {
                std::iter::once(Update::Reload).chain(self.everything(page)).collect()
            }
        }
    }

    fn everything(&self, page: &Page) -> impl Iterator<Item = Update> {
        let shown = self.shown.values().map(|shown| &shown.region);
        shown.filter(move |region| region.audience.includes(page)).map(|region| {
            Update::Patch(Arc::new(message(self.last, &region.name, &region.html(), region.audience.clone())))
        })
    }

    fn show(&mut self, region: Region, now: Monotonic) {
        let Some(shown) = self.shown.get(&region.key()) else { return self.send_whole(region, now) };
        let is_due = |sent: Monotonic| now.since(sent) >= REGION_EVERY;
        if shown.region == region {
            return;
        }
        let changed: Vec<usize> = match changed_rows(&shown.region, &region) {
            Some(changed) if changed.len() <= ROWS_AT_ONCE => changed,
            _ if is_due(shown.sent) => return self.send_whole(region, now),
            _ => return,
        };
        for place in changed {
            self.send_row(&region, place, now);
        }
    }

    /// Forgets the regions of pages that are no longer open.
    fn forget_closed_pages(&mut self) {
        let Self { shown, listeners, .. } = self;
        shown.retain(|_, shown| match &shown.region.audience {
            Audience::At(page) => listeners.values().any(|listener| listener.page == *page),
            Audience::Everywhere | Audience::On(_) => true,
        });
    }

    fn send_whole(&mut self, region: Region, now: Monotonic) {
        self.send(&region.name, &region.html(), &region.audience);
        let rows_sent = vec![now; region.rows.len()];
        self.shown.insert(region.key(), SentRegion { region, sent: now, rows_sent });
    }

    fn send_row(&mut self, region: &Region, place: usize, now: Monotonic) {
        let Row { name, html } = &region.rows[place];
        let Some(shown) = self.shown.get_mut(&region.key()) else { return };
        if now.since(shown.rows_sent[place]) < REGION_EVERY {
            return;
        }
        shown.rows_sent[place] = now;
        shown.region.rows[place].html.clone_from(html);
        self.send(name, html, &region.audience);
    }

    fn send(&mut self, region: &str, html: &str, audience: &Audience) {
        self.last += 1;
        let message = Arc::new(message(self.last, region, html, audience.clone()));
        if self.ring.len() == RING {
            self.ring.pop_front();
        }
        self.ring.push_back(Arc::clone(&message));
        self.listeners.retain(|_, listener| {
            // Drops a listener that is too slow or has left.
            !audience.includes(&listener.page) || listener.sender.try_send(Arc::clone(&message)).is_ok()
        });
    }
}

/// The rows that differ; none when other parts of the table differ too.
fn changed_rows(before: &Region, after: &Region) -> Option<Vec<usize>> {
    let is_same_table = before.opening == after.opening
        && before.closing == after.closing
        && before.rows.iter().map(|row| &row.name).eq(after.rows.iter().map(|row| &row.name));
    let differ = || before.rows.iter().zip(&after.rows).enumerate().filter(|(_, (one, other))| one != other);
    is_same_table.then(|| differ().map(|(place, _)| place).collect())
}

fn message(number: u64, region: &str, html: &str, audience: Audience) -> Message {
    Message { number, data: json!({ "r": region, "h": html }).to_string(), audience }
}

impl Subscription {
    /// None when the stream has ended.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Update>> {
        match self.backlog.pop_front() {
            Some(sent) => Poll::Ready(Some(sent)),
            None => self.receiver.poll_recv(context).map(|message| message.map(Update::Patch)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.live.hub().listeners.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
