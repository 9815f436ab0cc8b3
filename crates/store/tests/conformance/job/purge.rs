//! Retention: what goes, what stays, and that nothing is left of what went.

mod race;

use super::{
    ann, day, detail, end, end_step, launch, look, lose_all, request, run_sql, run_step, try_launch,
};
use crate::{Bench, TTL};
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::job::launch::Launch;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::retention::{Kept, Retention, Unfinished};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_store::job::{Launched, RejectRow, Removed};

crate::on_both![
    what_is_old_goes_with_all_that_hangs_on_it_and_what_is_young_stays,
    the_newest_instances_of_a_job_stay,
    what_failed_stays_until_it_is_to_be_forgotten,
    what_lives_stays_however_old,
    what_ran_as_a_step_stays_while_the_job_around_it_may_go_on,
    what_spring_has_written_goes_by_the_same_rules,
    a_dry_run_counts_what_would_go_and_changes_nothing,
    a_purge_goes_on_behind_the_share_before,
    a_walk_ends_where_everything_is_too_young,
    of_many_executions_those_that_exist_are_found,
];

const HOUR: Duration = Duration::from_secs(3600);

fn older_than(age: Duration) -> Retention {
    Retention::new(Some(age), None, Unfinished::Keep).unwrap()
}

/// Runs a job to this end, with a step that has all that a step can have.
async fn ran(bench: &Bench, number: u128, name: &str, status: BatchStatus) -> Launched {
    let by = bench.process(number).await;
    let launched = launch(bench, &day(name).with_non_identifying("note", "x"), by).await;
    let step = run_step(bench, &launched, "copy").await;
    let mut tx = bench.begin().await;
    let reject = RejectRow {
        phase: "read",
        kind: "parse".into(),
        error: "no".into(),
        place: None,
        item: Some("x".into()),
        columns: None,
    };
    tx.jobs().insert_rejects(step, &[reject]).await.unwrap();
    tx.jobs().describe_step(step, Some(7), Some("exactly-once")).await.unwrap();
    tx.commit().await.unwrap();
    end_step(bench, &launched, step, status, &ExitStatus::new(status.as_str())).await;
    assert!(end(bench, &launched, status).await);
    launched
}

async fn of_many_executions_those_that_exist_are_found(bench: Bench) {
    let launched = ran(&bench, 1, "1", BatchStatus::Completed).await;
    let unknown = ExecutionId::new(launched.execution.get() + 1);

    let mut tx = bench.begin().await;
    let found = tx.jobs().existing(&[unknown, launched.execution]).await.unwrap();

    assert_eq!(found.into_iter().collect::<Vec<_>>(), [launched.execution]);
    assert!(tx.jobs().existing(&[]).await.unwrap().is_empty());
}

/// A whole purge of the job `load`; what went, and what stayed of what was looked at.
async fn purge(bench: &Bench, retention: &Retention) -> (Removed, BTreeMap<Kept, u64>) {
    let mut tx = bench.begin().await;
    let mut walk = tx.jobs().begin_purge("load", retention).await.unwrap();
    tx.commit().await.unwrap();
    let (mut removed, mut kept) = (Removed::default(), BTreeMap::new());
    loop {
        let mut tx = bench.begin().await;
        let share = tx.jobs().purge_share(&walk, 100).await.unwrap();
        tx.commit().await.unwrap();
        removed.add(share.removed);
        for (why, count) in &share.kept {
            *kept.entry(*why).or_default() += count;
        }
        if !walk.go_on(&share) {
            return (removed, kept);
        }
    }
}

async fn rows(bench: &Bench) -> Vec<String> {
    let mut counts = Vec::new();
    for table in [
        "batch_job_instance",
        "batch_job_execution",
        "batch_job_execution_params",
        "batch_job_execution_context",
        "batch_step_execution",
        "batch_step_execution_context",
        "tidemill_job_execution",
        "tidemill_step_execution",
        "tidemill_reject",
        "tidemill_job_history",
        "tidemill_lease",
    ] {
        let found = look(bench, &format!("select cast(count(*) as text) from {table}")).await.remove(0);
        counts.push(format!("{table} {}", found.unwrap()));
    }
    counts
}

async fn what_is_old_goes_with_all_that_hangs_on_it_and_what_is_young_stays(bench: Bench) {
    let before = rows(&bench).await;
    assert!(before.iter().all(|count| count.ends_with(" 0")), "{before:?}");
    ran(&bench, 1, "1", BatchStatus::Completed).await;
    // As if an end had not removed the row of its lease.
    run_sql(&bench, "insert into tidemill_lease (kind, name, epoch) select 'job', cast(job_execution_id as text), 1 from batch_job_execution").await;
    let one = rows(&bench).await;
    assert!(!one.iter().any(|count| count.ends_with(" 0")), "{one:?}");
    bench.advance(2 * HOUR);
    let young = ran(&bench, 2, "2", BatchStatus::Completed).await;

    let (removed, kept) = purge(&bench, &older_than(HOUR)).await;

    assert_eq!(removed, Removed { instances: 1, executions: 1, steps: 1 });
    assert_eq!(kept, BTreeMap::from([(Kept::TooYoung, 1)]));
    assert_eq!(detail(&bench, young.execution).await.execution.status, BatchStatus::Completed);
    bench.advance(2 * HOUR);
    purge(&bench, &older_than(HOUR)).await;
    assert_eq!(rows(&bench).await, before);
}

async fn the_newest_instances_of_a_job_stay(bench: Bench) {
    let mut all = Vec::new();
    for number in 1..=5 {
        all.push(ran(&bench, number, &number.to_string(), BatchStatus::Completed).await);
    }
    bench.advance(2 * HOUR);
    let keep = |count| Retention::new(None, Some(count), Unfinished::Keep).unwrap();
    let old_and_many = Retention::new(Some(3 * HOUR), Some(2), Unfinished::Keep).unwrap();

    assert_eq!(purge(&bench, &keep(5)).await.0.instances, 0);
    assert_eq!(purge(&bench, &old_and_many).await.0.instances, 0);
    assert_eq!(purge(&bench, &keep(2)).await.0.instances, 3);

    let left = bench.begin().await.jobs().instances("load", None, 10).await.unwrap();
    let left: Vec<_> = left.iter().map(|instance| instance.id).collect();
    assert_eq!(left, [all[4].instance, all[3].instance]);
}

async fn what_failed_stays_until_it_is_to_be_forgotten(bench: Bench) {
    let failed = ran(&bench, 1, "1", BatchStatus::Failed).await;
    let stopped = ran(&bench, 2, "2", BatchStatus::Stopped).await;
    bench.advance(2 * HOUR);

    let (removed, kept) = purge(&bench, &older_than(HOUR)).await;

    assert_eq!((removed.instances, kept), (0, BTreeMap::from([(Kept::Unfinished, 2)])));
    let forgetting = Retention::new(Some(HOUR), None, Unfinished::Forget).unwrap();
    assert_eq!(purge(&bench, &forgetting).await.0.instances, 2);
    let again = launch(&bench, &failed.parameters, bench.process(3).await).await;
    assert_eq!(again.launch, Launch::First);
    assert!(again.instance != failed.instance && again.instance != stopped.instance);
}

async fn what_lives_stays_however_old(bench: Bench) {
    let forgetting = Retention::new(Some(Duration::ZERO), None, Unfinished::Forget).unwrap();
    let (parameters, actor) = (day("restarts"), ann());
    let mut restarting = request(&parameters, bench.process(1).await, &actor);
    restarting.on_crash = OnCrash::Restart { limit: 2 };
    try_launch(&bench, &restarting).await.unwrap();
    lose_all(&bench).await;
    launch(&bench, &day("runs"), bench.process(2).await).await;
    let unknown = launch(&bench, &day("unknown"), bench.process(3).await).await;
    end(&bench, &unknown, BatchStatus::Unknown).await;
    let held = ran(&bench, 4, "held", BatchStatus::Failed).await;
    let mut tx = bench.begin().await;
    let by = crate::process_id(4);
    tx.leases().acquire(&held.lease, by, tidemill_domain::lease::Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL / 2);

    let (removed, kept) = purge(&bench, &forgetting).await;

    assert_eq!(removed, Removed::default());
    assert_eq!(kept, BTreeMap::from([(Kept::Unresolved, 2), (Kept::Held, 1), (Kept::RestartDue, 1)]));
}

async fn what_ran_as_a_step_stays_while_the_job_around_it_may_go_on(bench: Bench) {
    let outer = ran(&bench, 1, "outer", BatchStatus::Failed).await;
    let inner = ran(&bench, 2, "inner", BatchStatus::Completed).await;
    let mut tx = bench.begin().await;
    tx.jobs().note_outer(inner.execution, outer.execution).await.unwrap();
    tx.commit().await.unwrap();
    bench.advance(2 * HOUR);

    let (removed, kept) = purge(&bench, &older_than(HOUR)).await;

    assert_eq!(removed.instances, 0);
    assert_eq!(kept, BTreeMap::from([(Kept::Unfinished, 1), (Kept::NeededByOuter, 1)]));
    let again = launch(&bench, &outer.parameters, bench.process(3).await).await;
    end(&bench, &again, BatchStatus::Completed).await;
    let (removed, _) = purge(&bench, &older_than(HOUR)).await;
    assert_eq!(removed.instances, 1);
    assert!(bench.begin().await.jobs().execution(inner.execution).await.unwrap().is_none());
}

async fn what_spring_has_written_goes_by_the_same_rules(bench: Bench) {
    run_sql(
        &bench,
        "insert into batch_job_instance (job_instance_id, version, job_name, job_key)
             values (900, 0, 'load', 'a'), (901, 0, 'load', 'b'), (902, 0, 'load', 'c'), (903, 0, 'load', 'd');
         insert into batch_job_execution
             (job_execution_id, version, job_instance_id, create_time, end_time, status)
             values (900, 2, 900, '2026-11-14 02:00:00', '2026-11-14 02:00:01', 'COMPLETED'),
                    (901, 2, 901, '2026-11-14 02:00:00', null, 'STARTED'),
                    (902, 2, 902, '2026-11-14 02:00:00', '2026-11-14 02:00:01', 'FANCY');
         insert into batch_job_execution_params values (900, 'n', 'java.lang.String', 'x', 'Y');
         insert into batch_step_execution (step_execution_id, version, step_name, job_execution_id, create_time, status)
             values (900, 3, 'copy', 900, '2026-11-14 02:00:00', 'COMPLETED');
         insert into batch_job_execution_context values (900, 'rO0ABXNyABFqYXZh', null);
         insert into batch_step_execution_context values (900, 'rO0A ...', 'rO0ABXNyABFqYXZh')",
    )
    .await;

    let (removed, kept) = purge(&bench, &older_than(HOUR)).await;

    assert_eq!(removed, Removed { instances: 1, executions: 1, steps: 1 });
    // A status that only Spring knows is nobody's to forget, and what never ran has no age.
    assert_eq!(kept, BTreeMap::from([(Kept::NeverRan, 1), (Kept::Unresolved, 2)]));
}

async fn a_dry_run_counts_what_would_go_and_changes_nothing(bench: Bench) {
    for (number, status) in
        [(1, BatchStatus::Completed), (2, BatchStatus::Failed), (3, BatchStatus::Completed)]
    {
        ran(&bench, number, &number.to_string(), status).await;
    }
    bench.advance(2 * HOUR);
    let before = rows(&bench).await;

    let mut tx = bench.store.read().await.unwrap();
    let walk = tx.jobs().begin_purge("load", &older_than(HOUR)).await.unwrap();
    let counted = tx.jobs().count_share(&walk, 100).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(counted.removed, Removed { instances: 2, executions: 2, steps: 2 });
    assert_eq!(rows(&bench).await, before);
    let (removed, kept) = purge(&bench, &older_than(HOUR)).await;
    assert_eq!((removed, kept), (counted.removed, counted.kept));
}

async fn a_purge_goes_on_behind_the_share_before(bench: Bench) {
    for number in 1..=5 {
        let status = if number == 2 { BatchStatus::Failed } else { BatchStatus::Completed };
        ran(&bench, number, &number.to_string(), status).await;
    }
    bench.advance(2 * HOUR);
    let mut tx = bench.begin().await;
    let mut walk = tx.jobs().begin_purge("load", &older_than(HOUR)).await.unwrap();
    tx.commit().await.unwrap();

    let mut shares = Vec::new();
    loop {
        let mut tx = bench.begin().await;
        let share = tx.jobs().purge_share(&walk, 2).await.unwrap();
        tx.commit().await.unwrap();
        shares.push(share.removed.instances);
        if !walk.go_on(&share) {
            break;
        }
    }

    assert_eq!(shares, [1, 2, 1]);
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().next(None).await.unwrap().as_deref(), Some("load"));
    assert_eq!(tx.jobs().next(Some("load")).await.unwrap(), None);
}

async fn a_walk_ends_where_everything_is_too_young(bench: Bench) {
    ran(&bench, 1, "1", BatchStatus::Completed).await;
    bench.advance(2 * HOUR);
    for number in 2..=6 {
        ran(&bench, number, &number.to_string(), BatchStatus::Completed).await;
    }

    let mut tx = bench.begin().await;
    let mut walk = tx.jobs().begin_purge("load", &older_than(HOUR)).await.unwrap();
    let first = tx.jobs().purge_share(&walk, 2).await.unwrap();
    let goes_on = walk.go_on(&first);
    let second = tx.jobs().purge_share(&walk, 2).await.unwrap();

    assert_eq!((first.removed.instances, goes_on), (1, true));
    assert_eq!((second.removed.instances, walk.go_on(&second)), (0, false));
}
