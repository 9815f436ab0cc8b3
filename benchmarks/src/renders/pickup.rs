//! Measures how long a render waits that a dashboard inserts while workers are idle. Its composition is unknown, so it
//! fails as soon as it is claimed, and the worker is free again. The times come from the audit, by the clock of the
//! database.

use super::nobody::Nobody;
use anyhow::{Context, Result};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::output::Correction;
use tidemill_domain::render::path_map::PathLine;
use tidemill_domain::render::{LocalPath, NodePath, PathMap, Policy};
use tidemill_engine::render::{Backends, Places, Worker, WorkerOptions};
use tidemill_engine::{SystemClock, SystemIds};
use tidemill_store::Store;
use tidemill_store::sqlx::{self, Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;

const WORKERS: usize = 4;

/// The pause between two inserts.
const PAUSE: Duration = Duration::from_millis(25);

/// The time limit for the whole measurement.
const AT_LAST: Duration = Duration::from_secs(120);

/// Waiting times in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) count: usize,
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) worst: f64,
}

pub(super) async fn measure(url: &str, pickups: u32) -> Result<Waits> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql("truncate render_queue, render_queue_audit, render_attempt")
        .execute(&mut connection)
        .await?;
    let stop = watch::Sender::new(false);
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let store = Store::open(url.parse()?, &Default::default()).await?;
        let all = PathLine { node: NodePath::parse("/nas")?, local: LocalPath::parse("/nas")? };
        let places = Places {
            staging: NodePath::parse("/nas/staging")?,
            output: NodePath::parse("/nas/output")?,
            posters: None,
            paths: PathMap::new(vec![all])?,
            correction: Correction::Revision,
        };
        let mut options =
            WorkerOptions::new(SystemIds.process(), &format!("worker-{number}"), Policy::standard()?, places);
        options.capacity = NonZeroUsize::new(4).context("a number")?;
        let backends =
            Backends { farm: Arc::new(Nobody), inspector: Arc::new(Nobody), storage: Arc::new(Nobody) };
        let worker = Worker::new(store, Arc::new(SystemClock::new()), backends, options);
        let told = stop.subscribe();
        workers.spawn(async move { worker.run(told).await });
    }
    // By now the workers have found no renders and are waiting.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut ticks = tokio::time::interval(PAUSE);
    for _ in 0..pickups {
        ticks.tick().await;
        sqlx::raw_sql("insert into render_queue (composition_id, gfx_data) values ('c', '{}')")
            .execute(&mut connection)
            .await?;
    }
    let all = async {
        loop {
            let waits: Vec<f64> = sqlx::query_scalar(
                "select extract(epoch from claimed.changed_at - inserted.changed_at)::float8 * 1000
                 from render_queue_audit inserted
                 join render_queue_audit claimed
                     on claimed.render_queue_id = inserted.render_queue_id and claimed.status_to = 'preparing'
                 where inserted.status_from is null
                 order by 1",
            )
            .fetch_all(&mut connection)
            .await?;
            if waits.len() >= pickups as usize {
                return anyhow::Ok(waits);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let waits = tokio::time::timeout(AT_LAST, all).await.context("the workers do not claim everything")??;
    stop.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended?;
    }
    let at = |share: f64| waits.get(((waits.len() - 1) as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    Ok(Waits { count: waits.len(), median: at(0.5), p99: at(0.99), worst: at(1.0) })
}
