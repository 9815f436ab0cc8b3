//! What the file says, counted without anything of the product: what is missing, what is out of order, and which relay
//! is to blame for what is there twice.
//!
//! Of an event that is there twice, the record with the higher epoch is the one that counts. The other was published by
//! the relay that had the slot before, and was not acknowledged.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use tidemill_store::url::Dialect;
use tidemill_store::{Store, sqlx};

/// Writes down every owner that a slot ever has.
const POSTGRES: [&str; 3] = [
    "create table chaos_owner (slot bigint, epoch bigint, owner uuid)",
    "create function chaos_note() returns trigger language plpgsql as $$
     begin
         insert into chaos_owner values (new.slot, new.epoch, new.owner);
         return null;
     end $$",
    "create trigger chaos_note after update on tidemill_outbox_slot
     for each row when (new.owner is not null) execute function chaos_note()",
];

const SQLITE: [&str; 2] = [
    "create table chaos_owner (slot integer, epoch integer, owner)",
    "create trigger chaos_note after update on tidemill_outbox_slot when new.owner is not null
     begin
         insert into chaos_owner values (new.slot, new.epoch, new.owner);
     end",
];

const OWNERS: &str = "select distinct o.slot, o.epoch, r.pid, dense_rank() over (order by o.owner)
     from chaos_owner o
     join tidemill_outbox_relay r on r.id = o.owner";

const IDS: &str = "select id from outbox_event";

/// One time that a relay has joined: its process, and a number of its own.
pub(super) type Membership = (i64, i64);

/// Slot, epoch, and who that was.
type OwnerRow = (i64, i64, i64, i64);

#[derive(Deserialize)]
struct Line {
    id: i64,
    slot: i64,
    epoch: i64,
    aggregate_id: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) events: usize,
    pub(super) records: usize,
    pub(super) torn: usize,
    pub(super) lost: Vec<i64>,
    /// Events that came for the first time after a later one of their aggregate.
    pub(super) reordered: Vec<i64>,
    /// Records too many, by who published them in vain.
    pub(super) repeated: BTreeMap<Membership, usize>,
}

pub(super) async fn prepare(store: &Store) {
    let statements: &[&str] = match store.dialect() {
        Dialect::Postgres => &POSTGRES,
        Dialect::Sqlite => &SQLITE,
    };
    let mut tx = store.begin().await.unwrap();
    for statement in statements {
        tx.execute_for_test(statement).await.unwrap();
    }
    tx.commit().await.unwrap();
}

impl Ledger {
    pub(super) async fn read(file: &Path, store: &Store) -> Self {
        // The file first: whatever is in it was in the table before.
        let text = fs::read(file).unwrap();
        let mut tx = store.read().await.unwrap();
        let (ids, owners): (Vec<(i64,)>, Vec<OwnerRow>) = if let Some(connection) = tx.postgres() {
            let ids = sqlx::query_as(IDS).fetch_all(&mut *connection).await.unwrap();
            (ids, sqlx::query_as(OWNERS).fetch_all(connection).await.unwrap())
        } else {
            let connection = tx.sqlite().unwrap();
            let ids = sqlx::query_as(IDS).fetch_all(&mut *connection).await.unwrap();
            (ids, sqlx::query_as(OWNERS).fetch_all(connection).await.unwrap())
        };
        tx.rollback().await.unwrap();
        let owners: HashMap<(i64, i64), Membership> =
            owners.into_iter().map(|(slot, epoch, pid, number)| ((slot, epoch), (pid, number))).collect();
        let ids: HashSet<i64> = ids.into_iter().map(|(id,)| id).collect();

        let mut ledger = Self { events: ids.len(), ..Self::default() };
        let mut counted: HashMap<i64, i64> = HashMap::new();
        let mut latest: HashMap<String, i64> = HashMap::new();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(line) = serde_json::from_slice::<Line>(line) else {
                ledger.torn += 1;
                continue;
            };
            ledger.records += 1;
            assert!(ids.contains(&line.id), "event {} is in the file and not in the table", line.id);
            match counted.get_mut(&line.id) {
                Some(epoch) => {
                    let in_vain = (*epoch).min(line.epoch);
                    *epoch = (*epoch).max(line.epoch);
                    *ledger.repeated.entry(owners[&(line.slot, in_vain)]).or_default() += 1;
                }
                None => {
                    counted.insert(line.id, line.epoch);
                    let latest = latest.entry(line.aggregate_id).or_default();
                    if line.id < *latest {
                        ledger.reordered.push(line.id);
                    }
                    *latest = line.id.max(*latest);
                }
            }
        }
        ledger.lost = ids.into_iter().filter(|id| !counted.contains_key(id)).collect();
        ledger
    }
}
