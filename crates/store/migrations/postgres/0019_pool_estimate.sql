-- breaking
-- The class and the estimated start of a request: run times are learned by class, and estimates are compared with what
-- happened. Older programs cannot read the new records of the log and the policy `adaptive`.
alter table tidemill_pool_ticket add column class text;

alter table tidemill_pool_ticket add column eta_p50 timestamptz;

alter table tidemill_pool_ticket add column eta_p90 timestamptz;

create index tidemill_pool_ticket_estimated
    on tidemill_pool_ticket (pool, started_at) where eta_p50 is not null and started_at is not null;

alter table tidemill_pool_run_time add column class text;
