//! Pools in the shape of the document's two tables, as views for other tools. Names are checked and quoted, not bound.

use crate::error::{Result, StoreError};
use crate::statement::statements;
use crate::store::Store;
use sqlx::AssertSqlSafe;
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

/// The advisory lock for making views: `tidemill` and `views`, as numbers.
const VIEWS: i64 = 0x7469_6465_0076_6977;

statements! {
    /// Until the transaction ends: two servers that start together would collide.
    fn pool_view_lock() -> () {
        postgres {
            bind(VIEWS)
            "select pg_advisory_xact_lock($1)"
        }
        sqlite { nothing }
    }

    /// Whether the object of this name is a view of ours; `None` if there is none.
    fn pool_view_is_ours(name: &ViewName) -> Option<bool> {
        bind(name.as_str())
        postgres {
            "select relkind = 'v' and pg_get_viewdef(oid) like '%tidemill_pool%' from pg_class
             where relname = $1 and relnamespace = current_schema()::regnamespace"
        }
        sqlite {
            "select type = 'view' and sql like '%tidemill_pool%' from sqlite_master
             where name = $1 collate nocase"
        }
    }

    fn pool_view_replace(registry: &ViewName, limits: &ViewName) -> () {
        postgres |connection| {
            let started_at = "to_char(
                coalesce(t.started_at, t.enqueued_at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'
            )";
            let seconds = "floor(extract(epoch from coalesce(t.started_at, t.enqueued_at)))::bigint";
            for text in views("create or replace view", registry, limits, started_at, seconds) {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            }
            Ok(())
        }
        sqlite |connection| {
            let seconds = "coalesce(t.started_at, t.enqueued_at) / 1000000";
            let started_at = format!("strftime('%Y-%m-%dT%H:%M:%SZ', {seconds}, 'unixepoch')");
            for view in [registry, limits] {
                let text = format!("drop view if exists {}", view.quoted());
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            }
            for text in views("create view", registry, limits, &started_at, seconds) {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            }
            Ok(())
        }
    }
}

fn views(
    create: &str,
    registry: &ViewName,
    limits: &ViewName,
    started_at: &str,
    seconds: &str,
) -> [String; 2] {
    let (registry, limits) = (registry.quoted(), limits.quoted());
    [
        format!(
            "{create} {registry} as
             select p.external_id as src_db_id, t.run_id as dag_run_id, t.dag_id, t.table_name,
                    t.parallel as parallel_hint,
                    case
                        when t.state in ('granted', 'running', 'suspect') then 'RUNNING'
                        when t.state = 'waiting' then 'WAITING'
                        when t.state = 'released' and t.ending = 'released' then 'COMPLETED'
                        else 'FAILED'
                    end as status,
                    {started_at} as started_at, {seconds} + 86400 as ttl
             from tidemill_pool_ticket t
             join tidemill_pool p on p.name = t.pool
             where p.external_id is not null"
        ),
        format!(
            "{create} {limits} as
             select external_id as src_db_id, name, db_type, max_units as max_connections, threshold_percent,
                    default_units as default_parallel, min_units as min_parallel
             from tidemill_pool where external_id is not null"
        ),
    ]
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
