//! The metrics of pools on standard output, in CloudWatch's embedded metric format, one line per pool and minute. The log
//! goes to standard error, so whoever collects the lines gets nothing else.

use std::io::Write;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_engine::pool::{Pools, emf, gauge};

/// What was counted is told once in this time.
const PAUSE: Duration = Duration::from_secs(60);

/// Prints every minute, for as long as it is let. What is left at the end is for [`print`].
pub(crate) async fn run(pools: Pools) {
    loop {
        tokio::time::sleep(PAUSE).await;
        print(&pools).await;
    }
}

/// Prints a line for each pool.
pub(crate) async fn print(pools: &Pools) {
    let levels = match gauge::levels(pools.store()).await {
        Ok(levels) => levels,
        // What was counted is kept for the next time.
        Err(error) => return tracing::warn!(%error, "the metrics of pools were not printed; will try again"),
    };
    let (now, mut sums) = (SystemClock::new().now(), pools.take_sums());
    let mut text = String::new();
    for seen in levels {
        text.push_str(&emf::line(now, &seen, &sums.remove(&seen.settings.name).unwrap_or_default()));
        text.push('\n');
    }
    let mut output = std::io::stdout().lock();
    if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        tracing::warn!(%error, "the metrics of pools could not be printed");
    }
}
