-- The URLs of the published file in object stores, one on each line.
alter table render_queue add column output_objects text;

-- A render that waits for a store can be cancelled.
drop trigger tidemill_render_too_late;

create trigger tidemill_render_too_late before update of status on render_queue
    when new.revision = old.revision
     and new.status = 'cancelled'
     and old.status <> 'cancelled'
     and (old.status = 'completed' or (old.phase = 'publishing' and old.status = 'uploading'))
begin
    select case old.status
        when 'completed' then raise(abort, 'the render is completed, so it is too late to cancel it')
        else raise(abort, 'the file of the render is being published, so it is too late to cancel it')
    end;
end;
