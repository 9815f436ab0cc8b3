//! Statements on `tidemill_audit`.

use crate::codec::DbTime;
use crate::row::AuditRow;
use crate::tx::AuditFilterRow;
use sqlx::PgConnection;
use tidemill_domain::audit::AuditEntry;

pub(crate) async fn insert(
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
    entries: &[AuditEntry],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_audit
             (at, actor, role, action, object, from_state, to_state, reason, request_id)
         select $1, new.actor, new.role, new.action, new.object, new.from_state, new.to_state, new.reason,
                new.request_id
         from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
             with ordinality
             as new (actor, role, action, object, from_state, to_state, reason, request_id, place)
         order by new.place",
    )
    .bind(now)
    .bind(entries.iter().map(|entry| entry.actor.name.as_str()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.actor.role.as_str()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.object.as_str()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.from.as_deref()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.to.as_deref()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.reason.as_deref()).collect::<Vec<_>>())
    .bind(entries.iter().map(|entry| entry.actor.request_id.as_deref()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest first; pages by the smallest id of the page before. By the index on `object` where one is asked for, and
/// else by the primary key.
pub(crate) async fn list(
    connection: &mut PgConnection,
    filter: &AuditFilterRow<'_>,
) -> Result<Vec<AuditRow>, sqlx::Error> {
    let statement = if filter.object.is_some() {
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where object = $5
           and id < coalesce($1::bigint, 9223372036854775807)
           and ($2::timestamptz is null or at >= $2)
           and ($3::text is null or actor = $3)
           and ($4::text is null or action = $4)
         order by id desc
         limit $6"
    } else {
        "select id, at, actor, role, action, object, from_state, to_state, reason, request_id
         from tidemill_audit
         where $5::text is null
           and id < coalesce($1::bigint, 9223372036854775807)
           and ($2::timestamptz is null or at >= $2)
           and ($3::text is null or actor = $3)
           and ($4::text is null or action = $4)
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
