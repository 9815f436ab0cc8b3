//! Flows within flows, and flows at the same time.

use super::Stand;
use super::launch_vector::{World, day, launch, to, vector};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidemill_domain::code::Code;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::job::{Job, Step, StepFlow};
use tidemill_store::job::StoredContext;
use tidemill_store::scratch::Scratch;
use tokio::sync::Barrier;

tidemill_store::on_both![
    a_flow_step_has_a_row_and_repeats_what_failed_within_it,
    flows_of_a_split_run_at_the_same_time_and_a_restart_repeats_the_failed_one,
    values_of_flows_that_end_at_the_same_time_are_all_stored,
    a_job_step_runs_another_job_and_goes_on_with_the_same_instance,
    an_inner_job_that_was_completed_for_another_outer_instance_is_not_taken_for_done,
];

async fn a_flow_step_has_a_row_and_repeats_what_failed_within_it(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let inner = StepFlow::new().step(world.step("x1")).step(world.step("x2"));
    let job = Job::new("nested").flow("fs", inner).step(world.step("s3"));
    world.fail(&["x2"]);
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("J1"));
    world.fail(&[]);
    assert_eq!(launch(bench, &world, &job, &day(1)).await, vector("J2"));
}

async fn flows_of_a_split_run_at_the_same_time_and_a_restart_repeats_the_failed_one(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let barrier = Arc::new(Barrier::new(2));
    // Goes on only when both flows have come to it.
    let meeting = |name: &str| {
        let barrier = barrier.clone();
        Step::tasklet(name, move |_| {
            let barrier = barrier.clone();
            async move {
                barrier.wait().await;
                Ok(())
            }
        })
    };
    let one = StepFlow::new().step(meeting("m1")).step(world.step("a"));
    let other = StepFlow::new().step(meeting("m2")).step(world.step("b"));
    let job = Job::new("parallel").split("both", [one, other]).step(world.step("after"));
    world.fail(&["b"]);

    let first = bench.run(&job, &day(1)).await.unwrap();

    assert_eq!(first.end.status, BatchStatus::Failed);
    let mut ended: Vec<String> = first.steps().map(|step| format!("{} {}", step.name, step.status)).collect();
    ended.sort();
    assert_eq!(ended, ["a COMPLETED", "b FAILED", "m1 COMPLETED", "m2 COMPLETED"]);
    world.fail(&[]);
    let again = launch(bench, &world, &job, &day(1)).await;
    assert_eq!(
        again,
        "job=COMPLETED/COMPLETED ran=[b, after] | b=COMPLETED/COMPLETED after=COMPLETED/COMPLETED"
    );
}

#[tokio::test]
async fn what_follows_a_split_asks_how_it_ended_as_a_whole() {
    let stand = Stand::on(Scratch::file()).await;
    let world = World::default();
    let flow = |name: &str| StepFlow::new().step(world.step(name));
    let job = Job::new("judging")
        .split("both", [flow("a"), flow("b")])
        .step(world.step("good"))
        .step(world.step("bad"))
        .on("both", "COMPLETED", to("good"))
        .on("both", "*", to("bad"))
        .on("good", "*", Target::End(None));
    world.fail(&["b"]);

    let said = launch(&stand.bench, &world, &job, &day(1)).await;

    // As in Spring Batch, the end of the flow that failed counts for the exit code of the job.
    assert!(said.starts_with("job=COMPLETED/FAILED") && said.contains("bad=COMPLETED"), "{said}");
}

#[test]
fn names_are_taken_once_in_all_flows_together() {
    let world = World::default();
    let flow = |name: &str| StepFlow::new().step(world.step(name));
    for (job, reason) in [
        (Job::new("j").step(world.step("a")).flow("f", flow("a")), "two steps"),
        (Job::new("j").split("s", [flow("a"), flow("a")]), "two steps"),
        (Job::new("j").step(world.step("a")).split("s", []), "no flow"),
        (Job::new("j").step(world.step("a")).flow("f", StepFlow::new()), "no step"),
    ] {
        let refused = job.check().unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

async fn values_of_flows_that_end_at_the_same_time_are_all_stored(scratch: Scratch) {
    const FLOWS: usize = 8;
    let stand = Stand::on(scratch).await;
    let barrier = Arc::new(Barrier::new(FLOWS));
    let flow = |number: usize| {
        let (barrier, key) = (barrier.clone(), format!("value-{number}"));
        let promoted = key.clone();
        let step = Step::tasklet(format!("s{number}"), move |mut scope| {
            let (barrier, key) = (barrier.clone(), key.clone());
            async move {
                scope.context().put(&key, true);
                barrier.wait().await;
                Ok(())
            }
        });
        StepFlow::new().step(step.promote([promoted]))
    };
    let job = Job::new("many").split("all", (0..FLOWS).map(flow));

    let run = stand.bench.run(&job, &day(1)).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    let mut tx = stand.bench.store().read().await.unwrap();
    let stored = tx.jobs().job_context(run.end.execution).await.unwrap();
    let Some(StoredContext::Readable(context)) = stored else { panic!("{stored:?}") };
    let missing: Vec<usize> =
        (0..FLOWS).filter(|number| context.get(&format!("value-{number}")).is_none()).collect();
    assert!(missing.is_empty(), "the values of {missing:?} are lost");
}

async fn a_job_step_runs_another_job_and_goes_on_with_the_same_instance(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let made = Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let inner = Job::new("inner").step(world.step("i1")).step(world.step("i2"));
    let outer = Job::new("outer").step(world.step("o1")).step(Step::job("child", inner, move |_| {
        // Another value each time: only the first may count.
        Ok(JobParameters::new().with("number", counted.fetch_add(1, Ordering::SeqCst) as i64))
    }));
    world.fail(&["i2"]);

    let first = launch(bench, &world, &outer, &day(1)).await;
    assert_eq!(first, "job=FAILED/FAILED ran=[o1, i1, i2] | o1=COMPLETED/COMPLETED child=FAILED/FAILED");
    world.fail(&[]);
    let second = launch(bench, &world, &outer, &day(1)).await;

    assert_eq!(second, "job=COMPLETED/COMPLETED ran=[i2] | child=COMPLETED/COMPLETED");
    assert_eq!(made.load(Ordering::SeqCst), 1);
    let mut tx = bench.store().read().await.unwrap();
    let instances = tx.jobs().instances("inner", None, 10).await.unwrap();
    assert_eq!((instances.len(), instances[0].executions), (1, 2));
}

async fn an_inner_job_that_was_completed_for_another_outer_instance_is_not_taken_for_done(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, world) = (&stand.bench, World::default());
    let inner = Job::new("shared").step(world.step("i1"));
    let outer =
        Job::new("outer").step(Step::job("child", inner, |_| Ok(JobParameters::new().with("scope", "all"))));

    let first = launch(bench, &world, &outer, &day(1)).await;
    let second = bench.run(&outer, &day(2)).await.unwrap();

    assert!(first.starts_with("job=COMPLETED/COMPLETED ran=[i1]"), "{first}");
    assert_eq!((second.end.status, second.end.code), (BatchStatus::Failed, Some(Code::JobAlreadyComplete)));
}
