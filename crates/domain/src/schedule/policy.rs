//! What a schedule does with missed ticks, and with ticks that come while it still runs.

use std::str::FromStr;

pub const CATCH_UP_MAX: u32 = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissedRuns {
    #[default]
    Skip,
    /// The newest fires.
    Latest,
    /// The newest `limit` fire, the oldest of them first.
    All { limit: u32 },
}

crate::words! {
    /// What happens to a tick while an earlier one still runs.
    #[derive(Default)]
    pub enum Overlap {
        Allow = "allow",
        #[default]
        Skip = "skip",
        /// It fires when the earlier one has ended.
        Wait = "wait",
    }

    pub enum TickOutcome {
        Fired = "fired",
        Skipped = "skipped",
        Missed = "missed",
        Refused = "refused",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it must be {known}, not {word:?}")]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

pub(super) fn unknown(word: &str, known: &'static str) -> UnknownWord {
    UnknownWord { word: word.chars().take(24).collect(), known }
}

crate::newtype::display!(MissedRuns {
    Self::Skip => "skip";
    Self::Latest => "latest";
    Self::All { limit } => "all {limit}";
});

impl FromStr for MissedRuns {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "skip" => Ok(Self::Skip),
            "latest" => Ok(Self::Latest),
            other => other
                .strip_prefix("all ")
                .filter(|limit| limit.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|limit| limit.parse().ok())
                .filter(|limit| (1..=CATCH_UP_MAX).contains(limit))
                .map(|limit| Self::All { limit })
                .ok_or_else(|| unknown(other, "skip, latest, or all N with N from 1 to 100")),
        }
    }
}
