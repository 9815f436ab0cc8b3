//! Statements about how jobs have been doing lately. Each takes the last executions of a job from `tidemill_job_history`
//! before anything is joined, so that it does not matter how many there are. Each is then looked up by itself, which the
//! limit of one sees to: a planner that joins may prefer to read the whole table.

use crate::codec::DbStamp;
use crate::job::RunRecord;
use crate::statement::{list, statements};

statements! {
    /// The last executions of each of these jobs, newest first.
    fn job_track_recent(jobs: &[&str], limit: i64) -> Vec<RunRecord> {
        postgres {
            "select j.job_name, e.job_execution_id, e.status, e.create_time, e.start_time, e.end_time,
                    case
                        when e.status in ('FAILED', 'ABANDONED', 'UNKNOWN')
                        then substr(coalesce(e.exit_message, ''), 1, 300)
                        else ''
                    end as message
             from unnest($1::text[]) as j (job_name)
             cross join lateral (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.job_name
                 order by h.job_execution_id desc
                 limit $2
             ) l
             cross join lateral (
                 select x.job_execution_id, x.status, x.create_time, x.start_time, x.end_time, x.exit_message
                 from batch_job_execution x
                 where x.job_execution_id = l.job_execution_id
                 limit 1
             ) e
             order by e.job_execution_id desc"
        }
        sqlite {
            bind(list(jobs), limit)
            "select j.value as job_name, e.job_execution_id, e.status, e.create_time, e.start_time, e.end_time,
                    case
                        when e.status in ('FAILED', 'ABANDONED', 'UNKNOWN')
                        then substr(coalesce(e.exit_message, ''), 1, 300)
                        else ''
                    end as message
             from json_each($1) j
             cross join batch_job_execution e
             where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.value
                 order by h.job_execution_id desc
                 limit $2
             )
             order by e.job_execution_id desc"
        }
    }

    /// How many of the last executions of each of these jobs are in which status, of those made since; and the latest.
    fn job_track_outcomes(jobs: &[&str], since: DbStamp, limit: i64) -> Vec<(String, Option<String>, i64, i64)> {
        postgres {
            "select j.job_name, e.status, count(*) as runs, max(e.job_execution_id) as latest
             from unnest($1::text[]) as j (job_name)
             cross join lateral (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.job_name
                 order by h.job_execution_id desc
                 limit $3
             ) l
             cross join lateral (
                 select x.job_execution_id, x.status, x.create_time
                 from batch_job_execution x
                 where x.job_execution_id = l.job_execution_id
                 limit 1
             ) e
             where e.create_time >= $2
             group by j.job_name, e.status"
        }
        sqlite {
            bind(list(jobs), since, limit)
            "select j.value as job_name, e.status, count(*) as runs, max(e.job_execution_id) as latest
             from json_each($1) j
             cross join batch_job_execution e
             where e.job_execution_id in (
                 select h.job_execution_id
                 from tidemill_job_history h
                 where h.job_name = j.value
                 order by h.job_execution_id desc
                 limit $3
             )
               and e.create_time >= $2
             group by j.value, e.status"
        }
    }
}
