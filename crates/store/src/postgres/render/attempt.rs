//! Statements on `render_attempt`.

use crate::row::render::part::AttemptRow;
use crate::tx::{AttemptEnd, AttemptNote, ClaimedRow, Takeover};
use sqlx::PgConnection;

/// One for each claim. Those before that nobody has ended were lost: somebody has changed the status by SQL.
pub(crate) async fn begin(
    connection: &mut PgConnection,
    rows: &[ClaimedRow],
    takeover: Takeover<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with ended as (
             update render_attempt
             set ended_at = $6, outcome = 'lost'
             where render_id = any($1)
               and ended_at is null
         )
         insert into render_attempt (render_id, epoch, worker_id, worker_name, nexrender_job_id, started_at)
         select c.id, c.epoch, $4, $5, c.job, $6
         from unnest($1::bigint[], $2::bigint[], $3::text[]) as c (id, epoch, job)",
    )
    .bind(rows.iter().map(|row| row.id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.epoch).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.nexrender_job_id.as_deref()).collect::<Vec<_>>())
    .bind(takeover.worker)
    .bind(takeover.name)
    .bind(takeover.now)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn note(connection: &mut PgConnection, note: &AttemptNote<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_attempt
         set nexrender_job_id = coalesce($3, nexrender_job_id), document = coalesce($4, document),
             document_sha256 = coalesce($5, document_sha256),
             document_key_id = case when $4::text is null then document_key_id else $6 end,
             report = coalesce($7, report)
         where render_id = $1
           and epoch = $2",
    )
    .bind(note.render_id)
    .bind(note.epoch)
    .bind(note.nexrender_job_id)
    .bind(note.document)
    .bind(note.document_sha256)
    .bind(note.document_key_id)
    .bind(note.report)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn end(connection: &mut PgConnection, end: &AttemptEnd<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_attempt
         set ended_at = $6, outcome = $3, error_code = $4, error_message = $5
         where render_id = $1
           and epoch = $2
           and ended_at is null",
    )
    .bind(end.render_id)
    .bind(end.epoch)
    .bind(end.outcome)
    .bind(end.error_code)
    .bind(end.error_message)
    .bind(end.now)
    .execute(connection)
    .await?;
    Ok(())
}

/// The oldest first.
pub(crate) async fn of(connection: &mut PgConnection, id: i64) -> Result<Vec<AttemptRow>, sqlx::Error> {
    sqlx::query_as(
        "select render_id, epoch, worker_id, worker_name, nexrender_job_id, document_sha256, started_at, ended_at,
                outcome, error_code, error_message, report
         from render_attempt
         where render_id = $1
         order by epoch",
    )
    .bind(id)
    .fetch_all(connection)
    .await
}

pub(crate) async fn document(
    connection: &mut PgConnection,
    id: i64,
    epoch: i64,
) -> Result<Option<String>, sqlx::Error> {
    let found: Option<Option<String>> = sqlx::query_scalar(
        "select document
         from render_attempt
         where render_id = $1
           and epoch = $2",
    )
    .bind(id)
    .bind(epoch)
    .fetch_optional(connection)
    .await?;
    Ok(found.flatten())
}

/// All of a render, with their epochs.
pub(crate) async fn documents(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as(
        "select epoch, document
         from render_attempt
         where render_id = $1
           and document is not null",
    )
    .bind(id)
    .fetch_all(connection)
    .await
}

pub(crate) async fn reseal(
    connection: &mut PgConnection,
    id: i64,
    epoch: i64,
    text: &str,
    key: &str,
    hash: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update render_attempt
         set document = $3, document_key_id = $4, document_sha256 = $5
         where render_id = $1
           and epoch = $2",
    )
    .bind(id)
    .bind(epoch)
    .bind(text)
    .bind(key)
    .bind(hash)
    .execute(connection)
    .await?;
    Ok(())
}
