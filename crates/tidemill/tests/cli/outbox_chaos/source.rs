//! What is written and published: the outbox itself, or a table that was there before.

use crate::Stage;
use fastrand::Rng;
use tidemill_store::{Store, sqlx};
use tidemill_testkit::{CommitProxy, Loss};

/// The table of the document.
const TRANSFER_EVENTS: &str = "create table transfer_events (
    event_id bigserial primary key, aggregate_id varchar(100) not null, payload text, headers text,
    status varchar(20) not null default 'PENDING', next_retry_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
)";

/// Parts of statements by which a proxy knows what it is to lose.
const ACKNOWLEDGE: &[u8] = b"published = published + $4";
const CLAIM: &[u8] = b"set status = 'SENDING'";
const MARK: &[u8] = b"set status = 'PUBLISHED'";

/// Where events are written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// `outbox_event`.
    Outbox,
    /// `transfer_events`, which is attached.
    Attached,
}

impl Source {
    /// Makes the table, and has it served.
    pub(super) async fn prepare(self, store: &Store, stage: &Stage) {
        if self == Self::Attached {
            let mut tx = store.begin().await.unwrap();
            tx.execute_for_test(TRANSFER_EVENTS).await.unwrap();
            tx.commit().await.unwrap();
            stage.run(&["outbox", "attach", "transfer_events", "--topic", "things"]).succeeds();
        }
    }

    /// The statement by which any program writes an event of each of these aggregates.
    pub(super) fn insert(self, aggregates: &[String]) -> String {
        let rows = |row: fn(&String) -> String| aggregates.iter().map(row).collect::<Vec<_>>().join(", ");
        match self {
            Self::Outbox => format!(
                "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload) values {}",
                rows(|id| format!("('thing', '{id}', 'thing.moved', 'things', '{{}}')"))
            ),
            Self::Attached => format!(
                "insert into transfer_events (aggregate_id, payload) values {}",
                rows(|id| format!("('{id}', '{{}}')"))
            ),
        }
    }

    /// The statement that finds the numbers of all that was written.
    pub(super) fn ids(self) -> &'static str {
        match self {
            Self::Outbox => "select id from outbox_event",
            Self::Attached => "select event_id from transfer_events",
        }
    }

    /// Loses one half of the next commit by which a relay says what it has done, or will do.
    pub(super) fn lose(self, proxy: &CommitProxy, loss: Loss, chance: &mut Rng) {
        match self {
            Self::Outbox => proxy.lose_statement(loss, ACKNOWLEDGE),
            Self::Attached => proxy.lose(loss, if chance.bool() { CLAIM } else { MARK }),
        }
    }

    /// Whether everything counts as published.
    pub(super) async fn is_drained(self, store: &Store, stage: &Stage) -> bool {
        match self {
            Self::Outbox => {
                let said = stage.run(&["outbox", "stats", "-o", "json"]).stdout;
                let stats: serde_json::Value = serde_json::from_str(&said).unwrap();
                stats["unpublished"] == serde_json::json!({ "at_least": 0, "is_exact": true })
            }
            Self::Attached => {
                let open = "select count(*) from transfer_events where status <> 'PUBLISHED'";
                let mut tx = store.begin().await.unwrap();
                let open: i64 = sqlx::query_scalar(open).fetch_one(tx.postgres().unwrap()).await.unwrap();
                tx.rollback().await.unwrap();
                open == 0
            }
        }
    }
}
