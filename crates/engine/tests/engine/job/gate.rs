//! A job that waits in the middle of its second chunk until the test lets it go on.

use super::Stand;
use tidemill_domain::item::{ItemError, Value};
use tidemill_engine::item::ItemsReader;
use tidemill_engine::item::sql::SqlWriter;
use tidemill_engine::job::{ItemProcessor, Job, Step};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, sqlx};
use tokio::sync::watch;

/// The item that waits: one of the second chunk of ten.
const WAITING: i64 = 15;

/// What the job waits at.
#[derive(Clone)]
pub(super) struct Gate {
    is_open: watch::Sender<bool>,
    is_reached: watch::Sender<bool>,
}

impl Gate {
    pub(super) fn closed() -> Self {
        Self { is_open: watch::Sender::new(false), is_reached: watch::Sender::new(false) }
    }

    pub(super) fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Waits until the job waits.
    pub(super) async fn reached(&self) {
        let mut reached = self.is_reached.subscribe();
        let waiting = reached.wait_for(|is_reached| *is_reached);
        tokio::time::timeout(crate::SOON, waiting).await.unwrap().unwrap();
    }

    /// The numbers from 1 to 30 into the table `kept`, in chunks of ten.
    pub(super) fn job(&self) -> Job {
        self.threaded_job(1)
    }

    /// The same by several threads.
    pub(super) fn threaded_job(&self, threads: usize) -> Job {
        let step = Step::chunk("numbers", 10)
            .reader(ItemsReader::new("numbers", 1..=30))
            .process(Passing(self.clone()))
            .writer_with(|scope| {
                Ok(SqlWriter::new(scope.store(), "kept", ["id"], |id: &i64| vec![Value::from(*id)]))
            })
            .threads(threads)
            .build();
        Job::new("gated").step(step)
    }
}

#[derive(Clone)]
struct Passing(Gate);

impl ItemProcessor<i64> for Passing {
    type Output = i64;

    async fn process(&mut self, number: &i64) -> Result<Option<i64>, ItemError> {
        if *number == WAITING {
            self.0.is_reached.send_replace(true);
            let mut open = self.0.is_open.subscribe();
            let _never_closed = open.wait_for(|is_open| *is_open).await;
        }
        Ok(Some(*number))
    }
}

/// A stand with the table.
pub(super) async fn stand(scratch: Scratch) -> Stand {
    let stand = Stand::on(scratch).await;
    let mut tx = stand.bench.store().begin().await.unwrap();
    tx.execute_for_test("create table kept (id bigint not null)").await.unwrap();
    tx.commit().await.unwrap();
    stand
}

/// What the table holds, in order.
pub(super) async fn kept(store: &Store) -> Vec<i64> {
    const ALL: &str = "select id from kept order by id";
    let mut tx = store.read().await.unwrap();
    let ids = if let Some(connection) = tx.postgres() {
        sqlx::query_scalar(ALL).fetch_all(connection).await.unwrap()
    } else {
        sqlx::query_scalar(ALL).fetch_all(tx.sqlite().unwrap()).await.unwrap()
    };
    tx.rollback().await.unwrap();
    ids
}
