//! The scripts that give dashboards, workers and viewers no more than they need, and the browsers of Supabase nothing.
//! PostgreSQL only: SQLite has no roles.

use super::text;
use crate::Bench;
use tidemill_store::Tx;

const SCRIPT: &str = include_str!("../../../../../deploy/render-roles.sql");

const SUPABASE: &str = include_str!("../../../../../deploy/supabase.sql");

/// A project of Supabase: its two roles with all that it grants them, and tables whose owner is no superuser, because a
/// superuser would not notice row-level security.
const PROJECT: &str = "
    do $$
    declare
        found record;
        name text;
    begin
        foreach name in array array['anon', 'authenticated', 'tidemill_test_owner'] loop
            begin
                execute format('create role %I nologin', name);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end loop;
        for found in
            select c.relname, case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end as kind
            from pg_class c
            where c.relnamespace = current_schema()::regnamespace
              and c.relkind in ('r', 'p', 'v', 'S')
              and not exists (
                  select 1 from pg_depend d where c.relkind = 'S' and d.objid = c.oid and d.deptype in ('a', 'i'))
        loop
            execute format('alter %s %I owner to tidemill_test_owner', found.kind, found.relname);
        end loop;
        for found in
            select oid::regprocedure as signature from pg_proc where pronamespace = current_schema()::regnamespace
        loop
            execute format('alter function %s owner to tidemill_test_owner', found.signature);
        end loop;
    end
    $$;
    grant usage, create on schema public to tidemill_test_owner;
    grant usage on schema public to anon, authenticated;
    set local role tidemill_test_owner;
    grant all on all tables in schema public to anon, authenticated;
    grant all on all sequences in schema public to anon, authenticated;
    grant all on all functions in schema public to anon, authenticated;
    alter default privileges in schema public grant all on tables to anon, authenticated;
    alter default privileges in schema public grant all on sequences to anon, authenticated;
    alter default privileges in schema public grant all on functions to anon, authenticated;
    reset role;";

/// What is not shut: tables without row-level security, and whatever one of the two roles has any right to.
const OPEN: &str = "
    select string_agg(distinct c.relname::text, ', ')
    from pg_class c
    cross join (values ('anon'::name), ('authenticated'::name)) as shut (who)
    where c.relnamespace = current_schema()::regnamespace
      and case
              when c.relkind = 'S' then has_sequence_privilege(who, c.oid, 'usage, select, update')
              when c.relkind in ('r', 'p', 'v') then
                  (c.relkind <> 'v' and not c.relrowsecurity)
                  or has_table_privilege(who, c.oid, 'select, insert, update, delete, truncate, references, trigger')
                  or has_any_column_privilege(who, c.oid, 'select, insert, update, references')
              else false
          end";

/// As this role; the transaction goes on as itself, whether or not that was allowed.
async fn attempt(tx: &mut Tx, role: &str, sql: &str) -> Result<(), String> {
    tx.savepoint().await.unwrap();
    tx.execute_for_test(&format!("set local role {role}")).await.unwrap();
    let done = tx.execute_for_test(sql).await;
    if done.is_err() {
        tx.rollback_to_savepoint().await.unwrap();
    }
    tx.execute_for_test("reset role").await.unwrap();
    done.map_err(|error| format!("{:?}", std::error::Error::source(&error)))
}

async fn allowed(tx: &mut Tx, role: &str, sql: &str) {
    assert_eq!(attempt(tx, role, sql).await, Ok(()), "{role}: {sql}");
}

async fn denied(tx: &mut Tx, role: &str, sql: &str) {
    let why = attempt(tx, role, sql).await.expect_err(sql);
    assert!(why.contains("permission denied") || why.contains("row-level security"), "{role}: {sql}: {why}");
}

/// Roles belong to the whole server, so all of it is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_each_role_may_do_what_it_needs_and_no_more() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test(SCRIPT).await.unwrap();
    tx.execute_for_test(SCRIPT).await.expect("it can be run again");
    let (dashboard, worker, viewer) = ("tidemill_dashboard", "tidemill_worker", "tidemill_viewer");
    let insert = "insert into render_queue (composition_id, gfx_data, cue_item_id, status)
                  values ('c', '{}', '7', 'pending')";

    allowed(&mut tx, dashboard, insert).await;
    let by = text(&mut tx, "select changed_by from render_queue_audit order by id desc limit 1").await;
    assert_eq!(by.as_deref(), Some(dashboard), "the audit names the role, not who made the trigger");
    denied(&mut tx, dashboard, &insert.replace("pending", "completed")).await;
    denied(&mut tx, dashboard, "update render_queue set output_file_path = '/x'").await;
    denied(&mut tx, dashboard, "update render_queue set status = 'completed'").await;
    denied(&mut tx, dashboard, "update render_queue set revision = revision + 1").await;
    denied(&mut tx, dashboard, "delete from render_queue").await;
    denied(&mut tx, dashboard, "insert into render_queue_audit (status_to) values ('completed')").await;
    denied(&mut tx, dashboard, "select document from render_attempt").await;
    allowed(&mut tx, dashboard, "select id, status, progress, gfx_data from render_queue").await;
    allowed(&mut tx, dashboard, "update render_queue set status = 'cancelled' where status = 'pending'")
        .await;
    let status = text(&mut tx, "select status from render_queue").await;
    assert_eq!(status.as_deref(), Some("cancelled"));
    let audited = text(&mut tx, "select count(*)::text from render_queue_audit").await;
    assert_eq!(audited.as_deref(), Some("2"), "triggers write what the role may not");

    allowed(&mut tx, dashboard, "create temporary table render_queue_audit (like public.render_queue_audit)")
        .await;
    allowed(&mut tx, dashboard, insert).await;
    let audited = text(&mut tx, "select count(*)::text from public.render_queue_audit").await;
    assert_eq!(audited.as_deref(), Some("3"), "a table of the same name hides nothing");
    tx.execute_for_test("drop table pg_temp.render_queue_audit").await.unwrap();

    allowed(&mut tx, viewer, "select id, status, progress from render_queue").await;
    allowed(&mut tx, viewer, "select * from render_success_rate").await;
    allowed(&mut tx, viewer, "select * from render_queue_audit").await;
    denied(&mut tx, viewer, "select gfx_data from render_queue").await;
    denied(&mut tx, viewer, "select document from render_attempt").await;
    denied(&mut tx, viewer, insert).await;
    denied(&mut tx, viewer, "update render_queue set status = 'cancelled'").await;

    allowed(&mut tx, worker, insert).await;
    allowed(&mut tx, worker, "update render_queue set progress = 5, revision = revision + 1").await;
    allowed(&mut tx, worker, "select document from render_attempt").await;
    allowed(&mut tx, worker, "update render_queue set status = 'cancelled' where status = 'pending'").await;
    for log in ["render_queue_audit", "tidemill_audit"] {
        allowed(&mut tx, worker, &format!("select * from {log}")).await;
        denied(&mut tx, worker, &format!("delete from {log}")).await;
        denied(&mut tx, worker, &format!("update {log} set id = default")).await;
        denied(&mut tx, worker, &format!("truncate {log}")).await;
    }
    tx.rollback().await.unwrap();
}

/// Roles belong to the whole server, so all of it is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_the_browsers_of_supabase_reach_nothing_and_the_owner_everything() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test(SCRIPT).await.unwrap();
    tx.execute_for_test(PROJECT).await.unwrap();
    let (owner, worker, viewer) = ("tidemill_test_owner", "tidemill_worker", "tidemill_viewer");
    let (anon, authenticated) = ("anon", "authenticated");
    let order = "insert into render_queue (composition_id, gfx_data, cue_item_id, status)
                 values ('c', '{}', '7', 'pending')";
    let event = "insert into outbox_event (topic, aggregate_type, aggregate_id, event_type, payload)
                 values ('t', 'a', '1', 'e', '{}')";
    allowed(&mut tx, anon, "select * from tidemill_token").await;

    allowed(&mut tx, owner, SUPABASE).await;
    allowed(&mut tx, owner, SUPABASE).await;

    assert_eq!(text(&mut tx, OPEN).await, None, "all tables of a new migration belong into the script");
    denied(&mut tx, anon, "select * from tidemill_token").await;
    denied(&mut tx, anon, "select * from outbox_event_p1").await;
    denied(&mut tx, anon, "select * from render_queue_depth").await;
    denied(&mut tx, authenticated, order).await;
    denied(&mut tx, authenticated, event).await;
    allowed(&mut tx, owner, "create table outbox_event_p9 (like outbox_event)").await;
    denied(&mut tx, anon, "select * from outbox_event_p9").await;

    allowed(&mut tx, owner, order).await;
    allowed(&mut tx, owner, event).await;
    allowed(
        &mut tx,
        owner,
        "insert into aep_field_mapping (composition_id, field_name, layer_name) values ('c', 'f', 'l')",
    )
    .await;
    // A division by zero, where rows are hidden.
    for table in
        ["tidemill_migration", "render_queue", "render_queue_audit", "outbox_event", "aep_field_mapping"]
    {
        let seen = format!("select 1 / count(*) from {table}");
        allowed(&mut tx, owner, &seen).await;
        allowed(&mut tx, worker, &seen).await;
    }
    allowed(&mut tx, viewer, "select 1 / count(*) from aep_field_mapping").await;
    allowed(&mut tx, viewer, "select 1 / pending_count from render_queue_depth").await;
    tx.rollback().await.unwrap();
}
