//! Schemes of reading that look right and are not. They stand here so that the plays can be seen to catch them: a play
//! that no wrong scheme fails would prove nothing of the right one.

use super::stage::{Scheme, Version};
use sqlx::{Connection, PgConnection};
use std::collections::HashSet;

/// A reader with SQL of its own.
pub(super) struct Naive {
    connection: PgConnection,
    scheme: Scheme,
    /// The last that was read, for those with a cursor.
    xid: String,
    id: i64,
    /// What was read, for those with a flag.
    flagged: HashSet<i64>,
    steps: u32,
    /// What was read, in order.
    pub(super) read: Vec<Version>,
}

/// An event as all of them read it.
struct Row {
    id: i64,
    xid: String,
    aggregate_id: String,
    payload: String,
}

impl sqlx::FromRow<'_, sqlx::postgres::PgRow> for Row {
    fn from_row(row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
        use sqlx::Row as _;
        Ok(Self {
            id: row.try_get("id")?,
            xid: row.try_get("xid")?,
            aggregate_id: row.try_get("aggregate_id")?,
            payload: row.try_get("payload")?,
        })
    }
}

/// How many readers share the ids.
const READERS: i64 = 3;

impl Naive {
    pub(super) async fn new(url: &str, scheme: Scheme) -> Self {
        Self {
            connection: PgConnection::connect(url).await.unwrap(),
            scheme,
            xid: "0".to_owned(),
            id: 0,
            flagged: HashSet::new(),
            steps: 0,
            read: Vec::new(),
        }
    }

    /// Reads once; whether something was found.
    pub(super) async fn step(&mut self) -> bool {
        let rows = match self.scheme {
            Scheme::Windows => panic!("this is not naive"),
            Scheme::IdCursor => self.after_the_last_id().await,
            Scheme::XidCursor => self.after_the_last_transaction().await,
            Scheme::CreatedAt => self.by_time_of_writing().await,
            Scheme::Modulo => {
                self.steps += 1;
                let is_awake = |reader: i64| i64::from(self.steps) % (reader + 1) == 0;
                let awake: Vec<i64> = (0..READERS).filter(|reader| is_awake(*reader)).collect();
                self.by_remainder(&awake).await
            }
        };
        self.take(rows)
    }

    /// Reads until nothing is found.
    pub(super) async fn drain(&mut self) {
        if self.scheme == Scheme::Modulo {
            let all: Vec<i64> = (0..READERS).collect();
            let rows = self.by_remainder(&all).await;
            self.take(rows);
        } else {
            while self.step().await {}
        }
    }

    fn take(&mut self, rows: Vec<Row>) -> bool {
        let has_found = !rows.is_empty();
        for row in rows {
            (self.xid, self.id) = (row.xid, row.id);
            self.flagged.insert(row.id);
            self.read.push(Version { aggregate: row.aggregate_id, version: row.payload.parse().unwrap() });
        }
        has_found
    }

    /// Loses what commits later with a lower id.
    async fn after_the_last_id(&mut self) -> Vec<Row> {
        sqlx::query_as(
            "select id, xid::text as xid, aggregate_id, payload
             from outbox_event
             where id > $1
             order by id",
        )
        .bind(self.id)
        .fetch_all(&mut self.connection)
        .await
        .unwrap()
    }

    /// Stands still while anybody writes, and turns around what was written by a transaction that had begun earlier
    /// elsewhere.
    async fn after_the_last_transaction(&mut self) -> Vec<Row> {
        sqlx::query_as(
            "select id, xid::text as xid, aggregate_id, payload
             from outbox_event
             where (xid, id) > ($1::text::xid8, $2) and xid < pg_snapshot_xmin(pg_current_snapshot())
             order by outbox_event.xid, id",
        )
        .bind(&self.xid)
        .bind(self.id)
        .fetch_all(&mut self.connection)
        .await
        .unwrap()
    }

    /// Turns around what was written by a transaction that had begun earlier.
    async fn by_time_of_writing(&mut self) -> Vec<Row> {
        let rows: Vec<Row> = sqlx::query_as(
            "select id, xid::text as xid, aggregate_id, payload
             from outbox_event
             order by created_at, id",
        )
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        rows.into_iter().filter(|row| !self.flagged.contains(&row.id)).collect()
    }

    /// Two events of one aggregate have different readers, of which one may be slower.
    async fn by_remainder(&mut self, readers: &[i64]) -> Vec<Row> {
        let rows: Vec<Row> = sqlx::query_as(
            "select id, xid::text as xid, aggregate_id, payload
             from outbox_event
             where id % $2 = any($1)
             order by id",
        )
        .bind(readers)
        .bind(READERS)
        .fetch_all(&mut self.connection)
        .await
        .unwrap();
        rows.into_iter().filter(|row| !self.flagged.contains(&row.id)).collect()
    }
}
