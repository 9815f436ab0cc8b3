//! What alerts and metrics watch: unresolved failures, and active executions.

use super::{ann, day, end, end_step, launch, lose_all, request, run_sql, run_step, try_launch};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, ExitStatus, JobParameters};
use tidemill_store::job::FailedJob;

crate::on_both![
    a_failure_is_unresolved_until_its_instance_completes_or_is_abandoned,
    a_job_with_many_failures_hides_no_other_job,
    a_failure_names_its_step_and_its_error,
    a_failure_that_is_restarted_says_so,
    the_oldest_executions_are_watched_first,
    active_executions_are_counted_by_job,
];

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

const RESTART_WITHIN: Duration = Duration::from_secs(300);

async fn failed_jobs(bench: &Bench) -> Vec<FailedJob> {
    bench.begin().await.jobs().failed_jobs(WEEK, RESTART_WITHIN, 2).await.unwrap()
}

async fn a_failure_is_unresolved_until_its_instance_completes_or_is_abandoned(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let second = launch(&bench, &day("2"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    end(&bench, &second, BatchStatus::Failed).await;
    let found = failed_jobs(&bench).await;
    assert_eq!((found.len(), found[0].job.as_str()), (1, "load"));
    assert_eq!((found[0].instances, found[0].execution), (2, second.execution));

    // It fails again and is stopped: still two instances.
    let again = launch(&bench, &day("1"), one).await;
    end(&bench, &again, BatchStatus::Failed).await;
    let stopped = launch(&bench, &day("1"), one).await;
    end(&bench, &stopped, BatchStatus::Stopped).await;
    let found = failed_jobs(&bench).await;
    assert_eq!((found[0].instances, found[0].restarting, found[0].execution), (2, 0, again.execution));

    let completed = launch(&bench, &day("1"), one).await;
    end(&bench, &completed, BatchStatus::Completed).await;
    let found = failed_jobs(&bench).await;
    assert_eq!((found[0].instances, found[0].execution), (1, second.execution));
    run_sql(
        &bench,
        &format!(
            "update batch_job_execution set status = 'ABANDONED' where job_execution_id = {}",
            second.execution
        ),
    )
    .await;
    assert_eq!(failed_jobs(&bench).await, []);
}

async fn a_job_with_many_failures_hides_no_other_job(bench: Bench) {
    let one = bench.process(1).await;
    let (parameters, actor) = (day("1"), ann());
    let mut other = request(&parameters, one, &actor);
    other.job = "audit";
    let audit = try_launch(&bench, &other).await.unwrap();
    end(&bench, &audit, BatchStatus::Failed).await;
    for number in 0..5 {
        let launched = launch(&bench, &day(&number.to_string()), one).await;
        end(&bench, &launched, BatchStatus::Failed).await;
    }

    let found = failed_jobs(&bench).await;

    let counted: Vec<_> = found.iter().map(|failed| (failed.job.as_str(), failed.instances)).collect();
    assert_eq!(counted, [("audit", 1), ("load", 5)]);
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

    let found = failed_jobs(&bench).await;
    assert_eq!((found[0].step.as_deref(), found[0].message.as_str()), (Some("copy"), "TM1022: exit code 3"));
    bench.clock.advance(WEEK + Duration::from_secs(1));
    assert_eq!(failed_jobs(&bench).await, []);
}

async fn a_failure_that_is_restarted_says_so(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let (none, actor) = (JobParameters::new(), ann());
    let mut ticker = request(&none, one, &actor);
    (ticker.job, ticker.on_crash) = ("ticker", OnCrash::Restart { limit: 1 });
    try_launch(&bench, &ticker).await.unwrap();
    let restarting = async || {
        let found = failed_jobs(&bench).await;
        found.into_iter().map(|failed| (failed.job, failed.restarting)).collect::<Vec<_>>()
    };
    let expected = |load: u64, ticker: u64| [("load".to_owned(), load), ("ticker".to_owned(), ticker)];

    lose_all(&bench).await;
    assert_eq!(restarting().await, expected(0, 1), "a restart is due");
    bench.advance(RESTART_WITHIN + Duration::from_secs(1));
    assert_eq!(restarting().await, expected(0, 0), "nobody restarts it");

    let two = bench.process(2).await;
    launch(&bench, &day("1"), two).await;
    assert_eq!(restarting().await, expected(1, 0), "a restart runs");
    let second = launch(&bench, &day("2"), two).await;
    let third = launch(&bench, &day("3"), two).await;
    end(&bench, &second, BatchStatus::Failed).await;
    end(&bench, &third, BatchStatus::Failed).await;
    launch(&bench, &day("3"), two).await;
    let found = failed_jobs(&bench).await;
    let load = (found[0].instances, found[0].restarting, found[0].execution);
    assert_eq!(load, (3, 2, second.execution), "two of three are restarted");

    run_sql(&bench, "update batch_job_execution set status = 'UNKNOWN' where status = 'STARTED'").await;
    assert_eq!(restarting().await, expected(0, 0), "nobody knows whether a restart runs");
}

async fn the_oldest_executions_are_watched_first(bench: Bench) {
    let one = bench.process(1).await;
    let ended = launch(&bench, &day("0"), one).await;
    let oldest = launch(&bench, &day("1"), one).await;
    let middle = launch(&bench, &day("2"), one).await;
    launch(&bench, &day("3"), one).await;
    end(&bench, &ended, BatchStatus::Completed).await;

    let found = bench.begin().await.jobs().oldest_started(2).await.unwrap();

    let ids: Vec<_> = found.iter().map(|execution| execution.id).collect();
    assert_eq!(ids, [oldest.execution, middle.execution]);
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
