//! Whether this process may still act on a lease, by its own monotonic clock ([`trusted_until`]). The fence in the
//! settling transaction has the last word.

use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::process::trusted_until;
use tidemill_domain::time::{Clock, Monotonic};
use tokio::sync::watch;

/// How long this process may act on a lease. Clones are renewed and lost together.
#[derive(Clone, Debug)]
pub struct LeaseGuard {
    clock: Arc<dyn Clock>,
    ttl: Duration,
    /// None once the lease is lost, which is final.
    until: Arc<watch::Sender<Option<Monotonic>>>,
}

impl LeaseGuard {
    /// `sent` is when the request that granted the lease was sent.
    pub fn new(clock: Arc<dyn Clock>, ttl: Duration, sent: Monotonic) -> Self {
        let until = watch::Sender::new(Some(trusted_until(sent, ttl)));
        Self { clock, ttl, until: Arc::new(until) }
    }

    pub fn may_act(&self) -> bool {
        !self.remaining().is_zero()
    }

    pub fn remaining(&self) -> Duration {
        self.until.borrow().map_or(Duration::ZERO, |until| until.since(self.clock.monotonic()))
    }

    /// Renewed by a request sent at this instant.
    pub(crate) fn renew(&self, sent: Monotonic) {
        let renewed = trusted_until(sent, self.ttl);
        self.until.send_if_modified(|until| {
            let is_later = until.is_some_and(|until| until < renewed);
            if is_later {
                *until = Some(renewed);
            }
            is_later
        });
    }

    /// A request sent at this instant was acknowledged. That does not revive a lease that has expired.
    pub(crate) fn acknowledged(&self, sent: Monotonic) {
        if self.may_act() {
            self.renew(sent);
        }
    }

    /// Final: no renewal revives it.
    pub(crate) fn lose(&self) {
        self.until.send_replace(None);
    }

    /// Waits until it may no longer act.
    pub(crate) async fn over(&self) {
        let mut until = self.until.subscribe();
        while self.may_act() {
            tokio::select! {
                _changed = until.changed() => {}
                () = tokio::time::sleep(self.remaining()) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::{FakeClock, Timestamp};

    const LEASE: Duration = Duration::from_secs(5);

    fn guard() -> (Arc<FakeClock>, LeaseGuard) {
        let clock = Arc::new(FakeClock::at(Timestamp::EPOCH));
        let guard = LeaseGuard::new(clock.clone(), LEASE, clock.monotonic());
        (clock, guard)
    }

    #[test]
    fn an_acknowledgement_in_time_counts_from_when_it_was_sent() {
        let (clock, guard) = guard();
        clock.advance(Duration::from_secs(3));
        let sent = clock.monotonic();
        clock.advance(Duration::from_millis(500));

        guard.acknowledged(sent);

        assert_eq!(guard.remaining(), Duration::from_millis(3_500));
    }

    #[test]
    fn an_acknowledgement_does_not_bring_back_what_is_over() {
        let (clock, guard) = guard();
        clock.advance(Duration::from_secs(3));
        let sent = clock.monotonic();
        clock.advance(Duration::from_secs(3));

        guard.acknowledged(sent);
        assert!(!guard.may_act());
        guard.acknowledged(clock.monotonic());
        assert!(!guard.may_act());

        // Only the database knows whether the lease still holds.
        guard.renew(clock.monotonic());
        assert!(guard.may_act());
    }

    #[test]
    fn an_earlier_renewal_that_is_heard_of_later_changes_nothing() {
        let (clock, guard) = guard();
        let early = clock.monotonic();
        clock.advance(Duration::from_secs(1));
        guard.renew(clock.monotonic());

        guard.renew(early);

        assert_eq!(guard.remaining(), Duration::from_secs(4));
    }

    #[tokio::test]
    async fn what_is_lost_is_over_at_once_and_no_renewal_brings_it_back() {
        let (clock, guard) = guard();
        let waiting = guard.clone();

        tokio::join!(waiting.over(), async { guard.lose() });

        guard.renew(clock.monotonic());
        assert!(!guard.may_act() && !waiting.may_act());
    }
}
