//! A time zone by its IANA name. The database of zones is compiled in, so every host has the same.

use crate::time::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    pub const UTC: Self = Self(TimeZone::UTC);

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    fn read(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        (zone == TimeZone::UTC || zone.iana_name().is_some()).then_some(Self(zone))
    }

    /// The local time. None beyond the end of the calendar.
    pub fn local(&self, at: Timestamp) -> Option<DateTime> {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
        Some(self.0.to_datetime(at))
    }

    /// The local time to the second, with the short name of the zone, such as `2026-11-16 03:00:00 KST`.
    pub fn told(&self, at: Timestamp) -> Option<String> {
        let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
        Some(at.to_zoned(self.0.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    }

    /// The first instant with a local time such as `2026-11-15T18:00`, as browsers send it.
    pub fn read_local(&self, text: &str) -> Option<Timestamp> {
        self.first_instant(text.parse().ok()?)
    }

    /// The first instant with this local time; the first after the gap, if clocks skip it.
    pub fn first_instant(&self, local: DateTime) -> Option<Timestamp> {
        let at = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_gap = after.to_timestamp(local).ok()?;
                self.0.following(before_the_gap).next()?.timestamp()
            }
        };
        Some(Timestamp::from_micros(at.as_microsecond()))
    }
}

crate::newtype::display!(Zone, zone => "{}", zone.name());

crate::newtype::serde_as_text!(Zone);

crate::newtype::parsed!(
    Zone, Zone::read, UnknownZone(text): "unknown time zone {0:?}; use an IANA name such as Asia/Seoul or UTC"
);
