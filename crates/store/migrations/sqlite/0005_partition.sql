-- Partitions of a step: a step execution each, which whoever has the job may run. The lease on one is
-- `partition/<step execution id>`; there is one as long as somebody runs it.
-- `chain_id` is the first run of the same partition that this one goes on from, so that what all of them counted can
-- be summed. `only_process` is there when nobody else may run it,
-- `owner` is who has run it last.
create table tidemill_partition (
    step_execution_id integer primary key
        references batch_step_execution (step_execution_id) on delete cascade,
    manager_id integer not null
        references batch_step_execution (step_execution_id) on delete cascade,
    job_execution_id integer not null
        references batch_job_execution (job_execution_id) on delete cascade,
    job_name text not null,
    worker text not null,
    chain_id integer not null,
    only_process text,
    owner text,
    is_open integer not null default 1 check (is_open in (0, 1))
) strict;

create index tidemill_partition_open on tidemill_partition (job_name, step_execution_id) where is_open = 1;

create index tidemill_partition_manager on tidemill_partition (manager_id, is_open);

create index tidemill_partition_execution on tidemill_partition (job_execution_id);

create index tidemill_partition_chain on tidemill_partition (chain_id);

-- Of the definition that the execution ran with, where the job has one.
alter table tidemill_job_execution add column fingerprint text;
