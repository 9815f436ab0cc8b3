//! Executions whose process is gone.

use super::{
    ann, day, detail, end, end_step, launch, lose_all, reap, request, run_sql, run_step, save, status,
    try_launch,
};
use crate::{Bench, TTL};
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, Counters, ExitStatus};
use tidemill_domain::process::ProcessId;
use tidemill_store::job::{ChunkSaved, ExecutionChanged, Launched, RESTART_DUE, Recovered};
use tidemill_store::wakeup::Woken;

crate::on_both![
    an_execution_of_a_lost_process_fails_and_can_be_restarted,
    a_ghost_writes_nothing_once_its_execution_was_recovered,
    an_execution_of_a_living_process_is_left_alone,
    a_process_that_ended_in_order_is_told_apart_from_a_lost_one,
    what_spring_has_written_is_never_recovered,
    many_are_recovered_in_small_shares,
    a_restart_is_due_as_often_as_the_job_allows,
    a_restart_that_is_due_is_taken_once,
    a_restart_whose_launch_did_not_commit_is_due_again,
    somebody_elses_launch_is_the_restart_that_was_due,
    an_abandoned_execution_is_not_restarted,
    an_execution_that_spring_abandons_is_not_restarted,
    what_somebody_wanted_to_stop_is_not_restarted,
];

async fn an_execution_of_a_lost_process_fails_and_can_be_restarted(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    run_step(&bench, &launched, "copy").await;
    let started = bench.now();

    let recovered = lose_all(&bench).await;

    let (execution, job, owner) = (launched.execution, "load".to_owned(), Some("p1".to_owned()));
    assert_eq!(recovered, [Recovered { execution, job, owner, is_restart_due: false }]);
    let found = detail(&bench, execution).await.execution;
    assert_eq!((found.status, found.exit.code.as_str()), (BatchStatus::Failed, "FAILED"));
    assert_eq!(found.ended_at, Some(bench.now()));
    let told = format!("the process p1 (host, 7) that ran it was lost: no heartbeat since {started}");
    assert_eq!(found.exit.description, told);
    let step = bench.begin().await.jobs().steps(execution).await.unwrap().remove(0);
    assert_eq!((step.status, step.exit.description), (BatchStatus::Failed, told));
    assert_eq!(step.ended_at, Some(bench.now()));
    assert!(lose_all(&bench).await.is_empty());
    let two = bench.process(2).await;
    assert!(try_launch(&bench, &request(&day("1"), two, &ann())).await.is_ok());
}

async fn a_ghost_writes_nothing_once_its_execution_was_recovered(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    lose_all(&bench).await;

    let counters = Counters { read: 1, ..Counters::default() };
    let saved = save(&bench, &launched, step, &counters, Some("ghost")).await;
    let step_ended =
        end_step(&bench, &launched, step, BatchStatus::Completed, &ExitStatus::completed()).await;
    let ended = end(&bench, &launched, BatchStatus::Completed).await;
    let mut tx = bench.begin().await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let remembered = tx.jobs().save_job_context(launched.execution, lease, fence, "ghost").await.unwrap();

    assert_eq!((saved, step_ended, ended, remembered), (ChunkSaved::Fenced, false, false, false));
    let record = tx.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.status, record.counters.read), (BatchStatus::Failed, 0));
}

async fn an_execution_of_a_living_process_is_left_alone(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let other = launch(&bench, &day("2"), one).await;
    end(&bench, &other, BatchStatus::Unknown).await;

    assert!(reap(&bench).await.is_empty());

    assert_eq!(status(&bench, launched.execution).await, BatchStatus::Started);
    assert_eq!(status(&bench, other.execution).await, BatchStatus::Unknown);
}

async fn a_process_that_ended_in_order_is_told_apart_from_a_lost_one(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let mut tx = bench.begin().await;
    tx.processes().stop(one, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    assert_eq!(reap(&bench).await.len(), 1);

    let told = detail(&bench, launched.execution).await.execution.exit.description;
    assert_eq!(told, "the process p1 (host, 7) that ran it has ended without an end of the execution");
}

async fn what_spring_has_written_is_never_recovered(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    run_sql(&bench, "delete from tidemill_job_execution").await;

    assert!(lose_all(&bench).await.is_empty());

    let found = detail(&bench, launched.execution).await;
    assert_eq!((found.execution.status, found.execution.is_foreign), (BatchStatus::Started, true));
    assert_eq!(found.owner, None);
    // An operator's word still counts.
    let mut tx = bench.begin().await;
    let recovered = tx.jobs().recover_execution(launched.execution, &ann(), "the host is off").await.unwrap();
    tx.commit().await.unwrap();
    assert!(matches!(recovered, ExecutionChanged::Done { to: BatchStatus::Failed, .. }));
}

async fn many_are_recovered_in_small_shares(bench: Bench) {
    let one = bench.process(1).await;
    for number in 0..5 {
        launch(&bench, &day(&number.to_string()), one).await;
    }
    bench.advance(TTL);
    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    tx.leases().expire(100).await.unwrap();
    tx.commit().await.unwrap();

    let mut shares = Vec::new();
    for _ in 0..3 {
        let mut tx = bench.begin().await;
        shares.push(tx.jobs().recover_orphans(2).await.unwrap().len());
        tx.commit().await.unwrap();
    }

    assert_eq!(shares, [2, 2, 1]);
}

/// Launches a job that is to be restarted by itself, and loses its process.
async fn crash(bench: &Bench, by: ProcessId, crash_restarts: u32) -> (Launched, Vec<Recovered>) {
    let (parameters, actor) = (day("1").with("n", 5_i64).with_non_identifying("note", "x"), ann());
    let mut request = request(&parameters, by, &actor);
    request.on_crash = OnCrash::Restart { limit: 2 };
    request.crash_restarts = crash_restarts;
    let launched = try_launch(bench, &request).await.unwrap();
    let recovered = lose_all(bench).await;
    (launched, recovered)
}

async fn a_restart_is_due_as_often_as_the_job_allows(bench: Bench) {
    let mut due = Vec::new();
    for restarts in 0..3 {
        let by = bench.process(u128::from(restarts) + 1).await;

        let (launched, recovered) = crash(&bench, by, restarts).await;

        due.push(recovered[0].is_restart_due);
        let found = detail(&bench, launched.execution).await;
        assert_eq!(found.is_restart_due, recovered[0].is_restart_due);
        assert_eq!(found.execution.crash_restarts, restarts);
        assert_eq!(found.on_crash, Some(OnCrash::Restart { limit: 2 }));
    }

    assert_eq!(due, [true, true, false]);
}

async fn a_restart_that_is_due_is_taken_once(bench: Bench) {
    let one = bench.process(1).await;
    let mut wakeup = bench.store.wakeup(RESTART_DUE);
    let (launched, _) = crash(&bench, one, 1).await;
    assert_eq!(wakeup.wait(crate::SOON).await, Woken::Called);
    let two = bench.process(2).await;

    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().take_due_restart(&[("other", None)]).await.unwrap(), None);
    assert_eq!(tx.jobs().take_due_restart(&[]).await.unwrap(), None);
    tx.execute_for_test("update tidemill_job_execution set fingerprint = 'v1'").await.unwrap();
    let of_another = tx.jobs().take_due_restart(&[("load", Some("v2"))]).await.unwrap();
    assert_eq!(of_another, None, "one with the same definition goes on");
    let due = tx.jobs().take_due_restart(&[("other", None), ("load", Some("v1"))]).await.unwrap().unwrap();
    let mut rival = None;
    if !bench.scratch.url().starts_with("sqlite") {
        rival = bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap();
    }
    let actor = ann();
    let restarted = tx.jobs().launch(&request(&due.parameters, two, &actor)).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    assert_eq!((due.execution, due.job.as_str(), due.crash_restarts), (launched.execution, "load", 1));
    assert_eq!((due.parameters, restarted.instance), (launched.parameters, launched.instance));
    assert_eq!(rival, None, "two took the same restart");
    assert_eq!(bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap(), None);
}

async fn a_restart_whose_launch_did_not_commit_is_due_again(bench: Bench) {
    let one = bench.process(1).await;
    crash(&bench, one, 0).await;
    let mut tx = bench.begin().await;
    assert!(tx.jobs().take_due_restart(&[("load", None)]).await.unwrap().is_some());

    tx.rollback().await.unwrap();

    assert!(bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap().is_some());
}

async fn somebody_elses_launch_is_the_restart_that_was_due(bench: Bench) {
    let one = bench.process(1).await;
    let (launched, _) = crash(&bench, one, 0).await;
    let two = bench.process(2).await;

    let second = launch(&bench, &launched.parameters, two).await;
    end(&bench, &second, BatchStatus::Failed).await;

    assert_eq!(bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap(), None);
}

async fn an_abandoned_execution_is_not_restarted(bench: Bench) {
    let one = bench.process(1).await;
    let (launched, _) = crash(&bench, one, 0).await;

    let mut tx = bench.begin().await;
    let abandoned = tx.jobs().abandon_execution(launched.execution, &ann(), "enough").await.unwrap();
    tx.commit().await.unwrap();

    assert!(matches!(abandoned, ExecutionChanged::Done { .. }));
    assert_eq!(bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap(), None);
}

async fn an_execution_that_spring_abandons_is_not_restarted(bench: Bench) {
    let one = bench.process(1).await;
    crash(&bench, one, 0).await;

    run_sql(&bench, "update batch_job_execution set status = 'ABANDONED', version = version + 1").await;

    assert_eq!(bench.begin().await.jobs().take_due_restart(&[("load", None)]).await.unwrap(), None);
}

async fn what_somebody_wanted_to_stop_is_not_restarted(bench: Bench) {
    let one = bench.process(1).await;
    let (parameters, actor) = (day("1"), ann());
    let mut request = request(&parameters, one, &actor);
    request.on_crash = OnCrash::Restart { limit: 2 };
    let launched = try_launch(&bench, &request).await.unwrap();
    let mut tx = bench.begin().await;
    let stopping = tx.jobs().request_stop(launched.execution, &actor, None).await.unwrap();
    tx.commit().await.unwrap();

    let recovered = lose_all(&bench).await;

    assert!(matches!(stopping, ExecutionChanged::Done { .. }));
    assert!(!recovered[0].is_restart_due);
    assert_eq!(status(&bench, launched.execution).await, BatchStatus::Failed);
}
