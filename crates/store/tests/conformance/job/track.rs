//! How jobs have been doing.

use super::{ann, day, end, launch, request, run_sql, try_launch};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::job::track::Outcomes;

crate::on_both![
    the_last_runs_of_each_job_are_told_newest_first,
    outcomes_are_counted_since_an_instant_and_no_further_than_the_limit,
    latest_executions_has_the_last_execution_of_each_job,
];

async fn the_last_runs_of_each_job_are_told_newest_first(bench: Bench) {
    let one = bench.process(1).await;
    let mut ids = Vec::new();
    for number in 1..=3 {
        let launched = launch(&bench, &day(&number.to_string()), one).await;
        bench.advance(Duration::from_secs(number));
        let status = if number == 2 { BatchStatus::Failed } else { BatchStatus::Completed };
        end(&bench, &launched, status).await;
        ids.push(launched.execution);
    }
    run_sql(&bench, "update batch_job_execution set exit_message = 'no such row\nat line 7'").await;
    let (parameters, actor) = (day("1"), ann());
    let mut other = request(&parameters, one, &actor);
    other.job = "a \"quoted\" name";
    let running = try_launch(&bench, &other).await.unwrap();
    let mut tx = bench.begin().await;

    let runs = tx.jobs().recent_runs(&["load", other.job, "never"], 2).await.unwrap();

    let found: Vec<_> = runs["load"].iter().map(|run| (run.id, run.status, run.length())).collect();
    let seconds = |number| Some(Duration::from_secs(number));
    assert_eq!(
        found,
        [(ids[2], BatchStatus::Completed, seconds(3)), (ids[1], BatchStatus::Failed, seconds(2))]
    );
    let messages: Vec<_> = runs["load"].iter().map(|run| run.message.as_str()).collect();
    assert_eq!(messages, ["", "no such row\nat line 7"]);
    assert_eq!((runs[other.job][0].id, runs[other.job][0].length()), (running.execution, None));
    assert_eq!(runs.len(), 2);
    assert!(tx.jobs().recent_runs(&[], 2).await.unwrap().is_empty());
}

async fn outcomes_are_counted_since_an_instant_and_no_further_than_the_limit(bench: Bench) {
    let one = bench.process(1).await;
    for (number, status) in
        [BatchStatus::Failed, BatchStatus::Completed, BatchStatus::Stopped, BatchStatus::Failed]
            .into_iter()
            .enumerate()
    {
        let launched = launch(&bench, &day(&number.to_string()), one).await;
        end(&bench, &launched, status).await;
        bench.advance(Duration::from_secs(1));
    }
    let mut tx = bench.begin().await;
    let since = |seconds| bench.now().minus(Duration::from_secs(seconds));

    let all = tx.jobs().outcomes(&["load", "never"], since(10)).await.unwrap();
    let later = tx.jobs().outcomes(&["load"], since(3)).await.unwrap();

    assert_eq!(all["load"], Outcomes { completed: 1, unsuccessful: 2 });
    assert_eq!(later["load"], Outcomes { completed: 1, unsuccessful: 1 });
    assert!(!all.contains_key("never"));
    tx.rollback().await.unwrap();
    let mut tx = bench.begin().await;
    tx.execute_for_test("delete from tidemill_job_history").await.unwrap();
    assert!(tx.jobs().outcomes(&["load"], since(10)).await.unwrap().is_empty());
}

async fn latest_executions_has_the_last_execution_of_each_job(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &day("2"), one).await;
    let mut tx = bench.begin().await;

    let latest = tx.jobs().latest_executions(10).await.unwrap();

    assert_eq!((latest[0].name.as_str(), latest[0].last.unwrap().id), ("load", second.execution));
}
