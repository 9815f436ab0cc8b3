-- Jobs. The tables `batch_*` and their sequences are those of Spring Batch 5, to the letter, so that its tools can
-- read what we write. Where Spring has made them already they are adopted as they are, with all that is in them;
-- what we have to say beyond them is in tables of our own, and a row of Spring's has no row there.
-- Their instants are `timestamp` in UTC.
create table if not exists batch_job_instance (
    job_instance_id bigint not null primary key,
    version bigint,
    job_name varchar(100) not null,
    job_key varchar(32) not null,
    constraint job_inst_un unique (job_name, job_key)
);

create table if not exists batch_job_execution (
    job_execution_id bigint not null primary key,
    version bigint,
    job_instance_id bigint not null,
    create_time timestamp not null,
    start_time timestamp default null,
    end_time timestamp default null,
    status varchar(10),
    exit_code varchar(2500),
    exit_message varchar(2500),
    last_updated timestamp,
    constraint job_inst_exec_fk foreign key (job_instance_id)
        references batch_job_instance (job_instance_id)
);

create table if not exists batch_job_execution_params (
    job_execution_id bigint not null,
    parameter_name varchar(100) not null,
    parameter_type varchar(100) not null,
    parameter_value varchar(2500),
    identifying char(1) not null,
    constraint job_exec_params_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

create table if not exists batch_step_execution (
    step_execution_id bigint not null primary key,
    version bigint not null,
    step_name varchar(100) not null,
    job_execution_id bigint not null,
    create_time timestamp not null,
    start_time timestamp default null,
    end_time timestamp default null,
    status varchar(10),
    commit_count bigint,
    read_count bigint,
    filter_count bigint,
    write_count bigint,
    read_skip_count bigint,
    write_skip_count bigint,
    process_skip_count bigint,
    rollback_count bigint,
    exit_code varchar(2500),
    exit_message varchar(2500),
    last_updated timestamp,
    constraint job_exec_step_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

create table if not exists batch_step_execution_context (
    step_execution_id bigint not null primary key,
    short_context varchar(2500) not null,
    serialized_context text,
    constraint step_exec_ctx_fk foreign key (step_execution_id)
        references batch_step_execution (step_execution_id)
);

create table if not exists batch_job_execution_context (
    job_execution_id bigint not null primary key,
    short_context varchar(2500) not null,
    serialized_context text,
    constraint job_exec_ctx_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

create sequence if not exists batch_step_execution_seq maxvalue 9223372036854775807 no cycle;

create sequence if not exists batch_job_execution_seq maxvalue 9223372036854775807 no cycle;

create sequence if not exists batch_job_seq maxvalue 9223372036854775807 no cycle;

-- Spring Batch has no indexes beyond its keys, and becomes slow with its history.
create index if not exists tidemill_batch_job_execution_instance
    on batch_job_execution (job_instance_id, job_execution_id);

create index if not exists tidemill_batch_job_execution_status
    on batch_job_execution (status, job_execution_id);

create index if not exists tidemill_batch_job_execution_params
    on batch_job_execution_params (job_execution_id);

create index if not exists tidemill_batch_step_execution_job
    on batch_step_execution (job_execution_id, step_name);

-- Spring's own rules leave at most one execution of an instance without an end. Where a race or a hand has made
-- more, nobody but a person can say which of them is to count, so this stops with the instance and the remedy
-- instead of the bare refusal of the index below. Nothing has been changed then.
do $$
declare
    found record;
begin
    select job_instance_id, string_agg(job_execution_id::text, ', ' order by job_execution_id) as executions
    into found
    from batch_job_execution
    where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
    group by job_instance_id
    having count(*) > 1
    limit 1;
    if found is not null then
        raise exception 'job instance % has several executions without an end: %',
            found.job_instance_id, found.executions
            using errcode = 'integrity_constraint_violation',
                  hint = 'set STATUS to FAILED in batch_job_execution for those that no longer run, then migrate again';
    end if;
end
$$;

-- At most one execution of an instance is without an end, whoever writes it.
create unique index if not exists tidemill_batch_job_execution_unresolved
    on batch_job_execution (job_instance_id)
    where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN');

-- What we know of an execution of our own. `owner` is the process that ran it, also after its lease was freed.
-- Tools that clear Spring's tables must not stumble over ours, so these rows go with theirs.
create table tidemill_job_execution (
    job_execution_id bigint primary key
        references batch_job_execution (job_execution_id) on delete cascade,
    owner uuid not null,
    launched_by text not null,
    on_crash text not null check (on_crash in ('fail', 'restart')),
    crash_restart_limit bigint not null check (crash_restart_limit >= 0),
    crash_restarts bigint not null check (crash_restarts >= 0),
    restart_due boolean not null default false,
    stop_requested_at timestamptz,
    stop_requested_by text,
    stop_reason text,
    exit_text text
);

create index tidemill_job_execution_restart_due on tidemill_job_execution (job_execution_id) where restart_due;

-- What we know of a step beyond Spring's columns; `exit_text` is there when the message did not fit them.
create table tidemill_step_execution (
    step_execution_id bigint primary key
        references batch_step_execution (step_execution_id) on delete cascade,
    total_items bigint check (total_items >= 0),
    delivery text,
    exit_text text
);

-- Items that a step left out, with their error, where its author asked for it.
create table tidemill_reject (
    id bigint generated always as identity primary key,
    step_execution_id bigint not null
        references batch_step_execution (step_execution_id) on delete cascade,
    at timestamptz not null,
    phase text not null check (phase in ('read', 'process', 'write')),
    kind text not null,
    error text not null,
    place text,
    item text
);

create index tidemill_reject_step on tidemill_reject (step_execution_id, id);
