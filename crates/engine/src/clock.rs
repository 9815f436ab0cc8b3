//! The one file that reads the real clock, makes ids and draws lots. Everybody else is given them.
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
    /// Clocks whose monotonic readings count from now.
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

/// Makes ids that are unique and sort by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIds;

impl SystemIds {
    pub fn process(&self) -> ProcessId {
        ProcessId::new(Uuid::now_v7())
    }

    /// The id of a ticket that somebody is about to get; later ones sort after earlier ones.
    pub fn ticket(&self) -> TicketId {
        TicketId::new(Uuid::now_v7())
    }

    pub fn relay(&self) -> RelayId {
        RelayId::new(Uuid::now_v7())
    }
}

/// A random number from 0 to 1, for jitter.
pub fn jitter_unit() -> f64 {
    fastrand::f64()
}

/// A pause, shortened by up to a tenth, so that not all who make the same one end it together.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - 0.1 * jitter_unit())
}

/// The pause after so many failures in a row: twice as long each time, and up to half of it less, so that those who failed
/// together come back apart.
pub(crate) fn pause_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    match Backoff::new(first, 2.0, longest.max(first), 0.5) {
        Ok(backoff) if failures > 0 => backoff.delay(failures, jitter_unit()),
        _ => Duration::ZERO,
    }
}

/// Random bytes that nobody can guess, for secrets.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

impl SystemIds {
    pub fn token(&self) -> Result<Token, getrandom::Error> {
        Ok(Token::from_random(&random_bytes()?, &random_bytes()?))
    }

    /// The id of a request, for its log lines, its audit rows and its answer.
    pub fn request(&self) -> String {
        Uuid::now_v7().simple().to_string()
    }
}
