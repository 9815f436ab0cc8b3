//! The settings of a pool: its name, its size, and how units are given out.

use super::decide::Policy;
use super::weight::{Lever, Shape, Weight, WeightModel, weigh};
use crate::action::Action;
use crate::duration;
use crate::newtype::check_all;
use crate::schedule::{Window, Zone};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::time::Duration;

const LONGEST: usize = 64;

/// More would be slow and hard to understand.
const MOST_WINDOWS: usize = 32;

/// The degree of a hint that says "parallel" without a number, if the pool does not set it.
pub const DEFAULT_DEGREE: NonZeroU32 = NonZeroU32::new(16).expect("16 is not 0");

/// Appears in URLs and metrics.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolName(String);

impl PoolName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(text: &str) -> Option<Self> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let starts_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_name = starts_well && text.len() <= LONGEST && text.bytes().all(is_good);
        is_name.then(|| Self(text.to_owned()))
    }
}

crate::newtype::parsed!(
    PoolName, PoolName::read,
    BadPoolName: "the name of a pool is 1 to {LONGEST} of A-Z, a-z, 0-9, `_`, `-` and `.`, starting with a letter or digit"
);
crate::newtype::serde_as_text!(PoolName);

crate::newtype::display!(PoolName, name => "{}", name.0);

/// Another number of units while a window is open.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capacity {
    pub window: Window,
    pub max_units: u32,
}

pub fn admit_limit(max_units: u32, threshold_percent: u8) -> u64 {
    u64::from(max_units) * u64::from(threshold_percent) / 100
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pause {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub name: PoolName,
    /// `src_db_id` in the EMR Batch Agent API.
    pub external_id: Option<i64>,
    pub db_type: String,
    pub max_units: u32,
    /// The share of `max_units` that may be in use.
    pub threshold_percent: u8,
    /// For requests without a number.
    pub default_units: NonZeroU32,
    /// The least that a downgrade gives.
    pub min_units: NonZeroU32,
    pub weight: WeightModel,
    /// Whether the database follows hints; otherwise only fewer sessions help.
    pub hint_effective: bool,
    /// The degree of a hint that says "parallel" without a number.
    pub default_degree: NonZeroU32,
    /// How many sets of servers a session may use: 2 for sorts, groups and joins.
    pub server_sets: u8,
    pub policy: Policy,
    /// Set while nothing may start.
    pub paused: Option<Pause>,
    pub capacity: Vec<Capacity>,
    pub zone: Zone,
    /// How long a holder that sends heartbeats may be silent.
    #[serde(with = "duration::text")]
    pub lease_for: Duration,
    #[serde(with = "duration::text")]
    pub max_hold: Duration,
    /// How long a grant is reserved after the instant at which the caller promised to ask again.
    #[serde(with = "duration::text")]
    pub claim_for: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {why}")]
pub struct BadSettings {
    pub field: &'static str,
    pub why: String,
}

impl Settings {
    /// A pool with the defaults of the EMR Batch Agent API.
    pub fn new(name: PoolName, max_units: u32) -> Self {
        Self {
            name,
            external_id: None,
            db_type: "oracle".to_owned(),
            max_units,
            threshold_percent: 95,
            default_units: NonZeroU32::MIN,
            min_units: NonZeroU32::MIN.saturating_add(1),
            weight: WeightModel::default(),
            hint_effective: true,
            default_degree: DEFAULT_DEGREE,
            server_sets: 2,
            policy: Policy::default(),
            paused: None,
            capacity: Vec::new(),
            zone: Zone::UTC,
            lease_for: Duration::from_secs(15 * 60),
            max_hold: Duration::from_secs(24 * 3600),
            claim_for: Duration::from_secs(120),
        }
    }

    /// The action to offer now.
    pub const fn possible(&self) -> Action {
        if self.paused.is_some() { Action::PoolResume } else { Action::PoolPause }
    }

    pub fn check(&self) -> Result<(), BadSettings> {
        let (percent, sets) = (self.threshold_percent, self.server_sets);
        let has_few_windows = self.capacity.len() <= MOST_WINDOWS;
        let within = |duration: Duration, least: u64, most: u64| {
            (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&duration)
        };
        let is_short = |text: &str, most: usize| text.len() <= most && !text.chars().any(char::is_control);
        let is_pause_short =
            self.paused.as_ref().is_none_or(|pause| is_short(&pause.by, 500) && is_short(&pause.reason, 500));
        let rules = [
            ("threshold_percent", (1..=100).contains(&percent), format!("{percent} is not from 1 to 100")),
            ("server_sets", (1..=4).contains(&sets), format!("{sets} is not from 1 to 4")),
            ("db_type", is_short(&self.db_type, LONGEST), format!("write at most {LONGEST} characters")),
            ("capacity", has_few_windows, format!("a pool has at most {MOST_WINDOWS} windows")),
            ("lease_for", within(self.lease_for, 5, 86_400), "it must be from 5s to 1d".to_owned()),
            ("max_hold", within(self.max_hold, 60, 31 * 86_400), "it must be from 1m to 31d".to_owned()),
            ("claim_for", within(self.claim_for, 5, 3_600), "it must be from 5s to 1h".to_owned()),
            ("paused", is_pause_short, "write at most 500 characters".to_owned()),
        ];
        check_all(rules.map(|(field, holds, why)| (holds, BadSettings { field, why })))
    }

    /// The units of the first open window, otherwise the usual ones.
    pub fn max_units_at(&self, at: Timestamp) -> u32 {
        let Some(local) = self.zone.local(at) else { return self.max_units };
        let open = self.capacity.iter().find(|capacity| capacity.window.contains(local));
        open.map_or(self.max_units, |capacity| capacity.max_units)
    }

    pub fn limit_at(&self, at: Timestamp) -> u64 {
        admit_limit(self.max_units_at(at), self.threshold_percent)
    }

    /// The highest limit of any window: a request that needs more is refused.
    pub fn greatest_limit(&self) -> u64 {
        let most = self.capacity.iter().map(|capacity| capacity.max_units).fold(self.max_units, u32::max);
        admit_limit(most, self.threshold_percent)
    }

    /// What a request costs here. Defaults are the pool's, and one session.
    pub fn weigh(
        &self,
        parallel: Option<NonZeroU32>,
        sessions: Option<NonZeroU32>,
    ) -> (Lever, NonZeroU32, Weight) {
        let shape = Shape {
            parallel: parallel.unwrap_or(self.default_units),
            sessions: sessions.unwrap_or(NonZeroU32::MIN),
        };
        weigh(self.weight, self.hint_effective, self.server_sets, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_addresses_and_metrics() {
        for good in ["ADW", "adw-2.eu", "0", "a_b"] {
            assert_eq!(good.parse::<PoolName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", ".a", "a b", "a/b", "한글", "a\n", &"a".repeat(65)] {
            assert_eq!(bad.parse::<PoolName>(), Err(BadPoolName), "{bad}");
        }
    }

    #[test]
    fn a_pool_offers_to_pause_and_a_paused_pool_to_resume() {
        let mut settings = Settings::new("ADW".parse().unwrap(), 8);
        assert_eq!(settings.possible(), Action::PoolPause);
        settings.paused = Some(Pause { by: "ann".into(), reason: "patch".into(), at: Timestamp::EPOCH });
        assert_eq!(settings.possible(), Action::PoolResume);
    }

    #[test]
    fn settings_survive_the_log() {
        let mut settings = Settings::new("ADW".parse().unwrap(), 1_000);
        settings.external_id = Some(4);
        settings.capacity =
            vec![Capacity { window: "MON-FRI 22:00-06:00".parse().unwrap(), max_units: 2_000 }];
        settings.zone = "Asia/Seoul".parse().unwrap();
        settings.paused =
            Some(Pause { by: "minsu".into(), reason: "patch day".into(), at: Timestamp::EPOCH });

        let text = serde_json::to_string(&settings).unwrap();

        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings, "{text}");
        assert_eq!(settings.limit_at("2026-11-16T14:00:00Z".parse().unwrap()), 1_900);
        assert_eq!(settings.limit_at("2026-11-16T04:00:00Z".parse().unwrap()), 950);
        assert_eq!(settings.greatest_limit(), 1_900);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::new("p".parse().unwrap(), 10);
            change(&mut settings);
            settings.check().unwrap_err().field
        };

        assert_eq!(refused(&|s| s.threshold_percent = 0), "threshold_percent");
        assert_eq!(refused(&|s| s.threshold_percent = 101), "threshold_percent");
        assert_eq!(refused(&|s| s.server_sets = 0), "server_sets");
        assert_eq!(refused(&|s| s.db_type = "x".repeat(65)), "db_type");
        assert_eq!(refused(&|s| s.lease_for = Duration::ZERO), "lease_for");
        assert_eq!(refused(&|s| s.max_hold = Duration::ZERO), "max_hold");
        assert_eq!(refused(&|s| s.claim_for = Duration::ZERO), "claim_for");
    }

    #[test]
    fn the_first_open_window_counts() {
        let windows = [
            Capacity { window: "SUN 00:00-24:00".parse().unwrap(), max_units: 0 },
            Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 1_000 },
        ];
        let seoul: Zone = "Asia/Seoul".parse().unwrap();
        let settings =
            Settings { capacity: windows.into(), zone: seoul, ..Settings::new("etl".parse().unwrap(), 200) };
        let at = |text: &str| settings.max_units_at(text.parse().unwrap());

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
