//! What people may do to an execution.

use super::{ann, day, detail, end, end_step, launch, request, run_step, status, try_launch};
use crate::{Bench, TTL};
use std::time::Duration;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionId, ExitStatus};
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::{ChunkSaved, ExecutionChanged, stop_topic};
use tidemill_store::wakeup::Woken;

crate::on_both![
    an_execution_begins_and_ends_once,
    a_stop_is_recorded_with_who_and_why_and_wakes_the_process,
    a_stop_before_the_beginning_is_not_forgotten,
    what_has_ended_cannot_be_stopped,
    only_what_has_ended_unwell_is_abandoned,
    recovery_is_refused_while_the_owner_lives,
    recovery_shuts_out_a_process_that_comes_back,
    what_nobody_knows_the_end_of_is_recovered_on_an_operators_word,
    nobody_acts_on_an_execution_that_is_not_there,
    every_order_is_in_the_audit_log,
];

async fn an_execution_begins_and_ends_once(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    bench.advance(Duration::from_secs(2));

    let again = bench.begin().await.jobs().begin_execution(launched.execution, lease, fence).await.unwrap();
    let ended = end(&bench, &launched, BatchStatus::Completed).await;
    let ended_again = end(&bench, &launched, BatchStatus::Failed).await;

    assert!(!again && ended && !ended_again);
    let found = detail(&bench, launched.execution).await;
    assert_eq!((found.execution.status, found.execution.version), (BatchStatus::Completed, 2));
    assert_eq!(found.execution.started_at, Some(bench.now().minus(Duration::from_secs(2))));
    assert_eq!(
        (found.execution.ended_at, found.execution.exit),
        (Some(bench.now()), ExitStatus::completed())
    );
    assert!(!found.owner.unwrap().holds_lease);
}

async fn a_stop_is_recorded_with_who_and_why_and_wakes_the_process(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let mut wakeup = bench.store.wakeup(&stop_topic(launched.execution));
    let mut tx = bench.begin().await;

    let stopped = tx.jobs().request_stop(launched.execution, &ann(), Some("maintenance")).await.unwrap();
    let again = tx.jobs().request_stop(launched.execution, &ann(), Some("really")).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(stopped, ExecutionChanged::Done { from: BatchStatus::Started, to: BatchStatus::Stopping });
    assert_eq!(again, ExecutionChanged::Done { from: BatchStatus::Stopping, to: BatchStatus::Stopping });
    assert_eq!(wakeup.wait(crate::SOON).await, Woken::Called);
    let found = detail(&bench, launched.execution).await;
    let stop = found.stop.unwrap();
    assert_eq!(
        (stop.at, stop.by.as_str(), stop.reason.as_deref()),
        (bench.now(), "ann", Some("maintenance"))
    );
    assert_eq!((found.execution.status, found.execution.version), (BatchStatus::Stopping, 2));
    assert!(end(&bench, &launched, BatchStatus::Stopped).await);
    assert!(try_launch(&bench, &request(&day("1"), one, &ann())).await.is_ok());
}

async fn a_stop_before_the_beginning_is_not_forgotten(bench: Bench) {
    let one = bench.process(1).await;
    let launched = try_launch(&bench, &request(&day("1"), one, &ann())).await.unwrap();
    let mut tx = bench.begin().await;
    assert!(matches!(
        tx.jobs().request_stop(launched.execution, &ann(), None).await.unwrap(),
        ExecutionChanged::Done { from: BatchStatus::Starting, .. }
    ));

    let begun =
        tx.jobs().begin_execution(launched.execution, &launched.lease, launched.granted.fence).await.unwrap();
    tx.commit().await.unwrap();

    assert!(begun);
    assert_eq!(status(&bench, launched.execution).await, BatchStatus::Stopping);
}

async fn what_has_ended_cannot_be_stopped(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    end(&bench, &launched, BatchStatus::Failed).await;

    let refused = bench.begin().await.jobs().request_stop(launched.execution, &ann(), None).await.unwrap();

    assert_eq!(
        refused,
        ExecutionChanged::Refused(ExecutionRefusal::NotRunning { status: BatchStatus::Failed })
    );
}

async fn only_what_has_ended_unwell_is_abandoned(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let mut tx = bench.begin().await;

    let running = tx.jobs().abandon_execution(launched.execution, &ann(), "no").await.unwrap();
    tx.commit().await.unwrap();
    end(&bench, &launched, BatchStatus::Failed).await;
    let mut tx = bench.begin().await;
    let failed = tx.jobs().abandon_execution(launched.execution, &ann(), "no").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(
        running,
        ExecutionChanged::Refused(ExecutionRefusal::StillRunning { status: BatchStatus::Started })
    );
    assert_eq!(failed, ExecutionChanged::Done { from: BatchStatus::Failed, to: BatchStatus::Abandoned });
    let relaunched = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    let Err(LaunchRefusal::AlreadyComplete(Some(end))) = relaunched else { panic!("{relaunched:?}") };
    assert_eq!((end.execution, end.status), (launched.execution, BatchStatus::Abandoned));
}

async fn recovery_is_refused_while_the_owner_lives(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    bench.advance(TTL - Duration::from_micros(1));

    let mut tx = bench.begin().await;
    let refused = tx.jobs().recover_execution(launched.execution, &ann(), "looks stuck").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(refused, ExecutionChanged::Refused(ExecutionRefusal::OwnerAlive));
    assert_eq!(status(&bench, launched.execution).await, BatchStatus::Started);
}

async fn recovery_shuts_out_a_process_that_comes_back(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    // Silent, but nobody has declared it dead yet: its lease still names it.
    bench.advance(TTL);

    let mut tx = bench.begin().await;
    let recovered = tx.jobs().recover_execution(launched.execution, &ann(), "host is gone").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(recovered, ExecutionChanged::Done { from: BatchStatus::Started, to: BatchStatus::Failed });
    let found = detail(&bench, launched.execution).await.execution;
    assert_eq!((found.ended_at, found.exit.code.as_str()), (Some(bench.now()), "FAILED"));
    assert_eq!(found.exit.description, "recovered by ann: host is gone");
    let record = bench.begin().await.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.status, record.ended_at), (BatchStatus::Failed, Some(bench.now())));
    let ghost = super::save(&bench, &launched, step, &Counters::default(), None).await;
    assert_eq!(ghost, ChunkSaved::Fenced);
    assert!(!end_step(&bench, &launched, step, BatchStatus::Completed, &ExitStatus::completed()).await);
    assert!(!end(&bench, &launched, BatchStatus::Completed).await);
    let two = bench.process(2).await;
    assert!(try_launch(&bench, &request(&day("1"), two, &ann())).await.is_ok());
}

async fn what_nobody_knows_the_end_of_is_recovered_on_an_operators_word(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    end_step(&bench, &launched, step, BatchStatus::Unknown, &ExitStatus::new(ExitStatus::UNKNOWN)).await;
    end(&bench, &launched, BatchStatus::Unknown).await;
    let refused = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    assert_eq!(refused, Err(LaunchRefusal::StepUnknown { step: "copy".into() }));

    let mut tx = bench.begin().await;
    let recovered =
        tx.jobs().recover_execution(launched.execution, &ann(), "nothing was written").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(recovered, ExecutionChanged::Done { from: BatchStatus::Unknown, to: BatchStatus::Failed });
    assert!(try_launch(&bench, &request(&day("1"), one, &ann())).await.is_ok());
}

async fn nobody_acts_on_an_execution_that_is_not_there(bench: Bench) {
    let nowhere = ExecutionId::new(4711);
    let mut tx = bench.begin().await;

    assert_eq!(
        tx.jobs().request_stop(nowhere, &ann(), None).await.unwrap(),
        ExecutionChanged::NoSuchExecution
    );
    assert_eq!(
        tx.jobs().abandon_execution(nowhere, &ann(), "no").await.unwrap(),
        ExecutionChanged::NoSuchExecution
    );
    assert_eq!(
        tx.jobs().recover_execution(nowhere, &ann(), "no").await.unwrap(),
        ExecutionChanged::NoSuchExecution
    );
    assert_eq!(tx.jobs().execution(nowhere).await.unwrap(), None);
    assert_eq!(tx.jobs().job_context(nowhere).await.unwrap(), None);
    assert!(tx.jobs().steps(nowhere).await.unwrap().is_empty());
}

async fn every_order_is_in_the_audit_log(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let mut tx = bench.begin().await;
    assert!(matches!(
        tx.jobs().request_stop(first.execution, &ann(), Some("why")).await.unwrap(),
        ExecutionChanged::Done { .. }
    ));
    tx.commit().await.unwrap();
    end(&bench, &first, BatchStatus::Stopped).await;
    let mut tx = bench.begin().await;
    assert!(matches!(
        tx.jobs().abandon_execution(first.execution, &ann(), "old").await.unwrap(),
        ExecutionChanged::Done { .. }
    ));
    tx.commit().await.unwrap();

    let object = Some(format!("execution/{}", first.execution));
    let filter = AuditFilter { object, ..AuditFilter::default() };
    let entries = bench.begin().await.audit().entries(&filter, 10).await.unwrap();

    let told: Vec<String> = entries
        .iter()
        .rev()
        .map(|record| {
            let entry = &record.entry;
            let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".into());
            let (from, to, reason) = (part(&entry.from), part(&entry.to), part(&entry.reason));
            format!("{} {} {from} {to} {reason}", entry.actor.name, entry.action)
        })
        .collect();
    assert_eq!(
        told,
        [
            "ann execution.launch - - job load",
            "ann execution.stop STARTED STOPPING why",
            "p1 execution.end STOPPING STOPPED STOPPED",
            "ann execution.abandon STOPPED ABANDONED old",
        ]
    );
}
