//! Launching: which instance, whether it may run, and what the run begins with.

use super::{ann, day, detail, end, launch, look, request, run_sql, run_step, status, try_launch};
use crate::{Bench, TTL, process_id};
use std::collections::HashSet;
use tidemill_domain::job::launch::{InstanceEnd, Launch, LaunchRefusal};
use tidemill_domain::job::parameter::{ParameterSpec, ParameterType, check};
use tidemill_domain::job::{BatchStatus, ExecutionContext, JobParameters};
use tidemill_domain::lease::LeaseRefusal;
use tidemill_store::StoreError;
use tidemill_store::job::lease_key;

crate::on_both![
    a_first_launch_makes_instance_execution_parameters_and_lease,
    an_execution_keeps_its_place_in_a_trace,
    the_same_parameters_are_refused_while_they_run_and_once_they_are_done,
    what_failed_is_restarted_with_a_copy_of_what_the_job_remembers,
    a_restart_goes_on_from_the_last_execution_whatever_came_before,
    a_job_without_identifying_parameters_may_run_again,
    a_job_that_says_once_is_not_restarted,
    a_refused_launch_leaves_nothing_behind,
    a_step_that_counts_as_running_or_unknown_stops_a_restart,
    of_many_launches_at_once_one_wins,
    many_instances_are_launched_at_once,
    an_execution_that_somebody_else_has_written_is_noticed,
    a_process_that_is_gone_launches_nothing,
    a_context_that_java_has_written_is_not_guessed_at,
];

async fn a_first_launch_makes_instance_execution_parameters_and_lease(bench: Bench) {
    let one = bench.process(1).await;
    let parameters = day("2026-11-15").with("limit", 7_i64).with_non_identifying("note", "가");

    let launched = try_launch(&bench, &request(&parameters, one, &ann())).await.unwrap();

    assert_eq!((launched.launch, launched.parameters), (Launch::First, parameters.clone()));
    assert_eq!(launched.lease, lease_key(launched.execution));
    assert_eq!(launched.context, ExecutionContext::new());
    let found = detail(&bench, launched.execution).await;
    assert_eq!(found.execution.status, BatchStatus::Starting);
    assert_eq!((found.execution.job.as_str(), found.execution.instance), ("load", launched.instance));
    assert_eq!((found.execution.created_at, found.execution.started_at), (bench.now(), None));
    assert_eq!((found.execution.launched_by.as_deref(), found.execution.is_foreign), (Some("ann"), false));
    let listed: Vec<_> = found
        .parameters
        .iter()
        .map(|p| (p.name.as_str(), p.class.as_str(), p.value.as_str(), p.is_identifying))
        .collect();
    assert_eq!(
        listed,
        [
            ("day", "java.lang.String", "2026-11-15", true),
            ("limit", "java.lang.Long", "7", true),
            ("note", "java.lang.String", "가", false),
        ]
    );
    let owner = found.owner.unwrap();
    assert_eq!((owner.id, owner.holds_lease), (one, true));
    assert_eq!(owner.process.unwrap().identity.name, "p1");
    let key = look(&bench, "select job_key from batch_job_instance").await;
    assert_eq!(key, [Some(tidemill_domain::job::instance::job_key(&parameters))]);
}

async fn an_execution_keeps_its_place_in_a_trace(bench: Bench) {
    let one = bench.process(1).await;
    let traced = launch(&bench, &day("2026-11-15"), one).await.execution;
    let other = launch(&bench, &day("2026-11-16"), one).await.execution;
    let place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    let mut tx = bench.begin().await;
    tx.jobs().note_trace(traced, place).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().trace(traced).await.unwrap().as_deref(), Some(place));
    assert_eq!(tx.jobs().trace(other).await.unwrap(), None);
}

async fn the_same_parameters_are_refused_while_they_run_and_once_they_are_done(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;

    let running = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    let other = try_launch(&bench, &request(&day("2"), one, &ann())).await;
    assert!(end(&bench, &first, BatchStatus::Completed).await);
    let done = try_launch(&bench, &request(&day("1"), one, &ann())).await;

    assert_eq!(running, Err(LaunchRefusal::AlreadyRunning));
    assert_ne!(other.unwrap().instance, first.instance);
    let end = InstanceEnd { execution: first.execution, status: BatchStatus::Completed, at: bench.now() };
    assert_eq!(done, Err(LaunchRefusal::AlreadyComplete(Some(end))));
    let leases = bench.begin().await.leases().list(10).await.unwrap();
    assert_eq!(leases.len(), 1, "the lease of what has ended is forgotten: {leases:?}");
}

async fn what_failed_is_restarted_with_a_copy_of_what_the_job_remembers(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let mut context = ExecutionContext::new();
    context.put("total", 42);
    context.put("long", "x".repeat(3000));
    let mut tx = bench.begin().await;
    let text = context.to_text().unwrap();
    let (lease, fence) = (&first.lease, first.granted.fence);
    assert!(tx.jobs().save_job_context(first.execution, lease, fence, &text).await.unwrap());
    tx.commit().await.unwrap();
    end(&bench, &first, BatchStatus::Failed).await;

    let second = try_launch(&bench, &request(&day("1"), one, &ann())).await.unwrap();

    assert_eq!((second.launch, second.instance), (Launch::Restart, first.instance));
    assert!(second.execution > first.execution);
    assert_eq!(second.context, context);
    let stored = bench.begin().await.jobs().job_context(second.execution).await.unwrap().unwrap();
    assert_eq!(stored, tidemill_store::job::StoredContext::Readable(context));
}

async fn a_restart_goes_on_from_the_last_execution_whatever_came_before(bench: Bench) {
    let one = bench.process(1).await;
    for (number, status) in [(1, BatchStatus::Failed), (2, BatchStatus::Stopped), (3, BatchStatus::Failed)] {
        let launched = launch(&bench, &day("1"), one).await;
        let text = format!(r#"{{"version":1,"values":{{"run":{number}}}}}"#);
        let mut tx = bench.begin().await;
        let (lease, fence) = (&launched.lease, launched.granted.fence);
        assert!(tx.jobs().save_job_context(launched.execution, lease, fence, &text).await.unwrap());
        tx.commit().await.unwrap();
        end(&bench, &launched, status).await;
    }

    let next = try_launch(&bench, &request(&day("1"), one, &ann())).await.unwrap();

    assert_eq!(next.context.get_long("run"), Some(3));
}

async fn a_job_without_identifying_parameters_may_run_again(bench: Bench) {
    let one = bench.process(1).await;
    let parameters = JobParameters::new().with_non_identifying("note", "a");
    let first = launch(&bench, &parameters, one).await;
    end(&bench, &first, BatchStatus::Completed).await;

    let other = JobParameters::new().with_non_identifying("note", "b");
    let second = try_launch(&bench, &request(&other, one, &ann())).await.unwrap();

    assert_eq!((second.instance, second.launch), (first.instance, Launch::Restart));
}

async fn a_job_that_says_once_is_not_restarted(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let (parameters, actor) = (day("1"), ann());

    let mut once = request(&parameters, one, &actor);
    once.is_restartable = false;

    assert_eq!(try_launch(&bench, &once).await, Err(LaunchRefusal::NotRestartable));
}

async fn a_refused_launch_leaves_nothing_behind(bench: Bench) {
    let one = bench.process(1).await;
    let (parameters, actor) = (day("1"), ann());
    let spec = ParameterSpec {
        name: "month".into(),
        kind: ParameterType::Text,
        is_required: true,
        is_identifying: true,
        accepted: Default::default(),
    };
    let mut wrong = request(&parameters, one, &actor);
    wrong.parameters_valid = check(&parameters, &[spec]);

    let refused = try_launch(&bench, &wrong).await;

    assert!(matches!(refused, Err(LaunchRefusal::ParametersInvalid(_))));
    let rows = "select cast((select count(*) from batch_job_instance)
                    + (select count(*) from batch_job_execution) as text)";
    assert_eq!(look(&bench, rows).await, [Some("0".to_owned())]);
}

async fn a_step_that_counts_as_running_or_unknown_stops_a_restart(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    run_step(&bench, &first, "copy").await;
    end(&bench, &first, BatchStatus::Failed).await;
    let ended = look(&bench, "select status from batch_step_execution").await;

    // Only somebody else leaves a step so: with an execution of ours, its steps end.
    run_sql(&bench, "update batch_step_execution set status = 'STARTED'").await;
    let running = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    run_sql(&bench, "update batch_step_execution set status = 'UNKNOWN'").await;
    let unknown = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    run_sql(&bench, "update batch_step_execution set status = 'FAILED'").await;
    let failed = try_launch(&bench, &request(&day("1"), one, &ann())).await;

    assert_eq!(ended, [Some("FAILED".to_owned())]);
    assert_eq!(running, Err(LaunchRefusal::StepRunning { step: "copy".into() }));
    assert_eq!(unknown, Err(LaunchRefusal::StepUnknown { step: "copy".into() }));
    assert!(failed.is_ok());
}

async fn of_many_launches_at_once_one_wins(bench: Bench) {
    let one = bench.process(1).await;
    let rivals: Vec<_> = (0..16)
        .map(|_| {
            let store = bench.store.clone();
            tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                let answer = tx.jobs().launch(&request(&day("1"), one, &ann())).await.unwrap();
                tx.commit().await.unwrap();
                answer
            })
        })
        .collect();

    let mut won = 0;
    for rival in rivals {
        match rival.await.unwrap() {
            Ok(_) => won += 1,
            Err(refusal) => assert_eq!(refusal, LaunchRefusal::AlreadyRunning),
        }
    }

    assert_eq!(won, 1);
    let rows = "select cast(count(*) as text) from batch_job_execution";
    assert_eq!(look(&bench, rows).await, [Some("1".to_owned())]);
}

async fn many_instances_are_launched_at_once(bench: Bench) {
    let one = bench.process(1).await;
    let launches: Vec<_> = (0..16)
        .map(|number| {
            let store = bench.store.clone();
            tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                let parameters = JobParameters::new().with("number", i64::from(number / 2));
                let answer = tx.jobs().launch(&request(&parameters, one, &ann())).await.unwrap();
                tx.commit().await.unwrap();
                answer.ok().map(|launched| (launched.instance, launched.execution))
            })
        })
        .collect();

    let mut made = HashSet::new();
    for launch in launches {
        made.extend(launch.await.unwrap());
    }

    assert_eq!(made.len(), 8);
    assert_eq!(made.iter().map(|(instance, _)| instance).collect::<HashSet<_>>().len(), 8);
}

async fn an_execution_that_somebody_else_has_written_is_noticed(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let insert = format!(
        "insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
         values (1000, 0, {}, '2026-11-15 02:00:00', 'STARTED')",
        first.instance
    );
    if bench.scratch.url().starts_with("sqlite") {
        run_sql(&bench, &insert).await;
        assert_eq!(
            try_launch(&bench, &request(&day("1"), one, &ann())).await,
            Err(LaunchRefusal::AlreadyRunning)
        );
        return;
    }
    // It commits after the history was read: only the index can notice.
    let mut foreign = bench.begin().await;
    foreign.execute_for_test(&insert).await.unwrap();

    let store = bench.store.clone();
    let ours = tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let answer = tx.jobs().launch(&request(&day("1"), one, &ann())).await.unwrap();
        tx.commit().await.unwrap();
        answer
    });
    bench.until_blocked(&[&ours]).await;
    foreign.commit().await.unwrap();

    assert_eq!(ours.await.unwrap(), Err(LaunchRefusal::AlreadyRunning));
}

async fn a_process_that_is_gone_launches_nothing(bench: Bench) {
    let one = bench.process(1).await;
    bench.advance(TTL);

    for by in [one, process_id(99)] {
        let mut tx = bench.begin().await;
        let refused = tx.jobs().launch(&request(&day("1"), by, &ann())).await;
        assert!(matches!(refused, Err(StoreError::LeaseRefused(LeaseRefusal::AskerGone))));
        tx.rollback().await.unwrap();
    }

    assert!(bench.begin().await.jobs().list(10).await.unwrap().is_empty());
}

async fn a_context_that_java_has_written_is_not_guessed_at(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    run_sql(&bench, "update batch_job_execution_context set short_context = 'rO0ABXNyABFqYXZh'").await;

    let mut tx = bench.begin().await;
    let refused = tx.jobs().launch(&request(&day("1"), one, &ann())).await.unwrap_err();
    tx.rollback().await.unwrap();

    assert!(matches!(refused, StoreError::BadContext { .. }), "{refused:?}");
    assert_eq!(status(&bench, first.execution).await, BatchStatus::Failed);
}
