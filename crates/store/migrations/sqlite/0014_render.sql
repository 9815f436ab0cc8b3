-- Instants come from julianday(): other programs write here with older SQLite, which has no finer unixepoch().
-- The queue of renders, with the columns that dashboards write and read by SQL. What is ours has a default, so that nobody
-- else has to know of it. The checks are one-way: whoever has a render has a lease, and a statement by hand may leave more
-- in a row than it needs.
create table render_queue (
    id integer primary key autoincrement,
    composition_id text,
    gfx_data text,
    cue_item_id text,
    status text not null default 'pending' check (status in
        ('pending', 'preparing', 'rendering', 'encoding', 'uploading', 'completed', 'failed', 'cancelled')),
    progress integer not null default 0,
    worker_id text check (worker_id glob '????????-????-????-????-????????????'),
    lock_expires_at integer,
    nexrender_job_id text,
    recovery_count integer not null default 0,
    error_message text,
    output_file_path text,
    duration_seconds real,
    created_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
    updated_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
    started_at integer,
    completed_at integer,
    phase text not null default 'queued' check (phase in
        ('queued', 'claimed', 'submitting', 'waiting_for_node', 'node_preparing', 'rendering', 'encoding', 'validating',
         'copying', 'publishing', 'published')),
    epoch integer not null default 0,
    attempts integer not null default 0,
    submit_failures integer not null default 0,
    render_failures integer not null default 0,
    upload_failures integer not null default 0,
    run_after integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
    priority integer not null default 0,
    deadline integer,
    broadcast_date text check (broadcast_date glob '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]'),
    error_code text,
    cancel_requested_at integer,
    worker_name text,
    job_epoch integer,
    submitted_at integer,
    node_started_at integer,
    changed_at integer,
    remote_mark text,
    staged_path text,
    output_bytes integer,
    output_sha256 text,
    poster_path text,
    ended_at integer,
    gfx_key_id text,
    gfx_hash text,
    revision integer not null default 0,
    changed_by text,
    constraint render_queue_is_held check (
        status not in ('preparing', 'rendering', 'encoding', 'uploading')
        or (worker_id is not null and lock_expires_at is not null))
) strict;

-- The order in which renders are claimed.
create index render_queue_claim on render_queue (priority desc, (deadline is null), deadline, created_at, id)
    where status = 'pending';

create index render_queue_lease on render_queue (lock_expires_at)
    where status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled') and worker_id is not null;

create index render_queue_status on render_queue (status, id);

-- What has ended lately.
create index render_queue_ended on render_queue (ended_at) where ended_at is not null;

-- Somebody has clicked twice. Only our own orders have a hash: the insert of a dashboard is never refused.
create unique index render_queue_once on render_queue (cue_item_id, gfx_hash)
    where gfx_hash is not null
      and cue_item_id is not null
      and status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading');

-- Every change of a status, written by a trigger.
create table render_queue_audit (
    id integer primary key autoincrement,
    render_queue_id integer,
    status_from text,
    status_to text,
    worker_id text,
    changed_at integer,
    changed_by text,
    phase text,
    epoch integer,
    error_code text
) strict;

create index render_queue_audit_render on render_queue_audit (render_queue_id, id);

-- What was tried: one row for each claim. No reference to the queue: whoever deletes a render there is not held up.
create table render_attempt (
    render_id integer not null,
    epoch integer not null,
    worker_id text not null,
    worker_name text not null,
    nexrender_job_id text,
    document text,
    document_sha256 text,
    document_key_id text,
    started_at integer not null,
    ended_at integer,
    outcome text check (outcome in ('completed', 'failed', 'cancelled', 'retried', 'given_back', 'lost')),
    error_code text,
    error_message text,
    report text,
    primary key (render_id, epoch),
    check ((ended_at is null) = (outcome is null))
) strict;

-- Jobs that nexrender still has and nobody needs. Whoever is to take one out is left alone with it until `look_after`.
create table render_leftover (
    render_id integer not null,
    epoch integer not null,
    nexrender_job_id text not null,
    staged_path text,
    slot text not null check (slot in ('free', 'busy')),
    file text not null check (file in ('keep', 'delete')),
    since integer not null,
    look_after integer not null,
    primary key (render_id, epoch)
) strict;

create index render_leftover_due on render_leftover (look_after);

-- Workers: what each says of itself.
create table render_worker (
    process text primary key,
    name text not null,
    capacity integer not null,
    in_flight integer not null,
    state text not null check (state in ('working', 'paused', 'draining')),
    seen_at integer not null,
    farm_micros integer,
    copy_micros integer
) strict;

-- Where fields are shown.
create table aep_field_mapping (
    composition_id text not null,
    field_name text not null,
    layer_name text not null,
    layer_composition text,
    property text,
    kind text not null default 'text' check (kind in ('text', 'image', 'expression')),
    source text,
    optional integer not null default 0 check (optional in (0, 1)),
    unused text check (unused in ('clear', 'leave')),
    primary key (composition_id, field_name)
) strict;

-- What is known of compositions: a JSON object with the fields of a profile.
create table render_profile (
    composition text primary key,
    definition text not null,
    updated_at integer not null,
    updated_by text not null
) strict;

-- Numbers that grow with each change of mappings and profiles, whoever makes it: caches compare them.
create table render_revision (
    one integer primary key default 1 check (one = 1),
    mappings integer not null default 0,
    profiles integer not null default 0
) strict;

insert into render_revision (one) values (1);

create trigger tidemill_mapping_inserted after insert on aep_field_mapping
begin
    update render_revision set mappings = mappings + 1;
end;

create trigger tidemill_mapping_updated after update on aep_field_mapping
begin
    update render_revision set mappings = mappings + 1;
end;

create trigger tidemill_mapping_deleted after delete on aep_field_mapping
begin
    update render_revision set mappings = mappings + 1;
end;

create trigger tidemill_profile_inserted after insert on render_profile
begin
    update render_revision set profiles = profiles + 1;
end;

create trigger tidemill_profile_updated after update on render_profile
begin
    update render_revision set profiles = profiles + 1;
end;

create trigger tidemill_profile_deleted after delete on render_profile
begin
    update render_revision set profiles = profiles + 1;
end;

-- What a statement of somebody else means. Our own raise the revision, and are left as they are.
create trigger tidemill_render_too_late before update of status on render_queue
    when new.revision = old.revision
     and new.status = 'cancelled'
     and old.status <> 'cancelled'
     and (old.status = 'completed' or (old.phase = 'publishing' and old.status <> 'failed'))
begin
    select case old.status
        when 'completed' then raise(abort, 'the render is completed, so it is too late to cancel it')
        else raise(abort, 'the file of the render is being published, so it is too late to cancel it')
    end;
end;

-- Every change of a status.
create trigger tidemill_render_note after update of status on render_queue
    when new.status <> old.status
begin
    insert into render_queue_audit
        (render_queue_id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code)
    values
        (new.id, old.status, new.status, coalesce(new.worker_id, old.worker_id),
         case when new.revision <> old.revision or new.updated_at <> old.updated_at
             then new.updated_at else cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000 end,
         case when new.revision <> old.revision then coalesce(new.changed_by, 'tidemill') else 'sql' end,
         new.phase, new.epoch, new.error_code);
end;

create trigger tidemill_render_note_insert after insert on render_queue
begin
    insert into render_queue_audit
        (render_queue_id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code)
    values
        (new.id, null, new.status, new.worker_id, new.updated_at, coalesce(new.changed_by, 'sql'), new.phase,
         new.epoch, new.error_code);
end;

-- Its worker, or whoever finds that it has vanished, still has to stop the job; of one that waits, anybody has to.
create trigger tidemill_render_cancelled after update of status on render_queue
    when new.revision = old.revision and new.status = 'cancelled' and old.status <> 'cancelled'
begin
    update render_queue
    set cancel_requested_at =
            coalesce(new.cancel_requested_at, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
        ended_at = coalesce(new.ended_at, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
        worker_id = case when old.status in ('preparing', 'rendering', 'encoding', 'uploading')
            then old.worker_id else new.worker_id end,
        lock_expires_at = case when old.status in ('preparing', 'rendering', 'encoding', 'uploading')
            then old.lock_expires_at else new.lock_expires_at end,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
    where id = new.id;
    insert or ignore into render_leftover
        (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
    select old.id, old.job_epoch, coalesce(old.nexrender_job_id, 'rq-' || old.id || '-' || old.job_epoch),
           old.staged_path, 'busy', 'delete', cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000,
           cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
    where old.status = 'pending' and old.job_epoch is not null;
end;

-- Somebody wants it once more.
create trigger tidemill_render_again after update of status on render_queue
    when new.revision = old.revision
     and new.status = 'pending'
     and old.status in ('completed', 'failed', 'cancelled')
begin
    update render_queue
    set cancel_requested_at = null, gfx_hash = null, attempts = 0, recovery_count = 0, submit_failures = 0,
        render_failures = 0, upload_failures = 0, ended_at = null,
        run_after = cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000,
        updated_at = cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
    where id = new.id;
end;

create trigger tidemill_render_deleted after delete on render_queue
    when old.job_epoch is not null and old.status not in ('completed', 'failed', 'cancelled')
begin
    insert or ignore into render_leftover
        (render_id, epoch, nexrender_job_id, staged_path, slot, file, since, look_after)
    values
        (old.id, old.job_epoch, coalesce(old.nexrender_job_id, 'rq-' || old.id || '-' || old.job_epoch),
         old.staged_path, 'busy', 'delete', cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000,
         cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000);
end;

-- How many wait, also those that have waited for long, and since when.
create view render_queue_depth as
select count(*) as pending_count,
       count(*) filter (where run_after > cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000) as put_off_count,
       coalesce((julianday('now') - 2440587.5) * 86400.0 - min(created_at) / 1000000.0, 0.0) as oldest_pending_seconds
from render_queue
where status = 'pending';

-- Of the last 24 hours; without a number when nothing has ended.
create view render_success_rate as
select count(*) filter (where status = 'completed') as completed_count,
       count(*) filter (where status = 'failed') as failed_count,
       count(*) filter (where status = 'completed') * 100.0 / nullif(count(*), 0) as success_rate
from render_queue
where created_at > (unixepoch() - 86400) * 1000000
  and status in ('completed', 'failed');

-- Of the last 100 of each composition within a day.
create view render_duration as
select composition_id,
       count(*) as completed_count,
       avg(seconds) as avg_duration_seconds,
       max(seconds) as max_duration_seconds
from (
    select composition_id,
           (completed_at - started_at) / 1000000.0 as seconds,
           row_number() over (partition by composition_id order by completed_at desc) as place
    from render_queue
    where status = 'completed'
      and completed_at > (unixepoch() - 86400) * 1000000
) as newest
where place <= 100
group by composition_id;

-- Whose worker has vanished, and which lose one worker after the other.
create view render_stuck as
select id, composition_id, status, phase, worker_id, worker_name, lock_expires_at, recovery_count,
       (julianday('now') - 2440587.5) * 86400.0 - lock_expires_at / 1000000.0 as overdue_seconds
from render_queue
where status in ('preparing', 'rendering', 'encoding', 'uploading')
  and (lock_expires_at <= cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000 or recovery_count > 3);

-- Who has renders now.
create view render_active_worker as
select worker_id, max(worker_name) as worker_name, count(*) as render_count, max(lock_expires_at) as lock_expires_at
from render_queue
where status in ('preparing', 'rendering', 'encoding', 'uploading')
  and lock_expires_at > cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000
group by worker_id;
