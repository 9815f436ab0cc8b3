//! Statements as a step.

use super::Stand;
use super::gate::{kept, stand};
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_domain::job::{BatchStatus, ExitStatus, JobParameters};
use tidemill_engine::item::sql::{Database, SqlQuery};
use tidemill_engine::job::listener::{StepListener, StepRun};
use tidemill_engine::job::{Job, SqlStatements, Step};
use tidemill_engine::testing::TestRun;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    statements_run_in_order_and_what_they_change_is_counted,
    where_one_fails_none_has_happened,
    statements_can_run_on_another_database,
    statements_that_have_committed_are_not_run_again,
];

async fn run(stand: &Stand, statements: SqlStatements) -> TestRun {
    let job = Job::new("stated").step(Step::sql("it", move |_| Ok(statements.clone())));
    stand.bench.run(&job, &JobParameters::new()).await.unwrap()
}

/// Values in both dialects.
fn insert(id: i64) -> SqlQuery {
    SqlQuery::new("insert into kept (id) values ($1)").bind(id)
}

async fn statements_run_in_order_and_what_they_change_is_counted(scratch: Scratch) {
    let stand = stand(scratch).await;
    let double = SqlQuery::new("insert into kept (id) select id * 10 from kept");

    let run = run(&stand, SqlStatements::new([insert(1), insert(2), double])).await;

    let step = run.step("it").unwrap();
    assert!(run.is_completed(), "{run:?}");
    assert_eq!((step.counters.write, step.counters.commit), (4, 1));
    assert_eq!(step.delivery.as_deref(), Some("exactly-once"));
    assert_eq!(run.context("it").unwrap().get_text("batch.stepType"), Some("sql"));
    assert_eq!(kept(stand.bench.store()).await, [1, 2, 10, 20]);
}

async fn where_one_fails_none_has_happened(scratch: Scratch) {
    let stand = stand(scratch).await;
    let failed =
        run(&stand, SqlStatements::new([insert(1), SqlQuery::new("insert into nowhere values (1)")])).await;
    let left = kept(stand.bench.store()).await;
    let mended = run(&stand, SqlStatements::new([insert(1)])).await;

    let step = failed.step("it").unwrap();
    assert_eq!(step.status, BatchStatus::Failed);
    assert!(step.exit.description.contains("statement 2:"), "{step:?}");
    assert_eq!(left, [0; 0]);
    assert!(mended.is_completed());
    assert_eq!(kept(stand.bench.store()).await, [1]);
}

async fn statements_can_run_on_another_database(scratch: Scratch) {
    let (stand, other) = (stand(scratch).await, stand(Scratch::file()).await);
    let statements = SqlStatements::new([insert(7)]).on(Database::of(other.bench.store()));

    let run = run(&stand, statements).await;

    let step = run.step("it").unwrap();
    assert!(run.is_completed(), "{run:?}");
    assert_eq!((step.counters.write, step.delivery.as_deref()), (1, Some("at-least-once")));
    assert_eq!(kept(other.bench.store()).await, [7]);
    assert_eq!(kept(stand.bench.store()).await, [0; 0]);
}

/// SQLite makes a row only when it is asked for: the second one would be an error.
#[tokio::test]
async fn a_value_is_the_first_row_and_no_other_row_is_read() {
    let stand = stand(Scratch::file()).await;
    let query = SqlQuery::new("select 7 as n union all select abs(-9223372036854775807 - 1)");

    let run = run(&stand, SqlStatements::new([]).value("n", query)).await;

    assert!(run.is_completed(), "{run:?}");
    assert_eq!(run.context("it").unwrap().get_long("n"), Some(7));
}

/// Ends the job after the statements have committed, and before the end of the step is recorded.
struct Panics(AtomicBool);

impl StepListener for Panics {
    fn after_step(&self, _: &mut StepRun<'_>) -> Option<ExitStatus> {
        assert!(!self.0.swap(false, Ordering::SeqCst), "the listener panics");
        None
    }
}

async fn statements_that_have_committed_are_not_run_again(scratch: Scratch) {
    let stand = stand(scratch).await;
    let next = SqlQuery::new("insert into kept (id) select count(*) + 1 from kept");
    let value = SqlQuery::new("select count(*) as n from kept");
    let statements = SqlStatements::new([next]).value("n", value);
    let step = Step::sql("it", move |_| Ok(statements.clone())).promote(["n"]);
    let job = Job::new("stated").step(step.listener(Panics(AtomicBool::new(true))));

    let first = stand.bench.run(&job, &JobParameters::new()).await.unwrap();
    let second = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

    assert_eq!((first.end.status, second.end.status), (BatchStatus::Failed, BatchStatus::Completed));
    assert_eq!(kept(stand.bench.store()).await, [1]);
    assert_eq!(second.context("it").unwrap().get_long("n"), Some(1));
}
