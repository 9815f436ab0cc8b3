//! How many units a pool has at an instant: more at night than by day, say.

use crate::schedule::{Window, Zone};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Another number of units while a window is open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capacity {
    pub window: Window,
    pub max_units: u32,
}

/// The units of the first open window, otherwise `usual`.
pub fn max_units_at(usual: u32, windows: &[Capacity], zone: &Zone, at: Timestamp) -> u32 {
    let Some(local) = zone.local(at) else { return usual };
    windows
        .iter()
        .find(|capacity| capacity.window.contains(local))
        .map_or(usual, |capacity| capacity.max_units)
}

/// How many units may be in use, rounded down.
pub fn admit_limit(max_units: u32, threshold_percent: u8) -> u64 {
    u64::from(max_units) * u64::from(threshold_percent) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_open_window_counts() {
        let windows = [
            Capacity { window: "SUN 00:00-24:00".parse().unwrap(), max_units: 0 },
            Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 1_000 },
        ];
        let seoul: Zone = "Asia/Seoul".parse().unwrap();
        let at = |text: &str| max_units_at(200, &windows, &seoul, text.parse().unwrap());

        assert_eq!(at("2026-11-16T13:00:00Z"), 1_000, "22:00 of Monday");
        assert_eq!(at("2026-11-16T12:59:59Z"), 200);
        assert_eq!(at("2026-11-15T13:00:00Z"), 0, "Sunday");
    }

    #[test]
    fn the_limit_is_rounded_down() {
        assert_eq!(admit_limit(1_000, 95), 950);
        assert_eq!(admit_limit(99, 95), 94);
        assert_eq!(admit_limit(u32::MAX, 100), u64::from(u32::MAX));
        assert_eq!(admit_limit(1, 95), 0);
    }
}
