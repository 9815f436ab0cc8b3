//! A sink that counts what another one does not answer for, so that a test can wait for it, and knows what may be there
//! twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_domain::outbox::{EventId, Group, Record};
use tidemill_engine::LeaseGuard;
use tidemill_engine::outbox::publisher::{Publishing, Taking};
use tidemill_engine::outbox::{Outcome, Publisher};

/// A sink whose answers are counted.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    sink: Arc<dyn Publisher>,
    unanswered: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
}

impl Watched {
    pub(super) fn new(sink: impl Publisher + 'static) -> Self {
        Self { sink: Arc::new(sink), unanswered: Arc::default(), under_way: Arc::default() }
    }

    /// Records that were sent and not answered for.
    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.load(Ordering::SeqCst)
    }

    /// Records, when nothing is sent any more, that may be there twice.
    pub(super) fn in_doubt(&self) -> usize {
        self.unanswered() + self.under_way.load(Ordering::SeqCst)
    }

    /// Waits until there are more of them than there were.
    pub(super) async fn until_more_than(&self, before: usize) {
        let reached = async {
            while self.unanswered() <= before {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(super::site::SOON, reached).await.expect("a record that is not answered for");
    }
}

impl Publisher for Watched {
    fn name(&self) -> String {
        self.sink.name()
    }

    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a> {
        Box::pin(async move {
            // Of a publication that is given up on its way nothing is known either.
            self.under_way.fetch_add(records.len(), Ordering::SeqCst);
            let outcomes = self.sink.publish(records).await;
            let is_unanswered = |outcome: &&Outcome| matches!(outcome, Outcome::Unavailable { .. });
            let unanswered = outcomes.iter().filter(is_unanswered).count();
            self.unanswered.fetch_add(unanswered, Ordering::SeqCst);
            self.under_way.fetch_sub(records.len(), Ordering::SeqCst);
            outcomes
        })
    }

    fn take<'a>(&'a self, groups: &'a [Group], system: Option<&'a str>, guard: &'a LeaseGuard) -> Taking<'a> {
        self.sink.take(groups, system, guard)
    }

    fn leave(&self, groups: &[Group]) {
        self.sink.leave(groups);
    }

    fn settled(&self, events: &[EventId]) {
        self.sink.settled(events);
    }

    fn is_ousted(&self) -> bool {
        self.sink.is_ousted()
    }
}
