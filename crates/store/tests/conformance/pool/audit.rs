//! The auditor finds what is wrong in a stored log, and what it found is kept.

use super::{acquire, adw, ask, create, give_back, pass, release};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::command::Command;
use tidemill_store::pool::{Audited, Difference, PoolCache};

crate::on_both![
    wrong_records_are_found_and_the_result_is_kept,
    a_long_log_is_read_in_pages_and_checked_to_its_end,
    a_record_that_cannot_be_read_is_a_violation,
    how_live_tickets_started_is_told_as_far_as_the_log_goes,
];

async fn plant(bench: &Bench, fault: &'static str) -> Audited {
    let mut tx = bench.begin().await;
    tx.execute_for_test(fault).await.unwrap();
    tx.commit().await.unwrap();
    bench.store.read().await.unwrap().pools().verify(&adw()).await.unwrap().unwrap()
}

async fn wrong_records_are_found_and_the_result_is_kept(bench: Bench) {
    create(&bench, 10).await;
    ask(&bench, &mut PoolCache::default(), acquire("a", 4)).await;
    let before = bench.store.read().await.unwrap().pools().find(&adw()).await.unwrap().unwrap();
    assert_eq!(before.audit, None);

    let fault = "update tidemill_pool_log set event = replace(event, '\"parallel\":4', '\"parallel\":3')
                 where kind = 'granted'";
    let audited = plant(&bench, fault).await;

    let told: Vec<String> = audited.differences.iter().map(ToString::to_string).collect();
    assert_eq!(audited.violations, 2, "{told:?}");
    assert!(
        told[0].contains("a grant of 3 to the ticket") && told[0].contains("which the policy does not allow")
    );
    assert!(matches!(audited.differences[1], Difference::Ticket(_)), "{told:?}");
    bench.clock.advance(Duration::from_secs(60));
    let mut tx = bench.begin().await;
    tx.pools().save_audit(&adw(), &audited).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    let kept = tx.pools().find(&adw()).await.unwrap().unwrap().audit.unwrap();
    assert_eq!((kept.at, kept.decisions, kept.violations), (bench.now(), audited.records, 2));
    assert_eq!(tx.pools().levels(10).await.unwrap()[0].violations(), 2);
    assert_eq!(tx.pools().list(10).await.unwrap()[0].audit.as_ref(), Some(&kept));
}

async fn a_long_log_is_read_in_pages_and_checked_to_its_end(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for share in 0..6 {
        let runs = (0..100).map(|number| format!("{share}-{number}"));
        let both = |run: String| {
            [Command::Acquire(Box::new(acquire(&run, 4))), Command::Release(Box::new(release(&run)))]
        };
        pass(&bench, &mut cache, &runs.flat_map(both).collect::<Vec<_>>()).await;
    }
    ask(&bench, &mut cache, acquire("last", 4)).await;
    assert_eq!(super::audited(&bench).await, 4);

    let fault = "update tidemill_pool_log set event = replace(event, '\"parallel\":4', '\"parallel\":3')
                 where kind = 'granted'";
    let audited = plant(&bench, fault).await;

    assert!(audited.records > 1_200, "{}", audited.records);
    assert_eq!(audited.violations, 2);
}

async fn a_record_that_cannot_be_read_is_a_violation(bench: Bench) {
    create(&bench, 10).await;
    ask(&bench, &mut PoolCache::default(), acquire("a", 4)).await;

    let audited = plant(&bench, "update tidemill_pool_log set event = '{}' where kind = 'granted'").await;

    assert_eq!(audited.violations, 1);
    let told = audited.differences[0].to_string();
    assert!(told.contains("of tidemill_pool_log has a value in event that breaks the rules"), "{told}");
}

async fn how_live_tickets_started_is_told_as_far_as_the_log_goes(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for run in ["gone", "a", "b", "waits"] {
        ask(&bench, &mut cache, acquire(run, 4)).await;
        bench.clock.advance(Duration::from_secs(1));
        if run == "gone" {
            give_back(&bench, &mut cache, release(run)).await;
        }
    }

    let mut tx = bench.begin().await;
    let starts = tx.pools().starts(&adw(), 10).await.unwrap();
    let live = tx.pools().ledger(&adw()).await.unwrap().unwrap();

    let runs: Vec<&str> = starts
        .iter()
        .map(|record| live.ticket(record.event.ticket().unwrap()).unwrap().holder.run_id())
        .collect();
    assert_eq!(runs, ["a", "b"]);
    assert!(starts.iter().all(|record| record.event.kind() == "granted"));
    assert_eq!(tx.pools().starts(&adw(), 1).await.unwrap().len(), 1);
}
