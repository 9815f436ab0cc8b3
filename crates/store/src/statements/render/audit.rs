//! Statements on `render_queue_audit`, which triggers write.

use crate::row::render::part::TransitionRow;
use crate::statement::statements;

statements! {
    /// The oldest first.
    fn render_transitions_of(id: i64) -> Vec<TransitionRow> {
        "select id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code
         from render_queue_audit
         where render_queue_id = $1
         order by id"
    }
}
