-- Jobs. The tables `batch_*` are those of Spring Batch 5, so that its tools can read what we write. Where Spring
-- has made them already they are adopted as they are, with all that is in them; what we have to say beyond them
-- is in tables of our own, and a row of Spring's has no row there. Their instants are texts in UTC,
-- `YYYY-MM-DD HH:MM:SS.ffffff`, which people and tools can read and which sort as the instants do.
create table if not exists batch_job_instance (
    job_instance_id integer primary key autoincrement,
    version integer,
    job_name varchar(100) not null,
    job_key varchar(32) not null,
    constraint job_inst_un unique (job_name, job_key)
);

create table if not exists batch_job_execution (
    job_execution_id integer primary key autoincrement,
    version integer,
    job_instance_id integer not null,
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
    job_execution_id integer not null,
    parameter_name varchar(100) not null,
    parameter_type varchar(100) not null,
    parameter_value varchar(2500),
    identifying char(1) not null,
    constraint job_exec_params_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

create table if not exists batch_step_execution (
    step_execution_id integer primary key autoincrement,
    version integer not null,
    step_name varchar(100) not null,
    job_execution_id integer not null,
    create_time timestamp not null,
    start_time timestamp default null,
    end_time timestamp default null,
    status varchar(10),
    commit_count integer,
    read_count integer,
    filter_count integer,
    write_count integer,
    read_skip_count integer,
    write_skip_count integer,
    process_skip_count integer,
    rollback_count integer,
    exit_code varchar(2500),
    exit_message varchar(2500),
    last_updated timestamp,
    constraint job_exec_step_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

create table if not exists batch_step_execution_context (
    step_execution_id integer primary key,
    short_context varchar(2500) not null,
    serialized_context text,
    constraint step_exec_ctx_fk foreign key (step_execution_id)
        references batch_step_execution (step_execution_id)
);

create table if not exists batch_job_execution_context (
    job_execution_id integer primary key,
    short_context varchar(2500) not null,
    serialized_context text,
    constraint job_exec_ctx_fk foreign key (job_execution_id)
        references batch_job_execution (job_execution_id)
);

-- SQLite has no sequences: a table with one row counts. The names are Spring's.
create table if not exists batch_step_execution_seq (id integer primary key autoincrement);

create table if not exists batch_job_execution_seq (id integer primary key autoincrement);

create table if not exists batch_job_seq (id integer primary key autoincrement);

-- Spring's counters stand below the ids that it gave, so adopted ones start behind the highest.
insert or ignore into batch_step_execution_seq (id)
select max(step_execution_id) from batch_step_execution where true having max(step_execution_id) is not null;

insert or ignore into batch_job_execution_seq (id)
select max(job_execution_id) from batch_job_execution where true having max(job_execution_id) is not null;

insert or ignore into batch_job_seq (id)
select max(job_instance_id) from batch_job_instance where true having max(job_instance_id) is not null;

-- Spring Batch has no indexes beyond its keys, and becomes slow with its history.
create index if not exists tidemill_batch_job_execution_instance
    on batch_job_execution (job_instance_id, job_execution_id);

create index if not exists tidemill_batch_job_execution_status
    on batch_job_execution (status, job_execution_id);

create index if not exists tidemill_batch_job_execution_params
    on batch_job_execution_params (job_execution_id);

create index if not exists tidemill_batch_step_execution_job
    on batch_step_execution (job_execution_id, step_name);

-- At most one execution of an instance is without an end, whoever writes it. Where a race or a hand has made
-- more, nobody but a person can say which of them is to count: this statement is then refused with
-- "UNIQUE constraint failed: BATCH_JOB_EXECUTION.JOB_INSTANCE_ID" and nothing has been changed. Set STATUS to
-- FAILED for those that no longer run, and migrate again.
create unique index if not exists tidemill_batch_job_execution_unresolved
    on batch_job_execution (job_instance_id)
    where status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN');

-- What we know of an execution of our own. `owner` is the process that ran it, also after its lease was freed.
-- Tools that clear Spring's tables must not stumble over ours, so these rows go with theirs.
create table tidemill_job_execution (
    job_execution_id integer primary key
        references batch_job_execution (job_execution_id) on delete cascade,
    owner text not null,
    launched_by text not null,
    on_crash text not null check (on_crash in ('fail', 'restart')),
    crash_restart_limit integer not null check (crash_restart_limit >= 0),
    crash_restarts integer not null check (crash_restarts >= 0),
    restart_due integer not null default 0 check (restart_due in (0, 1)),
    stop_requested_at integer,
    stop_requested_by text,
    stop_reason text,
    exit_text text
) strict;

create index tidemill_job_execution_restart_due on tidemill_job_execution (job_execution_id) where restart_due = 1;

-- What we know of a step beyond Spring's columns; `exit_text` is there when the message did not fit them.
create table tidemill_step_execution (
    step_execution_id integer primary key
        references batch_step_execution (step_execution_id) on delete cascade,
    total_items integer check (total_items >= 0),
    delivery text,
    exit_text text
) strict;

-- Items that a step left out, with their error, where its author asked for it.
create table tidemill_reject (
    id integer primary key autoincrement,
    step_execution_id integer not null
        references batch_step_execution (step_execution_id) on delete cascade,
    at integer not null,
    phase text not null check (phase in ('read', 'process', 'write')),
    kind text not null,
    error text not null,
    place text,
    item text
) strict;

create index tidemill_reject_step on tidemill_reject (step_execution_id, id);
