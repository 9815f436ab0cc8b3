-- What an alert is about beyond its subject, such as the execution that failed, its step and its error code.
alter table tidemill_alert add column detail text;

-- For the alert about ticks that launched nothing.
create index tidemill_schedule_tick_unlaunched on tidemill_schedule_tick (schedule, tick_at)
    where outcome in ('missed', 'refused');

-- For the alert about failed executions.
create index if not exists tidemill_batch_job_execution_failed on batch_job_execution (end_time)
    where status = 'FAILED';
