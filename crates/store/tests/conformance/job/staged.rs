//! Chunks that are committed in one statement with their rows and events.

use super::chunk::settled;
use super::{day, launch, look, run_sql, run_step};
use crate::Bench;
use tidemill_domain::job::{Counters, StepExecutionId};
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_store::item::{Mode, TableWriter};
use tidemill_store::job::{ChunkPlace, ChunkSave, ChunkSaved, Launched, Staged};
use tidemill_store::{Store, StoreError, StoreOptions};
use tidemill_testkit::{CommitProxy, Loss};

crate::on_both![
    a_chunk_and_its_rows_cost_one_round_trip,
    a_chunk_and_its_rows_are_written_together_or_not_at_all,
    a_chunk_that_comes_after_the_look_writes_nothing,
    the_outcome_of_a_chunk_with_rows_can_be_looked_up,
];

/// A step with a table of numbers, and a first chunk that has found its rows.
struct Stage {
    launched: Launched,
    step: StepExecutionId,
    place: ChunkPlace,
    table: TableWriter,
    has_events: bool,
}

impl Stage {
    /// None on SQLite, which has no round trips to save.
    async fn on(bench: &Bench) -> Option<Self> {
        run_sql(bench, "create table number (n bigint primary key)").await;
        let mut table = numbers(bench, Mode::Copy).await;
        if bench.scratch.url().starts_with("sqlite") {
            table.push(&[1.into()]).unwrap();
            assert!(!Staged::default().take_rows(&mut table));
            return None;
        }
        let one = bench.process(1).await;
        let launched = launch(bench, &day("1"), one).await;
        let step = run_step(bench, &launched, "copy").await;
        let mut stage = Self { launched, step, place: ChunkPlace::default(), table, has_events: false };
        stage.first_chunk(bench).await;
        Some(stage)
    }

    async fn first_chunk(&mut self, bench: &Bench) {
        let mut tx = bench.begin().await;
        let (counters, context) = recorded(1);
        let chunk = self.save(&counters, &context);
        let mut place = ChunkPlace::default();
        tx.jobs().save_chunk(&chunk, &mut place).await.unwrap();
        tx.commit().await.unwrap();
        self.place = place;
    }

    fn save<'a>(&'a self, counters: &'a Counters, context: &'a str) -> ChunkSave<'a> {
        let Launched { execution, lease, granted, .. } = &self.launched;
        let (execution, fence) = (*execution, granted.fence);
        ChunkSave { step: self.step, execution, lease, fence, counters, context: Some(context) }
    }

    /// The numbers, and an event of each if there are to be events.
    fn staged(&mut self, numbers: &[i64]) -> Staged {
        self.table.clear();
        for number in numbers {
            self.table.push(&[(*number).into()]).unwrap();
        }
        let mut staged = Staged::default();
        assert!(staged.take_rows(&mut self.table));
        if self.has_events {
            let payload = |number: &i64| Payload::Json(number.to_string());
            let event =
                |number| NewEvent::new("number", "one", "counted", "numbers", payload(number)).unwrap();
            staged.add_events(numbers.iter().map(event).collect());
        }
        staged
    }

    async fn commit(
        &mut self,
        store: &Store,
        numbers: &[i64],
        commits: u64,
    ) -> Result<Option<ChunkSaved>, StoreError> {
        let staged = self.staged(numbers);
        let (counters, context) = recorded(commits);
        let mut place = std::mem::take(&mut self.place);
        let committed = store.commit_chunk(&self.save(&counters, &context), &staged, &mut place).await;
        self.place = place;
        committed
    }
}

async fn numbers(bench: &Bench, mode: Mode) -> TableWriter {
    let mut table = TableWriter::new("number").columns(["n"]).mode(mode);
    table.open(&bench.store).await.unwrap();
    table
}

/// What a chunk records.
fn recorded(commits: u64) -> (Counters, String) {
    let counters = Counters { commit: commits, ..Counters::default() };
    (counters, format!(r#"{{"version":1,"values":{{"a":{commits}}}}}"#))
}

/// The numbers, how many commits are recorded, and the context.
async fn state(bench: &Bench) -> Vec<Option<String>> {
    look(
        bench,
        "select concat((select string_agg(n::text, ',' order by n) from number), ' ', commit_count, ' ', short_context,
                       (select ' ' || string_agg(payload, ',' order by id) from outbox_event where topic = 'numbers'))
         from batch_step_execution natural join batch_step_execution_context",
    )
    .await
}

fn state_of(numbers: &str, commits: u64, events: &str) -> Vec<Option<String>> {
    vec![Some(format!("{numbers} {commits} {}{events}", recorded(commits).1))]
}

async fn a_chunk_and_its_rows_cost_one_round_trip(bench: Bench) {
    let Some(mut stage) = Stage::on(&bench).await else { return };
    let wire = CommitProxy::in_front_of(bench.scratch.url()).unwrap();
    let options = StoreOptions { max_connections: 1, ..StoreOptions::default() };
    let upsert = Mode::Upsert { key: vec!["n".into()] };
    let modes =
        [(Mode::Copy, 1, true), (Mode::Insert, 3, false), (upsert.clone(), 5, false), (upsert, 7, true)];
    for (mode, first, has_events) in modes {
        stage.has_events = has_events;
        stage.table = numbers(&bench, mode).await;
        let mut costs = Vec::new();

        // Closing a store waits for its wake-ups, so that everything is counted.
        for chunks in [1, 2_u32] {
            stage.first_chunk(&bench).await;
            let before = wire.statements();
            let store = Store::open(wire.url().parse().unwrap(), &options).await.unwrap();
            for chunk in 0..chunks {
                let number = first + i64::from(chunk);
                let saved = stage.commit(&store, &[number], u64::from(chunk) + 2).await.unwrap();
                assert!(matches!(saved, Some(ChunkSaved::Saved { stop_requested: false, .. })), "{saved:?}");
            }
            store.close().await;
            costs.push(wire.statements() - before);
            if chunks == 1 {
                run_sql(&bench, &format!("delete from number where n = {first}")).await;
            }
        }

        // A wake-up of the relays is a transaction with one statement, which chunks may share.
        let most = if has_events { 4 } else { 1 };
        assert!((1..=most).contains(&(costs[1] - costs[0])), "{costs:?}");
    }
    assert_eq!(state(&bench).await, state_of("1,2,3,4,5,6,7,8", 3, " 1,1,2,7,7,8"));
}

async fn a_chunk_and_its_rows_are_written_together_or_not_at_all(bench: Bench) {
    let Some(mut stage) = Stage::on(&bench).await else { return };
    run_sql(&bench, "insert into number values (1)").await;
    let ours = stage.launched.granted.fence;
    let hindrances = [
        "refused row",
        "other owner",
        "update batch_step_execution set version = version + 1",
        "update batch_step_execution set last_updated = last_updated",
        "update batch_step_execution_context set short_context = short_context",
    ];

    for (hindrance, has_events) in hindrances.into_iter().flat_map(|what| [(what, false), (what, true)]) {
        stage.has_events = has_events;
        let mut numbers = vec![2, 3];
        match hindrance {
            "refused row" => numbers.push(1),
            "other owner" => stage.launched.granted.fence.epoch = ours.epoch.next(),
            statement => run_sql(&bench, statement).await,
        }
        let hindered = stage.commit(&bench.store, &numbers, 2).await.unwrap();
        stage.launched.granted.fence = ours;

        assert_eq!((hindered, state(&bench).await), (None, state_of("1", 1, "")), "{hindrance}");
        assert!(!stage.place.is_known());
        stage.first_chunk(&bench).await;
    }
    let staged = stage.staged(&[2, 1]);
    let mut tx = bench.begin().await;
    assert!(staged.write(&mut tx).await.is_err());
    tx.rollback().await.unwrap();
    assert!(stage.commit(&bench.store, &[2, 3], 2).await.unwrap().is_some());
    assert_eq!(state(&bench).await, state_of("1,2,3", 2, " 2,3"));
}

/// Its request was on the way while somebody looked whether it had happened.
async fn a_chunk_that_comes_after_the_look_writes_nothing(bench: Bench) {
    let Some(mut stage) = Stage::on(&bench).await else { return };

    let found = settled(&bench.store, &stage.launched, stage.step).await;
    let late = stage.commit(&bench.store, &[1], 2).await.unwrap();

    assert_eq!((found, late), (Some(1), None));
    assert_eq!(state(&bench).await, state_of("", 1, ""));
}

async fn the_outcome_of_a_chunk_with_rows_can_be_looked_up(bench: Bench) {
    let Some(mut stage) = Stage::on(&bench).await else { return };
    let wire = CommitProxy::in_front_of(bench.scratch.url()).unwrap();
    let store = Store::open(wire.url().parse().unwrap(), &Default::default()).await.unwrap();
    for (loss, commits, numbers) in [(Loss::Request, 1_i64, ""), (Loss::Answer, 2, "1")] {
        stage.first_chunk(&bench).await;
        wire.lose_statement(loss, b"written as");

        let lost = stage.commit(&store, &[1], 2).await;

        assert!(matches!(lost, Err(StoreError::OutcomeUnknown(_))), "{loss:?}: {lost:?}");
        assert_eq!(settled(&store, &stage.launched, stage.step).await, Some(commits), "{loss:?}");
        assert_eq!(state(&bench).await, state_of(numbers, commits.unsigned_abs(), ""), "{loss:?}");
    }
    assert_eq!(wire.lost(), 2);
    store.close().await;
}
