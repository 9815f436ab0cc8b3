//! Statements on `tidemill_audit`.

use crate::codec::DbTime;
use crate::row::AuditRow;
use crate::tx::AuditFilterRow;
use serde_json::json;
use sqlx::SqliteConnection;
use tidemill_domain::audit::AuditEntry;

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    entry: &AuditEntry,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_audit
             (at, actor, role, action, object, from_state, to_state, reason, request_id)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(now)
    .bind(&entry.actor.name)
    .bind(entry.actor.role.as_str())
    .bind(&entry.action)
    .bind(&entry.object)
    .bind(&entry.from)
    .bind(&entry.to)
    .bind(&entry.reason)
    .bind(&entry.actor.request_id)
    .execute(connection)
    .await?;
    Ok(())
}

/// Many at once, in their order.
pub(crate) async fn insert_all(
    connection: &mut SqliteConnection,
    entries: &[AuditEntry],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let actor = &entry.actor;
            let who = (&actor.name, actor.role.as_str(), &actor.request_id);
            json!([who.0, who.1, entry.action, entry.object, entry.from, entry.to, entry.reason, who.2])
        })
        .collect();
    sqlx::query(
        "insert into tidemill_audit
             (at, actor, role, action, object, from_state, to_state, reason, request_id)
         select $1, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
                json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
                json_extract(value, '$[6]'), json_extract(value, '$[7]')
         from json_each($2)
         order by key",
    )
    .bind(now)
    .bind(json!(rows).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest first; pages by the smallest id of the page before. By the index on `object` where one is asked for, and
/// else by the primary key.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    filter: &AuditFilterRow<'_>,
) -> Result<Vec<AuditRow>, sqlx::Error> {
    let statement = if filter.object.is_some() {
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where object = $5
           and id < coalesce($1, 9223372036854775807)
           and ($2 is null or at >= $2)
           and ($3 is null or actor = $3)
           and ($4 is null or action = $4)
         order by id desc
         limit $6"
    } else {
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where $5 is null
           and id < coalesce($1, 9223372036854775807)
           and ($2 is null or at >= $2)
           and ($3 is null or actor = $3)
           and ($4 is null or action = $4)
         order by id desc
         limit $6"
    };
    sqlx::query_as(statement)
        .bind(filter.before_id)
        .bind(filter.since)
        .bind(filter.actor)
        .bind(filter.action)
        .bind(filter.object)
        .bind(filter.limit)
        .fetch_all(connection)
        .await
}
