//! Recent events: none is lost behind ordinary records, and each says what happened.

use super::{acquire, adw, ann, ask, create, give_back, pass, release};
use crate::{Bench, plan};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditRecord};
use tidemill_domain::pool::Settings;
use tidemill_domain::pool::command::{Acquire, Answer, Part};
use tidemill_domain::pool::settings::{Capacity, Pause};
use tidemill_store::audit::AuditFilter;
use tidemill_store::pool::{PoolCache, PoolEventSummary};

crate::on_both![
    a_downgrade_is_told_however_many_ordinary_records_follow,
    a_change_of_a_pool_says_what_changed_and_who_did_it,
    each_change_has_one_audit_entry_with_the_values_before_and_after,
    older_records_are_told_as_far_as_their_kind_says_enough,
];

const MINUTE: Duration = Duration::from_secs(60);
const DOWNGRADED: &str = "dag downgraded: PARALLEL(16) → PARALLEL(8)";

/// The last events of the pool; the list of all pools has the same.
async fn events(bench: &Bench, limit: u32) -> Vec<PoolEventSummary> {
    let mut tx = bench.store.read().await.unwrap();
    let events = tx.pools().events(Some(&adw()), limit).await.unwrap();
    assert_eq!(events, tx.pools().events(None, limit).await.unwrap(), "there is only one pool");
    tx.rollback().await.unwrap();
    events
}

async fn texts(bench: &Bench) -> Vec<String> {
    events(bench, 100).await.into_iter().map(|event| event.text).collect()
}

/// A pool of 12 units, of which a request for 16 gets 8.
async fn with_a_downgrade(bench: &Bench, cache: &mut PoolCache) -> Settings {
    let settings = create(bench, 12).await;
    let asked = acquire("large", 16);
    let parts = asked.parts.iter().map(|part| Part { least: NonZeroU32::new(2), ..part.clone() }).collect();
    let answer = ask(bench, cache, Acquire { parts, ..asked }).await;
    assert!(matches!(&answer, Answer::Admitted { parts, .. } if parts[0].ticket.units() == 8), "{answer:?}");
    settings
}

async fn a_downgrade_is_told_however_many_ordinary_records_follow(bench: Bench) {
    let mut cache = PoolCache::default();
    with_a_downgrade(&bench, &mut cache).await;
    for number in 0..60 {
        let run = number.to_string();
        ask(&bench, &mut cache, acquire(&run, 1)).await;
        give_back(&bench, &mut cache, release(&run)).await;
    }

    let told = events(&bench, 2).await;

    assert_eq!(told[0].text, DOWNGRADED);
    assert_eq!(told[0].holder.as_ref().unwrap().to_string(), "dag/large");
    assert_eq!(told[1].text, "ADW created by ann: 12 units with a limit of 100 %");
    assert_eq!(events(&bench, 1).await, told[..1]);

    give_back(&bench, &mut cache, release("large")).await;
    bench.clock.advance(MINUTE);
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().forget_tickets(&adw(), Duration::ZERO, 100).await.unwrap(), 61);
    tx.commit().await.unwrap();
    let told = events(&bench, 2).await;
    assert_eq!((told[0].text.as_str(), &told[0].holder), (DOWNGRADED, &None), "without its ticket");
}

async fn set(bench: &Bench, settings: &Settings) {
    let mut tx = bench.begin().await;
    tx.pools().set(settings, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_change_of_a_pool_says_what_changed_and_who_did_it(bench: Bench) {
    let settings = create(&bench, 100).await;
    let pause = Pause { by: "minsu".into(), reason: "patch day".into(), at: bench.now() };
    let shorter = Settings { max_hold: Duration::from_secs(2 * 3600), ..settings.clone() };
    let paused = Settings { paused: Some(pause), ..shorter.clone() };
    let smaller = Settings { max_units: 80, ..shorter.clone() };

    for settings in [&shorter, &paused, &shorter, &smaller] {
        set(&bench, settings).await;
    }

    let told = [
        "ADW changed by ann: max_units 100 → 80",
        "ADW resumed by ann",
        "ADW paused by minsu: patch day",
        "ADW changed by ann: max_hold 1d → 2h",
        "ADW created by ann: 100 units with a limit of 100 %",
    ];
    assert_eq!(texts(&bench).await, told);
    let mut tx = bench.store.read().await.unwrap();
    assert_eq!(tx.pools().find(&adw()).await.unwrap().unwrap().settings, smaller);
    let decisions = tx.pools().decisions(&adw(), None, 10).await.unwrap();
    let summaries: Vec<_> = decisions.iter().map(|decision| decision.summary.as_deref().unwrap()).collect();
    assert_eq!(summaries, told);
    assert_eq!(tx.pools().verify(&adw()).await.unwrap().unwrap().differences, []);
}

async fn each_change_has_one_audit_entry_with_the_values_before_and_after(bench: Bench) {
    let settings = create(&bench, 100).await;
    let windows = vec![Capacity { window: "22:00-06:00".parse().unwrap(), max_units: 60 }];
    let zone = "Asia/Seoul".parse().unwrap();
    let claim_for = Duration::from_secs(300);
    let changed = Settings { capacity: windows, zone, claim_for, max_units: 80, ..settings.clone() };
    let pause = Pause { by: "ann".into(), reason: "patch day".into(), at: bench.now() };
    let paused = Settings { paused: Some(pause), ..changed.clone() };
    let mut tx = bench.begin().await;
    for (settings, reason) in [(&changed, "a new host"), (&changed, "the same"), (&paused, "patch day")] {
        tx.pools().set(settings, &ann(), Some(reason)).await.unwrap();
    }
    tx.pools().set(&changed, &ann(), None).await.unwrap();

    let filter = AuditFilter { object: Some("pool/ADW".into()), ..AuditFilter::default() };
    let entries = tx.audit().entries(&filter, 10).await.unwrap();

    let told: Vec<[&str; 4]> = entries
        .iter()
        .map(|AuditRecord { entry, .. }| {
            assert_eq!(entry.actor.name, "ann");
            let [from, to, reason] =
                [&entry.from, &entry.to, &entry.reason].map(|text| text.as_deref().unwrap_or(""));
            [entry.action.as_str(), from, to, reason]
        })
        .collect();
    assert_eq!(
        told,
        [
            ["pool.resume", "paused", "open", ""],
            ["pool.pause", "open", "paused", "patch day"],
            [
                "pool.set",
                "max_units 100, capacity none, zone UTC, claim_for 2m",
                "max_units 80, capacity 22:00-06:00=60, zone Asia/Seoul, claim_for 5m",
                "a new host",
            ],
            ["pool.create", "", "", ""],
        ]
    );
}

async fn older_records_are_told_as_far_as_their_kind_says_enough(bench: Bench) {
    let mut cache = PoolCache::default();
    let settings = with_a_downgrade(&bench, &mut cache).await;
    let silent = Acquire { lease_for: Some(MINUTE), ..acquire("silent", 2) };
    ask(&bench, &mut cache, silent).await;
    bench.clock.advance(2 * MINUTE);
    pass(&bench, &mut cache, &[]).await;
    bench.clock.advance(Duration::from_secs(25 * 3600));
    pass(&bench, &mut cache, &[]).await;
    let Answer::Admitted { parts, .. } = ask(&bench, &mut cache, acquire("stuck", 2)).await else { panic!() };
    let mut tx = bench.begin().await;
    tx.pools().release_ticket(parts[0].ticket.id, &ann(), "\"paused\":null").await.unwrap();
    tx.commit().await.unwrap();
    set(&bench, &Settings { max_units: 20, ..settings }).await;
    let told = texts(&bench).await;
    assert!(told.iter().any(|text| text == DOWNGRADED), "{told:?}");

    // The schema of the previous release, and then the migration.
    let mut tx = bench.begin().await;
    for statement in [
        "drop index tidemill_pool_log_summary",
        "drop index tidemill_pool_log_summary_at",
        "alter table tidemill_pool_log drop column summary",
        "delete from tidemill_migration where name = 'pool_events'",
    ] {
        tx.execute_for_test(statement).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(bench.store.migrate(&Actor::system(), |_| {}).await.unwrap(), 1);

    let held_too_long = "dag held its units for too long, so they were taken back";
    assert_eq!(
        texts(&bench).await,
        [
            "ADW changed",
            "dag was released by an operator",
            held_too_long,
            held_too_long,
            "dag is silent; its units still count",
            "ADW changed",
        ]
    );
    assert!(told.iter().filter(|text| *text == held_too_long).count() == 2, "{told:?}");
}

#[tokio::test]
async fn sqlite_reads_events_in_the_order_of_an_index_that_has_nothing_else() {
    let bench = Bench::sqlite().await;
    let statements = plan::statements(&["pool/event_summary.rs"]);
    assert_eq!(statements.len(), 2);

    let is_by_index = |_: &str, line: &str| line.contains(" l USING INDEX tidemill_pool_log_summary");
    assert_eq!(plan::scans(&bench, &statements, is_by_index).await.len(), 2);
    let sorts_or_scans = |_: &str, line: &str| line.contains("TEMP B-TREE") || line == "SCAN l";
    assert_eq!(plan::scans(&bench, &statements, sorts_or_scans).await, Vec::<String>::new());
}
