//! Spring Batch beside us: its programs read what we write, and we take over what its programs have written.

use super::{ann, day, end, end_step, launch, look, lose_all, request, run_sql, run_step, save, start};
use super::{status, step_request, try_launch};
use crate::Bench;
use serde_json::Value;
use tidemill_domain::job::instance::job_key;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::track::items_behind;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus};
use tidemill_store::StoreError;
use tidemill_store::job::{ChunkSaved, EndRecorded, ExecutionFilter, StepStart};
use tidemill_store::scratch::Scratch;

crate::on_both![
    spring_reads_what_we_write,
    spring_counts_its_ids_behind_ours,
    spring_removes_what_we_have_written,
    tables_that_spring_has_made_are_adopted,
    a_step_that_spring_failed_is_continued_where_that_is_exact,
    a_stop_of_spring_reaches_the_next_chunk,
    what_spring_abandons_before_its_end_stays_abandoned,
    a_second_execution_without_an_end_is_refused_whoever_writes_it,
    several_executions_without_an_end_stop_the_migration,
];

async fn spring_reads_what_we_write(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // The check names PostgreSQL's row type; SQLite has the same tables.
    }
    let one = bench.process(1).await;
    let parameters = day("1").with("limit", 7_i64).with_non_identifying("note", "x");
    let first = launch(&bench, &parameters, one).await;
    let failed = run_step(&bench, &first, "copy").await;
    let counters =
        Counters { read: 10, write: 8, filter: 1, commit: 2, write_skip: 1, ..Counters::default() };
    save(&bench, &first, failed, &counters, Some(&stored(&[("a", 1.into())]))).await;
    end_step(&bench, &first, failed, BatchStatus::Failed, &ExitStatus::failed("no")).await;
    end(&bench, &first, BatchStatus::Failed).await;
    let second = launch(&bench, &parameters, one).await;
    let running = run_step(&bench, &second, "copy").await;
    save(&bench, &second, running, &counters, None).await;

    let ids = Ids {
        key: job_key(&parameters),
        instance: first.instance.get(),
        first: first.execution.get(),
        second: second.execution.get(),
        failed: failed.get(),
        running: running.get(),
    };
    for (sql, wanted) in [of_instances(&ids), of_executions(&ids), of_steps(&ids)].concat() {
        let found = look(&bench, &format!("SELECT (Q.*)::TEXT FROM ({sql}) Q")).await;
        assert_eq!(found, wanted.into_iter().map(Some).collect::<Vec<_>>(), "{sql}");
    }
}

/// A context as both programs store it.
fn stored(values: &[(&str, Value)]) -> String {
    let mut context = ExecutionContext::new();
    values.iter().for_each(|(key, value)| context.put(key, value.clone()));
    context.to_text().unwrap()
}

/// The context of a chunk step of Spring Batch.
fn stored_by_spring(values: &[(&str, Value)]) -> String {
    let package = "org.springframework.batch.core.step";
    let types = [
        ("batch.stepType", format!("{package}.tasklet.TaskletStep").into()),
        ("batch.taskletType", format!("{package}.item.ChunkOrientedTasklet").into()),
    ];
    stored(&[&types[..], values].concat())
}

async fn a_step_that_spring_failed_is_continued_where_that_is_exact(bench: Bench) {
    let one = bench.process(1).await;
    let mut seed = ExecutionContext::new();
    seed.put("batch.stepType", "chunk");
    for (number, text, continued) in [
        ("1", stored_by_spring(&[("reader.read.count", 60.into())]), true),
        ("2", stored_by_spring(&[("reader.read.count", 60.into()), ("reader.start.after", 1.into())]), false),
        ("3", r#"{"version":1,"values":{"read.read.count":60}}"#.to_owned(), true),
        ("4", "rO0ABXNyABFqYXZh".to_owned(), false),
    ] {
        let first = launch(&bench, &day(number), one).await;
        let step = run_step(&bench, &first, "copy").await;
        save(&bench, &first, step, &Counters::default(), Some(&text)).await;
        end_step(&bench, &first, step, BatchStatus::Failed, &ExitStatus::failed("no")).await;
        end(&bench, &first, BatchStatus::Failed).await;
        let second = launch(&bench, &day(number), one).await;

        let mut tx = bench.begin().await;
        let started = tx.jobs().start_step(&step_request(&second, "copy", &seed)).await;
        tx.rollback().await.unwrap();

        match started {
            Ok(StepStart::Run { context, is_resumed: true, .. }) => {
                assert!(continued, "{number}");
                assert_eq!(items_behind(&context), Some(60));
                assert_eq!(context.get_text("batch.stepType"), Some("chunk"));
            }
            started => {
                assert!(!continued && matches!(started, Err(StoreError::BadContext { .. })), "{started:?}");
            }
        }
    }
}

/// `JobOperator.stop` writes the status and the version, and nothing else.
async fn a_stop_of_spring_reaches_the_next_chunk(bench: Bench) {
    let launched = launch(&bench, &day("1"), bench.process(1).await).await;
    let step = run_step(&bench, &launched, "copy").await;
    let counters = Counters::default();
    let before = save(&bench, &launched, step, &counters, None).await;

    run_sql(&bench, "update batch_job_execution set status = 'STOPPING', version = version + 1").await;
    let stopping = save(&bench, &launched, step, &counters, None).await;
    run_sql(&bench, "update batch_job_execution set status = 'ABANDONED', version = version + 1").await;
    let abandoned = save(&bench, &launched, step, &counters, None).await;

    assert!(matches!(before, ChunkSaved::Saved { stop_requested: false, .. }), "{before:?}");
    for saved in [stopping, abandoned] {
        assert!(matches!(saved, ChunkSaved::Saved { stop_requested: true, .. }), "{saved:?}");
    }
    assert!(bench.begin().await.jobs().must_stop(launched.execution).await.unwrap());
}

/// `JobOperator.abandon` accepts an execution that is STOPPING, while its process still runs.
async fn what_spring_abandons_before_its_end_stays_abandoned(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    run_step(&bench, &launched, "copy").await;
    run_sql(&bench, "update batch_job_execution set status = 'ABANDONED', version = version + 1").await;

    let mut tx = bench.begin().await;
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let exit = ExitStatus::new(ExitStatus::STOPPED);
    let ended = tx.jobs().end_execution(launched.execution, lease, fence, BatchStatus::Stopped, &exit).await;
    tx.commit().await.unwrap();

    assert_eq!(ended.unwrap(), EndRecorded::ByOther(BatchStatus::Abandoned));
    assert_eq!(status(&bench, launched.execution).await, BatchStatus::Abandoned);
    let mut tx = bench.begin().await;
    assert_eq!(tx.jobs().steps(launched.execution).await.unwrap()[0].status, BatchStatus::Failed);
    assert!(tx.leases().list(10).await.unwrap().is_empty(), "no lease is left behind");
    tx.rollback().await.unwrap();
    let relaunched = try_launch(&bench, &request(&day("1"), one, &ann())).await;
    assert!(matches!(relaunched, Err(LaunchRefusal::AlreadyComplete(_))), "{relaunched:?}");
}

/// What the rows are called that were written.
struct Ids {
    key: String,
    instance: i64,
    first: i64,
    second: i64,
    failed: i64,
    running: i64,
}

/// The instant of all that was written, as a row shows it.
const AT: &str = "\"2026-11-15 02:00:00\"";

/// What Spring Batch 5 asks, with the values that it binds, and what it has to find.
type Queries = Vec<(String, Vec<String>)>;

fn of_instances(ids: &Ids) -> Queries {
    let Ids { key, instance, first, .. } = ids;
    let found = format!("({instance},load)");
    vec![
        (
            format!(
                "SELECT JOB_INSTANCE_ID, JOB_NAME FROM BATCH_JOB_INSTANCE
                 WHERE JOB_NAME = 'load' AND JOB_KEY = '{key}'"
            ),
            vec![found.clone()],
        ),
        (
            "SELECT JOB_INSTANCE_ID, JOB_NAME FROM BATCH_JOB_INSTANCE
             WHERE JOB_NAME = 'load' AND (JOB_KEY = '' OR JOB_KEY IS NULL)"
                .into(),
            vec![],
        ),
        ("SELECT COUNT(*) FROM BATCH_JOB_INSTANCE WHERE JOB_NAME = 'load'".into(), vec!["(1)".into()]),
        ("SELECT DISTINCT JOB_NAME FROM BATCH_JOB_INSTANCE ORDER BY JOB_NAME".into(), vec!["(load)".into()]),
        (
            format!(
                "SELECT JI.JOB_INSTANCE_ID, JOB_NAME, JOB_KEY, JI.VERSION
                 FROM BATCH_JOB_INSTANCE JI, BATCH_JOB_EXECUTION JE
                 WHERE JOB_EXECUTION_ID = {first} AND JI.JOB_INSTANCE_ID = JE.JOB_INSTANCE_ID"
            ),
            vec![format!("({instance},load,{key},0)")],
        ),
        (
            "SELECT JOB_INSTANCE_ID, JOB_NAME FROM BATCH_JOB_INSTANCE I1
             WHERE I1.JOB_NAME = 'load' AND I1.JOB_INSTANCE_ID =
                 (SELECT MAX(I2.JOB_INSTANCE_ID) FROM BATCH_JOB_INSTANCE I2 WHERE I2.JOB_NAME = 'load')"
                .into(),
            vec![found.clone()],
        ),
        (
            "SELECT JOB_INSTANCE_ID, JOB_NAME FROM BATCH_JOB_INSTANCE
             WHERE JOB_NAME LIKE 'lo%' ORDER BY JOB_INSTANCE_ID DESC"
                .into(),
            vec![found],
        ),
    ]
}

fn of_executions(ids: &Ids) -> Queries {
    let Ids { instance, first, second, .. } = ids;
    vec![
        (
            format!(
                "SELECT JOB_EXECUTION_ID, START_TIME, END_TIME, STATUS, EXIT_CODE, EXIT_MESSAGE, CREATE_TIME,
                     LAST_UPDATED, VERSION
                 FROM BATCH_JOB_EXECUTION WHERE JOB_INSTANCE_ID = {instance} ORDER BY JOB_EXECUTION_ID DESC"
            ),
            vec![
                format!("({second},{AT},,STARTED,UNKNOWN,\"\",{AT},{AT},1)"),
                format!("({first},{AT},{AT},FAILED,FAILED,\"\",{AT},{AT},2)"),
            ],
        ),
        (
            format!(
                "SELECT JOB_EXECUTION_ID, STATUS FROM BATCH_JOB_EXECUTION
                 WHERE JOB_INSTANCE_ID = {instance} AND JOB_EXECUTION_ID IN
                     (SELECT MAX(JOB_EXECUTION_ID) FROM BATCH_JOB_EXECUTION E2
                      WHERE E2.JOB_INSTANCE_ID = {instance})"
            ),
            vec![format!("({second},STARTED)")],
        ),
        (
            "SELECT E.JOB_EXECUTION_ID, E.JOB_INSTANCE_ID FROM BATCH_JOB_EXECUTION E, BATCH_JOB_INSTANCE I
             WHERE E.JOB_INSTANCE_ID = I.JOB_INSTANCE_ID AND I.JOB_NAME = 'load'
                 AND E.STATUS IN ('STARTING', 'STARTED', 'STOPPING')"
                .into(),
            vec![format!("({second},{instance})")],
        ),
        (
            format!(
                "SELECT JOB_EXECUTION_ID, PARAMETER_NAME, PARAMETER_TYPE, PARAMETER_VALUE, IDENTIFYING
                 FROM BATCH_JOB_EXECUTION_PARAMS WHERE JOB_EXECUTION_ID = {first}"
            ),
            vec![
                format!("({first},day,java.lang.String,1,Y)"),
                format!("({first},limit,java.lang.Long,7,Y)"),
                format!("({first},note,java.lang.String,x,N)"),
            ],
        ),
        (
            format!(
                "SELECT SHORT_CONTEXT, SERIALIZED_CONTEXT FROM BATCH_JOB_EXECUTION_CONTEXT
                 WHERE JOB_EXECUTION_ID = {first}"
            ),
            vec![format!("({},)", stored(&[]))],
        ),
    ]
}

fn of_steps(ids: &Ids) -> Queries {
    let Ids { instance, first, second, failed, running, .. } = ids;
    vec![
        (
            format!(
                "SELECT STEP_EXECUTION_ID, STEP_NAME, START_TIME, END_TIME, STATUS, COMMIT_COUNT, READ_COUNT,
                     FILTER_COUNT, WRITE_COUNT, EXIT_CODE, EXIT_MESSAGE, READ_SKIP_COUNT, WRITE_SKIP_COUNT,
                     PROCESS_SKIP_COUNT, ROLLBACK_COUNT, LAST_UPDATED, VERSION, CREATE_TIME
                 FROM BATCH_STEP_EXECUTION WHERE JOB_EXECUTION_ID = {second} ORDER BY STEP_EXECUTION_ID"
            ),
            vec![format!("({running},copy,{AT},,STARTED,2,10,1,8,EXECUTING,\"\",0,1,0,0,{AT},1,{AT})")],
        ),
        (
            format!(
                "SELECT SE.STEP_EXECUTION_ID, SE.STATUS, JE.JOB_EXECUTION_ID
                 FROM BATCH_JOB_EXECUTION JE
                 JOIN BATCH_STEP_EXECUTION SE ON SE.JOB_EXECUTION_ID = JE.JOB_EXECUTION_ID
                 WHERE JE.JOB_INSTANCE_ID = {instance} AND SE.STEP_NAME = 'copy'
                 ORDER BY SE.CREATE_TIME DESC, SE.STEP_EXECUTION_ID DESC"
            ),
            vec![format!("({running},STARTED,{second})"), format!("({failed},FAILED,{first})")],
        ),
        (
            format!(
                "SELECT COUNT(*) FROM BATCH_JOB_EXECUTION JE
                 JOIN BATCH_STEP_EXECUTION SE ON SE.JOB_EXECUTION_ID = JE.JOB_EXECUTION_ID
                 WHERE JE.JOB_INSTANCE_ID = {instance} AND SE.STEP_NAME = 'copy'"
            ),
            vec!["(2)".into()],
        ),
        (
            format!(
                "SELECT SHORT_CONTEXT, SERIALIZED_CONTEXT FROM BATCH_STEP_EXECUTION_CONTEXT
                 WHERE STEP_EXECUTION_ID = {running}"
            ),
            vec![format!("({},)", stored(&[("a", 1.into())]))],
        ),
    ]
}

async fn spring_counts_its_ids_behind_ours(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // Sequences are PostgreSQL's.
    }
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    run_step(&bench, &launched, "copy").await;

    for (sequence, table, column) in [
        ("BATCH_JOB_SEQ", "BATCH_JOB_INSTANCE", "JOB_INSTANCE_ID"),
        ("BATCH_JOB_EXECUTION_SEQ", "BATCH_JOB_EXECUTION", "JOB_EXECUTION_ID"),
        ("BATCH_STEP_EXECUTION_SEQ", "BATCH_STEP_EXECUTION", "STEP_EXECUTION_ID"),
    ] {
        let sql = format!("SELECT CAST(nextval('{sequence}') > (SELECT MAX({column}) FROM {table}) AS TEXT)");
        assert_eq!(look(&bench, &sql).await, [Some("true".to_owned())], "{sequence}");
    }
}

async fn spring_removes_what_we_have_written(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut tx = bench.begin().await;
    tx.jobs().describe_step(step, Some(1), None).await.unwrap();
    tx.commit().await.unwrap();
    end(&bench, &launched, BatchStatus::Failed).await;

    run_sql(
        &bench,
        "DELETE FROM BATCH_STEP_EXECUTION_CONTEXT;
         DELETE FROM BATCH_STEP_EXECUTION;
         DELETE FROM BATCH_JOB_EXECUTION_CONTEXT;
         DELETE FROM BATCH_JOB_EXECUTION_PARAMS;
         DELETE FROM BATCH_JOB_EXECUTION;
         DELETE FROM BATCH_JOB_INSTANCE",
    )
    .await;

    let left = "select cast((select count(*) from tidemill_job_execution)
                    + (select count(*) from tidemill_step_execution) as text)";
    assert_eq!(look(&bench, left).await, [Some("0".to_owned())]);
    assert!(launch(&bench, &day("1"), one).await.execution > launched.execution);
}

/// The tables as Spring Batch makes them, in capital letters.
const SPRING: &str = "
    CREATE TABLE BATCH_JOB_INSTANCE (JOB_INSTANCE_ID BIGINT NOT NULL PRIMARY KEY, VERSION BIGINT,
        JOB_NAME VARCHAR(100) NOT NULL, JOB_KEY VARCHAR(32) NOT NULL,
        constraint JOB_INST_UN unique (JOB_NAME, JOB_KEY));
    CREATE TABLE BATCH_JOB_EXECUTION (JOB_EXECUTION_ID BIGINT NOT NULL PRIMARY KEY, VERSION BIGINT,
        JOB_INSTANCE_ID BIGINT NOT NULL, CREATE_TIME TIMESTAMP NOT NULL, START_TIME TIMESTAMP,
        END_TIME TIMESTAMP, STATUS VARCHAR(10), EXIT_CODE VARCHAR(2500), EXIT_MESSAGE VARCHAR(2500),
        LAST_UPDATED TIMESTAMP, constraint JOB_INST_EXEC_FK foreign key (JOB_INSTANCE_ID)
        references BATCH_JOB_INSTANCE(JOB_INSTANCE_ID));
    CREATE TABLE BATCH_JOB_EXECUTION_PARAMS (JOB_EXECUTION_ID BIGINT NOT NULL,
        PARAMETER_NAME VARCHAR(100) NOT NULL, PARAMETER_TYPE VARCHAR(100) NOT NULL,
        PARAMETER_VALUE VARCHAR(2500), IDENTIFYING CHAR(1) NOT NULL);
    CREATE TABLE BATCH_STEP_EXECUTION (STEP_EXECUTION_ID BIGINT NOT NULL PRIMARY KEY, VERSION BIGINT NOT NULL,
        STEP_NAME VARCHAR(100) NOT NULL, JOB_EXECUTION_ID BIGINT NOT NULL, CREATE_TIME TIMESTAMP NOT NULL,
        START_TIME TIMESTAMP, END_TIME TIMESTAMP, STATUS VARCHAR(10), COMMIT_COUNT BIGINT, READ_COUNT BIGINT,
        FILTER_COUNT BIGINT, WRITE_COUNT BIGINT, READ_SKIP_COUNT BIGINT, WRITE_SKIP_COUNT BIGINT,
        PROCESS_SKIP_COUNT BIGINT, ROLLBACK_COUNT BIGINT, EXIT_CODE VARCHAR(2500),
        EXIT_MESSAGE VARCHAR(2500), LAST_UPDATED TIMESTAMP);
    CREATE TABLE BATCH_STEP_EXECUTION_CONTEXT (STEP_EXECUTION_ID BIGINT NOT NULL PRIMARY KEY,
        SHORT_CONTEXT VARCHAR(2500) NOT NULL, SERIALIZED_CONTEXT TEXT);
    CREATE TABLE BATCH_JOB_EXECUTION_CONTEXT (JOB_EXECUTION_ID BIGINT NOT NULL PRIMARY KEY,
        SHORT_CONTEXT VARCHAR(2500) NOT NULL, SERIALIZED_CONTEXT TEXT)";

/// A database with Spring's tables and one instance in them, that we have not seen yet.
async fn before_us(bench: &Bench, executions: &[(i64, &str)]) -> Scratch {
    let is_sqlite = bench.scratch.url().starts_with("sqlite");
    let scratch = if is_sqlite { Scratch::file() } else { Scratch::postgres().await.unwrap() };
    let options = tidemill_store::StoreOptions::default();
    let store = tidemill_store::Store::open(scratch.url().parse().unwrap(), &options).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(SPRING).await.unwrap();
    let key = job_key(&day("1"));
    let instance = format!("insert into batch_job_instance values (7, 0, 'load', '{key}')");
    tx.execute_for_test(&instance).await.unwrap();
    // Java's driver for SQLite writes milliseconds since 1970.
    let at = if is_sqlite { "1794610800000" } else { "'2026-11-13 23:00:00'" };
    for (id, status) in executions {
        let execution = format!(
            "insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
             values ({id}, 1, 7, {at}, '{status}')"
        );
        tx.execute_for_test(&execution).await.unwrap();
    }
    if !is_sqlite {
        let sequences = "CREATE SEQUENCE BATCH_JOB_SEQ MAXVALUE 9223372036854775807 NO CYCLE START 8;
                         CREATE SEQUENCE BATCH_JOB_EXECUTION_SEQ NO CYCLE START 20";
        tx.execute_for_test(sequences).await.unwrap();
    }
    tx.commit().await.unwrap();
    store.close().await;
    scratch
}

async fn tables_that_spring_has_made_are_adopted(bench: Bench) {
    let adopted = Bench::on(before_us(&bench, &[(11, "FAILED"), (12, "STARTED")]).await).await;
    let one = adopted.process(1).await;

    let refused = try_launch(&adopted, &request(&day("1"), one, &ann())).await;
    let other = launch(&adopted, &day("2"), one).await;
    let step = run_step(&adopted, &other, "copy").await;
    save(&adopted, &other, step, &Counters { read: 3, ..Counters::default() }, None).await;
    let lost = lose_all(&adopted).await;

    assert_eq!(refused, Err(LaunchRefusal::AlreadyRunning));
    assert!(other.instance.get() > 7 && other.execution.get() > 12, "{other:?}");
    assert_eq!(lost.iter().map(|lost| lost.execution).collect::<Vec<_>>(), [other.execution]);
    let mut tx = adopted.begin().await;
    let jobs = tx.jobs().list(10).await.unwrap();
    assert_eq!((jobs.len(), jobs[0].instances), (1, 2));
    let instances = tx.jobs().instances("load", None, 10).await.unwrap();
    assert_eq!((instances[0].parameters.len(), instances[1].executions), (1, 2));
    assert_eq!(instances[1].last.unwrap().created_at, "2026-11-13T23:00:00Z".parse().unwrap());
    assert_eq!(tx.jobs().executions(&ExecutionFilter::default(), None, 10).await.unwrap().len(), 3);
    assert_eq!(tx.jobs().steps(other.execution).await.unwrap()[0].counters.read, 3);
    tx.rollback().await.unwrap();
    // A restart goes on from what a step of ours has left in Spring's tables.
    let two = adopted.process(2).await;
    let again = launch(&adopted, &day("2"), two).await;
    let resumed = start(&adopted, &step_request(&again, "copy", &ExecutionContext::new())).await;
    assert!(matches!(resumed, StepStart::Run { is_resumed: true, .. }));
}

async fn a_second_execution_without_an_end_is_refused_whoever_writes_it(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let foreign = |status: &str| {
        format!(
            "insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, status)
             values (1000, 0, {}, '2026-11-15 02:00:00', '{status}')",
            launched.instance
        )
    };

    for status in ["STARTING", "STARTED", "STOPPING", "UNKNOWN"] {
        let mut tx = bench.begin().await;
        assert!(tx.execute_for_test(&foreign(status)).await.is_err(), "{status}");
        tx.rollback().await.unwrap();
    }

    run_sql(&bench, &foreign("FAILED")).await;
}

async fn several_executions_without_an_end_stop_the_migration(bench: Bench) {
    let scratch = before_us(&bench, &[(11, "STARTED"), (12, "UNKNOWN")]).await;

    let refused = scratch.store(None).await.unwrap_err();

    let told = std::error::Error::source(&refused).unwrap().to_string();
    assert!(matches!(refused, StoreError::MigrationRefused { version: 4, .. }), "{refused:?}");
    let named = if scratch.url().starts_with("sqlite") {
        "UNIQUE constraint failed: BATCH_JOB_EXECUTION.JOB_INSTANCE_ID"
    } else {
        "job instance 7 has several executions without an end: 11, 12"
    };
    assert!(told.contains(named), "{told}");
}
