//! Executions that somebody may have to look at.

use super::{day, end, launch};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::job::BatchStatus;
use tidemill_store::job::ExecutionTally;

crate::on_both![
    executions_are_counted_while_they_run_and_for_a_day_after_they_failed,
    a_failure_is_open_until_somebody_goes_on_with_it,
];

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn tally(bench: &Bench) -> ExecutionTally {
    bench.begin().await.jobs().execution_tally(DAY).await.unwrap()
}

async fn executions_are_counted_while_they_run_and_for_a_day_after_they_failed(bench: Bench) {
    assert_eq!(tally(&bench).await, ExecutionTally::default());
    let one = bench.process(1).await;
    let (first, second) = (launch(&bench, &day("1"), one).await, launch(&bench, &day("2"), one).await);
    launch(&bench, &day("3"), one).await;
    assert_eq!(tally(&bench).await, ExecutionTally { running: 3, failed: 0 });

    end(&bench, &first, BatchStatus::Failed).await;
    end(&bench, &second, BatchStatus::Completed).await;
    assert_eq!(tally(&bench).await, ExecutionTally { running: 1, failed: 1 });

    bench.clock.advance(DAY + Duration::from_secs(1));
    assert_eq!(tally(&bench).await, ExecutionTally { running: 1, failed: 0 });
}

async fn a_failure_is_open_until_somebody_goes_on_with_it(bench: Bench) {
    let one = bench.process(1).await;
    let (first, second) = (launch(&bench, &day("1"), one).await, launch(&bench, &day("2"), one).await);
    end(&bench, &first, BatchStatus::Failed).await;
    end(&bench, &second, BatchStatus::Failed).await;

    let open = bench.begin().await.jobs().open_failures(50).await.unwrap();
    assert_eq!(
        open.iter().map(|failure| failure.id).collect::<Vec<_>>(),
        [second.execution, first.execution]
    );
    assert_eq!((open[0].job.as_str(), open[0].ended_at), ("load", Some(bench.now())));

    launch(&bench, &day("2"), one).await;
    let open = bench.begin().await.jobs().open_failures(50).await.unwrap();
    assert_eq!(open.iter().map(|failure| failure.id).collect::<Vec<_>>(), [first.execution]);
}
