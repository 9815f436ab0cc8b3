//! A job that writes a table and a file at once, and what it skips into another file, dies and goes on.

use super::deaths::{Deaths, Run, survive};
use super::{REFUSED, ScanCommits};
use std::fs;

/// The deaths of each run. The table refuses 17 and 34, so two chunks are written one by one: in the second, 17 is
/// the ninth write, and its skip commits together with 18, which is the eighth commit; that of 34 is in the fifteenth.
const DEATHS: &[Deaths] = &[
    &["chunk_after_write:2"],
    &["chunk_before_write:9"],
    &["chunk_after_write:9"],
    &["chunk_after_commit:7"],
    &["chunk_before_save:8"],
    &["chunk_after_save:8"],
    &["chunk_before_commit:8"],
    &["chunk_after_commit:8"],
    &["chunk_after_commit:15"],
    // The last chunk, before the files get their names, and the commits after that.
    &["chunk_after_commit:22"],
    &["before_commit:28"],
    &["before_commit:29"],
    &["before_commit:30"],
    // Again in the same scan: before and after 17 has been put aside.
    &["chunk_after_commit:4", "chunk_before_commit:4"],
    &["chunk_after_commit:4", "chunk_after_commit:4"],
];

/// A scan is one commit: the second and the fourth of five. The third to the twelfth write are those of the first scan.
const DEATHS_IN_ONE_TRANSACTION: &[Deaths] = &[
    &["chunk_after_write:7"],
    &["chunk_before_write:11"],
    &["chunk_before_save:2"],
    &["chunk_after_save:2"],
    &["chunk_before_commit:2"],
    &["chunk_after_commit:2"],
    &["chunk_before_commit:4"],
    // The last chunk, before the files get their names.
    &["chunk_after_commit:5"],
    // In both scans, and twice in the first.
    &["chunk_after_commit:2", "chunk_before_commit:2"],
    &["chunk_before_commit:2", "chunk_after_write:6"],
];

/// What is wrong with the files of a run that has come to its end.
fn faults(run: &Run) -> Vec<String> {
    let (program, run) = (&run.program, run.name());
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(program.stage.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let kept: Vec<String> =
        (1..=50).filter(|number| !REFUSED.contains(number)).map(|number| number.to_string()).collect();
    let written = lines("written.txt");
    let item = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["item"].clone();
    let rejected: Vec<serde_json::Value> = lines("rejects.jsonl").iter().map(item).collect();
    let mut faults = Vec::new();
    if written != kept {
        faults.push(format!("{run}: the file has {written:?}"));
    }
    if rejected != REFUSED.map(|number| number.to_string()) {
        faults.push(format!("{run}: rejected are {rejected:?}"));
    }
    for left in ["written.txt.part", "rejects.jsonl.part"] {
        if program.stage.path(left).exists() {
            faults.push(format!("{run}: {left} is left over"));
        }
    }
    faults
}

async fn check(deaths: &[Deaths], threads: u32, commits: ScanCommits) {
    let shares = survive("files", deaths, threads, commits).await;

    let mut found = Vec::new();
    for (ground, runs) in &shares {
        for run in runs {
            found.extend(ground.faults("files", run.name()).await);
            found.extend(faults(run));
        }
    }
    assert_eq!(found, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_a_file_and_the_rejects_agree_after_any_death() {
    check(DEATHS, 1, ScanCommits::EachRow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_a_file_and_the_rejects_agree_with_four_threads_too() {
    check(&DEATHS[2..8], 4, ScanCommits::EachRow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_a_file_and_the_rejects_agree_after_a_death_in_a_scan_of_one_transaction() {
    check(DEATHS_IN_ONE_TRANSACTION, 1, ScanCommits::All).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_a_file_and_the_rejects_agree_after_such_a_death_with_four_threads_too() {
    check(&DEATHS_IN_ONE_TRANSACTION[2..6], 4, ScanCommits::All).await;
}
