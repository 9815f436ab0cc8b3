//! A job dies more than once while it writes the items of one chunk one by one.
//!
//! The first run reads the chunk from 11 to 20; the table refuses 17. Its commits are counted from 1 for the first
//! chunk, so its fourth is that of 13. Whoever goes on reads ten items behind the last one that was settled, meets 17
//! again, and counts from 1.

use super::ScanCommits;
use super::deaths::{Deaths, survive};

const DEATHS: &[Deaths] = &[
    &["chunk_after_commit:4", "chunk_after_commit:2"],
    &["chunk_after_commit:4", "chunk_before_commit:3"],
    // In the second run, 17 is refused and its skip commits together with 18.
    &["chunk_after_commit:4", "chunk_after_commit:4"],
    // Both refused numbers: 34 is in the chunk from 31 to 40, whose first commit is the twelfth.
    &["chunk_after_commit:13", "chunk_after_commit:2"],
    &["chunk_after_commit:3", "chunk_after_commit:1", "chunk_after_commit:1"],
];

/// A scan is one commit: the second, and that of the chunk from 31 to 40 is the fourth. The third to the twelfth write are
/// those of the first scan. Who goes on repeats the whole chunk, or begins behind it.
const DEATHS_IN_ONE_TRANSACTION: &[Deaths] = &[
    &["chunk_after_write:7", "chunk_before_write:11"],
    &["chunk_before_commit:2", "chunk_after_save:1"],
    &["chunk_after_commit:2", "chunk_after_write:6"],
    &["chunk_before_save:4", "chunk_after_commit:1"],
];

async fn check(deaths: &[Deaths], threads: u32, commits: ScanCommits) {
    let shares = survive("sweep", deaths, threads, commits).await;

    let mut faults = Vec::new();
    for (ground, runs) in &shares {
        for run in runs {
            faults.extend(ground.faults("sweep", run.name()).await);
            let executions = ground.executions("sweep", run.name()).await.len();
            assert_eq!(executions, run.deaths.len() + 1, "{}", run.name());
        }
    }
    assert_eq!(faults, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_dies_again_in_the_same_scan_writes_nothing_twice() {
    check(DEATHS, 1, ScanCommits::EachRow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_four_threads_that_dies_again_in_the_same_scan_writes_nothing_twice() {
    check(&DEATHS[2..4], 4, ScanCommits::EachRow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_dies_in_a_scan_of_one_transaction_writes_nothing_twice() {
    check(DEATHS_IN_ONE_TRANSACTION, 1, ScanCommits::All).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_four_threads_that_dies_in_a_scan_of_one_transaction_writes_nothing_twice() {
    check(&[DEATHS_IN_ONE_TRANSACTION[1], DEATHS_IN_ONE_TRANSACTION[3]], 4, ScanCommits::All).await;
}
