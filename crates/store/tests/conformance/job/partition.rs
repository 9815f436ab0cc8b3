//! Partitions: how they begin, who runs them, what becomes of them when somebody dies.

use super::{ann, day, end, launch, lose_all, reap, request, run_sql, run_step, step_request, try_launch};
use crate::{Bench, TTL};
use std::collections::BTreeSet;
use tidemill_domain::code::Code;
use tidemill_domain::job::partition::PartitionRefusal;
use tidemill_domain::job::step::RESTART_KEY;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, StepExecutionId};
use tidemill_domain::process::ProcessId;
use tidemill_store::job::partition::partition_ended_topic;
use tidemill_store::job::{
    ChunkPlace, ChunkSave, ChunkSaved, Claim, Claimed, KnownWorker, Launched, PartitionRequest,
    PartitionStart, StepEnd, StoredContext,
};
use tidemill_store::wakeup::Woken;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::CommitProxy;

crate::on_both![
    thousands_begin_and_go_on,
    thousands_cost_as_many_statements_as_a_few,
    two_who_claim_at_once_get_different_ones,
    nobody_gets_what_only_one_may_run_or_what_is_of_another_definition,
    what_is_saved_under_the_lease_is_what_the_next_one_goes_on_with,
    the_end_of_the_execution_takes_all_of_them_away,
    a_stop_ends_those_that_nobody_runs,
    a_lost_answer_makes_nothing_twice,
    who_runs_the_job_takes_its_partitions_as_their_manager_only,
    fixed_partitions_are_those_of_the_first_run,
    what_all_runs_counted_is_summed_by_chain,
    one_that_is_damaged_does_not_keep_the_others_from_running,
    names_that_cannot_be_are_refused_before_anything_is_written,
];

const WORKER: KnownWorker<'static> = KnownWorker { job: "load", fingerprint: None, step: "copy" };

fn keys(count: usize) -> Vec<(String, ExecutionContext)> {
    let context = |n: usize| {
        let mut context = ExecutionContext::new();
        context.put("n", n as i64);
        context
    };
    (0..count).map(|n| (format!("p{n:05}"), context(n))).collect()
}

async fn divide(
    bench: &Bench,
    launched: &Launched,
    manager: StepExecutionId,
    partitions: &[(String, ExecutionContext)],
    only: Option<ProcessId>,
) -> PartitionStart {
    let seed = ExecutionContext::new();
    let worker = step_request(launched, "copy", &seed);
    let mut tx = bench.begin().await;
    let request = PartitionRequest { worker, job: "load", manager, partitions, is_fixed: false, only };
    let started = tx.jobs().start_partitions(&request).await.unwrap();
    tx.commit().await.unwrap();
    started
}

async fn claim_as(bench: &Bench, by: ProcessId, known: &[KnownWorker<'_>], limit: u32) -> Vec<Claimed> {
    let mut tx = bench.begin().await;
    let claimed = tx.jobs().claim_partitions(&Claim { by, known, manager: None, limit }).await.unwrap();
    tx.commit().await.unwrap();
    claimed
}

async fn claim(bench: &Bench, by: ProcessId, limit: u32) -> Vec<Claimed> {
    claim_as(bench, by, &[WORKER], limit).await
}

async fn finish(bench: &Bench, claimed: &Claimed, status: BatchStatus, counters: &Counters) -> bool {
    let exit = ExitStatus::new(status.as_str());
    let end = StepEnd {
        id: claimed.id,
        execution: claimed.execution,
        lease: &claimed.lease,
        fence: claimed.granted.fence,
        status,
        exit: &exit,
        counters,
    };
    let mut tx = bench.begin().await;
    let is_ours = tx.jobs().end_partition(&end).await.unwrap();
    if is_ours {
        tx.commit().await.unwrap()
    } else {
        tx.rollback().await.unwrap()
    }
    is_ours
}

async fn save(bench: &Bench, claimed: &Claimed, counters: &Counters, context: &str) -> ChunkSaved {
    let mut tx = bench.begin().await;
    let chunk = ChunkSave {
        step: claimed.id,
        execution: claimed.execution,
        lease: &claimed.lease,
        fence: claimed.granted.fence,
        counters,
        context: Some(context),
    };
    let saved = tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();
    tx.commit().await.unwrap();
    saved
}

fn ours(claimed: &Claimed) -> &ExecutionContext {
    match &claimed.context {
        StoredContext::Readable(context) => context,
        StoredContext::Foreign(text) => panic!("{text}"),
    }
}

fn read(read: u64) -> Counters {
    Counters { read, commit: 1, ..Counters::default() }
}

/// Counted on the wire.
async fn thousands_cost_as_many_statements_as_a_few(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // A file has no wire.
    }
    let wire = CommitProxy::in_front_of(bench.scratch.url()).unwrap();
    let options = StoreOptions { clock: Some(bench.clock.clone()), ..StoreOptions::default() };
    let store = Store::open(wire.url().parse().unwrap(), &options).await.unwrap();
    let through = Bench { store, clock: bench.clock.clone(), scratch: bench.scratch };
    let (one, owner) = (through.process(1).await, through.process(9).await);
    let mut costs = Vec::new();
    for (number, partitions) in [keys(4), keys(4_000)].iter().enumerate() {
        let parameters = day(&number.to_string());
        for _first_and_again in 0..2 {
            let launched = launch(&through, &parameters, owner).await;
            let manager = run_step(&through, &launched, "all").await;
            let before = wire.statements();
            divide(&through, &launched, manager, partitions, None).await;
            let claimed = claim(&through, one, u32::MAX).await;
            costs.push(wire.statements() - before);
            assert_eq!(claimed.len(), partitions.len());
            assert!(end(&through, &launched, BatchStatus::Failed).await);
        }
    }

    // Going on also reads what was saved. A thousand times as many parts cost a batch more at most.
    assert!(costs[2] <= costs[0] + 5 && costs[3] <= costs[1] + 5, "{costs:?}");
    through.store.close().await;
}

async fn thousands_begin_and_go_on(bench: Bench) {
    let (one, owner) = (bench.process(1).await, bench.process(9).await);
    let first = launch(&bench, &day("1"), owner).await;
    let manager = run_step(&bench, &first, "all").await;
    let partitions = keys(5_000);
    let PartitionStart::Started(chains) = divide(&bench, &first, manager, &partitions, None).await else {
        panic!("it is divided");
    };
    assert_eq!(chains.len(), 5_000);
    let claimed = claim(&bench, one, 5_000).await;
    assert_eq!(claimed.len(), 5_000);
    assert_eq!((claimed[7].name.as_str(), ours(&claimed[7]).get_long("n")), ("copy:p00007", Some(7)));
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().open_partitions(manager).await.unwrap(), 5_000);
    tx.rollback().await.unwrap();
    for claimed in claimed.iter().take(10) {
        assert!(finish(&bench, claimed, BatchStatus::Completed, &read(1)).await);
    }
    assert!(end(&bench, &first, BatchStatus::Failed).await);

    let second = launch(&bench, &day("1"), owner).await;
    let manager = run_step(&bench, &second, "all").await;
    let PartitionStart::Started(again) = divide(&bench, &second, manager, &partitions, None).await else {
        panic!("it is divided again");
    };

    assert_eq!(chains.iter().collect::<BTreeSet<_>>(), again.iter().collect(), "the same chains go on");
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().open_partitions(manager).await.unwrap(), 4_990, "what completed does not run again");
    tx.rollback().await.unwrap();
}

async fn two_who_claim_at_once_get_different_ones(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(40), None).await;

    let mut got: Vec<StepExecutionId> = Vec::new();
    while got.len() < 40 {
        let (mine, theirs) = tokio::join!(claim(&bench, one, 3), claim(&bench, two, 3));
        assert!(!mine.is_empty() || !theirs.is_empty(), "only {} were found", got.len());
        got.extend(mine.iter().chain(&theirs).map(|claimed| claimed.id));
    }

    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 40);
    assert!(claim(&bench, one, 1).await.is_empty(), "all are held");
}

async fn nobody_gets_what_only_one_may_run_or_what_is_of_another_definition(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let (parameters, actor) = (day("1"), ann());
    let wanted = tidemill_store::job::LaunchRequest {
        fingerprint: Some("v1"),
        ..request(&parameters, bench.process(9).await, &actor)
    };
    let launched = try_launch(&bench, &wanted).await.unwrap();
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(2), Some(one)).await;
    let known = KnownWorker { fingerprint: Some("v1"), ..WORKER };

    assert!(claim_as(&bench, two, &[known], 9).await.is_empty(), "another process");
    assert!(claim_as(&bench, one, &[WORKER], 9).await.is_empty(), "no definition");
    let other = KnownWorker { fingerprint: Some("v2"), ..WORKER };
    assert!(claim_as(&bench, one, &[other], 9).await.is_empty(), "another definition");
    let other = KnownWorker { step: "move", ..known };
    assert!(claim_as(&bench, one, &[other], 9).await.is_empty(), "another step");
    assert_eq!(claim_as(&bench, one, &[other, known], 9).await.len(), 2);
}

async fn what_is_saved_under_the_lease_is_what_the_next_one_goes_on_with(bench: Bench) {
    let (one, two, owner) = (bench.process(1).await, bench.process(2).await, bench.process(9).await);
    let launched = launch(&bench, &day("1"), owner).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(1), None).await;
    let dead = claim(&bench, two, 1).await.remove(0);
    let mut at_five = ExecutionContext::new();
    at_five.put("position", 5);
    let at_five = at_five.to_text().unwrap();
    assert!(matches!(save(&bench, &dead, &read(5), &at_five).await, ChunkSaved::Saved { .. }));
    assert!(claim(&bench, one, 1).await.is_empty(), "it is held");

    for _half in 0..2 {
        bench.advance(TTL / 2);
        for alive in [one, owner] {
            let mut tx = bench.begin().await;
            tx.processes().heartbeat(alive, TTL).await.unwrap().unwrap();
            tx.commit().await.unwrap();
        }
    }
    assert!(reap(&bench).await.is_empty(), "the execution goes on");
    let next = claim(&bench, one, 1).await.remove(0);

    assert_eq!((next.counters, ours(&next).get_long("position")), (read(5), Some(5)));
    assert_eq!(save(&bench, &dead, &read(6), "{}").await, ChunkSaved::Fenced, "a ghost");
    assert!(!finish(&bench, &dead, BatchStatus::Completed, &read(6)).await, "a ghost");
    let mut woken = bench.store.wakeup(&partition_ended_topic(manager));
    assert!(finish(&bench, &next, BatchStatus::Completed, &read(9)).await);
    assert_eq!(woken.wait(crate::SOON).await, Woken::Called);
    assert!(!finish(&bench, &next, BatchStatus::Completed, &read(9)).await, "once only");
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().open_partitions(manager).await.unwrap(), 0);
    let step = tx.jobs().steps(launched.execution).await.unwrap().pop().unwrap();
    assert_eq!((step.name.as_str(), step.process.as_deref()), ("copy:p00000", Some("p1")));
}

async fn the_end_of_the_execution_takes_all_of_them_away(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(3), None).await;
    let running = claim(&bench, two, 1).await.remove(0);

    assert!(end(&bench, &launched, BatchStatus::Failed).await);

    assert_eq!(save(&bench, &running, &read(1), "{}").await, ChunkSaved::Fenced);
    assert!(!finish(&bench, &running, BatchStatus::Completed, &read(1)).await);
    assert!(claim(&bench, one, 9).await.is_empty());
    let mut tx = bench.begin().await;
    let steps = tx.jobs().steps(launched.execution).await.unwrap();
    assert!(steps.iter().all(|step| step.status == BatchStatus::Failed), "{steps:?}");
    assert!(tx.leases().list(10).await.unwrap().is_empty(), "no lease is left behind");
    tx.rollback().await.unwrap();
    let recovered = lose_all(&bench).await;
    assert!(recovered.is_empty(), "it had ended");
}

async fn a_stop_ends_those_that_nobody_runs(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(3), None).await;
    let running = claim(&bench, one, 1).await.remove(0);
    let seed = ExecutionContext::new();

    let mut tx = bench.begin().await;
    assert!(tx.jobs().stop_free_partitions(manager, &step_request(&launched, "copy", &seed)).await.unwrap());
    let _asked = tx.jobs().request_stop(launched.execution, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    let saved = save(&bench, &running, &read(1), "{}").await;
    assert!(matches!(saved, ChunkSaved::Saved { stop_requested: true, .. }), "{saved:?}");
    assert!(finish(&bench, &running, BatchStatus::Stopped, &read(1)).await);
    let mut tx = bench.begin().await;
    assert!(tx.jobs().must_stop(launched.execution).await.unwrap());
    assert_eq!(tx.jobs().open_partitions(manager).await.unwrap(), 0);
    let outcomes = tx.jobs().partition_outcome(manager).await.unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.count).sum::<u64>(), 3);
    assert!(outcomes.iter().all(|outcome| outcome.status == BatchStatus::Stopped));
}

async fn a_lost_answer_makes_nothing_twice(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;

    let seed = ExecutionContext::new();
    let mut worker = step_request(&launched, "copy", &seed);
    worker.rules.start_limit = 1;
    let partitions = keys(3);
    let request = PartitionRequest {
        worker,
        job: "load",
        manager,
        partitions: &partitions,
        is_fixed: false,
        only: None,
    };
    let mut started = Vec::new();
    for _answer_was_lost in 0..2 {
        let mut tx = bench.begin().await;
        started.push(tx.jobs().start_partitions(&request).await.unwrap());
        tx.commit().await.unwrap();
    }
    let (first, second) = (&started[0], &started[1]);
    assert!(matches!(first, PartitionStart::Started(_)), "{first:?}");

    assert_eq!(first, second);
    assert_eq!(claim(&bench, one, 9).await.len(), 3);
}

async fn who_runs_the_job_takes_its_partitions_as_their_manager_only(bench: Bench) {
    let owner = bench.process(9).await;
    let launched = launch(&bench, &day("1"), owner).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(2), None).await;

    let as_anybody = claim(&bench, owner, 9).await;
    let mut tx = bench.begin().await;
    let claim = Claim { by: owner, known: &[WORKER], manager: Some(manager), limit: 1 };
    let as_manager = tx.jobs().claim_partitions(&claim).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!((as_anybody.len(), as_manager.len()), (0, 1));
}

async fn fixed_partitions_are_those_of_the_first_run(bench: Bench) {
    let (one, owner) = (bench.process(1).await, bench.process(9).await);
    for (count, expected) in [(2, 2), (4, 2)] {
        let launched = launch(&bench, &day("1"), owner).await;
        let manager = run_step(&bench, &launched, "all").await;
        let (seed, partitions) = (ExecutionContext::new(), keys(count));
        let worker = step_request(&launched, "copy", &seed);
        let request = PartitionRequest {
            worker,
            job: "load",
            manager,
            partitions: &partitions,
            is_fixed: true,
            only: None,
        };
        let mut tx = bench.begin().await;
        tx.jobs().start_partitions(&request).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(claim(&bench, one, 9).await.len(), expected);
        assert!(end(&bench, &launched, BatchStatus::Failed).await);
    }
}

async fn what_all_runs_counted_is_summed_by_chain(bench: Bench) {
    let (one, owner) = (bench.process(1).await, bench.process(9).await);
    for (round, status) in [(1, BatchStatus::Failed), (2, BatchStatus::Failed), (3, BatchStatus::Completed)] {
        let launched = launch(&bench, &day("1"), owner).await;
        let manager = run_step(&bench, &launched, "all").await;
        let PartitionStart::Started(chains) = divide(&bench, &launched, manager, &keys(2), None).await else {
            panic!("it is divided");
        };
        let claimed = claim(&bench, one, 9).await;
        assert_eq!(claimed.len(), if round == 1 { 2 } else { 1 });
        let is_resumed = ours(&claimed[0]).get(RESTART_KEY).is_some();
        assert_eq!(is_resumed, round > 1);
        assert!(finish(&bench, &claimed[0], status, &read(10)).await);
        if round == 1 {
            assert!(finish(&bench, &claimed[1], BatchStatus::Completed, &read(100)).await);
        }
        let mut tx = bench.begin().await;
        assert_eq!(tx.jobs().partition_totals(&chains).await.unwrap().read, 100 + 10 * round);
        tx.rollback().await.unwrap();
        assert!(end(&bench, &launched, BatchStatus::Failed).await);
    }
}

async fn one_that_is_damaged_does_not_keep_the_others_from_running(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;
    divide(&bench, &launched, manager, &keys(2), None).await;
    let damaged = "update batch_step_execution_context set short_context = 'rO0AB' where step_execution_id =
                   (select min(step_execution_id) from tidemill_partition)";
    run_sql(&bench, damaged).await;

    let claimed = claim(&bench, one, 9).await;

    assert_eq!(claimed.len(), 2);
    assert!(matches!(&claimed[0].context, StoredContext::Foreign(text) if text == "rO0AB"));
    assert_eq!(ours(&claimed[1]).get_long("n"), Some(1));
}

async fn names_that_cannot_be_are_refused_before_anything_is_written(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), bench.process(9).await).await;
    let manager = run_step(&bench, &launched, "all").await;
    let twice = [keys(1), keys(1)].concat();

    let refused = divide(&bench, &launched, manager, &twice, None).await;

    let PartitionStart::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal, PartitionRefusal::Twice { key: "p00000".into() });
    assert_eq!(refusal.code(), Code::BadPartitions);
    assert!(claim(&bench, one, 9).await.is_empty());
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().steps(launched.execution).await.unwrap().len(), 1);
}
