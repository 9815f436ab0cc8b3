//! A commit of which one half is lost on its way: the request, or the answer.

use super::{Ground, ScanCommits, arguments, go_on, sweep};
use crate::Ran;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{CommitProxy, Loss};

const RUN: &str = "run=night";
const SCAN: &str = "run=scan night";
const FAST: &str = "pause=0,long,false";

/// The number 25 as a bound value: its length, then itself. It is in the third chunk.
const THIRD_CHUNK: &[u8] = &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 25];

/// The number 18 in the same way. The attempt to write its chunk as a whole ends with 17, which the table refuses, so
/// that only the scan has it.
const AFTER_REFUSAL: &[u8] = &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 18];

/// Texts that are bound in the transactions that launch the job, start its step and end its step.
const LAUNCH: &[u8] = b"execution.launch";
const STEP_START: &[u8] = b"numbers";
const STEP_END: &[u8] = b"COMPLETED";

/// Runs the job through a proxy that loses the commit of the transaction with this marker. None when there is no
/// PostgreSQL; SQLite has no network to lose anything.
async fn run_losing(loss: Loss, marker: &[u8], threads: u32) -> Option<(Ground, Ran)> {
    run_scan_losing(loss, marker, threads, (RUN, ScanCommits::EachRow)).await
}

async fn run_scan_losing(
    loss: Loss,
    marker: &[u8],
    threads: u32,
    (run, commits): (&str, ScanCommits),
) -> Option<(Ground, Ran)> {
    let ground = Ground::with_threads(Scratch::postgres().await?, threads).await;
    let proxy = CommitProxy::in_front_of(ground.database.url()).unwrap();
    proxy.lose(loss, marker);

    let ran = sweep(proxy.url(), threads, commits).run(&arguments("sweep", run, FAST));

    assert_eq!(proxy.lost(), 1, "nothing was lost, so nothing was tested: {ran:#?}");
    Some((ground, ran))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_lost_the_answer_to_a_commit_finds_out_and_goes_on() {
    for threads in [1, 4] {
        let Some((ground, ran)) = run_losing(Loss::Answer, THIRD_CHUNK, threads).await else { return };

        ran.succeeds();
        assert!(ran.stderr.contains("the answer to a commit was lost"), "{ran:#?}");
        assert_eq!(ground.executions("sweep", "night").await.len(), 1);
        ground.assert_exact("sweep", "night").await;
    }
}

/// The rows of a table are committed together with their chunk, by a statement without a transaction around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_commits_a_chunk_may_be_lost_either_way() {
    for loss in [Loss::Answer, Loss::Request] {
        let Some(database) = Scratch::postgres().await else { return };
        let ground = Ground::new(database).await;
        let proxy = CommitProxy::in_front_of(ground.database.url()).unwrap();
        proxy.lose_statement(loss, b"written as");

        let ran = sweep(proxy.url(), 1, ScanCommits::EachRow).run(&arguments("table", RUN, FAST));

        ran.succeeds();
        assert_eq!(proxy.lost(), 1, "{ran:#?}");
        assert!(ran.stderr.contains("the answer to a commit was lost"), "{ran:#?}");
        assert_eq!(ground.executions("table", "night").await.len(), 1);
        ground.assert_exact("table", "night").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_not_taken_for_one_that_did() {
    for threads in [1, 4] {
        let Some((ground, ran)) = run_losing(Loss::Request, THIRD_CHUNK, threads).await else { return };

        assert_eq!(ran.code, Some(10), "{ran:#?}");
        assert_eq!(ground.rows("night").await.len(), 20);
        let (_, steps) = ground.executions("sweep", "night").await.pop().unwrap();
        assert_eq!((steps[0].counters.write, steps[0].counters.commit), (20, 2), "{steps:?}");
        ground.go_on(&arguments("sweep", RUN, FAST)).succeeds();
        ground.assert_exact("sweep", "night").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_in_one_transaction_whose_commit_is_lost_is_exact() {
    for threads in [1, 4] {
        let scan = (SCAN, ScanCommits::All);
        let lost = run_scan_losing(Loss::Answer, AFTER_REFUSAL, threads, scan).await;
        let Some((ground, ran)) = lost else { return };
        ran.succeeds();
        assert_eq!(ground.executions("sweep", "scan night").await.len(), 1);
        ground.assert_exact("sweep", "scan night").await;

        let lost = run_scan_losing(Loss::Request, AFTER_REFUSAL, threads, scan).await;
        let Some((ground, ran)) = lost else { return };
        assert_eq!(ran.code, Some(10), "{ran:#?}");
        assert_eq!(ground.rows("scan night").await.len(), 10);
        let (_, steps) = ground.executions("sweep", "scan night").await.pop().unwrap();
        assert_eq!((steps[0].counters.write, steps[0].counters.skips()), (10, 0), "{steps:?}");
        go_on(&sweep(ground.database.url(), threads, ScanCommits::All), &arguments("sweep", SCAN, FAST))
            .succeeds();
        ground.assert_exact("sweep", "scan night").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_commit_is_lost_a_restart_is_exact() {
    for marker in [LAUNCH, STEP_START, STEP_END] {
        for loss in [Loss::Answer, Loss::Request] {
            let Some((ground, ran)) = run_losing(loss, marker, 1).await else { return };

            let is_told = matches!(ran.code, Some(0 | 1 | 5 | 6 | 10));
            assert!(is_told && !ran.stderr.contains("panicked"), "{loss:?}: {ran:#?}");
            if ran.code != Some(0) {
                let again = ground.go_on(&arguments("sweep", RUN, FAST));
                // It may have completed without a word.
                assert!(
                    again.code == Some(0) || again.stderr.contains("error[TM1004]"),
                    "{loss:?}: {again:#?}"
                );
            }
            ground.assert_exact("sweep", "night").await;
        }
    }
}
