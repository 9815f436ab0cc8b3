-- The alert channels to notify when the execution ends, as a JSON list of `on` and `to`; null if there are none.
alter table tidemill_job_execution add column notify text;
