-- A render that somebody ends by SQL has ended then, as it has on PostgreSQL: lists, figures and alerts go by that.
create trigger tidemill_render_ended after update of status on render_queue
    when new.revision = old.revision
     and new.status in ('completed', 'failed')
     and new.status <> old.status
begin
    update render_queue
    set ended_at = coalesce(new.ended_at, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
        updated_at = case when new.updated_at <> old.updated_at then new.updated_at
            else cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000 end
    where id = new.id;
end;
