//! How long nothing comes out.

use super::PATIENCE;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;

/// A look at the sink in each of these.
const TICK: Duration = Duration::from_millis(20);

type Span = (Monotonic, Monotonic);

/// Watches a sink grow.
pub(super) struct Pulse {
    clock: Arc<SystemClock>,
    start: Monotonic,
    is_over: Arc<AtomicBool>,
    /// How often it was seen to have grown.
    grown: Arc<AtomicUsize>,
    /// Times in which it did not grow.
    watching: Option<JoinHandle<Vec<Span>>>,
    outages: Vec<Span>,
}

impl Pulse {
    /// Of what only ever grows.
    pub(super) fn start(growth: impl Fn() -> u64 + Send + 'static) -> Self {
        let clock = Arc::new(SystemClock::new());
        let start = clock.monotonic();
        let is_over = Arc::<AtomicBool>::default();
        let (ours, over) = (clock.clone(), is_over.clone());
        let times = Arc::<AtomicUsize>::default();
        let seen = times.clone();
        let watching = std::thread::spawn(move || {
            let mut pauses = Vec::new();
            let mut grown: Option<(u64, Monotonic)> = None;
            while !over.load(Ordering::SeqCst) {
                let length = growth();
                let now = ours.monotonic();
                match grown {
                    Some((before, _)) if length == before => {}
                    None if length == 0 => {}
                    _ => {
                        pauses.extend(grown.map(|(_, since)| (since, now)));
                        grown = Some((length, now));
                        seen.fetch_add(1, Ordering::SeqCst);
                    }
                }
                std::thread::sleep(TICK);
            }
            pauses
        });
        Self { clock, start, is_over, grown: times, watching: Some(watching), outages: Vec::new() }
    }

    /// Waits until the sink has grown after this call.
    pub(super) async fn until_grown(&self) {
        let before = self.grown();
        let growing = async {
            // The one that is seen next may have come before.
            while self.grown() < before + 2 {
                tokio::time::sleep(TICK).await;
            }
        };
        tokio::time::timeout(PATIENCE, growing).await.expect("something is published");
    }

    /// How often the sink was seen to have grown.
    pub(super) fn grown(&self) -> usize {
        self.grown.load(Ordering::SeqCst)
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.clock.monotonic().since(self.start)
    }

    /// From now on nothing can come out: the database or the broker is away.
    pub(super) fn outage_begins(&mut self) {
        let now = self.clock.monotonic();
        self.outages.push((now, now));
    }

    pub(super) fn outage_ends(&mut self) {
        let now = self.clock.monotonic();
        if let Some((_, end)) = self.outages.last_mut() {
            *end = now;
        }
    }

    /// The longest pause while everything was there, and the longest time that it took to go on after an outage.
    pub(super) fn end(&mut self) -> (Duration, Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        let pauses = self.watching.take().unwrap().join().unwrap();
        let (mut there, mut after) = (Duration::ZERO, Duration::ZERO);
        for (from, to) in pauses {
            let outages = self.outages.iter().filter(|(gone, back)| from <= *back && *gone <= to);
            match outages.map(|(_, back)| *back).max() {
                None => there = there.max(to.since(from)),
                Some(back) => after = after.max(to.since(back)),
            }
        }
        (there, after)
    }
}
