//! How many requests may be sent in a time.

use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_engine::SystemClock;

/// A number of requests in a time, such as `10/s`. Requests are spread evenly: `10/s` is one every 100 ms.
///
/// ```
/// # use tidemill_http::Rate;
/// assert!("10/s".parse::<Rate>().is_ok() && "600/m".parse::<Rate>().is_ok());
/// assert!("0/s".parse::<Rate>().is_err() && "10".parse::<Rate>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    interval: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a rate is a number of requests per s, m or h, such as 10/s, from 1/h to 1000/s")]
pub struct BadRate;

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Self, BadRate> {
        let (count, unit) = text.split_once('/').ok_or(BadRate)?;
        let seconds = match unit.trim() {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err(BadRate),
        };
        let count: u32 = count.trim().parse().map_err(|_| BadRate)?;
        let is_in_bounds = count >= 1 && u64::from(count) <= seconds * 1000;
        is_in_bounds.then(|| Self { interval: Duration::from_secs(seconds) / count }).ok_or(BadRate)
    }
}

/// Lets requests pass at a rate.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    clock: SystemClock,
    next: Monotonic,
}

impl Pace {
    pub(crate) fn new(rate: Rate) -> Self {
        let clock = SystemClock::new();
        Self { interval: rate.interval, next: clock.monotonic(), clock }
    }

    pub(crate) async fn pass(&mut self) {
        let now = self.clock.monotonic();
        let turn = self.next.max(now);
        self.next = turn.plus(self.interval);
        tokio::time::sleep(turn.since(now)).await;
    }
}
