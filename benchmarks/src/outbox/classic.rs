//! The usual designs, in their simplest form. They have no leases, no retries and no failed events, and they discard their
//! rows, so they do less than our relays.

use super::case::{BATCH, Case, Design, Measured};
use super::stage::{AT_LAST, Stage};
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::sqlx::{self, Connection, PgConnection};
use tokio::task::JoinSet;

/// The pause after a read that finds nothing.
const PAUSE: Duration = Duration::from_millis(5);

/// A row to publish: its id, its aggregate and its payload. Decoding it is part of the measured work.
pub(super) type Row = (i64, String, String, String, String, Option<String>, Option<String>);

pub(super) async fn run(stage: &mut Stage, case: Case, events: u64) -> Result<Measured> {
    stage.run(schema(case.design)?).await?;
    stage.load("classic_event", 1, events).await?;
    stage.tidy("classic_event").await?;
    let mut connections = Vec::new();
    for _ in 0..case.relays {
        connections.push(PgConnection::connect(&stage.url).await?);
    }
    let pin = stage.pin(case).await?;
    let counting = stage.begin_counting().await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let published = Arc::new(AtomicU64::new(0));
    let mut relays = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        let slots: Vec<i16> =
            (0..256).filter(|slot| *slot as usize % case.relays as usize == number).collect();
        let published = Arc::clone(&published);
        relays.spawn(relay(connection, case.design, slots, published, events));
    }
    let ended = async {
        let mut ended = begin;
        let mut connections = Vec::new();
        while let Some(relay) = relays.join_next().await {
            connections.push(relay??);
            ended = clock.monotonic();
        }
        anyhow::Ok((ended, connections))
    };
    let (ended, connections) =
        tokio::time::timeout(AT_LAST, ended).await.context("the relays do not come to an end")??;
    let (wal_bytes, statements) = stage.counted(&counting).await?;
    if let Some(pin) = pin {
        pin.release().await?;
    }
    for connection in connections {
        connection.close().await?;
    }
    let left = stage.number("select count(*) from classic_event where status <> 'PUBLISHED'").await?;
    ensure!(left == 0, "{left} events were not published");
    let dead = stage.dead("classic_event").await?;
    let seconds = ended.since(begin).as_secs_f64();
    Ok(Measured { events, seconds, joining_seconds: 0.0, wal_bytes, dead, statements })
}

/// Publishes until all events are published, by this relay or another.
async fn relay(
    mut connection: PgConnection,
    design: Design,
    slots: Vec<i16>,
    published: Arc<AtomicU64>,
    events: u64,
) -> Result<PgConnection> {
    while published.load(Ordering::Relaxed) < events {
        let rows = match design {
            Design::Claim => claim(&mut connection).await?,
            Design::Flags => read(&mut connection, &slots).await?,
            Design::Ours => bail!("ours has relays of its own"),
        };
        if rows.is_empty() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
        mark(&mut connection, &ids).await?;
        published.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }
    Ok(connection)
}

/// A table with a status in each row, and an index of the rows that are not published.
pub(super) fn schema(design: Design) -> Result<&'static str> {
    match design {
        Design::Claim => Ok("drop table if exists classic_event;
             create table classic_event (
                 id bigint generated always as identity primary key,
                 aggregate_type text not null,
                 aggregate_id text not null,
                 event_type text not null,
                 topic text not null,
                 payload text,
                 headers text,
                 status text not null default 'PENDING',
                 next_retry_at timestamptz not null default now(),
                 created_at timestamptz not null default now(),
                 updated_at timestamptz not null default now()
             );
             create index classic_event_pending on classic_event (id) where status = 'PENDING'"),
        Design::Flags => Ok("drop table if exists classic_event;
             create table classic_event (
                 id bigint generated always as identity primary key,
                 slot smallint generated always as (get_byte(decode(md5(aggregate_id), 'hex'), 0)) stored,
                 aggregate_type text not null,
                 aggregate_id text not null,
                 event_type text not null,
                 topic text not null,
                 payload text,
                 headers text,
                 status text not null default 'PENDING',
                 created_at timestamptz not null default now(),
                 updated_at timestamptz not null default now()
             );
             create index classic_event_pending on classic_event (id) where status = 'PENDING'"),
        Design::Ours => bail!("ours has tables of its own"),
    }
}

pub(super) async fn claim(connection: &mut PgConnection) -> Result<Vec<Row>> {
    let rows = sqlx::query_as(
        "update classic_event
         set status = 'SENDING', updated_at = now()
         where id in (
             select id
             from classic_event
             where status = 'PENDING' and next_retry_at <= now()
             order by id
             limit $1
             for update skip locked
         )
         returning id, aggregate_type, aggregate_id, event_type, topic, payload, headers",
    );
    Ok(rows.bind(i64::from(BATCH)).fetch_all(connection).await?)
}

async fn read(connection: &mut PgConnection, slots: &[i16]) -> Result<Vec<Row>> {
    let rows = sqlx::query_as(
        "select id, aggregate_type, aggregate_id, event_type, topic, payload, headers
         from classic_event
         where status = 'PENDING' and slot = any($1)
         order by id
         limit $2",
    );
    Ok(rows.bind(slots).bind(i64::from(BATCH)).fetch_all(connection).await?)
}

pub(super) async fn mark(connection: &mut PgConnection, ids: &[i64]) -> Result<()> {
    sqlx::query("update classic_event set status = 'PUBLISHED', updated_at = now() where id = any($1)")
        .bind(ids)
        .execute(connection)
        .await?;
    Ok(())
}
