//! Ways to serve the table, each with two instances: the product's, and some that look right and are not. They stand here
//! so that the plays can be seen to catch them: a play that no wrong scheme fails would prove nothing of the right one.

use super::{claim, failed, mark};
use crate::Bench;
use crate::outbox::reader::Reader;
use crate::outbox::stage::Version;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::attached::RowOutcome;
use tidemill_domain::outbox::attached::row::RowPayload;

/// A way to serve the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// The product's.
    BySlot,
    /// `event_id > last` in their order; nothing is marked.
    AfterLast,
    /// Likewise, but whatever number is missing in between is waited for.
    Gapless,
    /// What is PENDING, whatever of its aggregate is on its way or has FAILED.
    Pending,
    /// Likewise, in the order of time.
    ByTime,
    /// What is PENDING and behind nothing of its aggregate that is SENDING or has FAILED.
    BehindOpen,
}

impl Scheme {
    pub(super) const ALL: [Self; 6] =
        [Self::BySlot, Self::AfterLast, Self::Gapless, Self::Pending, Self::ByTime, Self::BehindOpen];
}

/// A row in the hands of an instance.
#[derive(Clone, Debug)]
pub(super) struct Row {
    id: i64,
    pub(super) version: Version,
}

/// What became of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Published,
    Failed,
}

/// Two instances.
pub(super) enum Service {
    Product(Box<[Reader; 2]>),
    Naive(Naive),
}

impl Service {
    /// `number` is that of the first of two relays that have not been there before.
    pub(super) async fn start(bench: &Bench, scheme: Scheme, number: u128) -> Self {
        if scheme != Scheme::BySlot {
            let connection = PgConnection::connect(bench.scratch.url()).await.unwrap();
            return Self::Naive(Naive { scheme, connection, last: 0 });
        }
        let mut one = Reader::join(&bench.store, number, 10).await;
        let mut two = Reader::join(&bench.store, number + 1, 10).await;
        let (odd, even): (Vec<Slot>, Vec<Slot>) =
            (0..=u8::MAX).map(Slot::new).partition(|slot| slot.get() % 2 == 1);
        one.take(&odd).await.unwrap();
        two.take(&even).await.unwrap();
        Self::Product(Box::new([one, two]))
    }

    /// Leaves the table to others.
    pub(super) async fn end(self) {
        if let Self::Product(relays) = self {
            for relay in *relays {
                relay.end().await;
            }
        }
    }

    /// What an instance gets.
    pub(super) async fn claim(&mut self, instance: usize, limit: u32) -> Vec<Row> {
        match self {
            Self::Product(relays) => {
                let claimed = claim(&mut relays[instance], &[], limit).await.unwrap();
                let row = |row: tidemill_domain::outbox::attached::row::ClaimedRow| {
                    let RowPayload::Text(version) = row.payload else { panic!("{row:?}") };
                    let version = Version { aggregate: row.aggregate_id, version: version.parse().unwrap() };
                    Row { id: row.id.get(), version }
                };
                claimed.rows.into_iter().map(row).collect()
            }
            Self::Naive(naive) => naive.claim(limit).await,
        }
    }

    /// Says what became of what it got.
    pub(super) async fn settle(&mut self, instance: usize, rows: &[Row], outcome: Outcome) {
        match self {
            Self::Product(relays) => {
                let become_of = |row: &Row| match outcome {
                    Outcome::Published => (row.id, RowOutcome::Published),
                    Outcome::Failed => (row.id, failed()),
                };
                let marks: Vec<(i64, RowOutcome)> = rows.iter().map(become_of).collect();
                assert_eq!(mark(&mut relays[instance], &marks).await, Some(rows.len() as u64));
            }
            Self::Naive(naive) => naive.settle(rows, outcome).await,
        }
    }
}

/// Instances with SQL of their own, which share what they remember.
pub(super) struct Naive {
    scheme: Scheme,
    connection: PgConnection,
    /// The last that was read, for those with a cursor.
    last: i64,
}

impl Naive {
    async fn claim(&mut self, limit: u32) -> Vec<Row> {
        match self.scheme {
            Scheme::BySlot => panic!("this is not naive"),
            // Loses what commits later with a lower number.
            Scheme::AfterLast => self.after_last(limit).await,
            // Stands still behind what is still being written, and for ever behind what was rolled back.
            Scheme::Gapless => {
                let found = self.after_last_kept(limit).await;
                let next = (self.last + 1..).zip(&found).take_while(|(id, row)| *id == row.id).count();
                self.last += i64::try_from(next).unwrap();
                found.into_iter().take(next).collect()
            }
            // Overtakes what another instance has, what has FAILED, and what somebody has locked.
            Scheme::Pending => self.pending("", "event_id", limit).await,
            // And what was written by a transaction that had begun later.
            Scheme::ByTime => self.pending("", "updated_at, event_id", limit).await,
            // Overtakes what somebody has locked.
            Scheme::BehindOpen => {
                let behind = "and not exists (
                                  select
                                  from transfer_events b
                                  where b.aggregate_id = e.aggregate_id and b.event_id < e.event_id
                                    and b.status in ('SENDING', 'FAILED')
                              )";
                self.pending(behind, "event_id", limit).await
            }
        }
    }

    async fn after_last(&mut self, limit: u32) -> Vec<Row> {
        let found = self.after_last_kept(limit).await;
        self.last = found.last().map_or(self.last, |row| row.id);
        found
    }

    /// What comes next, without remembering it.
    async fn after_last_kept(&mut self, limit: u32) -> Vec<Row> {
        let sql = "select event_id, aggregate_id::text, payload
                   from transfer_events
                   where event_id > $1
                   order by event_id
                   limit $2";
        let found = sqlx::query_as(sql).bind(self.last).bind(i64::from(limit));
        rows(found.fetch_all(&mut self.connection).await.unwrap())
    }

    async fn pending(&mut self, condition: &str, order: &str, limit: u32) -> Vec<Row> {
        let sql = format!(
            "with picked as materialized (
                 select e.event_id, row_number() over (order by {order}) as place
                 from transfer_events e
                 where e.event_id in (
                     select e.event_id
                     from transfer_events e
                     where e.status = 'PENDING' {condition}
                     order by {order}
                     limit $1
                     for update skip locked
                 )
             ),
             claimed as (
                 update transfer_events t
                 set status = 'SENDING'
                 from picked p
                 where t.event_id = p.event_id
                 returning p.place, t.event_id, t.aggregate_id::text, t.payload
             )
             select event_id, aggregate_id, payload from claimed order by place"
        );
        let found = sqlx::query_as(AssertSqlSafe(sql)).bind(i64::from(limit));
        rows(found.fetch_all(&mut self.connection).await.unwrap())
    }

    async fn settle(&mut self, rows: &[Row], outcome: Outcome) {
        if matches!(self.scheme, Scheme::AfterLast | Scheme::Gapless) {
            return;
        }
        let status = match outcome {
            Outcome::Published => "PUBLISHED",
            Outcome::Failed => "FAILED",
        };
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        sqlx::query("update transfer_events set status = $2 where event_id = any($1)")
            .bind(ids)
            .bind(status)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }
}

fn rows(found: Vec<(i64, String, String)>) -> Vec<Row> {
    let row = |(id, aggregate, version): (i64, String, String)| Row {
        id,
        version: Version { aggregate, version: version.parse().unwrap() },
    };
    found.into_iter().map(row).collect()
}
