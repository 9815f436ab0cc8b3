//! The places of connections: which are taken, which are idle, and which connection is closed when places run out.

use hyper::body::{Bytes, Frame, SizeHint};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tidemill_domain::connection::{Admission, Bounds, Displaced, OpenConnections, origin};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a closing connection may take before the next one is closed too.
const GRACE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Places {
    bounds: Bounds,
    book: Mutex<Book>,
    /// A connection has ended or become idle. Only the accept loop waits for this.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Book {
    open: HashMap<u64, OpenConnection>,
    /// Idle connections, longest idle first.
    waiting: BTreeMap<u64, u64>,
    /// Counts against the limits, in total and per address.
    total: Count,
    origins: HashMap<IpAddr, Count>,
    /// How many connections are closing.
    leaving: u32,
    /// The next number of a connection or of a turn.
    next: u64,
    is_scarce: bool,
    is_out_of_files: bool,
}

/// Connections without those for health checks and those that are closing.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    open: u32,
    waiting: u32,
}

#[derive(Debug)]
struct OpenConnection {
    origin: IpAddr,
    /// Its turn among idle connections; none while it has a request or is closing.
    turn: Option<u64>,
    has_had_request: bool,
    is_for_health: bool,
    is_leaving: bool,
    leave: Arc<Notify>,
}

impl OpenConnection {
    fn counts(&self) -> bool {
        !self.is_for_health && !self.is_leaving
    }
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, book: Mutex::default(), changed: Notify::new() })
    }

    /// Waits for a free place, and closes idle connections for it.
    pub(super) async fn room(&self) {
        while self.book().count() >= self.bounds.all() {
            self.relieve().await;
        }
    }

    /// Closes the longest idle connection unless another one is closing, and waits until a connection has ended or become
    /// idle. Returns at once if that has already happened.
    pub(super) async fn relieve(&self) {
        {
            let mut book = self.book();
            if book.leaving == 0 {
                book.dismiss(|_| true);
            }
        }
        while timeout(GRACE, self.changed.notified()).await.is_err() {
            // It may still be sending its response, so close the next one.
            self.book().dismiss(|_| true);
        }
    }

    /// The system refused a connection, for lack of files or memory. True the first time.
    pub(super) fn note_failure(&self) -> bool {
        !std::mem::replace(&mut self.book().is_out_of_files, true)
    }

    pub(super) fn note_success(&self) {
        self.book().is_out_of_files = false;
    }

    pub(super) async fn close(&self) {
        for held in self.book().open.values() {
            held.leave.notify_one();
        }
        while self.book().count() > 0 {
            self.changed.notified().await;
        }
    }

    pub(super) fn seat(self: &Arc<Self>, address: IpAddr) -> Seat {
        let origin = origin(address);
        let mut book = self.book();
        let crowd = book.crowd(origin);
        let admission = self.bounds.admit(crowd);
        match admission {
            Admission::Free => {}
            Admission::InPlaceOf(Displaced::SameAddress) => {
                book.dismiss(|held| held.counts() && held.origin == origin);
            }
            Admission::InPlaceOf(Displaced::Anybody) => {
                book.dismiss(OpenConnection::counts);
            }
            Admission::HealthOnly => book.warn_of_scarcity(&self.bounds, origin, crowd),
        }
        if crowd.open < self.bounds.places / 2 && admission == Admission::Free {
            book.is_scarce = false;
        }
        let (leave, is_for_health) = (Arc::new(Notify::new()), admission == Admission::HealthOnly);
        let id = book.add(OpenConnection {
            origin,
            turn: None,
            has_had_request: false,
            is_for_health,
            is_leaving: false,
            leave: Arc::clone(&leave),
        });
        let head_timeout = self.bounds.head_timeout(admission, crowd.open);
        Seat { places: Arc::clone(self), id, is_for_health, head_timeout, leave }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn count(&self) -> u32 {
        u32::try_from(self.open.len()).unwrap_or(u32::MAX)
    }

    fn crowd(&self, origin: IpAddr) -> OpenConnections {
        let of_address = self.origins.get(&origin).copied().unwrap_or_default();
        OpenConnections {
            open: self.total.open,
            waiting: self.total.waiting,
            open_of_address: of_address.open,
            waiting_of_address: of_address.waiting,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn note(&mut self, origin: IpAddr, change: impl Fn(&mut Count)) {
        change(&mut self.total);
        let count = self.origins.entry(origin).or_default();
        change(count);
        if count.open == 0 {
            self.origins.remove(&origin);
        }
    }

    fn add(&mut self, held: OpenConnection) -> u64 {
        let id = self.number();
        if held.counts() {
            self.note(held.origin, |count| count.open += 1);
        }
        self.open.insert(id, held);
        self.wait(id);
        id
    }

    /// The connection becomes idle.
    fn wait(&mut self, id: u64) {
        let turn = self.number();
        let Some(held) = self.open.get_mut(&id).filter(|held| !held.is_leaving) else { return };
        held.turn = Some(turn);
        self.waiting.insert(turn, id);
        if let (true, origin) = (held.counts(), held.origin) {
            self.note(origin, |count| count.waiting += 1);
        }
    }

    /// The connection is no longer idle.
    fn end_wait(&mut self, id: u64) {
        let Some(held) = self.open.get_mut(&id) else { return };
        let Some(turn) = held.turn.take() else { return };
        self.waiting.remove(&turn);
        if let (true, origin) = (held.counts(), held.origin) {
            self.note(origin, |count| count.waiting = count.waiting.saturating_sub(1));
        }
    }

    /// Closes the longest idle connection among `those`.
    fn dismiss(&mut self, those: impl Fn(&OpenConnection) -> bool) {
        let oldest = self.waiting.values().copied().find(|id| self.open.get(id).is_some_and(&those));
        let Some(id) = oldest else { return };
        self.end_wait(id);
        self.uncount(id);
        if let Some(held) = self.open.get_mut(&id) {
            held.is_leaving = true;
            held.leave.notify_one();
            self.leaving += 1;
        }
    }

    fn uncount(&mut self, id: u64) {
        if let Some((true, origin)) = self.open.get(&id).map(|held| (held.counts(), held.origin)) {
            self.note(origin, |count| count.open = count.open.saturating_sub(1));
        }
    }

    fn remove(&mut self, id: u64) {
        self.end_wait(id);
        self.uncount(id);
        if self.open.remove(&id).is_some_and(|held| held.is_leaving) {
            self.leaving = self.leaving.saturating_sub(1);
        }
    }

    /// Logs once, until places are free again.
    fn warn_of_scarcity(&mut self, bounds: &Bounds, origin: IpAddr, crowd: OpenConnections) {
        if !std::mem::replace(&mut self.is_scarce, true) {
            tracing::warn!(
                connections.open = crowd.open,
                connections.of_address = crowd.open_of_address,
                "connections are scarce: {open} of {places} are open, {of_address} of {per_address} from {origin}, and none of \
                 them waits for a request, so further ones get answers to health checks alone; let the process open more \
                 files (ulimit -n), or raise server.max_connections_per_address if {origin} is a proxy",
                open = crowd.open,
                places = bounds.places,
                of_address = crowd.open_of_address,
                per_address = bounds.per_address,
            );
        }
    }
}

/// The place of a connection, freed on drop.
#[derive(Debug)]
pub(super) struct Seat {
    places: Arc<Places>,
    id: u64,
    /// Whether only health checks are served.
    pub(super) is_for_health: bool,
    pub(super) head_timeout: Duration,
    /// Notified when the connection has to close.
    pub(super) leave: Arc<Notify>,
}

impl Seat {
    /// Whether a request ever arrived.
    pub(super) fn has_had_request(&self) -> bool {
        self.places.book().open.get(&self.id).is_some_and(|held| held.has_had_request)
    }

    /// A request has arrived; it is open until the result is dropped.
    pub(super) fn open_request(&self) -> OpenRequest {
        let mut book = self.places.book();
        book.end_wait(self.id);
        if let Some(held) = book.open.get_mut(&self.id) {
            held.has_had_request = true;
        }
        drop(book);
        OpenRequest { places: Arc::clone(&self.places), id: self.id }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places.book().remove(self.id);
        self.places.changed.notify_one();
    }
}

/// A request whose response is not written yet.
#[derive(Debug)]
pub(super) struct OpenRequest {
    places: Arc<Places>,
    id: u64,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.places.book().wait(self.id);
        self.places.changed.notify_one();
    }
}

/// The body of a response. Its request is open until the body is written.
#[derive(Debug)]
pub(super) struct TrackedBody {
    pub(super) body: axum::body::Body,
    pub(super) _request: OpenRequest,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
