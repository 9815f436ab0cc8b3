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
        let range = part()?.parse().map_err(|_| NotAPoolPage)?;
        Ok(Self::new(&name, tab, range))
    }
}
