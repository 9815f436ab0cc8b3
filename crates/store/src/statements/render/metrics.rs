//! Statements for metrics of renders.

use crate::render::RenderMetrics;
use crate::statement::{One, statements};
use tidemill_domain::time::Timestamp;

statements! {
    /// By the index on `ended_at`, and on `status` for those that have not ended.
    fn render_metrics_of(day: Timestamp, hour: Timestamp, now: Timestamp, recoveries: i64) -> One<RenderMetrics> {
        "select ended.completed, ended.failed, going.recovering, going.late, going.waiting_since,
                (coalesce({greatest}(ended.longest, going.longest), ended.longest, going.longest)
                 / 1000000.0){::double precision} as longest_seconds
         from (
             select count(*) filter (where status = 'completed') as completed,
                    count(*) filter (where status = 'failed') as failed,
                    max({as micros completed_at - started_at})
                        filter (where status = 'completed' and ended_at > $2) as longest
             from render_queue
             where ended_at > $1
         ) as ended,
         (
             select count(*) filter (where recovery_count > $4) as recovering,
                    count(*) filter (where deadline <= $3 or (status = 'pending' and run_after >= deadline)) as late,
                    max({as micros $3 - started_at}) filter (where status <> 'pending') as longest,
                    min(submitted_at) filter (where phase = 'waiting_for_node' and status = 'rendering')
                        as waiting_since
             from render_queue
             where status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
         ) as going"
    }

    /// Error codes of renders that failed since then or wait for a retry, with their number. Waiting with the code
    /// `passing` is not a failure.
    fn render_metrics_failures(since: Timestamp, passing: &str) -> Vec<(String, i64)> {
        "select error_code, count(*) from render_queue
         where error_code is not null
           and ((status = 'pending' and error_code <> $2) or (status = 'failed' and ended_at > $1))
         group by error_code
         order by error_code"
    }

    /// Completed and failed renders per worker. Needs `render_queue_ended`.
    fn render_metrics_workers(since: Timestamp, limit: u32) -> Vec<(String, i64, i64)> {
        "select worker_name, count(*) filter (where status = 'completed'), count(*) filter (where status = 'failed')
         from render_queue {indexed by render_queue_ended} where ended_at > $1 and worker_name is not null
         group by worker_name
         order by worker_name limit $2"
    }
}
