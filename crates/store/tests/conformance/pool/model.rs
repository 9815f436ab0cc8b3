//! Pools under stress: three servers decide at the same time about the same pools, crash, forget, repeat and reorder, and
//! the clock jumps. After each pass an auditor of the tests' own follows the log and compares it with the rows.
//!
//! Reading order: `server` (what can happen), `auditor` (what has to hold).

mod auditor;
mod server;

use self::auditor::Auditor;
use self::server::Server;
use super::ann;
use crate::Bench;
use crate::dice::{self, Dice};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::pool::command::Command;
use tidemill_domain::pool::decide::Policy;
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::Event;
use tidemill_domain::pool::{PoolName, Settings};
use tidemill_store::Tx;
use tidemill_store::pool::{Defined, Lapses, PassRequest, PoolCache};
use tidemill_testkit::long_or;
use tokio::sync::Mutex;

crate::on_both![
    three_servers_never_give_out_more_than_there_is,
    a_row_that_nobody_decided_is_noticed,
    a_row_with_other_units_is_noticed,
    a_missing_record_is_noticed,
    a_record_of_another_grant_is_noticed,
];

/// What all servers do together: in full, and in the short form.
const OPERATIONS: [usize; 2] = [10_000, 6_000];

/// The pools, with what there is of each at first.
const POOLS: [(&str, u32, Policy); 3] =
    [("ADW", 24, Policy::Adaptive), ("ERP", 10, Policy::Fifo), ("HR", 6, Policy::Halving)];

async fn three_servers_never_give_out_more_than_there_is(bench: Bench) {
    let seed = dice::seed();
    let told = dice::repeat(seed);
    create_pools(&bench).await;
    let auditor = Arc::new(Mutex::new(Auditor::new(names())));
    let past = Arc::default();
    let mut servers = tokio::task::JoinSet::new();
    let operations = long_or(OPERATIONS[0], OPERATIONS[1]) / 3 + 1;
    for number in 0..3 {
        let store = bench.scratch.store(Some(bench.clock.clone())).await.unwrap();
        let dice = Dice::new(seed + number);
        let (auditor, past, clock) = (Arc::clone(&auditor), Arc::clone(&past), bench.clock.clone());
        let mut server = Server::new(store, clock, dice, auditor, past);
        servers.spawn(async move { server.run(operations).await });
    }

    let mut done = server::Tally::default();
    while let Some(ended) = servers.join_next().await {
        done.add(
            ended
                .unwrap_or_else(|error| panic!("{error}; {told}"))
                .unwrap_or_else(|why| panic!("{why}; {told}")),
        );
    }
    assert!(done.is_varied(), "{done:?}; {told}");
    let why = settled(&bench).await.err();
    assert_eq!(why, None, "{told}");
    let mut tx = bench.store.read().await.unwrap();
    let why = auditor.lock().await.check(&mut tx).await.err();
    assert_eq!(why, None, "{told}");
    for name in names() {
        let audited = tx.pools().verify(&name).await.unwrap().unwrap();
        assert_eq!(audited.differences, [], "{name}; {told}");
    }
}

/// When all is quiet, the first of each queue does not fit. Only what a server would do by itself is done before: a look
/// at each pool, and at those that the first of its queue needs besides.
async fn settled(bench: &Bench) -> Result<(), String> {
    let mut cache = PoolCache::default();
    for name in names() {
        let mut pools = BTreeSet::from([name.clone()]);
        for _ in 0..POOLS.len() {
            let commands = [Command::Look { pool: name.clone() }];
            let request = PassRequest {
                pools: &pools,
                commands: &commands,
                pace: Pace::default(),
                lapses: Lapses::Sought,
            };
            let outcome = bench.store.pool_pass(&mut cache, &request).await.unwrap();
            if outcome.wider.is_subset(&pools) {
                break;
            }
            pools.extend(outcome.wider);
        }
    }
    let all = names().into_iter().collect();
    let request = PassRequest { pools: &all, commands: &[], pace: Pace::default(), lapses: Lapses::Left };
    let outcome = bench.store.pool_pass(&mut cache, &request).await.unwrap();
    let late =
        outcome.records.values().flatten().find(|record| matches!(record.event, Event::Granted { .. }));
    match late {
        Some(record) => Err(format!("{:?} was left waiting although there was room for it", record.event)),
        None => Ok(()),
    }
}

fn names() -> Vec<PoolName> {
    POOLS.iter().map(|(name, ..)| name.parse().unwrap()).collect()
}

async fn create_pools(bench: &Bench) {
    let mut tx = bench.begin().await;
    for (name, max_units, policy) in POOLS {
        let mut settings = Settings::new(name.parse().unwrap(), max_units);
        (settings.threshold_percent, settings.policy) = (100, policy);
        settings.min_units = std::num::NonZeroU32::MIN;
        settings.max_hold = Duration::from_secs(1_800);
        assert_eq!(tx.pools().create(&settings, &ann()).await.unwrap(), Defined::Done);
    }
    tx.commit().await.unwrap();
}

/// A few operations by one server, then a fault, then what the auditors say: ours, and that of the product.
async fn after(bench: &Bench, fault: &str) -> (Result<(), String>, usize) {
    create_pools(bench).await;
    let mut auditor = Auditor::new(names());
    let own = Arc::new(Mutex::new(Auditor::new(names())));
    let mut server = Server::new(bench.store.clone(), bench.clock.clone(), Dice::new(7), own, Arc::default());
    server.fill().await.unwrap();
    let mut tx = bench.store.read().await.unwrap();
    assert_eq!(Auditor::new(names()).check(&mut tx).await, Ok(()));
    assert_eq!(differences(&mut tx).await, 0);
    tx.rollback().await.unwrap();

    let mut tx = bench.begin().await;
    tx.execute_for_test(fault).await.unwrap();
    tx.commit().await.unwrap();

    let mut tx = bench.store.read().await.unwrap();
    (auditor.check(&mut tx).await, differences(&mut tx).await)
}

async fn differences(tx: &mut Tx) -> usize {
    let mut differences = 0;
    for name in names() {
        differences += tx.pools().verify(&name).await.unwrap().unwrap().differences.len();
    }
    differences
}

/// As if a server had decided without the lock: a row for which there was no room, and the row of the pool as it was.
async fn a_row_that_nobody_decided_is_noticed(bench: Bench) {
    let fault = "insert into tidemill_pool_ticket
            (id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch, enqueued_at,
             started_at, expires_at, lease_micros, detail)
        select '00000000-0000-0000-0000-000000000001', pool, version, state, 'bypass', run_id, task, map_index,
               table_name, parallel, units, epoch, enqueued_at, started_at, expires_at, lease_micros,
               replace(replace(detail, cast(id as text), '00000000-0000-0000-0000-000000000001'),
                       '\"dag_id\":\"dag\"', '\"dag_id\":\"bypass\"')
        from tidemill_pool_ticket
        where pool = 'ADW' and state = 'running'
        limit 1";

    let (ours, products) = after(&bench, fault).await;

    assert!(ours.unwrap_err().contains("ADW"));
    assert!(products > 0);
}

async fn a_row_with_other_units_is_noticed(bench: Bench) {
    let fault = "update tidemill_pool_ticket set units = units + 1 where pool = 'ADW' and state = 'running'";

    let (ours, _) = after(&bench, fault).await;

    assert!(ours.unwrap_err().contains("units"));
}

async fn a_missing_record_is_noticed(bench: Bench) {
    let fault = "delete from tidemill_pool_log
        where pool = 'ADW' and version = (select max(version) from tidemill_pool_log where pool = 'ADW')";

    let (ours, products) = after(&bench, fault).await;

    assert!(ours.is_err());
    assert!(products > 0);
}

async fn a_record_of_another_grant_is_noticed(bench: Bench) {
    let fault = "update tidemill_pool_log
        set event = replace(event, '\"parallel\":4', '\"parallel\":5')
        where pool = 'ADW' and kind = 'granted'";

    let (ours, products) = after(&bench, fault).await;

    assert!(ours.is_err());
    assert!(products > 0);
}
