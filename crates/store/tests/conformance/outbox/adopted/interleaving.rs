//! Writers who are slow, go back or fail, while a relay serves the table: nothing is lost, and the rows of an aggregate
//! whose writers lock it come in the order in which they happened.

use super::{adopted, claim, mark, numbers};
use crate::Bench;
use crate::outbox::reader::Reader;
use crate::outbox::stage::{TABLES, Writer};
use tidemill_domain::outbox::adopted::Mark;
use tidemill_domain::outbox::adopted::row::RowPayload;

/// Gives the aggregate its next version, once it is this writer's turn, and tells of it by a row.
async fn next(writer: &mut Writer, aggregate: &str) {
    let sql = format!(
        "with changed as (
             insert into aggregate (id, version) values ('{aggregate}', 1)
             on conflict (id) do update set version = aggregate.version + 1
             returning version
         )
         insert into transfer_events (aggregate_id, payload) select '{aggregate}', version::text from changed"
    );
    writer.run(&sql).await;
}

/// A table, a relay that serves it two rows at a time, and what was heard so far.
struct Scene {
    bench: Bench,
    relay: Reader,
    heard: Vec<String>,
}

impl Scene {
    async fn new() -> Option<Self> {
        let bench = adopted().await?;
        let relay = Reader::of_all(&bench.store, 1, 10).await;
        let scene = Self { bench, relay, heard: Vec::new() };
        scene.writer().await.run(TABLES).await;
        Some(scene)
    }

    async fn writer(&self) -> Writer {
        Writer::new(self.bench.scratch.url()).await
    }

    /// The relay publishes all that it can have.
    async fn drain(&mut self) {
        loop {
            let claimed = claim(&mut self.relay, &[], 2).await.unwrap();
            if claimed.rows.is_empty() {
                return;
            }
            let published = numbers(&claimed).into_iter().map(|id| (id, Mark::Published));
            let published: Vec<(i64, Mark)> = published.collect();
            for row in claimed.rows {
                let RowPayload::Text(version) = row.payload else { panic!("{row:?}") };
                self.heard.push(format!("{}{version}", row.aggregate_id));
            }
            assert_eq!(mark(&mut self.relay, &published).await, Some(published.len() as u64));
        }
    }
}

#[tokio::test]
async fn a_slow_writer_with_a_lower_number_is_not_lost() {
    let Some(mut scene) = Scene::new().await else { return };
    let (mut slow, mut quick) = (scene.writer().await, scene.writer().await);
    slow.begin().await;
    next(&mut slow, "a").await;
    quick.begin().await;
    next(&mut quick, "b").await;
    quick.commit().await;

    scene.drain().await;
    assert_eq!(scene.heard, ["b1"]);
    slow.commit().await;
    scene.drain().await;

    assert_eq!(scene.heard, ["b1", "a1"]);
}

#[tokio::test]
async fn writers_who_take_turns_are_heard_in_their_order() {
    let Some(mut scene) = Scene::new().await else { return };
    let (mut slow, mut waiting) = (scene.writer().await, scene.writer().await);
    slow.begin().await;
    next(&mut slow, "a").await;
    let second = tokio::spawn(async move {
        waiting.begin().await;
        next(&mut waiting, "a").await;
        waiting.commit().await;
    });
    scene.drain().await;
    next(&mut slow, "a").await;
    scene.drain().await;
    assert_eq!(scene.heard, [] as [&str; 0]);
    slow.commit().await;
    second.await.unwrap();

    scene.drain().await;

    assert_eq!(scene.heard, ["a1", "a2", "a3"]);
}

#[tokio::test]
async fn what_was_rolled_back_is_never_heard() {
    let Some(mut scene) = Scene::new().await else { return };
    let (mut one, mut two) = (scene.writer().await, scene.writer().await);
    one.begin().await;
    next(&mut one, "a").await;
    one.run("savepoint here").await;
    next(&mut one, "a").await;
    next(&mut one, "b").await;
    one.run("rollback to savepoint here").await;
    next(&mut one, "a").await;
    two.begin().await;
    next(&mut two, "c").await;
    scene.drain().await;
    two.rollback().await;
    one.commit().await;

    scene.drain().await;

    assert_eq!(scene.heard, ["a1", "a2"]);
}

#[tokio::test]
async fn random_writers_are_heard_completely_and_in_order() {
    let Some(mut scene) = Scene::new().await else { return };
    let seed = u64::from(std::process::id());
    let mut state = seed | 1;
    // Xorshift: another play in each run, told by its seed.
    let mut chance = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below).unwrap()
    };
    let mut writers = Vec::new();
    for _ in 0..4 {
        writers.push((scene.writer().await, false));
    }
    for _ in 0..300 {
        let n = chance(4);
        let (writer, is_open) = &mut writers[n];
        match chance(6) {
            0 => scene.drain().await,
            1 if *is_open => {
                writer.commit().await;
                *is_open = false;
            }
            2 if *is_open && chance(2) == 0 => {
                writer.rollback().await;
                *is_open = false;
            }
            _ => {
                if !*is_open {
                    writer.begin().await;
                    *is_open = true;
                }
                // Each has an aggregate of its own, so that nobody here waits for another one.
                next(writer, ["a", "b", "c", "d"][n]).await;
            }
        }
    }
    for (writer, is_open) in &mut writers {
        if *is_open {
            writer.commit().await;
        }
    }

    scene.drain().await;

    let committed = super::number(&scene.bench, "select count(*) from transfer_events").await;
    assert_eq!(scene.heard.len(), usize::try_from(committed).unwrap(), "seed {seed}");
    for aggregate in ["a", "b", "c", "d"] {
        let heard: Vec<u64> = scene
            .heard
            .iter()
            .filter_map(|told| told.strip_prefix(aggregate))
            .map(|n| n.parse().unwrap())
            .collect();
        assert!(heard.is_sorted_by(|a, b| a < b), "seed {seed}: {heard:?}");
    }
}
