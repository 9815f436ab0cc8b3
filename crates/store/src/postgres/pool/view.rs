//! The views in the form of the document's tables. Names cannot be bound; they are checked identifiers, and quoted.

use crate::pool::ViewName;
use sqlx::{AssertSqlSafe, PgConnection};

/// The lock of those who make views: `tidemill` and `views`, as numbers.
const VIEWS: i64 = 0x7469_6465_0076_6977;

/// Keeps others out until the transaction ends: two servers that start together would stand in each other's way.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("select pg_advisory_xact_lock($1)").bind(VIEWS).execute(connection).await?;
    Ok(())
}

/// Whether what has this name is a view of ours; none when nothing has it.
pub(crate) async fn is_ours(
    connection: &mut PgConnection,
    name: &ViewName,
) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar(
        "select relkind = 'v' and pg_get_viewdef(oid) like '%tidemill_pool%'
         from pg_class
         where relname = $1
           and relnamespace = current_schema()::regnamespace",
    )
    .bind(name.as_str())
    .fetch_optional(connection)
    .await
}

/// Makes both, in place of what we made before.
pub(crate) async fn replace(
    connection: &mut PgConnection,
    registry: &ViewName,
    limits: &ViewName,
) -> Result<(), sqlx::Error> {
    let texts = [
        format!(
            "create or replace view {} as
             select p.external_id as src_db_id, t.run_id as dag_run_id, t.dag_id, t.table_name,
                    t.parallel as parallel_hint,
                    case
                        when t.state in ('granted', 'running', 'suspect') then 'RUNNING'
                        when t.state = 'waiting' then 'WAITING'
                        when t.state = 'released' and t.ending = 'released' then 'COMPLETED'
                        else 'FAILED'
                    end as status,
                    to_char(
                        coalesce(t.started_at, t.enqueued_at) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'
                    ) as started_at,
                    floor(extract(epoch from coalesce(t.started_at, t.enqueued_at)))::bigint + 86400 as ttl
             from tidemill_pool_ticket t
             join tidemill_pool p on p.name = t.pool
             where p.external_id is not null",
            registry.quoted()
        ),
        format!(
            "create or replace view {} as
             select external_id as src_db_id, name, db_type, max_units as max_connections, threshold_percent,
                    default_units as default_parallel, min_units as min_parallel
             from tidemill_pool
             where external_id is not null",
            limits.quoted()
        ),
    ];
    for text in texts {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
    }
    Ok(())
}
