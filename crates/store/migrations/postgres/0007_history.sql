-- A long history stays quick. Spring Batch keeps the name of the job with the instance and not with the execution, so
-- no index on its tables can find the executions of a job in their order. This table can.
create table tidemill_job_history (
    job_execution_id bigint primary key
        references batch_job_execution (job_execution_id) on delete cascade,
    job_name varchar(100) not null
);

-- Whoever inserts an execution fills it, Spring Batch included. Its programs may run under a role that has no rights
-- on our tables, so the function acts with those of its owner.
create function tidemill_note_job_of_execution() returns trigger language plpgsql security definer as $$
begin
    insert into tidemill_job_history (job_execution_id, job_name)
    select new.job_execution_id, job_name
    from batch_job_instance
    where job_instance_id = new.job_instance_id
    on conflict do nothing;
    return null;
end
$$;

-- In our own tables, whatever tables its caller has made.
do $$
begin
    execute format('alter function tidemill_note_job_of_execution() set search_path = %I, pg_temp', current_schema());
end
$$;

revoke execute on function tidemill_note_job_of_execution() from public;

-- Before the rows that are there are taken over: from here on nobody else inserts until this is done.
create trigger tidemill_note_job_of_execution after insert on batch_job_execution
    for each row execute function tidemill_note_job_of_execution();

insert into tidemill_job_history (job_execution_id, job_name)
select e.job_execution_id, i.job_name
from batch_job_execution e
join batch_job_instance i on i.job_instance_id = e.job_instance_id;

create index tidemill_job_history_job on tidemill_job_history (job_name, job_execution_id);

-- The instances of a job in their order: for lists, and for what is to be forgotten.
create index if not exists tidemill_batch_job_instance_job on batch_job_instance (job_name, job_instance_id);

-- The execution of another job that launched this one as a step. No reference: either may be forgotten first.
alter table tidemill_job_execution add column outer_execution_id bigint;

create index tidemill_job_execution_outer on tidemill_job_execution (job_execution_id)
    where outer_execution_id is not null;
