//! What a step gets, and what that means for it.

use super::{LONG, Stand, World, adw, all, level, other, record, some, stand};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::Process;
use tidemill_engine::job::partition::run_worker;
use tidemill_engine::job::{
    CommandSpec, Granted, Job, JobRegistry, Launcher, Partition, PoolUse, Step, StepScope,
};
use tidemill_store::scratch::Scratch;
use tokio::sync::Barrier;

tidemill_store::on_both![
    executions_that_do_not_fit_together_run_one_after_the_other,
    a_smaller_grant_means_fewer_partitions_at_once,
    a_grid_of_the_pool_is_what_was_granted_first,
    the_hint_says_what_is_asked_for_and_is_lowered_to_what_was_granted,
    a_step_without_a_number_gets_the_default_of_its_pool,
    what_can_never_be_had_fails_at_once,
];

async fn executions_that_do_not_fit_together_run_one_after_the_other(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::new();
    let job = Job::new("needy").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let mut running = Vec::new();
    for day in 1..=4_i64 {
        let parameters = JobParameters::new().with("day", day);
        running.push(launcher.launch("needy", &parameters, &Actor::system()).await.unwrap());
    }

    for running in running {
        assert_eq!(running.ended().await.unwrap().status, BatchStatus::Completed);
    }

    assert_eq!((world.runs(), world.most()), (4, 6), "never two at once");
    assert_eq!(level(&stand).await, (0, 0));
}

async fn a_smaller_grant_means_fewer_partitions_at_once(scratch: Scratch) {
    let stand = stand(scratch).await;
    let (barrier, here, most) =
        (Arc::new(Barrier::new(3)), Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let seen = most.clone();
    // Waits until as many others are here as the barrier says.
    let worker = Step::tasklet("w", move |scope| {
        let (barrier, here, most) = (barrier.clone(), here.clone(), seen.clone());
        async move {
            assert_eq!(scope.step().granted().map(|granted| granted.units), Some(3));
            most.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait().await;
            here.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let divided = Step::partitioned("m", worker, parts).grid(9).build();
    let job = Job::new("divided").step(divided.pool(PoolUse { units: Some(some(6)), ..PoolUse::new(adw()) }));
    let held = other(&stand, 7).await;
    // A partition that ran there would not know of any units, and fail.
    let elsewhere = tokio::spawn(run_worker(another_process(&stand, job.clone()).await, 4));

    let run = tokio::time::timeout(LONG, stand.bench.run(&job, &JobParameters::new())).await;

    elsewhere.abort();
    let run = run.expect("three partitions run here at once").unwrap();
    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(run.steps().count(), 10, "the grid stays, and the step itself");
    assert_eq!(most.load(Ordering::SeqCst), 3, "half of the six, because six were not left");
    held.release(false).await.unwrap();
    assert_eq!(level(&stand).await, (0, 0));
}

/// The launcher of a process that has the same job.
async fn another_process(stand: &Stand, job: Job) -> Launcher {
    let (store, clock) = (stand.bench.store().clone(), stand.clock.clone());
    let process = Process::register(store.clone(), clock.clone(), crate::options("other", crate::TTL));
    Launcher::new(store, process.await.unwrap(), clock, JobRegistry::new([job]).unwrap())
}

fn parts(_: &StepScope, grid: usize) -> Result<Vec<Partition>, ItemError> {
    Ok((0..grid).map(|n| Partition::new(format!("p{n}"))).collect())
}

async fn a_grid_of_the_pool_is_what_was_granted_first(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::new().does(super::Work::Fails);
    let divided = Step::partitioned("m", world.step("w"), parts).grid_granted().build();
    let job = Job::new("divided").step(divided.pool(PoolUse { units: Some(some(4)), ..PoolUse::new(adw()) }));
    let first = stand.bench.run(&job, &JobParameters::new()).await.unwrap();
    let held = other(&stand, 8).await;
    let world = world.does(super::Work::Succeeds);

    let again = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

    assert_eq!(first.end.status, BatchStatus::Failed);
    assert_eq!((first.steps().count(), again.steps().count()), (5, 5), "a restart divides as before");
    assert!(again.is_completed());
    assert_eq!(world.runs(), 8);
    held.release(false).await.unwrap();
}

async fn the_hint_says_what_is_asked_for_and_is_lowered_to_what_was_granted(scratch: Scratch) {
    let stand = stand(scratch).await;
    let noted: Arc<Mutex<Option<Granted>>> = Arc::default();
    let notes = noted.clone();
    let wanted = PoolUse { hint: Some("/*+ PARALLEL(16) FULL(t) */".to_owned()), ..PoolUse::new(adw()) };
    let tasklet = Step::tasklet("s", move |scope| {
        *notes.lock().unwrap() = scope.step().granted().cloned();
        async { Ok(()) }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("told");
    let script =
        format!("echo \"$TIDEMILL_PARALLELISM $TIDEMILL_UNITS $TIDEMILL_HINT\" > {}", file.display());
    let command = Step::command("c", move |_| Ok(CommandSpec::new("sh").args(["-c", script.as_str()])));
    let job = Job::new("hinted").step(tasklet.pool(wanted.clone())).step(command.pool(wanted));

    let run = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    let expected = Granted { units: 8, hint: Some("/*+ PARALLEL(8) FULL(t) */".to_owned()) };
    assert_eq!(*noted.lock().unwrap(), Some(expected));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "8 8 /*+ PARALLEL(8) FULL(t) */\n");
}

async fn a_step_without_a_number_gets_the_default_of_its_pool(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::closed();
    let job = Job::new("plain").step(world.step("s").pool(PoolUse::new(adw())));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("plain", &JobParameters::new(), &Actor::system()).await.unwrap();

    super::becomes(&stand, (2, 0)).await;

    assert_eq!(record(&stand).await.active, 1);
    world.open();
    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Completed);
}

async fn what_can_never_be_had_fails_at_once(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::new();
    let missing = PoolUse::new("nowhere".parse().unwrap());
    // It counts for 16 and cannot be lowered, whatever the number says.
    let unreadable = PoolUse { hint: Some("/*+ PARALLEL(a b c 8) */".to_owned()), ..all(4) };
    for (wanted, code, word) in [
        (missing, Code::PoolNotFound, "nowhere"),
        (all(11), Code::RequestExceedsPool, "larger than the pool"),
        (unreadable, Code::RequestExceedsPool, "larger than the pool"),
    ] {
        let job = Job::new("impossible").step(world.step("s").pool(wanted));

        let run = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

        assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(code)));
        assert!(run.end.exit.description.contains(word), "{}", run.end.exit.description);
    }
    assert_eq!((world.runs(), level(&stand).await), (0, (0, 0)));
}

#[test]
fn a_definition_that_contradicts_itself_is_refused() {
    let world = World::new();
    let least = PoolUse { units: Some(some(2)), least: Some(some(3)), ..PoolUse::new(adw()) };
    let pooled_worker = world.step("w").pool(PoolUse::new(adw()));
    for (step, word) in [
        (world.step("s").pool(least), "the minimum is 3"),
        (Step::partitioned("m", world.step("w"), parts).grid_granted().build(), "asks no pool"),
        (Step::partitioned("m", pooled_worker, parts).build().pool(PoolUse::new(adw())), "both"),
    ] {
        let refused = Job::new("bad").step(step).check().unwrap_err().to_string();

        assert!(refused.contains(word), "{refused}");
    }
}
