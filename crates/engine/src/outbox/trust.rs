//! How long a relay may be sure of its lease, by its own monotonic clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::process::trusted_until;
use tidemill_domain::time::{Clock, Monotonic};

/// The trust of a relay in its own lease. Its copies are renewed together.
#[derive(Clone, Debug)]
pub struct Trust {
    clock: Arc<dyn Clock>,
    lease: Duration,
    until: Arc<Mutex<Monotonic>>,
}

impl Trust {
    /// Granted by an answer to something that was sent at this instant.
    pub fn new(clock: Arc<dyn Clock>, lease: Duration, sent: Monotonic) -> Self {
        Self { clock, lease, until: Arc::new(Mutex::new(trusted_until(sent, lease))) }
    }

    /// Something was acknowledged that was sent at this instant. A lease that has passed may still be acknowledged, which does
    /// not bring it back; but it cannot have passed before this trust in it is over.
    pub(super) fn acknowledged(&self, sent: Monotonic) {
        if !self.is_over() {
            self.renew(sent);
        }
    }

    /// The lease was renewed by what was sent at this instant.
    pub(super) fn renew(&self, sent: Monotonic) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(trusted_until(sent, self.lease));
    }

    /// How long it lasts from now on.
    pub(super) fn left(&self) -> Duration {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).since(self.clock.monotonic())
    }

    /// Whether others may have the slots by now.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    pub(super) async fn over(&self) {
        loop {
            let left = self.left();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::{FakeClock, Timestamp};

    const LEASE: Duration = Duration::from_secs(5);

    fn trust() -> (Arc<FakeClock>, Trust) {
        let clock = Arc::new(FakeClock::at(Timestamp::EPOCH));
        let trust = Trust::new(clock.clone(), LEASE, clock.monotonic());
        (clock, trust)
    }

    #[test]
    fn an_acknowledgement_in_time_counts_from_when_it_was_sent() {
        let (clock, trust) = trust();
        clock.advance(Duration::from_secs(3));
        let sent = clock.monotonic();
        clock.advance(Duration::from_millis(500));

        trust.acknowledged(sent);

        assert_eq!(trust.left(), Duration::from_millis(3_500));
    }

    #[test]
    fn an_acknowledgement_does_not_bring_back_what_is_over() {
        let (clock, trust) = trust();
        clock.advance(Duration::from_secs(3));
        let sent = clock.monotonic();
        clock.advance(Duration::from_secs(3));

        trust.acknowledged(sent);
        assert!(trust.is_over());
        trust.acknowledged(clock.monotonic());
        assert!(trust.is_over());

        // Only the database knows whether the lease still holds.
        trust.renew(clock.monotonic());
        assert!(!trust.is_over());
    }
}
