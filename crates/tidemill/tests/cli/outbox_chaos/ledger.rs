//! What was published, compared with the table without anything of the product: what is missing, what is out of order, and
//! which relay is to blame for what is there twice.
//!
//! Of an event that is there twice, the record with the higher epoch is the one that counts. The other was published by
//! the relay that had the slot before, and was not acknowledged.

use super::source::Source;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use tidemill_store::Store;
use tidemill_store::sqlx::postgres::PgRow;
use tidemill_store::sqlx::sqlite::SqliteRow;
use tidemill_store::sqlx::{self, FromRow};
use tidemill_store::url::Dialect;

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

/// One time that a relay has joined: its process, and a number of its own.
pub(super) type Membership = (i64, i64);

/// Slot, epoch, and who that was.
type OwnerRow = (i64, i64, i64, i64);

/// A record, as those who read the sink get it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct Published {
    pub(super) id: i64,
    pub(super) slot: i64,
    pub(super) epoch: i64,
    pub(super) aggregate_id: String,
}

/// All records, those of an aggregate in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) records: Vec<Published>,
    /// Lines that nobody can read, because whoever wrote them was killed.
    pub(super) torn: usize,
}

impl Records {
    pub(super) fn of_file(path: &Path) -> Self {
        let text = fs::read(path).unwrap_or_default();
        let mut found = Self::default();
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(published) => found.records.push(published),
                Err(_) => found.torn += 1,
            }
        }
        found
    }
}

/// What the database says: all events, and who has had which slot in which epoch.
#[derive(Clone, Debug)]
struct Truth {
    ids: HashSet<i64>,
    owners: HashMap<(i64, i64), Membership>,
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

/// In a transaction of its own: on a busy machine, reading the rows takes longer than one may be idle.
async fn rows<T>(store: &Store, sql: &'static str) -> Vec<T>
where
    T: for<'r> FromRow<'r, PgRow> + for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
{
    let mut tx = store.read().await.unwrap();
    let rows = match tx.postgres() {
        Some(connection) => sqlx::query_as(sql).fetch_all(connection).await.unwrap(),
        None => sqlx::query_as(sql).fetch_all(tx.sqlite().unwrap()).await.unwrap(),
    };
    tx.rollback().await.unwrap();
    rows
}

impl Truth {
    async fn read(source: Source, store: &Store) -> Self {
        let ids: Vec<(i64,)> = rows(store, source.ids()).await;
        let owners: Vec<OwnerRow> = rows(store, OWNERS).await;
        let owner = |(slot, epoch, pid, number): OwnerRow| ((slot, epoch), (pid, number));
        Self {
            ids: ids.into_iter().map(|(id,)| id).collect(),
            owners: owners.into_iter().map(owner).collect(),
        }
    }
}

impl Ledger {
    /// Compares with the table as it is now: whatever was published before was in it by then.
    pub(super) async fn compare(found: &Records, source: Source, store: &Store) -> Self {
        Self::new(&Truth::read(source, store).await, found)
    }

    fn new(truth: &Truth, found: &Records) -> Self {
        let mut ledger = Self {
            events: truth.ids.len(),
            records: found.records.len(),
            torn: found.torn,
            ..Self::default()
        };
        let mut counted: HashMap<i64, i64> = HashMap::new();
        let mut latest: HashMap<&str, i64> = HashMap::new();
        for record in &found.records {
            assert!(
                truth.ids.contains(&record.id),
                "event {} was published and is not in the table",
                record.id
            );
            match counted.get_mut(&record.id) {
                Some(epoch) => {
                    let in_vain = (*epoch).min(record.epoch);
                    *epoch = (*epoch).max(record.epoch);
                    *ledger.repeated.entry(truth.owners[&(record.slot, in_vain)]).or_default() += 1;
                }
                None => {
                    counted.insert(record.id, record.epoch);
                    let latest = latest.entry(&record.aggregate_id).or_default();
                    if record.id < *latest {
                        ledger.reordered.push(record.id);
                    }
                    *latest = record.id.max(*latest);
                }
            }
        }
        ledger.lost = truth.ids.iter().copied().filter(|id| !counted.contains_key(id)).collect();
        ledger
    }
}

mod tests {
    //! A ledger that noticed nothing would prove nothing.

    use super::*;

    /// Events 1 to 4 of two aggregates, of slot 7, which two relays have had in turn.
    fn truth() -> Truth {
        Truth { ids: (1..=4).collect(), owners: HashMap::from([((7, 1), (100, 1)), ((7, 2), (200, 2))]) }
    }

    fn check(published: &[(i64, i64)], expected: fn(&Ledger) -> bool) {
        let record = |(id, epoch): &(i64, i64)| Published {
            id: *id,
            slot: 7,
            epoch: *epoch,
            aggregate_id: format!("thing-{}", id % 2),
        };
        let found = Records { records: published.iter().map(record).collect(), torn: 0 };

        let ledger = Ledger::new(&truth(), &found);

        assert!(expected(&ledger), "{ledger:?}");
    }

    #[test]
    fn what_is_whole_and_in_order_is_clean_however_aggregates_mix() {
        check(&[(2, 1), (1, 1), (4, 1), (3, 2)], |ledger| {
            ledger.lost.is_empty() && ledger.reordered.is_empty() && ledger.repeated.is_empty()
        });
    }

    #[test]
    fn a_record_that_is_missing_is_lost() {
        check(&[(1, 1), (2, 1), (4, 1)], |ledger| ledger.lost == [3]);
    }

    #[test]
    fn an_event_that_comes_first_after_a_later_one_of_its_aggregate_is_out_of_order() {
        check(&[(1, 1), (4, 1), (2, 1), (3, 1)], |ledger| ledger.reordered == [2]);
    }

    #[test]
    fn what_is_there_again_is_laid_at_the_door_of_who_had_the_slot_before() {
        check(&[(1, 1), (3, 1), (1, 2), (3, 2), (2, 2), (4, 2)], |ledger| {
            ledger.reordered.is_empty() && ledger.repeated == BTreeMap::from([((100, 1), 2)])
        });
        check(&[(1, 2), (1, 2), (2, 2), (3, 2), (4, 2)], |ledger| {
            ledger.repeated == BTreeMap::from([((200, 2), 1)])
        });
    }
}
