//! A snapshot: which transactions had committed at an instant. SQLite has one writer at a time, so there an event counts as
//! its own transaction and a snapshot is simply the last id.

use crate::error_chain::listed;
use std::cmp::Ordering;
use std::str::FromStr;

/// Every transaction below `xmax` that is not running. Snapshots of one database are ordered like their instants.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    xmin: u64,
    xmax: u64,
    /// Sorted; from `xmin` to below `xmax`.
    running: Vec<u64>,
}

crate::getters!(Snapshot {
    /// The first transaction that had not begun.
    xmax: u64,
    &running: [u64],
});

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a snapshot: it is written as a PostgreSQL snapshot, such as 10:14:10,12")]
pub struct BadSnapshot(pub String);

impl Snapshot {
    /// The snapshot of a database with one writer: all up to this id has committed.
    pub fn up_to(id: i64) -> Self {
        let next = u64::try_from(id).unwrap_or(0).saturating_add(1);
        Self { xmin: next, xmax: next, running: Vec::new() }
    }

    /// Whether this transaction had committed or been rolled back.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.running.binary_search(&xid).is_err())
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.xmax <= other.xmax && other.running.iter().all(|xid| !self.sees(*xid))
    }
}

impl Ord for Snapshot {
    fn cmp(&self, other: &Self) -> Ordering {
        // Running transactions can only end, and those that begin later have higher numbers.
        let age = |snapshot: &Self| (snapshot.xmax, std::cmp::Reverse(snapshot.running.len()));
        age(self).cmp(&age(other)).then_with(|| self.running.cmp(&other.running))
    }
}

impl PartialOrd for Snapshot {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

// As PostgreSQL writes a snapshot.
crate::newtype::display!(
    Snapshot,
    snapshot => "{}:{}:{}",
    snapshot.xmin, snapshot.xmax, listed(&snapshot.running, ",")
);

impl FromStr for Snapshot {
    type Err = BadSnapshot;

    fn from_str(text: &str) -> Result<Self, BadSnapshot> {
        let bad = || BadSnapshot(text.to_owned());
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
        let [xmin, xmax, running] = text.split(':').collect::<Vec<_>>()[..] else { return Err(bad()) };
        let (xmin, xmax) = (number(xmin)?, number(xmax)?);
        let running = match running {
            "" => Vec::new(),
            listed => listed.split(',').map(number).collect::<Result<Vec<_>, _>>()?,
        };
        let in_order = running.windows(2).all(|pair| pair[0] < pair[1]);
        let in_bounds = running.iter().all(|xid| (xmin..xmax).contains(xid));
        if xmin > xmax || !in_order || !in_bounds {
            return Err(bad());
        }
        Ok(Self { xmin, xmax, running })
    }
}

crate::newtype::serde_as_text!(Snapshot);

#[cfg(test)]
pub(super) mod tests;
