//! What people see of jobs.

use super::{ann, day, end, launch, request, run_sql, run_step, try_launch};
use crate::Bench;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId};
use tidemill_store::job::{ExecutionFilter, StoredContext};

crate::on_both![
    jobs_are_listed_with_their_last_execution,
    instances_are_listed_by_pages_with_the_parameters_of_the_last_execution,
    executions_are_filtered_and_listed_by_pages,
    what_spring_has_written_is_listed_as_it_is,
];

async fn jobs_are_listed_with_their_last_execution(bench: Bench) {
    let one = bench.process(1).await;
    let (first, second) = (launch(&bench, &day("1"), one).await, launch(&bench, &day("2"), one).await);
    end(&bench, &second, BatchStatus::Completed).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let restarted = launch(&bench, &day("1"), one).await;
    let (parameters, actor) = (day("1"), ann());
    let mut other = request(&parameters, one, &actor);
    other.job = "archive";
    try_launch(&bench, &other).await.unwrap();

    let jobs = bench.begin().await.jobs().list(10).await.unwrap();

    let names: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.instances)).collect();
    assert_eq!(names, [("archive", 1), ("load", 2)]);
    let last = jobs[1].last.unwrap();
    assert_eq!(
        (last.id, last.status, last.created_at),
        (restarted.execution, BatchStatus::Started, bench.now())
    );
    assert_eq!(bench.begin().await.jobs().list(1).await.unwrap().len(), 1);
}

async fn instances_are_listed_by_pages_with_the_parameters_of_the_last_execution(bench: Bench) {
    let one = bench.process(1).await;
    let mut ids = Vec::new();
    for number in 1..=3 {
        ids.push(launch(&bench, &day(&number.to_string()), one).await);
    }
    end(&bench, &ids[0], BatchStatus::Failed).await;
    let again = day("1").with_non_identifying("note", "again");
    let restarted = launch(&bench, &again, one).await;
    let mut tx = bench.begin().await;

    let newest = tx.jobs().instances("load", None, 2).await.unwrap();
    let rest = tx.jobs().instances("load", Some(newest[1].id), 2).await.unwrap();

    let found: Vec<InstanceId> = newest.iter().chain(&rest).map(|instance| instance.id).collect();
    assert_eq!(found, [ids[2].instance, ids[1].instance, ids[0].instance]);
    let oldest = &rest[0];
    assert_eq!((oldest.executions, oldest.last.unwrap().id), (2, restarted.execution));
    let names: Vec<_> = oldest.parameters.iter().map(|p| (p.name.as_str(), p.value.as_str())).collect();
    assert_eq!(names, [("day", "1"), ("note", "again")]);
    assert!(tx.jobs().instances("archive", None, 2).await.unwrap().is_empty());
}

async fn executions_are_filtered_and_listed_by_pages(bench: Bench) {
    let one = bench.process(1).await;
    let mut launched = Vec::new();
    for number in 1..=4 {
        launched.push(launch(&bench, &day(&number.to_string()), one).await);
    }
    end(&bench, &launched[0], BatchStatus::Failed).await;
    launched.push(launch(&bench, &day("1"), one).await);
    let mut tx = bench.begin().await;
    let ids = |numbers: &[usize]| numbers.iter().map(|n| launched[*n].execution).collect::<Vec<_>>();
    let all = ExecutionFilter::default();
    let cases = [
        (all.clone(), None, 10, ids(&[4, 3, 2, 1, 0])),
        (all.clone(), None, 2, ids(&[4, 3])),
        (all, Some(launched[3].execution), 2, ids(&[2, 1])),
        (ExecutionFilter { status: Some(BatchStatus::Failed), ..Default::default() }, None, 10, ids(&[0])),
        (
            ExecutionFilter { instance: Some(launched[0].instance), ..Default::default() },
            None,
            10,
            ids(&[4, 0]),
        ),
        (ExecutionFilter { job: Some("load".into()), ..Default::default() }, None, 1, ids(&[4])),
        (ExecutionFilter { job: Some("archive".into()), ..Default::default() }, None, 1, ids(&[])),
    ];

    for (filter, before, limit, wanted) in cases {
        let found = tx.jobs().executions(&filter, before, limit).await.unwrap();
        assert_eq!(found.iter().map(|e| e.id).collect::<Vec<_>>(), wanted, "{filter:?}");
    }
}

async fn what_spring_has_written_is_listed_as_it_is(bench: Bench) {
    run_sql(
        &bench,
        "insert into batch_job_instance (job_instance_id, version, job_name, job_key)
             values (900, 0, 'nightly', 'd41d8cd98f00b204e9800998ecf8427e');
         insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
             values (900, null, 900, '2026-11-15 02:00:00', 'FAILED');
         insert into batch_job_execution_params
             values (900, 'at', 'java.util.Date', '2026-11-15T00:00:00Z', 'Y'),
                    (900, 'none', 'java.lang.String', null, 'N');
         insert into batch_step_execution (step_execution_id, version, step_name, job_execution_id, create_time, status)
             values (900, 3, 'copy', 900, '2026-11-15 02:00:00.5', 'FAILED');
         insert into batch_job_execution_context values (900, 'rO0ABXNyABFqYXZh', null);
         insert into batch_step_execution_context values (900, 'rO0A ...', 'rO0ABXNyABFqYXZh')",
    )
    .await;
    let mut tx = bench.begin().await;

    let found = tx.jobs().execution(ExecutionId::new(900)).await.unwrap().unwrap();
    let steps = tx.jobs().steps(ExecutionId::new(900)).await.unwrap();

    assert_eq!((found.execution.is_foreign, found.execution.launched_by.as_deref()), (true, None));
    assert_eq!((found.execution.exit.code.as_str(), found.owner, found.stop), ("", None, None));
    assert_eq!(found.execution.created_at, "2026-11-15T02:00:00Z".parse().unwrap());
    let classes: Vec<_> = found.parameters.iter().map(|p| (p.class.as_str(), p.value.as_str())).collect();
    assert_eq!(classes, [("java.util.Date", "2026-11-15T00:00:00Z"), ("java.lang.String", "")]);
    assert_eq!((steps[0].counters.read, steps[0].version), (0, 3));
    assert_eq!(steps[0].created_at, "2026-11-15T02:00:00.5Z".parse().unwrap());
    let foreign = StoredContext::Foreign("rO0ABXNyABFqYXZh".into());
    assert_eq!(tx.jobs().job_context(ExecutionId::new(900)).await.unwrap(), Some(foreign.clone()));
    assert_eq!(tx.jobs().step_context(steps[0].id).await.unwrap(), Some(foreign));
    assert_eq!(tx.jobs().list(10).await.unwrap()[0].name, "nightly");
    assert_eq!(tx.jobs().instances("nightly", None, 10).await.unwrap()[0].parameters.len(), 2);
    tx.rollback().await.unwrap();
    // Ours go on beside it, with ids of their own.
    let one = bench.process(1).await;
    let ours = launch(&bench, &day("1"), one).await;
    run_step(&bench, &ours, "copy").await;
}
