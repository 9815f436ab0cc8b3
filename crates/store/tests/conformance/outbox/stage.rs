//! A stage for hand-stepped interleavings: writers on connections of their own, who take turns on the row of an
//! aggregate as every correct program does, and an audience in which each reads the same play by another scheme.

use super::naive::Naive;
use super::reader::Reader;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::outbox::{Payload, StoredEvent};
use tidemill_store::Store;

/// The version that an event gave its aggregate: what its writer saw under the lock, so the causal order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Version {
    pub(super) aggregate: String,
    pub(super) version: i64,
}

impl Version {
    pub(super) fn of(event: &StoredEvent) -> Self {
        let Payload::Json(payload) = &event.payload else { panic!("{event:?}") };
        Self { aggregate: event.aggregate.id.clone(), version: payload.parse().unwrap() }
    }
}

/// The tables of the program whose events these are.
pub(super) const TABLES: &str = "
    create table aggregate (id text primary key, version bigint not null default 0);
    create table elsewhere (n bigint generated always as identity)";

/// A connection that writes.
pub(super) struct Writer {
    connection: PgConnection,
}

impl Writer {
    pub(super) async fn new(url: &str) -> Self {
        let mut writer = Self { connection: PgConnection::connect(url).await.unwrap() };
        // What is durable is not the question here.
        writer.run("set synchronous_commit = off").await;
        writer
    }

    pub(super) async fn run(&mut self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut self.connection).await.unwrap();
    }

    pub(super) async fn begin(&mut self) {
        self.run("begin").await;
    }

    pub(super) async fn commit(&mut self) {
        self.run("commit").await;
    }

    pub(super) async fn rollback(&mut self) {
        self.run("rollback").await;
    }

    /// Any first write, by which the transaction gets its number.
    pub(super) async fn write_elsewhere(&mut self) {
        self.run("insert into elsewhere default values").await;
    }

    /// Waits for its turn on the aggregate.
    pub(super) async fn lock(&mut self, aggregate: &str) {
        sqlx::query("insert into aggregate (id) values ($1) on conflict do nothing")
            .bind(aggregate)
            .execute(&mut self.connection)
            .await
            .unwrap();
        sqlx::query("select from aggregate where id = $1 for update")
            .bind(aggregate)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    /// Gives the aggregate its next version, once it is this writer's turn, and tells of it by an event.
    pub(super) async fn event(&mut self, aggregate: &str) {
        sqlx::query(
            "with changed as (
                 insert into aggregate (id, version) values ($1, 1)
                 on conflict (id) do update set version = aggregate.version + 1
                 returning version
             )
             insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
             select 'thing', $1, 'thing.changed', 'things', version::text from changed",
        )
        .bind(aggregate)
        .execute(&mut self.connection)
        .await
        .unwrap();
    }

    /// A transaction with one event.
    pub(super) async fn commit_event(&mut self, aggregate: &str) {
        self.begin().await;
        self.event(aggregate).await;
        self.commit().await;
    }

    /// What has committed so far.
    pub(super) async fn committed(&mut self) -> BTreeSet<Version> {
        self.committed_in("select aggregate_id, payload from outbox_event").await
    }

    /// What has committed so far of what this statement finds: aggregates and their versions.
    pub(super) async fn committed_in(&mut self, sql: &'static str) -> BTreeSet<Version> {
        let rows: Vec<(String, String)> = sqlx::query_as(sql).fetch_all(&mut self.connection).await.unwrap();
        let version =
            |(aggregate, payload): (String, String)| Version { aggregate, version: payload.parse().unwrap() };
        rows.into_iter().map(version).collect()
    }
}

/// Somebody who reads the play.
enum Spectator {
    /// A relay of the product.
    Relay(Box<Reader>),
    Naive(Box<Naive>),
}

/// A scheme of reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Scheme {
    /// The product's.
    Windows,
    /// `id > cursor order by id`.
    IdCursor,
    /// `(xid, id) > cursor` below the oldest that still runs.
    XidCursor,
    /// By the time of writing, with a flag for what was published.
    CreatedAt,
    /// Three readers of different speed, each with a third of the ids, with flags.
    Modulo,
}

/// What a scheme did wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    /// Something that committed was never read.
    pub(super) loses: bool,
    /// The events of an aggregate came in another order than they happened, or twice.
    pub(super) inverts: bool,
    /// Something that had committed was not read although nothing was left to read, and came later.
    pub(super) stalls: bool,
}

/// Nothing wrong.
pub(super) const RIGHT: Verdict = Verdict { loses: false, inverts: false, stalls: false };
pub(super) const LOSES: Verdict = Verdict { loses: true, ..RIGHT };
pub(super) const INVERTS: Verdict = Verdict { inverts: true, ..RIGHT };
pub(super) const STALLS: Verdict = Verdict { stalls: true, ..RIGHT };
pub(super) const STALLS_AND_INVERTS: Verdict = Verdict { inverts: true, ..STALLS };

/// The play and who reads it.
pub(super) struct Stage {
    url: String,
    usher: Writer,
    audience: BTreeMap<Scheme, Spectator>,
    /// What each had not read at some time when it could have.
    missed: BTreeMap<Scheme, BTreeSet<Version>>,
}

impl Stage {
    /// The naive schemes, and a relay with pages of this size.
    pub(super) async fn new(store: &Store, url: &str, limit: u32) -> Self {
        let mut usher = Writer::new(url).await;
        usher.run(TABLES).await;
        let mut audience = BTreeMap::new();
        let relay = Reader::of_all(store, 1, limit).await;
        audience.insert(Scheme::Windows, Spectator::Relay(Box::new(relay)));
        for scheme in [Scheme::IdCursor, Scheme::XidCursor, Scheme::CreatedAt, Scheme::Modulo] {
            let naive = Naive::new(url, scheme).await;
            audience.insert(scheme, Spectator::Naive(Box::new(naive)));
        }
        Self { url: url.to_owned(), usher, audience, missed: BTreeMap::new() }
    }

    /// From here on the relay reads pages of so many events.
    pub(super) fn page(&mut self, limit: u32) {
        if let Some(Spectator::Relay(relay)) = self.audience.get_mut(&Scheme::Windows) {
            relay.limit = limit;
        }
    }

    pub(super) async fn writer(&self) -> Writer {
        Writer::new(&self.url).await
    }

    /// Everybody reads once, as fast as they are.
    pub(super) async fn read_once(&mut self) {
        for spectator in self.audience.values_mut() {
            match spectator {
                Spectator::Relay(relay) => {
                    relay.step().await;
                }
                Spectator::Naive(naive) => {
                    naive.step().await;
                }
            }
        }
    }

    /// Everybody reads all that they find.
    pub(super) async fn read(&mut self) {
        let committed = self.usher.committed().await;
        for (scheme, spectator) in &mut self.audience {
            spectator.drain().await;
            let read: BTreeSet<Version> = spectator.read().into_iter().collect();
            self.missed.entry(*scheme).or_default().extend(committed.difference(&read).cloned());
        }
    }

    /// Everybody reads to the end; what each did wrong. Afterwards the stage is empty.
    pub(super) async fn end(&mut self) -> Vec<(Scheme, Verdict)> {
        let committed = self.usher.committed().await;
        let mut verdicts = Vec::new();
        for (scheme, spectator) in &mut self.audience {
            spectator.drain().await;
            let read = spectator.read();
            let set: BTreeSet<Version> = read.iter().cloned().collect();
            assert!(set.is_subset(&committed), "{scheme:?} read what never committed");
            let missed = self.missed.remove(scheme).unwrap_or_default();
            let verdict = Verdict {
                loses: set != committed,
                inverts: !are_in_causal_order(&read),
                stalls: !missed.is_disjoint(&set),
            };
            verdicts.push((*scheme, verdict));
            spectator.forget();
        }
        self.usher.run("delete from outbox_event").await;
        verdicts
    }
}

impl Spectator {
    async fn drain(&mut self) {
        match self {
            Self::Relay(relay) => relay.drain().await,
            Self::Naive(naive) => naive.drain().await,
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Relay(relay) => relay.settled.clear(),
            Self::Naive(naive) => naive.read.clear(),
        }
    }

    fn read(&self) -> Vec<Version> {
        match self {
            Self::Relay(relay) => relay.settled.iter().map(|settled| Version::of(&settled.event)).collect(),
            Self::Naive(naive) => naive.read.clone(),
        }
    }
}

/// Whether the versions of each aggregate grow, and none comes twice.
pub(super) fn are_in_causal_order(read: &[Version]) -> bool {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    read.iter().all(|one| match last.insert(&one.aggregate, one.version) {
        Some(before) => before < one.version,
        None => true,
    })
}
