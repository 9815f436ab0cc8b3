//! A purge and launches of the same instance, in either order and all at once.

use super::{HOUR, older_than, purge, ran};
use crate::Bench;
use crate::job::{ann, end, end_step, launch, look, request, run_step};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::job::launch::{Launch, LaunchRefusal};
use tidemill_domain::job::retention::{Retention, Unfinished};
use tidemill_domain::job::{BatchStatus, ExitStatus, JobParameters};

crate::on_both![
    a_launch_that_comes_first_keeps_its_instance,
    a_launch_that_comes_second_waits_and_makes_a_new_instance,
    a_launch_that_waited_for_a_purge_that_failed_goes_on_with_the_old_instance,
    launches_and_purges_at_once_leave_nothing_half_done,
];

fn forgetting(age: Duration) -> Retention {
    Retention::new(Some(age), None, Unfinished::Forget).unwrap()
}

async fn a_launch_that_comes_first_keeps_its_instance(bench: Bench) {
    let failed = ran(&bench, 1, "1", BatchStatus::Failed).await;
    bench.advance(2 * HOUR);
    let (by, actor) = (bench.process(2).await, ann());
    let mut launching = bench.begin().await;
    let launched = launching.jobs().launch(&request(&failed.parameters, by, &actor)).await.unwrap().unwrap();

    if bench.scratch.url().starts_with("sqlite") {
        // The one writer's transaction keeps the purge waiting.
        launching.commit().await.unwrap();
        assert_eq!(purge(&bench, &forgetting(HOUR)).await.0.instances, 0);
    } else {
        assert_eq!(purge(&bench, &forgetting(HOUR)).await.0.instances, 0);
        launching.commit().await.unwrap();
    }

    assert_eq!((launched.instance, launched.launch), (failed.instance, Launch::Restart));
    assert_eq!(purge(&bench, &forgetting(HOUR)).await.0.instances, 0);
    assert!(end(&bench, &launched, BatchStatus::Completed).await);
}

async fn a_launch_that_comes_second_waits_and_makes_a_new_instance(bench: Bench) {
    let bench = Arc::new(bench);
    let failed = ran(&bench, 1, "1", BatchStatus::Failed).await;
    bench.advance(2 * HOUR);
    let by = bench.process(2).await;
    let mut purging = bench.begin().await;
    let walk = purging.jobs().begin_purge("load", &forgetting(HOUR)).await.unwrap();
    assert_eq!(purging.jobs().purge_share(&walk, 10).await.unwrap().removed.instances, 1);
    let (waiting, parameters) = (bench.clone(), failed.parameters.clone());
    let launching = tokio::spawn(async move { launch(&waiting, &parameters, by).await });
    bench.until_blocked(&[&launching]).await;

    purging.commit().await.unwrap();

    let launched = launching.await.unwrap();
    assert_eq!(launched.launch, Launch::First);
    assert_ne!(launched.instance, failed.instance);
    assert!(end(&bench, &launched, BatchStatus::Completed).await);
}

async fn a_launch_that_waited_for_a_purge_that_failed_goes_on_with_the_old_instance(bench: Bench) {
    let bench = Arc::new(bench);
    let failed = ran(&bench, 1, "1", BatchStatus::Failed).await;
    bench.advance(2 * HOUR);
    let by = bench.process(2).await;
    let mut purging = bench.begin().await;
    let walk = purging.jobs().begin_purge("load", &forgetting(HOUR)).await.unwrap();
    assert_eq!(purging.jobs().purge_share(&walk, 10).await.unwrap().removed.instances, 1);
    let (waiting, parameters) = (bench.clone(), failed.parameters.clone());
    let launching = tokio::spawn(async move { launch(&waiting, &parameters, by).await });
    bench.until_blocked(&[&launching]).await;

    purging.rollback().await.unwrap();

    let launched = launching.await.unwrap();
    assert_eq!((launched.instance, launched.launch), (failed.instance, Launch::Restart));
}

/// Four launch the same two instances over and over, two purge whatever has ended.
async fn launches_and_purges_at_once_leave_nothing_half_done(bench: Bench) {
    let bench = Arc::new(bench);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut launching = Vec::new();
    for number in 1..=4_u128 {
        let (bench, by) = (bench.clone(), bench.process(number).await);
        launching.push(tokio::spawn(async move {
            let mut firsts = 0;
            for round in 0..25_u32 {
                bench.advance(Duration::from_millis(2));
                let parameters = JobParameters::new().with("n", i64::from(round % 2));
                let actor = ann();
                let mut tx = bench.begin().await;
                let launched = match tx.jobs().launch(&request(&parameters, by, &actor)).await.unwrap() {
                    Ok(launched) => launched,
                    // Somebody else was quicker.
                    Err(
                        LaunchRefusal::AlreadyRunning
                        | LaunchRefusal::StepRunning { .. }
                        | LaunchRefusal::AlreadyComplete(_),
                    ) => continue,
                    Err(other) => panic!("{other}"),
                };
                tx.commit().await.unwrap();
                firsts += u32::from(launched.launch == Launch::First);
                let mut tx = bench.begin().await;
                let fence = launched.granted.fence;
                assert!(tx.jobs().begin_execution(launched.execution, &launched.lease, fence).await.unwrap());
                tx.commit().await.unwrap();
                let status = if round % 3 == 0 { BatchStatus::Failed } else { BatchStatus::Completed };
                let step = run_step(&bench, &launched, "copy").await;
                let exit = ExitStatus::new(status.as_str());
                assert!(end_step(&bench, &launched, step, status, &exit).await);
                assert!(end(&bench, &launched, status).await, "an execution that ran was taken away");
            }
            firsts
        }));
    }
    let mut purging = Vec::new();
    for _ in 0..2 {
        let (bench, is_over) = (bench.clone(), is_over.clone());
        purging.push(tokio::spawn(async move {
            let mut removed = 0;
            while !is_over.load(Ordering::SeqCst) {
                bench.advance(Duration::from_millis(1));
                removed += purge(&bench, &forgetting(Duration::ZERO)).await.0.instances;
            }
            removed
        }));
    }

    let mut firsts = 0;
    for task in launching {
        firsts += u64::from(task.await.unwrap());
    }
    is_over.store(true, Ordering::SeqCst);
    let mut removed = 0;
    for task in purging {
        removed += task.await.unwrap();
    }

    bench.advance(HOUR);
    removed += purge(&bench, &older_than(Duration::ZERO)).await.0.instances;
    let left = look(&bench, "select cast(count(*) as text) from batch_job_instance").await.remove(0).unwrap();
    assert_eq!(firsts, removed + left.parse::<u64>().unwrap(), "every instance was made once and went once");
    assert!(removed > 2, "nothing was purged while it mattered: {removed}");
    let astray = look(
        &bench,
        "select cast(count(*) as text)
         from batch_job_execution e
         left join tidemill_job_history h on h.job_execution_id = e.job_execution_id
         left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         where h.job_execution_id is null or n.job_execution_id is null",
    );
    assert_eq!(astray.await, [Some("0".to_owned())]);
}
