//! Times on pages: a `<time>` element that is readable without the script, and that the script can reformat.

use crate::dashboard::part::{or_soft, span};
use crate::dashboard::preferences::TimeMode;
use maud::{Markup, html};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Timestamp;

/// How a page shows times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    mode: TimeMode,
    now: Timestamp,
    is_shared: bool,
    /// In place of UTC and of the visitor's zone.
    zone: Option<Zone>,
}

impl Times {
    pub(crate) fn new(mode: TimeMode, now: Timestamp) -> Self {
        Self { mode, now, is_shared: false, zone: None }
    }

    /// For live regions, which go to many visitors. Does not depend on the current time, so that only real changes are sent.
    pub(crate) fn shared(now: Timestamp) -> Self {
        Self { mode: TimeMode::Utc, now, is_shared: true, zone: None }
    }

    /// The same in a zone, whatever zone the visitor likes. UTC changes nothing, because it is the default of settings.
    #[must_use]
    pub(crate) fn in_zone(&self, zone: &Zone) -> Self {
        let zone = Some(zone).filter(|zone| **zone != Zone::UTC).cloned();
        Self { zone, ..self.clone() }
    }

    /// The time of the page's data.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn at(&self, instant: Timestamp) -> Markup {
        let zoned = self.zone.as_ref().and_then(|zone| zone.told(instant));
        let text = match self.mode {
            // Only the script knows the visitor's time zone.
            TimeMode::Utc | TimeMode::Local => zoned.clone().unwrap_or_else(|| utc(instant)),
            TimeMode::Relative => instant.relative_to(self.now),
        };
        html! { time datetime=(instant) data-zoned=[zoned] title=(instant) { (text) } }
    }

    /// The time since or until an instant. The script keeps it current.
    pub(crate) fn length(&self, instant: Timestamp) -> Markup {
        let length = if instant > self.now { instant.since(self.now) } else { self.now.since(instant) };
        let text = if self.is_shared { utc(instant) } else { span(length) };
        html! { time.length datetime=(instant) { (text) } }
    }

    pub(crate) fn maybe(&self, instant: Option<Timestamp>, without: &str) -> Markup {
        or_soft(instant.map(|instant| self.at(instant)), without)
    }

    /// [`length`](Self::length) of an instant that may be missing.
    pub(crate) fn maybe_length(&self, instant: Option<Timestamp>, without: &str) -> Markup {
        or_soft(instant.map(|instant| self.length(instant)), without)
    }
}

/// To the second, with the name of the zone.
fn utc(instant: Timestamp) -> String {
    let text = instant.to_string();
    match (text.get(..10), text.get(10..11), text.get(11..19)) {
        (Some(day), Some("T"), Some(clock)) => format!("{day} {clock} UTC"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(mode: TimeMode, instant: &str, expected: &str) {
        let now = "2026-11-15T12:00:00Z".parse().unwrap();
        let markup = Times::new(mode, now).at(instant.parse().unwrap()).into_string();
        assert!(markup.contains(&format!(">{expected}</time>")), "{markup}");
        assert!(markup.contains("datetime=\"2026-11-1"), "{markup}");
    }

    #[test]
    fn an_instant_is_told_as_the_visitor_likes_it() {
        check(TimeMode::Utc, "2026-11-15T02:00:07Z", "2026-11-15 02:00:07 UTC");
        check(TimeMode::Local, "2026-11-15T02:00:07Z", "2026-11-15 02:00:07 UTC");
        check(TimeMode::Relative, "2026-11-15T11:59:55Z", "5 s ago");
        check(TimeMode::Relative, "2026-11-15T10:00:00Z", "2 h ago");
        check(TimeMode::Relative, "2026-11-12T12:00:00Z", "3 d ago");
        check(TimeMode::Relative, "2026-11-15T12:03:00Z", "in 3 min");
    }

    #[test]
    fn a_time_in_a_zone_is_told_with_the_short_name_of_the_zone() {
        let instant = "2026-11-15T18:00:00Z".parse().unwrap();
        let told = |mode, zone: &str| {
            let times = Times::new(mode, "2026-11-15T12:00:00Z".parse().unwrap());
            times.in_zone(&zone.parse().unwrap()).at(instant).into_string()
        };
        let there = ">2026-11-16 03:00:00 KST</time>";

        assert!(told(TimeMode::Utc, "Asia/Seoul").contains(there));
        assert!(told(TimeMode::Local, "Asia/Seoul").contains(there));
        assert!(told(TimeMode::Relative, "Asia/Seoul").contains(">in 6 h</time>"));
        assert!(told(TimeMode::Utc, "Asia/Seoul").contains("data-zoned=\"2026-11-16 03:00:00 KST\""));
        assert!(told(TimeMode::Local, "UTC").contains("18:00:00 UTC"));
        assert!(!told(TimeMode::Local, "UTC").contains("data-zoned"), "the script tells the visitor's time");
    }

    #[test]
    fn what_is_sent_to_many_depends_on_no_clock() {
        let instant = "2026-11-15T02:00:07Z".parse().unwrap();
        let early = Times::shared(Timestamp::EPOCH).at(instant).into_string();
        let late = Times::shared(instant.plus(Duration::from_secs(99))).at(instant).into_string();
        assert_eq!(early, late);
        let early = Times::shared(Timestamp::EPOCH).length(instant).into_string();
        let late = Times::shared(instant.plus(Duration::from_secs(99))).length(instant).into_string();
        assert_eq!(early, late);
    }

    #[test]
    fn a_length_is_told_forth_and_back_in_every_mode() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for mode in [TimeMode::Utc, TimeMode::Local, TimeMode::Relative] {
            for instant in [now.plus(Duration::from_secs(42)), now.minus(Duration::from_secs(42))] {
                let markup = Times::new(mode, now).length(instant).into_string();
                assert!(markup.contains(">42 s</time>"), "{markup}");
            }
        }
    }
}
