//! The server for all measurements, and its statistics. The benchmark itself uses a separate role, so that its statements
//! are not counted.

use super::case::Case;
use anyhow::{Context, Result};
use std::time::Duration;
use tidemill_store::outbox::EVENTS;
use tidemill_store::sqlx::{self, AssertSqlSafe, Connection, PgConnection};
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::PrivatePostgres;

/// The number of aggregates.
const AGGREGATES: u64 = 10_000;

/// The time limit for a measurement.
pub(super) const AT_LAST: Duration = Duration::from_secs(900);

/// The columns that every design has to read, and the values of the event `n`. The payload has about 300 bytes.
const COLUMNS: &str = "aggregate_type, aggregate_id, event_type, topic, payload";

fn values() -> String {
    format!(
        "'account', (n % {AGGREGATES})::text, 'transfer.completed', 'transfers',
         '{{\"transfer\":' || n || ',\"memo\":\"' || repeat(md5(n::text), 8) || '\"}}'"
    )
}

pub(super) struct Stage {
    pub(super) url: String,
    harness_url: String,
    harness: PgConnection,
}

/// An old snapshot.
pub(super) struct Pin(PgConnection);

/// Events whose transaction is still open.
pub(super) struct Held(PgConnection);

/// The WAL position at [`Stage::begin_counting`].
pub(super) struct Counting {
    lsn: String,
}

impl Stage {
    pub(super) async fn prepare(postgres: &PrivatePostgres) -> Result<Self> {
        let url = postgres.url("postgres");
        postgres
            .psql("postgres", "create role harness superuser login; create extension pg_stat_statements")?;
        let harness_url = format!("postgres://harness@127.0.0.1:{}/postgres", postgres.port());
        let mut harness = PgConnection::connect(&harness_url).await?;
        // Loaded rows need not be durable. The benchmark measures the relays, whose commits are durable.
        sqlx::raw_sql("set synchronous_commit = off").execute(&mut harness).await?;
        let store = Store::open(url.parse()?, &StoreOptions::default()).await?;
        store.initialise(Init::Always).await?;
        store.close().await;
        Ok(Self { url, harness_url, harness })
    }

    /// Another session whose statements are not counted.
    pub(super) async fn session(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect(&self.harness_url).await?)
    }

    pub(super) async fn run(&mut self, sql: &str) -> Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.harness).await?;
        Ok(())
    }

    pub(super) async fn number(&mut self, sql: &str) -> Result<i64> {
        let sql = AssertSqlSafe(format!("select ({sql})::bigint"));
        let number: Option<i64> = sqlx::query_scalar(sql).fetch_one(&mut self.harness).await?;
        number.context("the server told no number")
    }

    pub(super) async fn numbers(&mut self, sql: &'static str) -> Result<Vec<i64>> {
        Ok(sqlx::query_scalar(sql).fetch_all(&mut self.harness).await?)
    }

    pub(super) async fn text(&mut self, sql: &'static str) -> Result<String> {
        Ok(sqlx::query_scalar(sql).fetch_one(&mut self.harness).await?)
    }

    /// Writes events `from` to `to`, in transactions of a hundred.
    pub(super) async fn load(&mut self, table: &str, from: u64, to: u64) -> Result<()> {
        self.run(&format!(
            "do $$
             begin
                 for low in {from}..{to} by 100 loop
                     insert into {table} ({COLUMNS})
                     select {} from generate_series(low, least(low + 99, {to})) n;
                     commit;
                 end loop;
             end
             $$",
            values()
        ))
        .await
    }

    /// Writes events to our table in one transaction, which wakes the relays when it commits. As in the other designs, the rows
    /// are on disk by then.
    pub(super) async fn load_held(&mut self, events: u64) -> Result<Held> {
        let mut session = self.session().await?;
        let load = format!(
            "begin;
             set local synchronous_commit = off;
             insert into outbox_event ({COLUMNS}) select {} from generate_series(1, {events}) n;
             select pg_notify('tidemill', '{EVENTS}')",
            values()
        );
        sqlx::raw_sql(AssertSqlSafe(load)).execute(&mut session).await?;
        self.run("checkpoint").await?;
        Ok(Held(session))
    }

    /// Vacuums, analyzes, and writes everything to disk, as happens by itself after a while.
    pub(super) async fn tidy(&mut self, tables: &str) -> Result<()> {
        self.run(&format!("vacuum analyze {tables}")).await?;
        self.run("checkpoint").await
    }

    /// Empties our outbox: no events and no relays.
    pub(super) async fn empty_ours(&mut self) -> Result<()> {
        self.run(
            "truncate outbox_event restart identity;
             update tidemill_outbox_slot
             set owner = null, since = null, epoch = 0, seq = 0, place = '{\"from\":\"3:3:\"}';
             delete from tidemill_outbox_relay",
        )
        .await?;
        self.run("vacuum tidemill_outbox_slot, tidemill_outbox_relay").await
    }

    /// If the case is pinned, takes a snapshot and keeps it for the run, like a long report. The loaded rows are the same with
    /// and without it.
    pub(super) async fn pin(&self, case: Case) -> Result<Option<Pin>> {
        if !case.is_pinned {
            return Ok(None);
        }
        let mut session = self.session().await?;
        sqlx::raw_sql("begin isolation level repeatable read; select count(*) from pg_class")
            .execute(&mut session)
            .await?;
        Ok(Some(Pin(session)))
    }

    /// Resets the statistics.
    pub(super) async fn begin_counting(&mut self) -> Result<Counting> {
        // Otherwise the statistics of the loading arrive late and would be counted for the relays.
        self.run("select pg_stat_force_next_flush()").await?;
        self.run("select pg_stat_reset(), pg_stat_statements_reset()").await?;
        Ok(Counting { lsn: self.text("select pg_current_wal_insert_lsn()::text").await? })
    }

    /// Bytes of WAL, and statements of the relays, until now.
    pub(super) async fn counted(&mut self, counting: &Counting) -> Result<(f64, u64)> {
        let bytes = self.number(&format!("pg_current_wal_insert_lsn() - '{}'::pg_lsn", counting.lsn)).await?;
        let statements = self.statements("true").await?;
        Ok((bytes as f64, statements))
    }

    /// Calls of statements, without those of the benchmark itself.
    pub(super) async fn statements(&mut self, which: &str) -> Result<u64> {
        let calls = self
            .number(&format!(
                "select coalesce(sum(calls), 0)
                 from pg_stat_statements
                 where userid <> 'harness'::regrole and ({which})"
            ))
            .await?;
        Ok(u64::try_from(calls)?)
    }

    /// Dead row versions of a table or its partitions. Updates and deletes are counted as well, because autovacuum may have
    /// run. Call this after the relays have closed their connections, because connections report their statistics late.
    pub(super) async fn dead(&mut self, table: &str) -> Result<u64> {
        let dead = self
            .number(&format!(
                "select coalesce(sum(greatest(n_dead_tup, n_tup_upd + n_tup_del)), 0)
                 from pg_stat_user_tables
                 where relid = '{table}'::regclass
                     or relid in (select relid from pg_partition_tree('{table}'))"
            ))
            .await?;
        Ok(u64::try_from(dead)?)
    }
}

impl Pin {
    pub(super) async fn release(mut self) -> Result<()> {
        sqlx::raw_sql("rollback").execute(&mut self.0).await?;
        Ok(self.0.close().await?)
    }
}

impl Held {
    pub(super) async fn commit(mut self) -> Result<()> {
        sqlx::raw_sql("commit").execute(&mut self.0).await?;
        Ok(self.0.close().await?)
    }
}
