//! How long nothing comes out.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;

/// A look at the file in each of these.
const TICK: Duration = Duration::from_millis(20);

type Span = (Monotonic, Monotonic);

/// Watches a file grow.
pub(super) struct Pulse {
    clock: Arc<SystemClock>,
    start: Monotonic,
    is_over: Arc<AtomicBool>,
    /// Times in which the file did not grow.
    watching: Option<JoinHandle<Vec<Span>>>,
    outages: Vec<Span>,
}

impl Pulse {
    pub(super) fn start(file: PathBuf) -> Self {
        let clock = Arc::new(SystemClock::new());
        let start = clock.monotonic();
        let is_over = Arc::<AtomicBool>::default();
        let (ours, over) = (clock.clone(), is_over.clone());
        let watching = std::thread::spawn(move || {
            let mut pauses = Vec::new();
            let mut grown: Option<(u64, Monotonic)> = None;
            while !over.load(Ordering::SeqCst) {
                let length = fs::metadata(&file).map_or(0, |found| found.len());
                let now = ours.monotonic();
                match grown {
                    Some((before, _)) if length == before => {}
                    None if length == 0 => {}
                    _ => {
                        pauses.extend(grown.map(|(_, since)| (since, now)));
                        grown = Some((length, now));
                    }
                }
                std::thread::sleep(TICK);
            }
            pauses
        });
        Self { clock, start, is_over, watching: Some(watching), outages: Vec::new() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.monotonic().since(self.start)
    }

    pub(super) fn database_goes(&mut self) {
        let now = self.clock.monotonic();
        self.outages.push((now, now));
    }

    pub(super) fn database_is_back(&mut self) {
        let now = self.clock.monotonic();
        if let Some((_, end)) = self.outages.last_mut() {
            *end = now;
        }
    }

    /// The longest pause while the database was there, and the longest one of the others.
    pub(super) fn end(&mut self) -> (Duration, Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        let pauses = self.watching.take().unwrap().join().unwrap();
        let is_outage =
            |(from, to): &Span| self.outages.iter().any(|(gone, back)| from <= back && gone <= to);
        let (away, there): (Vec<Span>, Vec<Span>) = pauses.into_iter().partition(is_outage);
        let longest =
            |spans: Vec<Span>| spans.iter().map(|(from, to)| to.since(*from)).max().unwrap_or_default();
        (longest(there), longest(away))
    }
}
