-- Blocks access to the tables of Tidemill through the API that Supabase opens to browsers, which uses the roles `anon` and
-- `authenticated`. A Supabase project grants these roles all rights in the schema `public`, on later objects too. Run this
-- script in the schema that Tidemill uses: after the first `tidemill db migrate`, after each further migration, and after
-- `deploy/render-roles.sql` if you use it. You can run it again, and it does no harm if these roles do not exist.
--
-- 1. All tables get row-level security, which does not apply to their owner. So run the script as the owner, and let Tidemill
--    connect as the owner (by default `postgres` in a Supabase project). Other roles see empty tables, except
--    `tidemill_worker` and roles with `bypassrls`.
-- 2. The two roles lose all their rights on these tables, and on their views, sequences and functions.
-- 3. The two roles no longer get rights on objects that the owner creates in this schema later, such as partitions of
--    `outbox_event`. This includes your own tables: grant rights on those that browsers should see.
--
-- The role `service_role` does not change. It bypasses row-level security, so use its key on servers only. A dashboard that
-- wrote to `render_queue` from a browser needs a server in between, or connects as a member of `tidemill_dashboard`.
--
-- The script locks each table until it ends. Stop Tidemill while it runs, or run it again if it fails with a deadlock.
do $$
declare
    own constant text[] := array[
        'aep_field_mapping', 'batch_job_execution', 'batch_job_execution_context', 'batch_job_execution_params',
        'batch_job_execution_seq', 'batch_job_instance', 'batch_job_seq', 'batch_step_execution',
        'batch_step_execution_context', 'batch_step_execution_seq', 'outbox_event', 'render_active_worker',
        'render_attempt', 'render_duration', 'render_leftover', 'render_profile', 'render_queue', 'render_queue_audit',
        'render_queue_depth', 'render_revision', 'render_stuck', 'render_success_rate', 'render_worker'];
    seen constant text[] := array['aep_field_mapping', 'render_profile', 'render_worker'];
    shut constant text[] := array(select rolname::text from pg_roles where rolname in ('anon', 'authenticated'));
    found record;
    later text;
    who text;
begin
    for found in
        with ours as (
            select c.oid, c.relname::text as name, c.relkind as kind, c.relrowsecurity as is_secured
            from pg_class c
            join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = current_schema()
              and c.relkind in ('r', 'p', 'v', 'S')
              and (c.relname like 'tidemill\_%'
                   or c.relname::text = any (own)
                   -- Partitions have changing names.
                   or exists (
                       select 1
                       from pg_inherits i
                       join pg_class p on p.oid = i.inhparent
                       where i.inhrelid = c.oid
                         and p.relname = 'outbox_event'
                         and p.relnamespace = c.relnamespace)
                   -- Users choose the names of pool views.
                   or (c.relkind = 'v' and pg_get_viewdef(c.oid) like '%tidemill\_pool%'))
        )
        select name, kind, is_secured
        from ours
        union
        select s.relname::text, s.relkind, s.relrowsecurity
        from pg_class s
        join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.oid and d.deptype in ('a', 'i')
        join ours on d.refclassid = 'pg_class'::regclass and ours.oid = d.refobjid
        where s.relkind = 'S'
        order by 1
    loop
        if found.kind in ('r', 'p') then
            if not found.is_secured then
                execute format('alter table %I.%I enable row level security', current_schema(), found.name);
            end if;
            -- The roles of render-roles.sql have policies on the three tables that it secures, and need them on the other tables.
            if exists (select 1 from pg_roles where rolname = 'tidemill_worker')
               and not exists (
                   select 1
                   from pg_policies
                   where schemaname = current_schema() and tablename = found.name and policyname = 'tidemill_work') then
                execute format(
                    'create policy tidemill_work on %I.%I for all to tidemill_worker using (true) with check (true)',
                    current_schema(), found.name);
            end if;
            if found.name = any (seen)
               and (select count(*) from pg_roles where rolname in ('tidemill_dashboard', 'tidemill_viewer')) = 2
               and not exists (
                   select 1
                   from pg_policies
                   where schemaname = current_schema() and tablename = found.name and policyname = 'tidemill_see') then
                execute format(
                    'create policy tidemill_see on %I.%I for select to tidemill_dashboard, tidemill_viewer using (true)',
                    current_schema(), found.name);
            end if;
        end if;
        foreach who in array shut loop
            execute format(
                'revoke all on %s %I.%I from %I',
                case found.kind when 'S' then 'sequence' else 'table' end, current_schema(), found.name, who);
        end loop;
    end loop;

    -- PUBLIC can still call functions that are not for triggers. They run with the rights of the caller.
    for found in
        select p.oid::regprocedure::text as signature
        from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = current_schema()
          and p.proname like 'tidemill\_%'
        order by 1
    loop
        foreach who in array shut loop
            execute format('revoke all on function %s from %I', found.signature, who);
        end loop;
    end loop;

    foreach who in array shut loop
        foreach later in array array['tables', 'sequences', 'functions'] loop
            execute format(
                'alter default privileges in schema %I revoke all on %s from %I', current_schema(), later, who);
        end loop;
    end loop;
end
$$;
