//! A long history, and the table by which the executions of a job are found.

use super::{day, end, launch, look, run_sql};
use crate::Bench;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_store::job::ExecutionFilter;
use tidemill_store::job::list::COUNTED_MAX;

crate::on_both![
    every_execution_is_found_under_its_job_whoever_wrote_it,
    a_role_without_rights_on_our_tables_writes_executions,
    counts_in_lists_end_somewhere,
];

async fn every_execution_is_found_under_its_job_whoever_wrote_it(bench: Bench) {
    let one = bench.process(1).await;
    let ours = launch(&bench, &day("1"), one).await;
    end(&bench, &ours, BatchStatus::Completed).await;
    run_sql(
        &bench,
        "insert into batch_job_instance (job_instance_id, version, job_name, job_key)
             values (900, 0, 'load', 'a'), (901, 0, 'nightly', 'b');
         insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
             values (900, 2, 900, '2026-11-15 02:00:00', 'FAILED'), (901, 2, 901, '2026-11-15 02:00:00', 'FAILED')",
    )
    .await;

    let mut tx = bench.begin().await;
    let of = |job: &str, status| ExecutionFilter { job: Some(job.into()), status, instance: None };
    let loads = tx.jobs().executions(&of("load", None), None, 10).await.unwrap();
    let failed = tx.jobs().executions(&of("load", Some(BatchStatus::Failed)), None, 10).await.unwrap();
    let jobs = tx.jobs().list(10).await.unwrap();

    assert_eq!(loads.iter().map(|e| e.id).collect::<Vec<_>>(), [ExecutionId::new(900), ours.execution]);
    assert_eq!(failed.iter().map(|e| e.id).collect::<Vec<_>>(), [ExecutionId::new(900)]);
    let last: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.last.unwrap().id.get())).collect();
    assert_eq!(last, [("load", 900), ("nightly", 901)]);
}

/// Spring's programs need not know that we are there.
async fn a_role_without_rights_on_our_tables_writes_executions(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // SQLite has no roles.
    }
    let role = format!("tm_spring_{}", std::process::id());
    let mut tx = bench.begin().await;
    for statement in [
        format!("create role {role} nologin"),
        format!("grant select, insert on batch_job_instance, batch_job_execution to {role}"),
        format!("set local role {role}"),
        // What lies before our tables in its path does not deceive the function.
        "create temporary table tidemill_job_history (job_execution_id bigint, job_name text)".to_owned(),
        "insert into batch_job_instance values (900, 0, 'nightly', 'a')".to_owned(),
        "insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
             values (900, 2, 900, '2026-11-15 02:00:00', 'FAILED')"
            .to_owned(),
        "drop table pg_temp.tidemill_job_history".to_owned(),
        "reset role".to_owned(),
    ] {
        tx.execute_for_test(&statement).await.unwrap();
    }

    let jobs = tx.jobs().list(10).await.unwrap();

    assert_eq!(jobs[0].last.map(|last| last.id), Some(ExecutionId::new(900)));
    // The role was made in this transaction, and goes with it.
    tx.rollback().await.unwrap();
}

async fn counts_in_lists_end_somewhere(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.fill_history(12_000).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    let jobs = tx.jobs().list(10).await.unwrap();
    let ticker = tx.jobs().instances("ticker", None, 10).await.unwrap();

    let counted: Vec<_> = jobs.iter().map(|job| job.instances).collect();
    let most = COUNTED_MAX.unsigned_abs();
    assert_eq!(counted, [most, most, most, most, most, most, most, most, 1]);
    assert_eq!((ticker[0].executions, ticker[0].last.unwrap().id.get()), (most, 12_000));
    tx.rollback().await.unwrap();
    let all = look(&bench, "select cast(count(*) as text) from tidemill_job_history").await;
    assert_eq!(all, [Some("12000".to_owned())]);
}
