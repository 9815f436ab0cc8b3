//! Retention, by order and by the server that has the lease.

use super::Stand;
use crate::{TTL, options};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::retention::{Kept, Retention, Unfinished};
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::lease::Lease;
use tidemill_domain::process::ProcessId;
use tidemill_engine::Process;
use tidemill_engine::item::{ItemsReader, ItemsWriter};
use tidemill_engine::job::{Job, PurgeOrder, Step, purge};
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::{ExecutionFilter, Removed};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_purge_goes_through_all_jobs_and_is_noted_with_who_and_what,
    a_purge_of_one_job_leaves_the_others_alone,
    what_a_job_step_ran_stays_until_the_job_around_it_is_over,
    one_server_of_two_purges_and_the_other_takes_over_when_it_ends,
];

const HOUR: Duration = Duration::from_secs(3600);

fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Local, request_id: None }
}

fn order(job: Option<&str>, batch: u32) -> PurgeOrder {
    let retention = Retention::new(Some(HOUR), None, Unfinished::Keep).unwrap();
    PurgeOrder { job: job.map(str::to_owned), retention, batch }
}

fn count(name: &str) -> Job {
    let step = Step::chunk("count", 10)
        .reader(ItemsReader::new("numbers", 1..=3))
        .process(|n: &i64| Ok(Some(*n)))
        .writer(ItemsWriter::default());
    Job::new(name).step(step.build())
}

/// Runs `count` of each name this often, so long ago that its process counts as lost.
async fn history(stand: &Stand, names: &[&str], times: i64) {
    for name in names {
        for number in 0..times {
            let run = stand.bench.run(&count(name), &JobParameters::new().with("n", number)).await.unwrap();
            assert!(run.is_completed());
        }
    }
    stand.clock.advance(2 * HOUR);
}

async fn executions(stand: &Stand) -> usize {
    let mut tx = stand.bench.store().read().await.unwrap();
    let found = tx.jobs().executions(&ExecutionFilter::default(), None, 100).await.unwrap().len();
    tx.rollback().await.unwrap();
    found
}

/// What the audit log has about purges, the oldest first.
async fn noted(stand: &Stand) -> Vec<(String, String, String, String)> {
    let mut tx = stand.bench.store().read().await.unwrap();
    let entries = tx.audit().entries(&AuditFilter::default(), 100).await.unwrap();
    tx.rollback().await.unwrap();
    let entries = entries.into_iter().rev().map(|record| record.entry);
    entries
        .filter(|entry| entry.action.starts_with("job.delete"))
        .map(|entry| (entry.actor.name, entry.action, entry.object, entry.reason.unwrap_or_default()))
        .collect()
}

async fn a_purge_goes_through_all_jobs_and_is_noted_with_who_and_what(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    history(&stand, &["archive", "load"], 5).await;
    let store = stand.bench.store();

    let counted = purge::count(store, &order(None, 2), |_| {}).await.unwrap();
    assert_eq!((executions(&stand).await, noted(&stand).await.len()), (10, 0));
    let mut told = Vec::new();
    let report =
        purge::purge(store, &order(None, 2), &ann(), |so_far| told.push(so_far.removed.instances)).await;

    let report = report.unwrap();
    assert_eq!(report, counted);
    assert_eq!(report.removed, Removed { instances: 10, executions: 10, steps: 10 });
    assert_eq!(told, [2, 4, 5, 7, 9, 10]);
    assert_eq!(executions(&stand).await, 0);
    let line = |action: &str, reason: &str| ("ann".into(), action.into(), "job/*".into(), reason.into());
    let begun = line("job.delete", "keeps what ended in the last 3600 s");
    assert_eq!(noted(&stand).await, [begun, line("job.deleted", "10 instances, 10 executions, 10 steps")]);
    // What removes nothing is not worth a word.
    purge::purge(store, &order(None, 2), &ann(), |_| {}).await.unwrap();
    assert_eq!(noted(&stand).await.len(), 2);
}

async fn a_purge_of_one_job_leaves_the_others_alone(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    history(&stand, &["archive", "load"], 2).await;

    let report = purge::purge(stand.bench.store(), &order(Some("load"), 100), &ann(), |_| {}).await;

    assert_eq!(report.unwrap().removed.instances, 2);
    assert_eq!(executions(&stand).await, 2);
    assert_eq!(noted(&stand).await[0].2, "job/load");
}

async fn what_a_job_step_ran_stays_until_the_job_around_it_is_over(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let fails = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let inner = count("inner");
    let is_failing = fails.clone();
    let stumble = Step::chunk("stumble", 1)
        .reader(ItemsReader::new("numbers", 1..=1))
        .process(move |n: &i64| match is_failing.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(ItemError::new(ErrorKind::PROCESS, "not yet")),
            false => Ok(Some(*n)),
        })
        .writer(ItemsWriter::default());
    let child = Step::job("child", inner, |_| Ok(JobParameters::new().with("n", 1)));
    let outer = Job::new("outer").step(child).step(stumble.build());
    let day = JobParameters::new().with("day", "1");
    let failed = stand.bench.run(&outer, &day).await.unwrap();
    assert_eq!(failed.end.status, BatchStatus::Failed);
    // A process of a bench does not heartbeat, so this one is another.
    stand.clock.advance(TTL / 3);
    let short = Retention::new(Some(Duration::from_secs(1)), None, Unfinished::Keep).unwrap();
    let short = PurgeOrder { retention: short, ..order(None, 100) };

    let report = purge::purge(stand.bench.store(), &short, &ann(), |_| {}).await.unwrap();

    assert_eq!(report.removed, Removed::default());
    assert_eq!(report.kept.get(&Kept::NeededByOuter), Some(&1));
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(stand.bench.run(&outer, &day).await.unwrap().is_completed());
    stand.clock.advance(TTL / 3);
    let report = purge::purge(stand.bench.store(), &short, &ann(), |_| {}).await.unwrap();
    assert_eq!(report.removed.instances, 2);
}

/// Who has the lease.
async fn owner(stand: &Stand) -> Option<ProcessId> {
    let mut tx = stand.bench.store().read().await.unwrap();
    let leases = tx.leases().list(10).await.unwrap();
    tx.rollback().await.unwrap();
    let lease = leases.into_iter().find(|lease| lease.key.to_string() == "purge/history")?;
    match lease.lease {
        Lease::Held { fence, .. } => Some(fence.owner),
        Lease::Free { .. } => None,
    }
}

/// Waits until so many executions are left, by the host's clock.
async fn until(stand: &Stand, wanted: usize) {
    for _ in 0..6_000 {
        if executions(stand).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} executions are left", executions(stand).await);
}

async fn one_server_of_two_purges_and_the_other_takes_over_when_it_ends(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    history(&stand, &["load"], 3).await;
    let store = stand.bench.store();
    let mut servers = Vec::new();
    for name in ["one", "two"] {
        let process =
            Process::register(store.clone(), stand.clock.clone(), options(name, TTL)).await.unwrap();
        let retention = order(None, 100).retention;
        servers.push((process.clone(), tokio::spawn(purge::run(process, retention))));
        until(&stand, 0).await;
    }
    assert_eq!(owner(&stand).await, Some(servers[0].0.id()));

    let (ended, running) = servers.remove(0);
    ended.stop().await.unwrap();
    running.await.unwrap();

    let second = Some(servers[0].0.id());
    for _ in 0..6_000 {
        if owner(&stand).await == second {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(owner(&stand).await, second);
    assert_eq!(noted(&stand).await[0].0, "tidemill");
    servers[0].0.stop().await.unwrap();
}
