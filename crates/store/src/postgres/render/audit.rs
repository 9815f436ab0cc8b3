//! Statements on `render_queue_audit`, which triggers write.

use crate::row::render::part::TransitionRow;
use sqlx::PgConnection;

/// The oldest first.
pub(crate) async fn of(connection: &mut PgConnection, id: i64) -> Result<Vec<TransitionRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code
         from render_queue_audit
         where render_queue_id = $1
         order by id",
    )
    .bind(id)
    .fetch_all(connection)
    .await
}
