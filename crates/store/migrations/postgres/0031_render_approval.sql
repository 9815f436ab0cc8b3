-- Whether a person has to approve the file of a render, or has. Nobody works on what waits for that.
alter table render_queue add column if not exists approval text;

alter table render_queue
    add constraint render_queue_approval_known check (approval in ('awaiting', 'approved')),
    add constraint render_queue_is_left_alone check (approval <> 'awaiting' or worker_id is null);

create index render_queue_approval on render_queue (id) where approval = 'awaiting';

-- What somebody ends by SQL does not wait for approval any more.
create function tidemill_render_not_asked() returns trigger language plpgsql as $$
begin
    new.approval := null;
    return new;
end
$$;

create trigger tidemill_render_not_asked before update of status on render_queue
    for each row
    when (new.revision = old.revision and new.status is distinct from old.status and old.approval = 'awaiting')
    execute function tidemill_render_not_asked();

-- How many wait for a worker, and since when; and how many wait for approval.
create or replace view render_queue_depth as
select count(*) filter (where approval is distinct from 'awaiting') as pending_count,
       count(*) filter (where run_after > now()) as put_off_count,
       coalesce(extract(epoch from now() - min(created_at) filter (where approval is distinct from 'awaiting')), 0)::double precision
           as oldest_pending_seconds,
       count(*) filter (where approval = 'awaiting') as awaiting_approval_count
from render_queue
where status = 'pending';
