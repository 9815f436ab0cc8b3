//! A stage for hand-stepped interleavings on an attached table: writers who take turns on the row of an aggregate as every
//! correct program does, two instances that serve the table, and what was heard of them.

use super::attached;
use super::scheme::{Outcome, Row, Scheme, Service};
use crate::Bench;
use crate::outbox::stage::{TABLES, Verdict, Version, Writer, are_in_causal_order};
use std::collections::BTreeSet;

/// Times are those of transactions, as in the table of the document.
const LIKE_THE_DOCUMENT: &str = "alter table transfer_events alter column updated_at set default now()";

/// A table, who serves it, and what was heard so far.
pub(super) struct Scene {
    url: String,
    usher: Writer,
    service: Service,
    /// Most rows that an instance takes at once.
    pub(super) limit: u32,
    in_hand: [Vec<Row>; 2],
    pub(super) heard: Vec<Version>,
    /// What had not been heard at some time when it could have been.
    missed: BTreeSet<Version>,
}

impl Scene {
    pub(super) async fn writer(&self) -> Writer {
        Writer::new(&self.url).await
    }

    /// Everything that has committed.
    pub(super) async fn committed(&mut self) -> BTreeSet<Version> {
        self.usher.committed_in("select aggregate_id::text, payload from transfer_events").await
    }

    /// An instance takes what it gets.
    pub(super) async fn claim(&mut self, instance: usize, limit: u32) {
        let claimed = self.service.claim(instance, limit).await;
        self.in_hand[instance].extend(claimed);
    }

    /// What an instance has is out, and marked.
    pub(super) async fn publish(&mut self, instance: usize) {
        let rows = std::mem::take(&mut self.in_hand[instance]);
        self.heard.extend(rows.iter().map(|row| row.version.clone()));
        self.service.settle(instance, &rows, Outcome::Published).await;
    }

    /// What an instance has is refused for good.
    pub(super) async fn refuse(&mut self, instance: usize) {
        let rows = std::mem::take(&mut self.in_hand[instance]);
        self.service.settle(instance, &rows, Outcome::Failed).await;
    }

    /// What was refused is tried again.
    pub(super) async fn replay(&mut self) {
        self.usher.run("update transfer_events set status = 'PENDING' where status = 'FAILED'").await;
        self.usher.run("delete from tidemill_outbox_attempt").await;
    }

    /// Both publish all that they get.
    pub(super) async fn drain(&mut self) {
        loop {
            let before = self.heard.len();
            for instance in [0, 1] {
                self.claim(instance, self.limit).await;
                self.publish(instance).await;
            }
            if self.heard.len() == before {
                return;
            }
        }
    }

    /// Likewise; whatever has committed by now should be heard.
    pub(super) async fn read(&mut self) {
        let committed = self.committed().await;
        self.drain().await;
        let heard: BTreeSet<Version> = self.heard.iter().cloned().collect();
        self.missed.extend(committed.difference(&heard).cloned());
    }

    async fn verdict(&mut self) -> Verdict {
        let committed = self.committed().await;
        self.drain().await;
        let heard: BTreeSet<Version> = self.heard.iter().cloned().collect();
        assert!(heard.is_subset(&committed), "what never committed was heard");
        Verdict {
            loses: heard != committed,
            inverts: !are_in_causal_order(&self.heard),
            stalls: !self.missed.is_disjoint(&heard),
        }
    }
}

/// Gives the aggregate its next version, once it is this writer's turn, and tells of it by a row.
pub(super) async fn next(writer: &mut Writer, aggregate: &str) {
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

/// A transaction with one row.
pub(super) async fn commit_next(writer: &mut Writer, aggregate: &str) {
    writer.begin().await;
    next(writer, aggregate).await;
    writer.commit().await;
}

/// A database with an attached table, for one scene after the other.
pub(super) struct Theatre {
    bench: Bench,
    /// How many relays there were.
    relays: u128,
}

impl Theatre {
    /// None when tests on PostgreSQL are to be skipped.
    pub(super) async fn open() -> Option<Self> {
        let bench = attached().await?;
        let mut usher = Writer::new(bench.scratch.url()).await;
        usher.run(TABLES).await;
        usher.run(LIKE_THE_DOCUMENT).await;
        Some(Self { bench, relays: 0 })
    }

    /// Gives a play before one scheme; what it did wrong. Afterwards the stage is empty.
    pub(super) async fn give(&mut self, scheme: Scheme, play: &impl AsyncFn(&mut Scene)) -> Verdict {
        let url = self.bench.scratch.url();
        let mut scene = Scene {
            url: url.to_owned(),
            usher: Writer::new(url).await,
            service: Service::start(&self.bench, scheme, self.relays + 1).await,
            limit: 2,
            in_hand: [Vec::new(), Vec::new()],
            heard: Vec::new(),
            missed: BTreeSet::new(),
        };
        self.relays += 2;
        play(&mut scene).await;
        let verdict = scene.verdict().await;
        scene.usher.run("truncate transfer_events restart identity; truncate aggregate").await;
        scene.service.end().await;
        verdict
    }
}
