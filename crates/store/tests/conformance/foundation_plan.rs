//! With many leases and a long audit log, the lists of them find their rows by an index.

use crate::event_recorder::{plans_of, reads_a_whole_table};
use crate::{Bench, plan};
use tidemill_domain::lease::LeaseKey;
use tidemill_store::audit::AuditFilter;

/// Enough that the planner does not prefer to read a whole table.
const FILL: &str = "
    insert into tidemill_lease (kind, name, epoch, owner, until, acquired_at)
    select 'thing', 'n' || n, 1, '0198f2a0-0000-7000-8000-000000000001', now() + interval '1 day', now()
    from generate_series(1, 30000) as n;
    insert into tidemill_audit (at, actor, role, action, object)
    select now(), 'ann', 'admin', 'thing.done', 'thing/' || n
    from generate_series(1, 30000) as n;
    analyze";

fn is_long(table: &str) -> bool {
    matches!(table, "tidemill_lease" | "tidemill_audit")
}

/// Fills the tables, lets somebody look at them, and returns the plans that the server told.
async fn plans(bench: &Bench) -> Vec<String> {
    let mut tx = bench.begin().await;
    tx.execute_for_test(FILL).await.unwrap();
    tx.commit().await.unwrap();
    plans_of(bench, look).await
}

/// What every page reads, and what the page of one thing does.
async fn look(bench: &Bench) {
    let mut tx = bench.store.read().await.unwrap();
    assert_eq!(tx.leases().list(200).await.unwrap().len(), 200);
    assert!(tx.leases().find(&LeaseKey::new("thing", "n77").unwrap()).await.unwrap().is_some());
    let all = AuditFilter::default();
    assert_eq!(tx.audit().entries(&all, 50).await.unwrap().len(), 50);
    assert_eq!(
        tx.audit().entries(&AuditFilter { before_id: Some(100), ..all.clone() }, 50).await.unwrap().len(),
        50
    );
    let one = AuditFilter { object: Some("thing/77".to_owned()), ..all };
    // More often than a plan is made for its values.
    for _ in 0..8 {
        assert_eq!(tx.audit().entries(&one, 50).await.unwrap().len(), 1);
    }
    tx.rollback().await.unwrap();
}

/// Whether the entries about one thing are found by it, every time.
fn is_by_object(plans: &[String]) -> bool {
    let about = plans.iter().filter(|plan| plan.contains("object = $5"));
    let found =
        about.map(|plan| plan.contains("\"Index Name\": \"tidemill_audit_object\"")).collect::<Vec<_>>();
    found.len() >= 8 && found.iter().all(|found| *found)
}

#[tokio::test]
async fn no_list_on_postgresql_reads_all_leases_or_the_whole_audit_log() {
    let Some(bench) = Bench::postgres().await else { return };

    let plans = plans(&bench).await;

    let scans: Vec<&String> = plans.iter().filter(|plan| reads_a_whole_table(plan, is_long)).collect();
    assert!(scans.is_empty(), "{scans:#?}");
    assert!(is_by_object(&plans), "{plans:#?}");
    for table in ["tidemill_lease", "tidemill_audit"] {
        let is_about = |plan: &&String| plan.contains(&format!("\"Relation Name\": \"{table}\""));
        assert!(plans.iter().filter(is_about).count() >= 2, "too few plans about {table}");
    }
}

#[tokio::test]
async fn a_lost_index_of_the_audit_log_on_postgresql_is_noticed() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut tx = bench.begin().await;
    tx.execute_for_test("drop index tidemill_audit_object").await.unwrap();
    tx.commit().await.unwrap();

    assert!(!is_by_object(&plans(&bench).await));
}

#[tokio::test]
async fn no_list_on_sqlite_sorts_leases_or_the_audit_log() {
    let bench = Bench::sqlite().await;
    let is_list = |statement: &String| statement.contains("limit $") && statement.contains("order by");
    let statements: Vec<String> =
        plan::statements(&["audit.rs", "lease.rs"]).into_iter().filter(is_list).collect();
    assert!(statements.len() >= 4, "{statements:#?}");

    let sorted = plan::scans(&bench, &statements, |_, line| line.contains("TEMP B-TREE")).await;
    let of_object: Vec<String> = statements.into_iter().filter(|text| text.contains("object = $5")).collect();
    let by_index = plan::scans(&bench, &of_object, |_, line| line.contains("tidemill_audit_object")).await;

    assert_eq!(sorted, Vec::<String>::new());
    assert_eq!((of_object.len(), by_index.len()), (1, 1));
}
