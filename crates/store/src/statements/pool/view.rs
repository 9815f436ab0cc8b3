//! Views in the shape of the document's tables. Names cannot be bound; they are checked identifiers, and quoted.

use crate::pool::ViewName;
use crate::statement::statements;
use sqlx::AssertSqlSafe;

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
