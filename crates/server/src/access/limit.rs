//! Rate limits: requests per caller, and failed attempts per address. Each process counts for itself.

use crate::problem::Problem;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::time::Monotonic;

const WINDOW: Duration = Duration::from_secs(60);
/// Limits the memory for counts.
const CALLERS_MAX: usize = 10_000;

/// Maximum per minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rates {
    pub per_caller: u32,
    /// Failed attempts to log in, from one address.
    pub failures: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { per_caller: 600, failures: 5 }
    }
}

#[derive(Debug)]
pub struct Limits {
    rates: Rates,
    callers: Mutex<HashMap<String, Count>>,
    failures: Mutex<HashMap<IpAddr, Count>>,
}

#[derive(Debug)]
struct Count {
    since: Monotonic,
    count: u32,
}

impl Limits {
    pub fn new(rates: Rates) -> Self {
        Self { rates, callers: Mutex::default(), failures: Mutex::default() }
    }

    pub(crate) fn check_caller(&self, caller: &str, now: Monotonic) -> Result<(), Problem> {
        count(&self.callers, caller.to_owned(), self.rates.per_caller, now)
    }

    /// Counts a failed attempt. Valid credentials always pass, even from an address with many failures: behind a proxy all
    /// callers share one address, and 256 bits cannot be guessed.
    pub(crate) fn note_failure(&self, address: IpAddr, now: Monotonic) -> Result<(), Problem> {
        count(&self.failures, address, self.rates.failures, now)
    }
}

/// Counts one more, and refuses it if it is more than `most`.
fn count<K: Hash + Eq>(
    counts: &Mutex<HashMap<K, Count>>,
    key: K,
    most: u32,
    now: Monotonic,
) -> Result<(), Problem> {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if counts.len() >= CALLERS_MAX {
        counts.retain(|_, count| now.since(count.since) < WINDOW);
        // Memory matters more than exact counts.
        if counts.len() >= CALLERS_MAX {
            counts.clear();
        }
    }
    let count = counts.entry(key).or_insert(Count { since: now, count: 0 });
    if now.since(count.since) >= WINDOW {
        *count = Count { since: now, count: 0 };
    }
    count.count = count.count.saturating_add(1);
    if count.count <= most {
        return Ok(());
    }
    let left = WINDOW.saturating_sub(now.since(count.since)).as_secs().max(1);
    let detail = format!("more than {most} requests per minute");
    Err(Problem::new(Code::TooManyRequests, detail, format!("wait {left} s, then send requests less often"))
        .retry_after(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_caller_is_slowed_down_for_the_rest_of_the_minute() {
        let limits = Limits::new(Rates { per_caller: 3, failures: 5 });

        for _ in 0..3 {
            assert!(limits.check_caller("ann", at(0)).is_ok());
        }
        assert!(limits.check_caller("ann", at(59)).is_err());
        assert!(limits.check_caller("bob", at(59)).is_ok());
        assert!(limits.check_caller("ann", at(60)).is_ok());
    }

    #[test]
    fn an_address_that_fails_often_has_to_wait() {
        let limits = Limits::new(Rates { per_caller: 3, failures: 2 });
        let address = IpAddr::from([127, 0, 0, 1]);

        assert!(limits.note_failure(address, at(0)).is_ok());
        assert!(limits.note_failure(address, at(2)).is_ok());
        assert!(limits.note_failure(address, at(3)).is_err());
        assert!(limits.note_failure(address, at(61)).is_ok());
    }
}
