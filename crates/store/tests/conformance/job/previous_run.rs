//! Where the step of an earlier instance ended.

use super::{ann, day, end, end_step, launch, run_step, save};
use crate::Bench;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus};
use tidemill_domain::process::ProcessId;
use tidemill_store::job::{ExecutionChanged, Launched, PreviousPosition, PreviousRunRequest};

crate::on_both![
    without_an_earlier_instance_there_is_nothing_to_go_on_from,
    the_last_instance_that_completed_is_gone_on_from,
    an_instance_that_failed_before_it_read_anything_is_passed_over,
    one_that_can_be_restarted_has_to_be_waited_for_until_it_is_given_up,
    other_jobs_and_steps_and_the_instance_itself_do_not_count,
    of_two_at_once_the_later_one_waits,
];

const KEY: &str = "read.offsets";

fn position(at: i64) -> ExecutionContext {
    let mut context = ExecutionContext::new();
    context.put(KEY, at);
    context
}

/// Runs the step `copy` of an instance to an end, with a position or without.
async fn ran(bench: &Bench, by: ProcessId, of: &str, status: BatchStatus, at: Option<i64>) -> ExecutionId {
    let launched = launch(bench, &day(of), by).await;
    let step = run_step(bench, &launched, "copy").await;
    if let Some(at) = at {
        save(bench, &launched, step, &Counters::default(), Some(&position(at).to_text().unwrap())).await;
    }
    end_step(bench, &launched, step, status, &ExitStatus::new(status.as_str())).await;
    end(bench, &launched, status).await;
    launched.execution
}

/// Begins the step of an instance, and asks.
async fn ask(bench: &Bench, launched: &Launched, step: &str) -> PreviousPosition {
    let run = run_step(bench, launched, step).await;
    let request = PreviousRunRequest { job: "load", step, instance: launched.instance, run, key: KEY };
    bench.begin().await.jobs().earlier_step(&request).await.unwrap()
}

async fn without_an_earlier_instance_there_is_nothing_to_go_on_from(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;

    assert_eq!(ask(&bench, &launched, "copy").await, PreviousPosition::None);
}

async fn the_last_instance_that_completed_is_gone_on_from(bench: Bench) {
    let one = bench.process(1).await;
    ran(&bench, one, "1", BatchStatus::Completed, Some(10)).await;
    ran(&bench, one, "2", BatchStatus::Completed, Some(20)).await;
    let launched = launch(&bench, &day("3"), one).await;

    assert_eq!(ask(&bench, &launched, "copy").await, PreviousPosition::Behind(position(20)));
}

async fn an_instance_that_failed_before_it_read_anything_is_passed_over(bench: Bench) {
    let one = bench.process(1).await;
    ran(&bench, one, "1", BatchStatus::Completed, Some(10)).await;
    ran(&bench, one, "2", BatchStatus::Failed, None).await;
    ran(&bench, one, "2", BatchStatus::Stopped, None).await;
    let launched = launch(&bench, &day("3"), one).await;

    assert_eq!(ask(&bench, &launched, "copy").await, PreviousPosition::Behind(position(10)));
}

async fn one_that_can_be_restarted_has_to_be_waited_for_until_it_is_given_up(bench: Bench) {
    let one = bench.process(1).await;
    ran(&bench, one, "1", BatchStatus::Completed, Some(10)).await;
    let failed = ran(&bench, one, "2", BatchStatus::Failed, Some(15)).await;
    let launched = launch(&bench, &day("3"), one).await;

    let waiting = ask(&bench, &launched, "copy").await;
    let mut tx = bench.begin().await;
    let abandoned = tx.jobs().abandon_execution(failed, &ann(), "no").await.unwrap();
    tx.commit().await.unwrap();
    let given_up = ask(&bench, &launched, "copy").await;

    assert!(matches!(abandoned, ExecutionChanged::Done { .. }));
    assert_eq!(waiting, PreviousPosition::Open(failed));
    assert_eq!(given_up, PreviousPosition::Behind(position(15)));
}

async fn other_jobs_and_steps_and_the_instance_itself_do_not_count(bench: Bench) {
    let one = bench.process(1).await;
    let failed = ran(&bench, one, "1", BatchStatus::Failed, Some(10)).await;
    let launched = launch(&bench, &day("1"), one).await;
    let other = launch(&bench, &day("2"), one).await;

    assert_ne!(launched.execution, failed);
    assert_eq!(ask(&bench, &launched, "copy").await, PreviousPosition::None);
    assert_eq!(ask(&bench, &other, "check").await, PreviousPosition::None);
}

async fn of_two_at_once_the_later_one_waits(bench: Bench) {
    let one = bench.process(1).await;
    let (first, second) = (launch(&bench, &day("1"), one).await, launch(&bench, &day("2"), one).await);
    let run = run_step(&bench, &first, "copy").await;

    let later = ask(&bench, &second, "copy").await;
    let request = PreviousRunRequest { job: "load", step: "copy", instance: first.instance, run, key: KEY };
    let earlier = bench.begin().await.jobs().earlier_step(&request).await.unwrap();

    assert_eq!((later, earlier), (PreviousPosition::Open(first.execution), PreviousPosition::None));
}
