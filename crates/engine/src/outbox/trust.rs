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

    /// Waits for its end.
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
