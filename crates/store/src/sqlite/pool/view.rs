//! The views in the form of the document's tables. Names cannot be bound; they are checked identifiers, and quoted.

use crate::pool::ViewName;
use sqlx::{AssertSqlSafe, SqliteConnection};

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock(_connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Whether what has this name is a view of ours; none when nothing has it.
pub(crate) async fn is_ours(
    connection: &mut SqliteConnection,
    name: &ViewName,
) -> Result<Option<bool>, sqlx::Error> {
    sqlx::query_scalar(
        "select type = 'view' and sql like '%tidemill_pool%'
         from sqlite_master
         where name = $1 collate nocase",
    )
    .bind(name.as_str())
    .fetch_optional(connection)
    .await
}

/// Makes both, in place of what we made before.
pub(crate) async fn replace(
    connection: &mut SqliteConnection,
    registry: &ViewName,
    limits: &ViewName,
) -> Result<(), sqlx::Error> {
    for view in [registry, limits] {
        let text = format!("drop view if exists {}", view.quoted());
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
    }
    let texts = [
        format!(
            "create view {} as
             select p.external_id as src_db_id, t.run_id as dag_run_id, t.dag_id, t.table_name,
                    t.parallel as parallel_hint,
                    case
                        when t.state in ('granted', 'running', 'suspect') then 'RUNNING'
                        when t.state = 'waiting' then 'WAITING'
                        when t.state = 'released' and t.ending = 'released' then 'COMPLETED'
                        else 'FAILED'
                    end as status,
                    strftime('%Y-%m-%dT%H:%M:%SZ', coalesce(t.started_at, t.enqueued_at) / 1000000, 'unixepoch')
                        as started_at,
                    coalesce(t.started_at, t.enqueued_at) / 1000000 + 86400 as ttl
             from tidemill_pool_ticket t
             join tidemill_pool p on p.name = t.pool
             where p.external_id is not null",
            registry.quoted()
        ),
        format!(
            "create view {} as
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
