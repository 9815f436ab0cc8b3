//! The script that gives dashboards, workers and viewers no more than they need. PostgreSQL only: SQLite has no roles.

use super::text;
use crate::Bench;
use tidemill_store::Tx;

const SCRIPT: &str = include_str!("../../../../../deploy/render-roles.sql");

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
    tx.rollback().await.unwrap();
}
