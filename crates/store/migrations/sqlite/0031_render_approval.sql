-- Whether a person has to approve the file of a render, or has. Nobody works on what waits for that.
alter table render_queue add column approval text check (
    approval in ('awaiting', 'approved') and (approval <> 'awaiting' or worker_id is null));

create index render_queue_approval on render_queue (id) where approval = 'awaiting';

-- What somebody ends by SQL does not wait for approval any more.
create trigger tidemill_render_not_asked after update of status on render_queue
    when new.revision = old.revision and new.status <> old.status and old.approval = 'awaiting'
begin
    update render_queue set approval = null where id = new.id;
end;

-- How many wait for a worker, and since when; and how many wait for approval.
drop view render_queue_depth;

create view render_queue_depth as
select count(*) filter (where approval is not 'awaiting') as pending_count,
       count(*) filter (where run_after > cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000) as put_off_count,
       coalesce((julianday('now') - 2440587.5) * 86400.0
                - min(created_at) filter (where approval is not 'awaiting') / 1000000.0, 0.0) as oldest_pending_seconds,
       count(*) filter (where approval = 'awaiting') as awaiting_approval_count
from render_queue
where status = 'pending';
