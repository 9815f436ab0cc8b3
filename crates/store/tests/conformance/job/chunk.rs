//! Chunks: what is saved, who may save it, and what the process that saves learns.

use super::{ann, day, launch, look, lose_all, run_step, save};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::job::{Counters, ExecutionContext, StepExecutionId};
use tidemill_domain::lease::Fence;
use tidemill_store::job::{ChunkPlace, ChunkSave, ChunkSaved, ExecutionChanged, Launched, StoredContext};
use tidemill_store::{Store, Tx};
use tidemill_testkit::CommitProxy;

crate::on_both![
    counters_and_context_are_saved_and_read_back,
    a_context_that_has_not_changed_stays,
    a_long_context_fills_both_columns,
    a_wish_to_stop_is_seen_at_the_end_of_the_chunk,
    only_the_owner_with_its_epoch_saves,
    a_chunk_that_is_rolled_back_was_not_saved,
    whoever_lost_the_answer_learns_the_outcome,
    a_chunk_under_way_keeps_its_lease_from_being_freed,
    without_a_test_the_database_tells_the_time_in_utc,
    a_chunk_costs_one_statement,
    the_next_chunk_finds_its_rows_without_the_index,
    a_chunk_finds_rows_that_have_moved,
    the_plan_of_a_small_table_is_not_kept,
];

const COUNTERS: Counters = Counters {
    read: 1,
    write: 2,
    filter: 3,
    read_skip: 4,
    process_skip: 5,
    write_skip: 6,
    commit: 7,
    rollback: 8,
};

pub(super) async fn settled(store: &Store, launched: &Launched, step: StepExecutionId) -> Option<i64> {
    let mut tx = store.begin().await.unwrap();
    let (lease, fence) = (&launched.lease, launched.granted.fence);
    let found = tx.jobs().settled_commits(step, lease, fence).await.unwrap();
    tx.commit().await.unwrap();
    found
}

async fn counters_and_context_are_saved_and_read_back(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut context = ExecutionContext::new();
    context.put("reader.read.count", 10);
    bench.advance(Duration::from_secs(1));

    let saved = save(&bench, &launched, step, &COUNTERS, Some(&context.to_text().unwrap())).await;

    assert_eq!(saved, ChunkSaved::Saved { version: 1, stop_requested: false });
    let mut tx = bench.begin().await;
    let record = tx.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.counters, record.version), (COUNTERS, 1));
    assert_eq!(record.updated_at, Some(bench.now()));
    assert_eq!(tx.jobs().step_context(step).await.unwrap(), Some(StoredContext::Readable(context)));
    let columns = look(
        &bench,
        "select cast(read_count * 10000000 + write_count * 1000000 + filter_count * 100000
                     + read_skip_count * 10000 + process_skip_count * 1000 + write_skip_count * 100
                     + commit_count * 10 + rollback_count as text)
         from batch_step_execution",
    );
    assert_eq!(columns.await, [Some("12345678".to_owned())]);
}

async fn a_context_that_has_not_changed_stays(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let text = r#"{"version":1,"values":{"a":1}}"#;
    save(&bench, &launched, step, &COUNTERS, Some(text)).await;

    let saved = save(&bench, &launched, step, &COUNTERS, None).await;

    assert_eq!(saved, ChunkSaved::Saved { version: 2, stop_requested: false });
    let short = look(&bench, "select short_context from batch_step_execution_context").await;
    assert_eq!(short, [Some(text.to_owned())]);
}

async fn a_long_context_fills_both_columns(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let short = "select cast(length(short_context) as text) || ' ' || coalesce(cast(length(serialized_context) as text), '-')
                 from batch_step_execution_context";
    for (letters, wanted) in [(595, "2500 -"), (596, "2496 2504"), (10, "160 -")] {
        let mut context = ExecutionContext::new();
        context.put("k", "가".repeat(letters));
        let text = context.to_text().unwrap();

        save(&bench, &launched, step, &COUNTERS, Some(&text)).await;

        assert_eq!(look(&bench, short).await, [Some(wanted.to_owned())], "{}", text.chars().count());
        let stored = bench.begin().await.jobs().step_context(step).await.unwrap();
        assert_eq!(stored, Some(StoredContext::Readable(context)));
    }
}

async fn a_wish_to_stop_is_seen_at_the_end_of_the_chunk(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    // A chunk is being written. Whoever asks for a stop does not wait for it, nor it for them.
    let mut writing = None;
    if !bench.scratch.url().starts_with("sqlite") {
        let mut tx = bench.begin().await;
        let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
        let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context: None };
        tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();
        writing = Some(tx);
    }

    let mut tx = bench.begin().await;
    let stopped = tx.jobs().request_stop(launched.execution, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    if let Some(writing) = writing {
        writing.commit().await.unwrap();
    }

    assert!(matches!(stopped, ExecutionChanged::Done { .. }));
    let saved = save(&bench, &launched, step, &COUNTERS, None).await;
    assert!(matches!(saved, ChunkSaved::Saved { stop_requested: true, .. }), "{saved:?}");
}

async fn only_the_owner_with_its_epoch_saves(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let fence = launched.granted.fence;

    for wrong in [Fence { owner: two, ..fence }, Fence { epoch: fence.epoch.next(), ..fence }] {
        let mut ghost = launched.clone();
        ghost.granted.fence = wrong;
        assert_eq!(save(&bench, &ghost, step, &COUNTERS, Some("ghost")).await, ChunkSaved::Fenced);
    }

    let record = bench.begin().await.jobs().steps(launched.execution).await.unwrap().remove(0);
    assert_eq!((record.version, record.counters), (0, Counters::default()));
    let context = look(&bench, "select short_context from batch_step_execution_context").await;
    assert_ne!(context, [Some("ghost".to_owned())]);
}

async fn a_chunk_that_is_rolled_back_was_not_saved(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut tx = bench.begin().await;
    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context: None };
    tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();

    tx.rollback().await.unwrap();

    assert_eq!(settled(&bench.store, &launched, step).await, Some(0));
}

async fn whoever_lost_the_answer_learns_the_outcome(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut lost = bench.begin().await;
    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context: None };
    lost.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();

    let (store, asker) = (bench.store.clone(), launched.clone());
    let mut asking = tokio::spawn(async move { settled(&store, &asker, step).await });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut asking).await;
    assert!(early.is_err(), "the answer came before the transaction had ended");
    lost.commit().await.unwrap();

    assert_eq!(asking.await.unwrap(), Some(7));
    let mut ghost = launched.clone();
    ghost.granted.fence.epoch = ghost.granted.fence.epoch.next();
    assert_eq!(settled(&bench.store, &ghost, step).await, None);
}

async fn a_chunk_under_way_keeps_its_lease_from_being_freed(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // One writer at a time: nobody can free anything meanwhile.
    }
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut writing = bench.begin().await;
    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context: None };
    assert!(matches!(
        writing.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap(),
        ChunkSaved::Saved { .. }
    ));

    let early = lose_all(&bench).await;
    writing.commit().await.unwrap();
    let late = lose_all(&bench).await;

    assert!(early.is_empty(), "{early:?}");
    assert_eq!(late.len(), 1);
    assert_eq!(bench.begin().await.jobs().steps(launched.execution).await.unwrap()[0].counters, COUNTERS);
    assert_eq!(save(&bench, &launched, step, &COUNTERS, None).await, ChunkSaved::Fenced);
}

async fn without_a_test_the_database_tells_the_time_in_utc(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let store = bench.scratch.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    if !bench.scratch.url().starts_with("sqlite") {
        tx.execute_for_test("set local timezone to 'Asia/Seoul'").await.unwrap();
    }
    let before = tx.now().await.unwrap();

    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context: None };
    tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();

    let updated = tx.jobs().steps(launched.execution).await.unwrap()[0].updated_at.unwrap();
    let after = tx.now().await.unwrap();
    assert!(before <= updated && updated <= after, "{before} {updated} {after}");
}

/// The metadata of a chunk is one round trip, also where the network is slow: counted on the wire.
async fn a_chunk_costs_one_statement(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // A file has no wire.
    }
    let wire = CommitProxy::in_front_of(bench.scratch.url()).unwrap();
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let url = wire.url().parse().unwrap();
    let store = tidemill_store::Store::open(url, &Default::default()).await.unwrap();
    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let context = Some(r#"{"version":1,"values":{"a":1}}"#);
    let chunk = ChunkSave { step, execution: launched.execution, lease, fence, counters, context };
    let mut tx = store.begin().await.unwrap();
    tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();

    let before = wire.statements();
    tx.jobs().save_chunk(&chunk, &mut ChunkPlace::default()).await.unwrap();
    let after = wire.statements();
    tx.commit().await.unwrap();

    assert_eq!(after - before, 1);
    assert!(wire.statements() > after, "the commit was counted as well");
    store.close().await;
}

/// How often the rows of steps were searched in this connection, as far as PostgreSQL has not yet published it.
async fn searched(tx: &mut Tx) -> i64 {
    let counted = "select coalesce(sum(idx_scan + seq_scan), 0)::bigint from pg_stat_xact_user_tables
                   where relname in ('batch_step_execution', 'batch_step_execution_context')";
    sqlx::query_scalar(counted).fetch_one(tx.postgres().unwrap()).await.unwrap()
}

/// A cursor keeps all old versions of the rows alive, so a search by the index would take longer with each chunk.
async fn the_next_chunk_finds_its_rows_without_the_index(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // SQLite replaces rows in place.
    }
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut place = ChunkPlace::default();
    let mut searches = Vec::new();

    for number in 1..=3 {
        let mut tx = bench.begin().await;
        let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
        let text = format!(r#"{{"version":1,"values":{{"a":{number}}}}}"#);
        let (execution, context) = (launched.execution, Some(text.as_str()));
        let chunk = ChunkSave { step, execution, lease, fence, counters, context };
        let before = searched(&mut tx).await;
        let saved = tx.jobs().save_chunk(&chunk, &mut place).await.unwrap();
        assert_eq!(saved, ChunkSaved::Saved { version: number, stop_requested: false });
        searches.push(searched(&mut tx).await - before);
        tx.commit().await.unwrap();
    }

    assert!(searches[0] > 0, "nothing was searched, so this proves nothing");
    assert_eq!(searches[1..], [0, 0]);
}

async fn a_chunk_finds_rows_that_have_moved(bench: Bench) {
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
    let mut place = ChunkPlace::default();
    let moves = [
        "",
        "update batch_step_execution set last_updated = last_updated",
        "update batch_step_execution_context set short_context = 'other'",
    ];

    for (number, other) in moves.into_iter().enumerate() {
        // A chunk that is rolled back leaves a place where nothing is.
        for is_kept in [false, true] {
            let mut context = ExecutionContext::new();
            context.put("reader.read.count", number as i64);
            let mut tx = bench.begin().await;
            let text = context.to_text().unwrap();
            let (execution, context_text) = (launched.execution, Some(text.as_str()));
            let chunk = ChunkSave { step, execution, lease, fence, counters, context: context_text };
            let saved = tx.jobs().save_chunk(&chunk, &mut place).await.unwrap();
            assert!(matches!(saved, ChunkSaved::Saved { .. }), "after {other:?}: {saved:?}");
            if !is_kept {
                tx.rollback().await.unwrap();
                continue;
            }
            let stored = tx.jobs().step_context(step).await.unwrap();
            assert_eq!(stored, Some(StoredContext::Readable(context)), "after {other:?}");
            if let Some(next) = moves.get(number + 1) {
                tx.execute_for_test(next).await.unwrap();
            }
            tx.commit().await.unwrap();
        }
    }
}

/// Reads a small table whole, and plans so. Old versions that a cursor keeps alive make it large.
async fn the_plan_of_a_small_table_is_not_kept(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // SQLite replaces rows in place.
    }
    let one = bench.process(1).await;
    let launched = launch(&bench, &day("1"), one).await;
    let step = run_step(&bench, &launched, "copy").await;
    let mut alone = bench.store.alone().await.unwrap();
    alone.execute_for_test("vacuum analyze batch_step_execution").await.unwrap();
    alone.execute_for_test("vacuum analyze batch_step_execution_context").await.unwrap();
    drop(alone);
    let mut cursor = bench.store.read().await.unwrap();
    searched(&mut cursor).await;
    let mut place = ChunkPlace::default();
    let mut searches = Vec::new();

    for number in 1..=600 {
        let mut tx = bench.begin().await;
        let (lease, fence, counters) = (&launched.lease, launched.granted.fence, &COUNTERS);
        let text = format!(r#"{{"version":1,"values":{{"a":{number}}}}}"#);
        let (execution, context) = (launched.execution, Some(text.as_str()));
        let chunk = ChunkSave { step, execution, lease, fence, counters, context };
        let before = searched(&mut tx).await;
        tx.jobs().save_chunk(&chunk, &mut place).await.unwrap();
        searches.push(searched(&mut tx).await - before);
        tx.commit().await.unwrap();
    }

    assert!(searches[20] > 0, "the tables were not small, so this proves nothing: {searches:?}");
    assert_eq!(searches[599], 0, "{searches:?}");
}
