//! Alert rules: a signal, a threshold, a duration and a severity.

use super::Reading;
use crate::newtype::check_all;
use std::time::Duration;

/// Longest window and longest "for" of a rule.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

pub const CHANNELS_MAX: usize = 16;

/// The side of the threshold that is wrong. The threshold itself is fine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Condition {
    Above(f64),
    Below(f64),
}

impl Condition {
    pub const fn threshold(self) -> f64 {
        match self {
            Self::Above(threshold) | Self::Below(threshold) => threshold,
        }
    }

    /// Values that are not finite are unknown.
    pub fn read(self, value: f64) -> Reading {
        let is_breached = match self {
            Self::Above(threshold) => value > threshold,
            Self::Below(threshold) => value < threshold,
        };
        match value.is_finite() {
            false => Reading::Unknown,
            true if is_breached => Reading::Breached(value),
            true => Reading::Fine(value),
        }
    }
}

crate::newtype::named!(Condition, as_str { Above = "above", Below = "below" });
crate::newtype::display!(Condition, condition => "{} {}", condition.as_str(), condition.threshold());

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Aggregate {
        Last = "last",
        Max = "max",
        Min = "min",
        Average = "average",
    }

    /// Greater is worse.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Severity {
        Info = "info",
        /// To be looked at in working hours.
        Warning = "warning",
        /// To be acted on now.
        Critical = "critical",
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct RuleFields {
    pub name: String,
    pub signal: String,
    pub condition: Condition,
    pub aggregate: Aggregate,
    pub window: Duration,
    /// How long the condition must be breached before the alert fires; configured as "for".
    pub hold: Duration,
    pub severity: Severity,
    pub channels: Vec<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Rule(RuleFields);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRule {
    #[error("the name of a rule is 1 to 63 of a-z, 0-9, _ and -, starting with a letter")]
    Name,
    #[error("the name of a signal is 1 to 63 of a-z, 0-9, _ and -, starting with a letter")]
    Signal,
    #[error("a rule has at most {CHANNELS_MAX} channels, each named like a rule and named once")]
    Channels,
    #[error("the threshold of a rule is a finite number")]
    Threshold,
    #[error("the window of a rule is at most 24 hours")]
    Window,
    #[error("the \"for\" of a rule is at most 24 hours")]
    Hold,
}

impl Rule {
    pub fn new(fields: RuleFields) -> Result<Self, BadRule> {
        let channels = &fields.channels;
        let is_repeated = |at: usize| channels[..at].contains(&channels[at]);
        let are_channels = channels.len() <= CHANNELS_MAX
            && channels.iter().all(|name| is_name(name))
            && !(0..channels.len()).any(is_repeated);
        check_all([
            (is_name(&fields.name), BadRule::Name),
            (is_name(&fields.signal), BadRule::Signal),
            (fields.condition.threshold().is_finite(), BadRule::Threshold),
            (fields.window <= LONGEST, BadRule::Window),
            (fields.hold <= LONGEST, BadRule::Hold),
            (are_channels, BadRule::Channels),
        ])?;
        Ok(Self(fields))
    }
}

crate::getters!(Rule, 0 {
    &name: str,
    &signal: str,
    condition: Condition,
    aggregate: Aggregate,
    window: Duration,
    hold: Duration,
    severity: Severity,
    &channels: [String],
});

/// Whether a text is a valid name of a rule, a signal or a channel.
pub fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    let starts_well = letters.next().is_some_and(|b| b.is_ascii_lowercase());
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    starts_well && letters.all(is_inner) && text.len() <= 63
}
