//! The address of a page of a pool: name, tab and time range.

use std::fmt;
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

    /// The time range of a graph.
    #[derive(PartialOrd, Ord, Default)]
    pub(crate) enum Range {
        Hour = "1h",
        /// Six hours, a quarter of a day.
        Quarter = "6h",
        #[default]
        Day = "24h",
        Week = "168h",
    }
}

impl Range {
    pub(crate) const fn length(self) -> Duration {
        let hours = match self {
            Self::Hour => 1,
            Self::Quarter => 6,
            Self::Day => 24,
            Self::Week => 7 * 24,
        };
        Duration::from_secs(hours * 3600)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolPage {
    pub(crate) name: PoolName,
    pub(crate) tab: Tab,
    pub(crate) range: Range,
}

impl PoolPage {
    pub(crate) fn new(name: &PoolName, tab: Tab, range: Range) -> Self {
        Self { name: name.clone(), tab, range }
    }

    /// Reads the text of [`Display`](fmt::Display): name, tab and time range, such as `ADW:queue:24h`.
    pub(crate) fn of_word(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let name: PoolName = parts.next()?.parse().ok()?;
        Some(Self::new(&name, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
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
