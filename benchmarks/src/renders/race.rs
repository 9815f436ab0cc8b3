//! Workers that claim renders concurrently, one at a time, until no render waits.

use anyhow::{Result, ensure};
use std::collections::HashSet;
use std::time::Duration;
use tidemill_domain::render::{Policy, RenderId};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Clock;
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::render::ClaimRequest;
use tidemill_store::sqlx::{self, AssertSqlSafe, Connection, PgConnection};
use tidemill_store::{Store, StoreOptions};
use tokio::task::JoinSet;

/// The result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Race {
    /// Claimed renders.
    pub(super) claimed: u32,
    /// Claims that returned nothing although renders were waiting.
    pub(super) lost: u32,
    took: Duration,
}

impl Race {
    pub(super) fn speed(&self) -> f64 {
        f64::from(self.claimed) / self.took.as_secs_f64()
    }
}

/// Inserts waiting rows into `table`: our table, or the one of the other design.
async fn fill(connection: &mut PgConnection, table: &str, renders: u32) -> Result<()> {
    let sql = format!(
        "insert into {table} (composition_id, gfx_data) select 'c', '{{}}' from generate_series(1, {renders})"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}

/// Workers that select the oldest row, and then try to update it.
pub(super) async fn document(url: &str, workers: u32, renders: u32) -> Result<Race> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(
        "create table document_queue (
             id bigint generated always as identity primary key,
             composition_id text,
             gfx_data text,
             status text not null default 'pending',
             worker_id text,
             lock_expires_at timestamptz,
             created_at timestamptz not null default now()
         );
         create index document_queue_waiting on document_queue (created_at) where status = 'pending'",
    )
    .execute(&mut connection)
    .await?;
    fill(&mut connection, "document_queue", renders).await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let mut rivals = JoinSet::new();
    for number in 0..workers {
        let mut connection = PgConnection::connect(url).await?;
        rivals.spawn(async move {
            let (mut claimed, mut lost) = (0, 0);
            loop {
                let waiting: Option<i64> = sqlx::query_scalar(
                    "select id from document_queue where status = 'pending' order by created_at, id limit 1",
                )
                .fetch_optional(&mut connection)
                .await?;
                let Some(id) = waiting else { return anyhow::Ok((claimed, lost)) };
                let got = sqlx::query(
                    "update document_queue
                     set status = 'preparing', worker_id = $2, lock_expires_at = now() + interval '30 minutes'
                     where id = $1 and status = 'pending'",
                )
                .bind(id)
                .bind(number.to_string())
                .execute(&mut connection)
                .await?;
                if got.rows_affected() == 1 { claimed += 1 } else { lost += 1 }
            }
        });
    }
    let (mut claimed, mut lost) = (0, 0);
    while let Some(rival) = rivals.join_next().await {
        let (got, missed) = rival??;
        claimed += got;
        lost += missed;
    }
    Ok(Race { claimed, lost, took: clock.monotonic().since(begin) })
}

/// Our workers.
pub(super) async fn ours(url: &str, workers: u32, renders: u32) -> Result<Race> {
    let mut connection = PgConnection::connect(url).await?;
    fill(&mut connection, "render_queue", renders).await?;
    let options = StoreOptions { max_connections: workers, ..StoreOptions::default() };
    let store = Store::open(url.parse()?, &options).await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let mut rivals = JoinSet::new();
    for number in 0..workers {
        let store = store.clone();
        rivals.spawn(async move {
            let (policy, by, name) = (Policy::standard()?, SystemIds.process(), format!("worker-{number}"));
            let (mut claimed, mut lost) = (Vec::new(), 0);
            loop {
                let mut tx = store.begin().await?;
                let request = ClaimRequest { by, worker: &name, count: 1, policy: &policy, zone: &Zone::UTC };
                let claims = tx.renders().claim(request).await?;
                tx.commit().await?;
                if claims.claimed.is_empty() {
                    if !are_waiting(&store).await? {
                        return anyhow::Ok((claimed, lost));
                    }
                    lost += 1;
                }
                claimed.extend(claims.claimed.iter().map(|claimed| claimed.record.id()));
            }
        });
    }
    let (mut claimed, mut lost): (HashSet<RenderId>, u32) = (HashSet::new(), 0);
    while let Some(rival) = rivals.join_next().await {
        let (got, missed) = rival??;
        for id in got {
            ensure!(claimed.insert(id), "render {} was claimed twice", id.get());
        }
        lost += missed;
    }
    let took = clock.monotonic().since(begin);
    store.close().await;
    Ok(Race { claimed: u32::try_from(claimed.len())?, lost, took })
}

/// Whether a render waits that no worker has locked.
async fn are_waiting(store: &Store) -> Result<bool> {
    let mut tx = store.begin().await?;
    let Some(connection) = tx.postgres() else { return Ok(false) };
    let waiting: Option<i64> = sqlx::query_scalar(
        "select id from render_queue where status = 'pending' limit 1 for update skip locked",
    )
    .fetch_optional(connection)
    .await?;
    tx.rollback().await?;
    Ok(waiting.is_some())
}
