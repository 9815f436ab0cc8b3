//! Steps: whether they run, from where, and what is written about their end.

use super::{
    ann, day, detail, end, end_step, launch, look, request, run_sql, run_step, save, start, step_request,
    try_launch,
};
use crate::Bench;
use tidemill_domain::job::step::{EXECUTED_KEY, StepRefusal, StepRules};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus};
use tidemill_store::job::{EndRecorded, StepStart, StoredContext};

crate::on_both![
    a_first_run_is_fresh_and_has_its_seed,
    a_failed_step_goes_on_from_what_it_remembered,
    a_completed_step_is_passed_over_unless_it_may_run_again,
    an_abandoned_step_is_passed_over,
    a_step_whose_end_nobody_knows_is_refused,
    a_step_may_not_start_too_often,
    a_step_that_comes_by_twice_in_one_execution_runs_afresh,
    steps_of_another_instance_do_not_count,
    the_end_of_a_step_is_written_down,
    a_long_text_is_cut_for_spring_and_kept_whole,
    what_is_known_of_a_step_is_noted,
];

fn context(key: &str, value: i64) -> ExecutionContext {
    let mut context = ExecutionContext::new();
    context.put(key, value);
    context
}

async fn a_first_run_is_fresh_and_has_its_seed(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let seed = context("batch.version", 1);

    let started = start(&bench, &step_request(&launched, "copy", &seed)).await;

    let StepStart::Run { id, context, is_resumed } = started else { panic!("{started:?}") };
    assert_eq!((&context, is_resumed), (&seed, false));
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().step_context(id).await.unwrap(), Some(StoredContext::Readable(seed)));
    let steps = tx.jobs().steps(launched.execution).await.unwrap();
    assert_eq!((steps[0].status, steps[0].started_at), (BatchStatus::Started, Some(bench.now())));
    assert_eq!((steps[0].version, steps[0].exit.code.as_str()), (0, "EXECUTING"));
}

async fn a_failed_step_goes_on_from_what_it_remembered(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &first, "copy").await;
    let mut remembered = context("reader.read.count", 60);
    remembered.put(EXECUTED_KEY, true);
    let counters = Counters { read: 60, commit: 6, ..Counters::default() };
    save(&bench, &first, step, &counters, Some(&remembered.to_text().unwrap())).await;
    end_step(&bench, &first, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &day("1"), one).await;

    let started = start(&bench, &step_request(&second, "copy", &context("batch.version", 2))).await;

    let StepStart::Run { id, context: resumed, is_resumed } = started else { panic!("{started:?}") };
    assert!(is_resumed && id > step);
    let mut wanted = context("reader.read.count", 60);
    wanted.put("batch.version", 2);
    assert_eq!(resumed, wanted);
    let steps = bench.begin().await.jobs().steps(second.execution).await.unwrap();
    assert_eq!(steps[0].counters, Counters::default(), "a run counts for itself");
}

async fn a_completed_step_is_passed_over_unless_it_may_run_again(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &first, "copy").await;
    save(&bench, &first, step, &Counters::default(), Some(&context("kept", 1).to_text().unwrap())).await;
    end_step(&bench, &first, step, BatchStatus::Completed, &ExitStatus::new("COMPLETED WITH SKIPS")).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &day("1"), one).await;
    let seed = ExecutionContext::new();
    let mut again = step_request(&second, "copy", &seed);

    let skipped = start(&bench, &again).await;
    again.rules = StepRules { allow_start_if_complete: true, ..StepRules::default() };
    let ran = start(&bench, &again).await;

    let StepStart::Skip(record) = skipped else { panic!("{skipped:?}") };
    assert_eq!((record.id, record.exit.code.as_str()), (step, "COMPLETED WITH SKIPS"));
    let StepStart::Run { context, is_resumed, .. } = ran else { panic!("{ran:?}") };
    assert_eq!((context, is_resumed), (ExecutionContext::new(), false));
    assert_eq!(bench.begin().await.jobs().steps(second.execution).await.unwrap().len(), 1);
}

async fn an_abandoned_step_is_passed_over(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &first, "copy").await;
    end_step(&bench, &first, step, BatchStatus::Abandoned, &ExitStatus::failed("given up")).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &day("1"), one).await;

    let skipped = start(&bench, &step_request(&second, "copy", &ExecutionContext::new())).await;

    let StepStart::Skip(record) = skipped else { panic!("{skipped:?}") };
    assert_eq!((record.status, record.exit.code.as_str()), (BatchStatus::Abandoned, "FAILED"));
}

async fn a_step_whose_end_nobody_knows_is_refused(bench: Bench) {
    let one = bench.process(1).await;
    let first = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &first, "copy").await;
    end_step(&bench, &first, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &day("1"), one).await;
    run_sql(&bench, "update batch_step_execution set status = 'UNKNOWN'").await;

    let refused = start(&bench, &step_request(&second, "copy", &ExecutionContext::new())).await;

    assert_eq!(refused, StepStart::Refused(StepRefusal::OutcomeUnknown));
}

async fn a_step_may_not_start_too_often(bench: Bench) {
    let one = bench.process(1).await;
    for _ in 0..2 {
        let launched = launch(&bench, &day("1"), one).await;
        let step = run_step(&bench, &launched, "copy").await;
        end_step(&bench, &launched, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;
        end(&bench, &launched, BatchStatus::Failed).await;
    }
    let third = launch(&bench, &day("1"), one).await;
    let seed = ExecutionContext::new();
    let mut limited = step_request(&third, "copy", &seed);

    limited.rules = StepRules { start_limit: 2, ..StepRules::default() };
    let refused = start(&bench, &limited).await;
    limited.rules = StepRules { start_limit: 3, ..StepRules::default() };
    let started = start(&bench, &limited).await;

    assert_eq!(refused, StepStart::Refused(StepRefusal::StartLimitReached { limit: 2 }));
    assert!(matches!(started, StepStart::Run { .. }));
}

async fn a_step_that_comes_by_twice_in_one_execution_runs_afresh(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    save(&bench, &launched, step, &Counters::default(), Some(&context("kept", 1).to_text().unwrap())).await;
    end_step(&bench, &launched, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;

    let again = start(&bench, &step_request(&launched, "copy", &ExecutionContext::new())).await;

    assert!(matches!(again, StepStart::Run { context, is_resumed: false, .. } if context.is_empty()));
}

async fn steps_of_another_instance_do_not_count(bench: Bench) {
    let one = bench.process(1).await;
    let other = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &other, "copy").await;
    end_step(&bench, &other, step, BatchStatus::Completed, &ExitStatus::completed()).await;
    let launched = launch(&bench, &day("2"), one).await;

    let started = start(&bench, &step_request(&launched, "copy", &ExecutionContext::new())).await;

    assert!(matches!(started, StepStart::Run { is_resumed: false, .. }));
}

async fn the_end_of_a_step_is_written_down(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    bench.advance(std::time::Duration::from_micros(1_500_001));

    assert!(end_step(&bench, &launched, step, BatchStatus::Failed, &ExitStatus::failed("no \0 more")).await);

    let record = bench.begin().await.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.status, record.version), (BatchStatus::Failed, 1));
    assert_eq!((record.exit.code.as_str(), record.exit.description.as_str()), ("FAILED", "no \u{fffd} more"));
    assert_eq!((record.ended_at, record.updated_at), (Some(bench.now()), Some(bench.now())));
    let stored = look(&bench, "select cast(end_time as text) from batch_step_execution").await;
    assert_eq!(stored, [Some("2026-11-15 02:00:01.500001".to_owned())]);
}

async fn a_long_text_is_cut_for_spring_and_kept_whole(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let text = format!("{}end", "가".repeat(2500));

    end_step(&bench, &launched, step, BatchStatus::Failed, &ExitStatus::failed(text.clone())).await;
    let mut tx = bench.begin().await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let exit = ExitStatus::failed(text.clone());
    let ended =
        tx.jobs().end_execution(launched.execution, lease, fence, BatchStatus::Failed, &exit).await.unwrap();
    assert_eq!(ended, EndRecorded::Done);
    tx.commit().await.unwrap();

    let lengths = "select cast(length(exit_message) as text) from batch_step_execution
                   union all select cast(length(exit_message) as text) from batch_job_execution";
    assert_eq!(look(&bench, lengths).await, [Some("2500".to_owned()), Some("2500".to_owned())]);
    assert_eq!(detail(&bench, launched.execution).await.execution.exit.description, text);
    assert_eq!(bench.begin().await.jobs().steps(launched.execution).await.unwrap()[0].exit.description, text);
    assert!(try_launch(&bench, &request(&day("1"), one, &ann())).await.is_ok());
}

async fn what_is_known_of_a_step_is_noted(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut tx = bench.begin().await;

    tx.jobs().describe_step(step, Some(1_000_000), None).await.unwrap();
    tx.jobs().describe_step(step, None, Some("exactly-once")).await.unwrap();

    let record = tx.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.total_items, record.delivery.as_deref()), (Some(1_000_000), Some("exactly-once")));
}
