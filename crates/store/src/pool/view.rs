//! Pools in the shape of the document's two tables, as views that other tools may select from.

use crate::error::{Result, StoreError};
use crate::store::Store;
use std::fmt;
use std::str::FromStr;

/// PostgreSQL truncates longer names.
const LONGEST: usize = 63;

/// A plain identifier.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewName(String);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the name of a view is 1 to {LONGEST} of A-Z, a-z, 0-9 and `_`, not starting with a digit or `tidemill_`"
)]
pub struct BadViewName;

impl ViewName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// No character of it needs escaping.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }
}

impl FromStr for ViewName {
    type Err = BadViewName;

    fn from_str(text: &str) -> Result<Self, BadViewName> {
        let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        // SQLite reserves the first prefix; the second is ours.
        let lower = text.to_ascii_lowercase();
        let is_reserved = lower.starts_with("sqlite_") || lower.starts_with("tidemill_");
        if !starts_well || !is_plain || is_reserved || text.len() > LONGEST {
            return Err(BadViewName);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Store {
    /// Creates or replaces the two views: `registry` has tickets, `limits` has pools; both only of pools with an
    /// external id. Objects of others are not replaced: [`StoreError::ViewNameTaken`].
    #[crate::boxed]
    pub async fn pool_views(&self, registry: &ViewName, limits: &ViewName) -> Result<()> {
        let taken = |name: &ViewName| StoreError::ViewNameTaken { name: name.to_string() };
        if registry.as_str().eq_ignore_ascii_case(limits.as_str()) {
            return Err(taken(limits));
        }
        let mut tx = self.begin().await?;
        tx.pool_view_lock().await?;
        for name in [registry, limits] {
            if tx.pool_view_is_ours(name).await? == Some(false) {
                return Err(taken(name));
            }
        }
        tx.pool_view_replace(registry, limits).await?;
        tx.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_identifiers() {
        for good in ["emr_connection_registry", "Limits", "_x9"] {
            assert_eq!(good.parse::<ViewName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "9a",
            "a-b",
            "a.b",
            "a\"; drop table x",
            "한글",
            "tidemill_pool",
            "SQLITE_x",
            &"a".repeat(64),
        ] {
            assert_eq!(bad.parse::<ViewName>(), Err(BadViewName), "{bad}");
        }
    }
}
