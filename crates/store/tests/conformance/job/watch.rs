//! What alerts and metrics watch: unresolved failures, and active executions.

use super::{ann, day, end, end_step, launch, lose_all, request, run_sql, run_step, try_launch};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, ExitStatus, JobParameters};
use tidemill_store::job::UnresolvedFailure;

crate::on_both![
    a_failure_is_unresolved_until_its_instance_completes_or_is_abandoned,
    a_failure_names_its_step_and_its_error,
    a_failure_that_is_restarted_says_so,
    active_executions_are_counted_by_job,
];

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

async fn unresolved(bench: &Bench) -> Vec<UnresolvedFailure> {
    bench.begin().await.jobs().unresolved_failures(WEEK, 100).await.unwrap()
}

async fn a_failure_is_unresolved_until_its_instance_completes_or_is_abandoned(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let second = launch(&bench, &day("2"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    end(&bench, &second, BatchStatus::Failed).await;
    let found = unresolved(&bench).await;
    assert_eq!(
        found.iter().map(|failure| failure.execution).collect::<Vec<_>>(),
        [second.execution, first.execution]
    );
    assert_eq!((found[1].job.as_str(), found[1].instance, found[1].failures), ("load", first.instance, 1));

    // It fails again and is stopped: still one alert, about the last failure.
    let again = launch(&bench, &day("1"), one).await;
    end(&bench, &again, BatchStatus::Failed).await;
    let stopped = launch(&bench, &day("1"), one).await;
    end(&bench, &stopped, BatchStatus::Stopped).await;
    let found = unresolved(&bench).await;
    assert_eq!((found.len(), found[0].execution, found[0].failures), (2, again.execution, 2));
    assert!(!found[0].is_restarting);

    let completed = launch(&bench, &day("1"), one).await;
    end(&bench, &completed, BatchStatus::Completed).await;
    run_sql(
        &bench,
        &format!(
            "update batch_job_execution set status = 'ABANDONED' where job_execution_id = {}",
            second.execution
        ),
    )
    .await;
    assert_eq!(unresolved(&bench).await, []);
}

async fn a_failure_names_its_step_and_its_error(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let good = run_step(&bench, &launched, "read").await;
    end_step(&bench, &launched, good, BatchStatus::Completed, &ExitStatus::completed()).await;
    for step in ["copy", "copy:partition0"] {
        let id = run_step(&bench, &launched, step).await;
        end_step(&bench, &launched, id, BatchStatus::Failed, &ExitStatus::failed("no")).await;
    }
    end(&bench, &launched, BatchStatus::Failed).await;
    run_sql(&bench, "update batch_job_execution set exit_message = 'TM1022: exit code 3'").await;

    let found = unresolved(&bench).await;
    assert_eq!((found[0].step.as_deref(), found[0].message.as_str()), (Some("copy"), "TM1022: exit code 3"));
    bench.clock.advance(WEEK + Duration::from_secs(1));
    assert_eq!(unresolved(&bench).await, []);
}

async fn a_failure_that_is_restarted_says_so(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let (none, actor) = (JobParameters::new(), ann());
    let mut ticker = request(&none, one, &actor);
    (ticker.job, ticker.on_crash) = ("ticker", OnCrash::Restart { limit: 1 });
    try_launch(&bench, &ticker).await.unwrap();

    lose_all(&bench).await;
    let restarting = |found: Vec<UnresolvedFailure>| {
        found.into_iter().map(|failure| (failure.job, failure.is_restarting)).collect::<Vec<_>>()
    };
    assert_eq!(
        restarting(unresolved(&bench).await),
        [("ticker".to_owned(), true), ("load".to_owned(), false)],
        "a restart is due"
    );

    let two = bench.process(2).await;
    launch(&bench, &day("1"), two).await;
    assert_eq!(
        restarting(unresolved(&bench).await),
        [("ticker".to_owned(), true), ("load".to_owned(), true)],
        "a restart runs"
    );
}

async fn active_executions_are_counted_by_job(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    launch(&bench, &day("2"), one).await;
    let (parameters, actor) = (day("1"), ann());
    let mut other = request(&parameters, one, &actor);
    other.job = "audit";
    try_launch(&bench, &other).await.unwrap();
    let active = async || bench.begin().await.jobs().active_executions().await.unwrap();

    assert_eq!(active().await, [("audit".to_owned(), 1), ("load".to_owned(), 2)]);
    end(&bench, &first, BatchStatus::Completed).await;
    assert_eq!(active().await, [("audit".to_owned(), 1), ("load".to_owned(), 1)]);
}
