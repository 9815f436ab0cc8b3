//! One transaction for each request, the simplest design: lock the pool, sum up the units in use, write the lease,
//! commit. It keeps no queue, no log and no history, so it does less than a pass.

use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::sqlx::{self, Connection, PgConnection};

/// The number of measured commits.
const COMMITS: usize = 200;

pub(super) struct Classic {
    url: String,
}

impl Classic {
    pub(super) async fn prepare(url: &str, clients: u32) -> Result<Self> {
        let mut connection = PgConnection::connect(url).await?;
        sqlx::raw_sql(
            "create table classic_pool (id integer primary key, admit_limit bigint not null);
             create table classic_lease (
                 pool integer not null, holder text not null, units bigint not null, primary key (pool, holder)
             );
             create table classic_commit (id bigint generated always as identity primary key)",
        )
        .execute(&mut connection)
        .await?;
        sqlx::query("insert into classic_pool values (1, $1)")
            .bind(i64::from(clients) * 16)
            .execute(&mut connection)
            .await?;
        Ok(Self { url: url.to_owned() })
    }

    /// The time of a single commit on this machine.
    pub(super) async fn median_commit(&self) -> Result<Duration> {
        let clock = SystemClock::new();
        let mut connection = PgConnection::connect(&self.url).await?;
        let mut took = Vec::with_capacity(COMMITS);
        for _ in 0..COMMITS {
            let mut tx = connection.begin().await?;
            sqlx::query("insert into classic_commit default values").execute(&mut *tx).await?;
            let begin = clock.monotonic();
            tx.commit().await?;
            took.push(clock.monotonic().since(begin));
        }
        took.sort();
        took.get(COMMITS / 2).copied().context("nothing was measured")
    }

    /// Pairs of acquire and release per second.
    pub(super) async fn run(&self, clients: u32, limit: Duration) -> Result<f64> {
        let mut connections = Vec::new();
        for _ in 0..clients {
            connections.push(PgConnection::connect(&self.url).await?);
        }
        let clock = Arc::new(SystemClock::new());
        let begin = clock.monotonic();
        let mut tasks = tokio::task::JoinSet::new();
        for (client, mut connection) in connections.into_iter().enumerate() {
            let clock = Arc::clone(&clock);
            tasks.spawn(async move {
                let mut pairs = 0_u64;
                while clock.monotonic().since(begin) < limit {
                    pair(&mut connection, &format!("{client}-{pairs}")).await?;
                    pairs += 1;
                }
                anyhow::Ok(pairs)
            });
        }
        let mut pairs = 0;
        while let Some(done) = tasks.join_next().await {
            pairs += done??;
        }
        Ok(pairs as f64 / clock.monotonic().since(begin).as_secs_f64())
    }
}

async fn pair(connection: &mut PgConnection, holder: &str) -> Result<()> {
    let mut tx = connection.begin().await?;
    let limit: i64 = sqlx::query_scalar("select admit_limit from classic_pool where id = 1 for update")
        .fetch_one(&mut *tx)
        .await?;
    let usage: i64 =
        sqlx::query_scalar("select coalesce(sum(units), 0)::bigint from classic_lease where pool = 1")
            .fetch_one(&mut *tx)
            .await?;
    ensure!(usage + 8 <= limit, "the classic pool is full");
    sqlx::query("insert into classic_lease values (1, $1, 8)").bind(holder).execute(&mut *tx).await?;
    tx.commit().await?;
    let mut tx = connection.begin().await?;
    sqlx::query("select 1 from classic_pool where id = 1 for update").execute(&mut *tx).await?;
    sqlx::query("delete from classic_lease where pool = 1 and holder = $1")
        .bind(holder)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}
