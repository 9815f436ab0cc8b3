//! With a long history, every statement on jobs finds its rows by an index.
//!
//! PostgreSQL tells the plan of each statement that really runs (`auto_explain`, sent as notices), so here the use
//! cases run. SQLite's plans do not depend on values, so there every statement is taken from the source text.

use super::{ann, day, end, end_step, launch, request, run_step, try_launch};
use crate::event_recorder::{self, plans_of};
use crate::{Bench, plan};
use std::time::Duration;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::retention::{Retention, Unfinished};
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{
    BatchStatus, ExecutionContext, ExecutionId, ExitStatus, InstanceId, JobParameters, StepExecutionId,
};
use tidemill_store::Store;
use tidemill_store::job::ExecutionFilter;

/// Enough that the planner does not prefer to read a whole table.
const EXECUTIONS: u64 = 20_000;

#[tokio::test]
async fn no_statement_on_postgresql_reads_a_whole_table() {
    let Some(bench) = Bench::postgres().await else { return };
    let plans = plans(&bench).await;

    let scans: Vec<&String> = plans.iter().filter(|plan| reads_a_whole_table(plan)).collect();
    assert!(scans.is_empty(), "{scans:#?}");
    for table in ["batch_job_instance", "batch_job_execution", "batch_step_execution", "tidemill_job_history"]
    {
        let is_about = |plan: &&String| plan.contains(&format!("\"Relation Name\": \"{table}\""));
        assert!(plans.iter().filter(is_about).count() > 10, "too few plans about {table}");
    }
}

#[tokio::test]
async fn a_lost_index_on_postgresql_is_noticed() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_batch_step_execution_job").await.unwrap();
    tx.commit().await.unwrap();

    assert!(plans(&bench).await.iter().any(|plan| reads_a_whole_table(plan)));
}

/// Fills the history, lets everything run that is done often, and returns the plans that the server told.
async fn plans(bench: &Bench) -> Vec<String> {
    let mut tx = bench.begin().await;
    tx.fill_history(EXECUTIONS).await.unwrap();
    tx.commit().await.unwrap();
    plans_of(bench, use_all).await
}

/// Everything that is done with jobs all day long.
async fn use_all(bench: &Bench) {
    bench.clock.jump_to("2099-01-01T00:00:00Z".parse().unwrap());
    let one = bench.process(1).await;
    // Launched afresh, restarted, and where there are many executions.
    let launched = launch(bench, &day("new"), one).await;
    let step = run_step(bench, &launched, "copy").await;
    end_step(bench, &launched, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;
    end(bench, &launched, BatchStatus::Failed).await;
    let mut again = launch(bench, &day("new"), one).await;
    let limited = StepRules { start_limit: 5, ..StepRules::default() };
    let seed = ExecutionContext::new();
    let request_step = super::StepRequest { rules: limited, ..super::step_request(&again, "copy", &seed) };
    super::start(bench, &request_step).await;
    end(bench, &again, BatchStatus::Completed).await;
    let (none, actor) = (JobParameters::new(), ann());
    let mut ticker = request(&none, one, &actor);
    (ticker.job, ticker.on_crash) = ("ticker", OnCrash::Restart { limit: 1 });
    again = try_launch(bench, &ticker).await.unwrap();
    super::start(bench, &super::step_request(&again, "load", &seed)).await;
    // Lost, and taken up again.
    super::lose_all(bench).await;
    let mut tx = bench.begin().await;
    assert!(tx.jobs().take_due_restart(&[("ticker", None)]).await.unwrap().is_some());
    tx.commit().await.unwrap();
    look_at_everything(&bench.store).await;
    purge(&bench.store).await;
}

async fn look_at_everything(store: &Store) {
    let mut tx = store.read().await.unwrap();
    let middle = Some(ExecutionId::new(9_000));
    let all = ExecutionFilter::default();
    let of_job = ExecutionFilter { job: Some("load_3".into()), ..all.clone() };
    let failed = ExecutionFilter { status: Some(BatchStatus::Failed), ..all.clone() };
    let failed_of_job = ExecutionFilter { status: failed.status, ..of_job.clone() };
    let of_instance = ExecutionFilter { instance: Some(InstanceId::new(8_002)), ..all.clone() };
    for filter in [all, of_job, failed, failed_of_job, of_instance] {
        tx.jobs().executions(&filter, None, 50).await.unwrap();
        tx.jobs().executions(&filter, middle, 50).await.unwrap();
    }
    assert_eq!(tx.jobs().list(100).await.unwrap().len(), 10);
    assert_eq!(tx.jobs().latest_executions(100).await.unwrap().len(), 10);
    let since = "2020-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(tx.jobs().recent_runs(&["load_2", "load_3"], 20).await.unwrap()["load_3"].len(), 20);
    assert!(tx.jobs().outcomes(&["load_2", "load_3"], since).await.unwrap()["load_3"].total() > 100);
    tx.jobs().execution_tally(Duration::from_secs(86_400)).await.unwrap();
    tx.jobs().open_failures(50).await.unwrap();
    tx.jobs().failed_jobs(Duration::from_secs(86_400), Duration::from_secs(300), 1000).await.unwrap();
    tx.jobs().oldest_started(1000).await.unwrap();
    tx.jobs().active_executions().await.unwrap();
    assert_eq!(tx.jobs().instances("load_3", None, 50).await.unwrap().len(), 50);
    tx.jobs().instances("load_3", Some(InstanceId::new(9_000)), 50).await.unwrap();
    let id = ExecutionId::new(9_003);
    assert!(tx.jobs().execution(id).await.unwrap().is_some());
    assert_eq!(tx.jobs().steps(id).await.unwrap().len(), 2);
    tx.jobs().job_context(id).await.unwrap();
    tx.jobs().step_context(StepExecutionId::new(18_001)).await.unwrap();
    tx.jobs().rejects(StepExecutionId::new(18_001), 0, 50).await.unwrap();
    tx.rollback().await.unwrap();
}

async fn purge(store: &Store) {
    let retention = Retention::new(Some(Duration::from_secs(3600)), Some(100), Unfinished::Forget).unwrap();
    let mut tx = store.begin().await.unwrap();
    let job = tx.jobs().next(Some("load_2")).await.unwrap().unwrap();
    let walk = tx.jobs().begin_purge(&job, &retention).await.unwrap();
    assert_eq!(tx.jobs().purge_share(&walk, 50).await.unwrap().removed.instances, 50);
    tx.commit().await.unwrap();
}

fn reads_a_whole_table(plan: &str) -> bool {
    event_recorder::reads_a_whole_table(plan, |table| {
        table.starts_with("batch_") || table == "tidemill_job_history"
    })
}

#[tokio::test]
async fn no_statement_on_sqlite_reads_a_whole_table() {
    let bench = Bench::sqlite().await;
    let statements = statements();
    assert!(statements.len() > 50, "only {} statements were found", statements.len());

    assert_eq!(scans(&bench, &statements).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_lost_index_on_sqlite_is_noticed() {
    let bench = Bench::sqlite().await;
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_batch_job_execution_instance").await.unwrap();
    tx.commit().await.unwrap();

    assert!(!scans(&bench, &statements()).await.is_empty());
}

/// The statements that read a table of Spring's, or the history, from its beginning to its end.
async fn scans(bench: &Bench, statements: &[String]) -> Vec<String> {
    let is_whole = |statement: &str, line: &str| {
        plan::scanned(line).is_some_and(|name| is_kept_table(statement, name))
            && !line.contains("VIRTUAL TABLE")
            && !line.contains("USING INTEGER")
    };
    plan::scans(bench, statements, is_whole).await
}

/// Whether a name in a plan is that of a table of Spring's or of the history, or stands for one in the statement.
fn is_kept_table(statement: &str, name: &str) -> bool {
    let is_kept = |word: &str| word.starts_with("batch_") || word == "tidemill_job_history";
    let words: Vec<&str> = statement.split_whitespace().collect();
    is_kept(name) || words.windows(2).any(|pair| is_kept(pair[0]) && pair[1].trim_end_matches(')') == name)
}

fn statements() -> Vec<String> {
    plan::statements(&["job", "statements/partition.rs"])
}
