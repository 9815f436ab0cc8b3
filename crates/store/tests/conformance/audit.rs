//! The audit log.

use crate::Bench;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_store::audit::AuditFilter;

crate::on_both![
    an_entry_is_read_back_as_written,
    an_entry_goes_with_its_transaction,
    hostile_text_stays_text,
    the_log_is_filtered_and_paged,
    the_log_cannot_be_rewritten,
];

fn entry(actor: &str, action: &str, object: &str) -> AuditEntry {
    let actor = Actor { name: actor.into(), role: Role::Operator, request_id: Some("r-1".into()) };
    AuditEntry::new(actor, action, object)
}

async fn write(bench: &Bench, entry: &AuditEntry) {
    let mut tx = bench.begin().await;
    tx.audit().record(entry).await.unwrap();
    tx.commit().await.unwrap();
}

async fn an_entry_is_read_back_as_written(bench: Bench) {
    let written = entry("ann", "pool.pause", "pool/etl").from_to("open", "paused").because("maintenance");

    write(&bench, &written).await;

    let log = bench.begin().await.audit().entries(&AuditFilter::default(), 1).await.unwrap();
    assert_eq!((&log[0].entry, log[0].at), (&written, bench.now()));
}

async fn an_entry_goes_with_its_transaction(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.audit().record(&entry("ann", "pool.pause", "pool/etl")).await.unwrap();
    tx.rollback().await.unwrap();

    let of_ann = AuditFilter { actor: Some("ann".into()), ..AuditFilter::default() };
    assert!(bench.begin().await.audit().entries(&of_ann, 10).await.unwrap().is_empty());
}

async fn hostile_text_stays_text(bench: Bench) {
    for hostile in [
        "'; drop table tidemill_audit; --",
        "\u{202e}gnol",
        "a\0b",
        "\u{1b}[31m",
        "정산 \"x\" $1 {}",
        &"x".repeat(1 << 20),
    ] {
        let written = entry(hostile, hostile, hostile).because(hostile).from_to(hostile, hostile);
        write(&bench, &written).await;
        let log = bench.begin().await.audit().entries(&AuditFilter::default(), 1).await.unwrap();
        assert_eq!(log[0].entry, written);
    }
}

async fn the_log_is_filtered_and_paged(bench: Bench) {
    for number in 0..5 {
        write(
            &bench,
            &entry(if number % 2 == 0 { "ann" } else { "bob" }, "job.stop", &format!("job/{number}")),
        )
        .await;
        bench.advance(Duration::from_secs(60));
    }
    let mut tx = bench.begin().await;

    let first = tx.audit().entries(&AuditFilter::default(), 2).await.unwrap();
    let before_id = Some(first[1].id);
    let second = tx.audit().entries(&AuditFilter { before_id, ..AuditFilter::default() }, 2).await.unwrap();
    let objects = |log: &[tidemill_domain::audit::AuditRecord]| {
        log.iter().map(|record| record.entry.object.clone()).collect::<Vec<_>>()
    };
    assert_eq!(objects(&first), ["job/4", "job/3"]);
    assert_eq!(objects(&second), ["job/2", "job/1"]);

    let of_bob = AuditFilter { actor: Some("bob".into()), ..AuditFilter::default() };
    assert_eq!(objects(&tx.audit().entries(&of_bob, 10).await.unwrap()), ["job/3", "job/1"]);
    let of_one = AuditFilter {
        object: Some("job/2".into()),
        action: Some("job.stop".into()),
        ..AuditFilter::default()
    };
    assert_eq!(objects(&tx.audit().entries(&of_one, 10).await.unwrap()), ["job/2"]);
    let since = Some(bench.now().minus(Duration::from_secs(90)));
    assert_eq!(
        objects(&tx.audit().entries(&AuditFilter { since, ..AuditFilter::default() }, 10).await.unwrap()),
        ["job/4"]
    );
}

async fn the_log_cannot_be_rewritten(bench: Bench) {
    write(&bench, &entry("ann", "pool.pause", "pool/etl")).await;

    for statement in ["update tidemill_audit set actor = 'bob'", "delete from tidemill_audit"] {
        let refused = bench.begin().await.execute_for_test(statement).await;
        assert!(format!("{:?}", refused.unwrap_err()).contains("append-only"), "{statement}");
    }
}
