-- Tables that were there before and are served beside the outbox. `time_zone` is that of their columns that have none.
create table tidemill_outbox_adopted (
    schema_name text not null,
    table_name text not null,
    topic text not null,
    aggregate_type text not null,
    event_type text not null,
    time_zone text not null,
    since timestamptz not null,
    adopted_by text not null,
    primary key (schema_name, table_name)
);

-- How often rows of adopted tables were tried in vain, and which of those that have FAILED were skipped.
create table tidemill_outbox_attempt (
    schema_name text not null,
    table_name text not null,
    event_id bigint not null,
    state text not null check (state in ('waiting', 'failed', 'skipped')),
    attempts bigint not null check (attempts >= 0),
    error text,
    updated_at timestamptz not null,
    primary key (schema_name, table_name, event_id)
);

-- Which tables are adopted, and whether something is due in these slots: part of what relays ask each second. What is
-- wrong with one table, or who locks it, must not keep a relay from renewing its lease, so it is told and no error.
create function tidemill_outbox_adopted_look(slots integer[], at timestamptz) returns text language plpgsql
    set lock_timeout = '100ms' set timezone = 'UTC' as $$
declare
    one record;
    is_due boolean;
    fault text;
    found jsonb := '[]';
begin
    for one in select * from tidemill_outbox_adopted order by schema_name, table_name loop
        is_due := false;
        fault := null;
        begin
            perform set_config('timezone', one.time_zone, true);
            execute format(
                'select exists (
                     select from unnest($1) as s (slot)
                     cross join lateral (
                         select from %I.%I e
                         where get_byte(decode(md5(e.aggregate_id::text), ''hex''), 0) = s.slot
                           and e.status = ''PENDING'' and e.status <> ''PUBLISHED'' and e.next_retry_at <= $2
                         limit 1
                     ) as f
                 )', one.schema_name, one.table_name
            ) into is_due using slots, at;
        exception when others then
            fault := sqlerrm;
        end;
        found := found || jsonb_build_object(
            'schema', one.schema_name, 'table', one.table_name, 'topic', one.topic,
            'aggregate_type', one.aggregate_type, 'event_type', one.event_type, 'time_zone', one.time_zone,
            'is_due', is_due, 'fault', fault);
    end loop;
    return found::text;
end
$$;
