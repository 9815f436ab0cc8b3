//! The original designs: an update claims rows, the instance sends them, and another update marks them.

use super::broker::Broker;
use super::{INSTANCES, Measured, Way};
use crate::outbox::case::{BATCH, Design};
use crate::outbox::classic::{self, Row};
use crate::outbox::stage::{AT_LAST, Stage};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Aggregate, EventId, Payload, Record, Seq};
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::{Outcome, Publisher};
use tidemill_kafka::{KafkaPublisher, Topics};
use tidemill_store::sqlx::{self, Connection, PgConnection};
use tokio::task::JoinSet;

/// Sender threads of an instance. Each of them awaits its record.
const SENDERS: usize = 10;

/// The pause after a claim that finds nothing.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn run(
    stage: &mut Stage,
    broker: &Broker,
    topics: &Topics,
    way: Way,
    events: u64,
) -> Result<Measured> {
    stage.run(classic::schema(Design::Claim)?).await?;
    stage.load("classic_event", 1, events).await?;
    stage.tidy("classic_event").await?;
    let mut instances = Vec::new();
    for number in 0..INSTANCES {
        let connection = PgConnection::connect(&stage.url).await?;
        instances.push(Instance {
            way,
            number,
            connection,
            publisher: broker.publisher(topics).await?,
            published: 0,
        });
    }
    let counting = stage.begin_counting().await?;
    let clock = SystemClock::new();
    let begin = clock.monotonic();
    let published = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for instance in instances {
        running.spawn(instance.run(published.clone(), events));
    }
    let ended = async {
        let mut ended = Vec::new();
        while let Some(instance) = running.join_next().await {
            ended.push(instance??);
        }
        anyhow::Ok(ended)
    };
    let mut ended =
        tokio::time::timeout(AT_LAST, ended).await.context("the instances do not come to an end")??;
    let seconds = clock.monotonic().since(begin).as_secs_f64();
    let (wal_bytes, queries) = stage.counted(&counting).await?;
    ended.sort_by_key(|instance| instance.number);
    let shares = ended.iter().map(|instance| instance.published).collect();
    for instance in ended {
        instance.connection.close().await?;
    }
    Ok(Measured { events, seconds, queries, wal_bytes, shares, disordered: 0 })
}

struct Instance {
    way: Way,
    number: u32,
    connection: PgConnection,
    publisher: Arc<KafkaPublisher>,
    published: u64,
}

impl Instance {
    async fn run(mut self, published: Arc<AtomicU64>, events: u64) -> Result<Self> {
        while published.load(Ordering::Relaxed) < events {
            let rows = match self.way {
                Way::Modulo => self.claim_own().await?,
                Way::Alone | Way::Pipelined | Way::Ours => classic::claim(&mut self.connection).await?,
            };
            if rows.is_empty() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let mut records: Vec<Record> = rows.into_iter().map(record).collect();
            // An update returns its rows in no guaranteed order.
            records.sort_by_key(|record| record.id);
            let ids: Vec<i64> = records.iter().map(|record| record.id.get()).collect();
            match self.way {
                Way::Pipelined => sent(&self.publisher.publish(&records).await)?,
                Way::Alone | Way::Modulo | Way::Ours => self.send_singly(records).await?,
            }
            classic::mark(&mut self.connection, &ids).await?;
            self.published += ids.len() as u64;
            published.fetch_add(ids.len() as u64, Ordering::Relaxed);
        }
        Ok(self)
    }

    /// The original claim statement, with its partition.
    async fn claim_own(&mut self) -> Result<Vec<Row>> {
        let rows = sqlx::query_as(
            "update classic_event
             set status = 'SENDING', updated_at = now()
             where id in (
                 select id
                 from classic_event
                 where status = 'PENDING' and next_retry_at <= now() and mod(id, $2) = $3
                 order by id
                 limit $1
                 for update skip locked
             )
             returning id, aggregate_type, aggregate_id, event_type, topic, payload, headers",
        );
        let rows = rows.bind(i64::from(BATCH)).bind(i64::from(INSTANCES)).bind(i64::from(self.number));
        Ok(rows.fetch_all(&mut self.connection).await?)
    }

    /// Each sender takes the next record, and waits until it has arrived.
    async fn send_singly(&self, records: Vec<Record>) -> Result<()> {
        let records = Arc::new(records);
        let next = Arc::new(AtomicUsize::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..SENDERS {
            let (records, next, publisher) = (records.clone(), next.clone(), self.publisher.clone());
            senders.spawn(async move {
                while let Some(record) = records.get(next.fetch_add(1, Ordering::Relaxed)) {
                    sent(&publisher.publish(std::slice::from_ref(record)).await)?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(sender) = senders.join_next().await {
            sender??;
        }
        Ok(())
    }
}

pub(super) fn sent(outcomes: &[Outcome]) -> Result<()> {
    let wrong = outcomes.iter().find(|outcome| **outcome != Outcome::Delivered);
    ensure!(wrong.is_none(), "{wrong:?}");
    Ok(())
}

pub(super) fn record((id, kind, aggregate, event_type, topic, payload, _): Row) -> Record {
    let aggregate = Aggregate { kind, id: aggregate };
    Record {
        id: EventId::new(id),
        table: None,
        slot: aggregate.slot(),
        epoch: Epoch::ZERO,
        seq: Seq::new(id),
        aggregate,
        event_type,
        topic,
        is_redirected: false,
        headers: BTreeMap::new(),
        payload: payload.map_or(Payload::Tombstone, Payload::Json),
        created_at: Timestamp::EPOCH,
    }
}
