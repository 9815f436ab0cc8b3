//! The address of a page of a pool: name, tab and time range.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::pool::PoolName;

tidemill_domain::words! {
    /// What the page shows below the bar.
    #[derive(PartialOrd, Ord, Default)]
    pub(crate) enum Tab {
        #[default]
        Holders = "holders",
        Queue = "queue",
        History = "history",
        Settings = "settings",
    }
}

impl Tab {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Holders => "Holders",
            Self::Queue => "Queue",
            Self::History => "History",
            Self::Settings => "Settings",
        }
    }
}

/// The time range of a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Range {
    Hour,
    /// Six hours.
    Quarter,
    #[default]
    Day,
    Week,
}

impl Range {
    pub(crate) const ALL: [Self; 4] = [Self::Hour, Self::Quarter, Self::Day, Self::Week];

    const fn hours(self) -> u64 {
        match self {
            Self::Hour => 1,
            Self::Quarter => 6,
            Self::Day => 24,
            Self::Week => 7 * 24,
        }
    }

    pub(crate) const fn length(self) -> Duration {
        Duration::from_secs(self.hours() * 3600)
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|range| range.to_string() == word)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}h", self.hours())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolPage {
    pub(crate) name: PoolName,
    pub(crate) tab: Tab,
    pub(crate) range: Range,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a page of a pool is its name, tab and time range, such as ADW:queue:24h")]
pub struct NotAPoolPage;

impl PoolPage {
    pub(crate) fn new(name: &PoolName, tab: Tab, range: Range) -> Self {
        Self { name: name.clone(), tab, range }
    }

    /// Below the base path.
    pub(crate) fn path(&self) -> String {
        format!("/pools/{}?tab={}&range={}", self.name, self.tab, self.range)
    }
}

impl fmt::Display for PoolPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.tab, self.range)
    }
}

impl FromStr for PoolPage {
    type Err = NotAPoolPage;

    fn from_str(text: &str) -> Result<Self, NotAPoolPage> {
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(NotAPoolPage);
        let name = part()?.parse::<PoolName>().map_err(|_| NotAPoolPage)?;
        let tab = part()?.parse().map_err(|_| NotAPoolPage)?;
        let range = Range::of_word(part()?).ok_or(NotAPoolPage)?;
        Ok(Self::new(&name, tab, range))
    }
}
