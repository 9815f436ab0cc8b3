//! The document's monitoring queries, as views. They ask the database's own clock.

use super::{execute, text};
use crate::Bench;

crate::on_both![views_answer_also_when_there_is_nothing, views_count_what_there_is];

async fn check(bench: &Bench, sql: &'static str, expected: Option<&str>) {
    assert_eq!(text(&mut bench.begin().await, sql).await.as_deref(), expected, "{sql}");
}

async fn views_answer_also_when_there_is_nothing(bench: Bench) {
    check(&bench, "select cast(pending_count as text) from render_queue_depth", Some("0")).await;
    check(&bench, "select cast(success_rate as text) from render_success_rate", None).await;
    check(&bench, "select cast(count(*) as text) from render_duration", Some("0")).await;
    check(&bench, "select cast(count(*) as text) from render_stuck", Some("0")).await;
    check(&bench, "select cast(count(*) as text) from render_active_worker", Some("0")).await;
}

async fn views_count_what_there_is(bench: Bench) {
    let now = if bench.scratch.url().starts_with("sqlite") {
        |seconds: i64| format!("(cast(unixepoch() as integer) + {seconds}) * 1000000")
    } else {
        |seconds: i64| format!("now() + interval '{seconds} seconds'")
    };
    let worker = "00000000-0000-0000-0000-000000000001";
    let (hours_ago, ago, later) = (now(-7_200), now(-90), now(60));
    execute(
        &bench,
        &format!(
            "insert into render_queue
                 (composition_id, gfx_data, status, created_at, run_after, worker_id, lock_expires_at, started_at,
                  completed_at, recovery_count)
             values
                 ('A', '{{}}', 'pending', {hours_ago}, {ago}, null, null, null, null, 0),
                 ('A', '{{}}', 'pending', {ago}, {later}, null, null, null, null, 0),
                 ('A', '{{}}', 'completed', {ago}, {ago}, null, null, {hours_ago}, {ago}, 0),
                 ('A', '{{}}', 'completed', {ago}, {ago}, null, null, {ago}, {ago}, 0),
                 ('B', '{{}}', 'completed', {ago}, {ago}, null, null, {ago}, {ago}, 0),
                 ('B', '{{}}', 'failed', {ago}, {ago}, null, null, {ago}, null, 0),
                 ('B', '{{}}', 'rendering', {ago}, {ago}, '{worker}', {ago}, {ago}, null, 0),
                 ('B', '{{}}', 'encoding', {ago}, {ago}, '{worker}', {later}, {ago}, null, 4),
                 ('B', '{{}}', 'uploading', {ago}, {ago}, '{worker}', {later}, {ago}, null, 0)"
        ),
    )
    .await;

    check(&bench, "select cast(pending_count as text) from render_queue_depth", Some("2")).await;
    check(&bench, "select cast(put_off_count as text) from render_queue_depth", Some("1")).await;
    let waits = "select case when oldest_pending_seconds between 7190 and 7260 then 'two hours' end from render_queue_depth";
    check(&bench, waits, Some("two hours")).await;
    let rate = "select cast(cast(round(success_rate) as integer) as text) from render_success_rate";
    check(&bench, rate, Some("75")).await;
    let took = "select cast(cast(round(avg_duration_seconds) as integer) as text) from render_duration where composition_id = 'A'";
    check(&bench, took, Some("3555")).await;
    check(&bench, "select cast(count(*) as text) from render_stuck", Some("2")).await;
    check(&bench, "select cast(render_count as text) from render_active_worker", Some("2")).await;
}
