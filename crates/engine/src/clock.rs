//! The only file that reads the real clock, makes ids and draws random numbers.
#![expect(clippy::disallowed_methods, reason = "this is the place that the other rules point to")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tidemill_domain::access::Token;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::outbox::RelayId;
use tidemill_domain::pool::TicketId;
use tidemill_domain::process::ProcessId;
use tidemill_domain::time::{Clock, Monotonic, Timestamp};
use uuid::Uuid;

#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic readings count from now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::EPOCH.plus(since_epoch)
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.origin.elapsed())
    }
}

/// Makes unique ids that sort by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl SystemIds {
    pub fn process(&self) -> ProcessId {
        ProcessId::new(Uuid::now_v7())
    }

    pub fn ticket(&self) -> TicketId {
        TicketId::new(Uuid::now_v7())
    }

    pub fn relay(&self) -> RelayId {
        RelayId::new(Uuid::now_v7())
    }

    /// A request id, for log lines, audit rows and the response.
    pub fn request(&self) -> String {
        Uuid::now_v7().simple().to_string()
    }

    pub fn token(&self) -> Result<Token, getrandom::Error> {
        Ok(Token::from_random(&random_bytes()?, &random_bytes()?))
    }
}

pub fn jitter_unit() -> f64 {
    fastrand::f64()
}

/// Shortens a pause by up to 10%, so that equal pauses do not end together.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - 0.1 * jitter_unit())
}

/// Pause after `failures` failures in a row: doubles each time, with up to 50% jitter.
pub(crate) fn pause_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    match Backoff::new(first, 2.0, longest.max(first), 0.5) {
        Ok(backoff) if failures > 0 => backoff.delay(failures, jitter_unit()),
        _ => Duration::ZERO,
    }
}

/// Cryptographically secure random bytes, for secrets.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}
