//! A sink that is down: how long a relay waits for it, and how often that is logged.

use super::{EndReason, Member};
use crate::locked;
use crate::outbox::Relay;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tidemill_domain::time::Monotonic;
use tidemill_store::outbox::relay::View;

#[derive(Clone, Copy, Debug)]
pub(super) struct SinkDown {
    since: Monotonic,
    /// Failed attempts since then.
    pub(super) failures: u32,
}

impl SinkDown {
    pub(super) fn again(before: Option<Self>, now: Monotonic) -> Self {
        let before = before.unwrap_or(Self { since: now, failures: 0 });
        Self { failures: before.failures.saturating_add(1), ..before }
    }
}

impl Member<'_> {
    /// A relay whose sink is down for long leaves its slots to other relays, if there are any.
    pub(super) fn check_sink(&self, view: &View) -> Result<(), EndReason> {
        let options = &self.relay.options;
        let Some(down) = self.sink_down else { return Ok(()) };
        let is_long = self.now().since(down.since) > options.timeout + options.lease;
        // Other relays do not take over a fixed share.
        let others = view.live.iter().filter(|live| live.id != self.id).count();
        if is_long && others > 0 && options.instance.is_none() { Err(EndReason::Aside) } else { Ok(()) }
    }
}

/// The same warning is not logged again for this long.
const QUIET: Duration = Duration::from_secs(60);

const REMEMBERED: usize = 8;

#[derive(Debug, Default)]
pub(super) struct RecentWarnings(Mutex<VecDeque<(String, Monotonic)>>);

impl RecentWarnings {
    /// Whether to log this now; if so, it is remembered.
    fn is_news(&self, text: &str, now: Monotonic) -> bool {
        let mut warnings = locked(&self.0);
        warnings.retain(|(_, at)| now.since(*at) < QUIET);
        if warnings.iter().any(|(known, _)| known == text) {
            return false;
        }
        if warnings.len() == REMEMBERED {
            warnings.pop_front();
        }
        warnings.push_back((text.to_owned(), now));
        true
    }
}

impl Relay {
    /// Logs a failure of the sink: as a warning, or as debug if it was logged a moment ago.
    pub(super) fn warn_of_sink(&self, what: &str, why: &str) {
        let text = format!("{} does not take {what}: {why}", self.publisher.name());
        if self.warnings.is_news(&text, self.clock.monotonic()) {
            tracing::warn!("{text}; will try again, and say so once a minute");
        } else {
            tracing::debug!("{text}; will try again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::{Clock, FakeClock, Timestamp};

    #[test]
    fn the_same_failure_is_told_once_a_minute_and_another_at_once() {
        let clock = FakeClock::at(Timestamp::EPOCH);
        let warnings = RecentWarnings::default();
        let is_news = |text: &str| warnings.is_news(text, clock.monotonic());

        assert!(is_news("no folder"));
        clock.advance(QUIET / 2);
        assert!(!is_news("no folder") && is_news("no space") && !is_news("no folder"));
        clock.advance(QUIET / 2);
        assert!(is_news("no folder") && !is_news("no space"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let clock = FakeClock::at(Timestamp::EPOCH);
        let warnings = RecentWarnings::default();

        for n in 0..1_000 {
            assert!(warnings.is_news(&n.to_string(), clock.monotonic()));
        }

        assert_eq!(warnings.0.lock().unwrap().len(), REMEMBERED);
    }
}
