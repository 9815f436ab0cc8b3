//! Statements on the units of pools that steps hold.

use crate::codec::DbId;
use crate::statement::statements;

statements! {
    /// Live tickets of executions that have ended. The runs of others may be called anything, so only what is a number is read
    /// as one. Needs the partial index on tickets without an end.
    fn job_units_of_ended(run_prefix: &str, limit: i64) -> Vec<(String, DbId)> {
        postgres {
            "select t.pool, t.id
             from tidemill_pool_ticket t
             join batch_job_execution e
               on e.job_execution_id = case
                   when substr(t.run_id, length($1) + 1) ~ '^[0-9]{1,18}$'
                   then cast(substr(t.run_id, length($1) + 1) as bigint)
               end
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             where t.ended_at is null
               and t.run_id = $1 || cast(e.job_execution_id as text)
               and t.dag_id = i.job_name
               and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
             order by t.pool, t.id
             limit $2"
        }
        sqlite {
            // What is no number reads as 0 here, and no execution has that.
            "select t.pool, t.id
             from tidemill_pool_ticket t
             join batch_job_execution e
               on e.job_execution_id = cast(substr(t.run_id, length($1) + 1) as integer)
             join batch_job_instance i on i.job_instance_id = e.job_instance_id
             where t.ended_at is null
               and t.run_id = $1 || cast(e.job_execution_id as text)
               and t.dag_id = i.job_name
               and e.status in ('COMPLETED', 'FAILED', 'STOPPED', 'ABANDONED')
             order by t.pool, t.id
             limit $2"
        }
    }
}
