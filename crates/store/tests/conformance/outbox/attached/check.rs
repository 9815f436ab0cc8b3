//! What is attached, and what is not.

use super::{TRANSFER_EVENTS, attach, attached, name, number, table};
use crate::Bench;
use crate::outbox::run;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::attached::check::Fault;
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
use tidemill_store::audit::AuditFilter;
use tidemill_store::outbox::AttachError;

async fn faults(bench: &Bench, table: &AttachedTable) -> Vec<Fault> {
    match bench.store.examine_table(table).await {
        Err(AttachError::NotFit { faults, .. }) => faults,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_postgres_nothing_is_attached() {
    let bench = Bench::sqlite().await;

    let refused = bench.store.examine_table(&table()).await;

    assert!(matches!(refused, Err(AttachError::Unsupported)));
    let mut tx = bench.begin().await;
    assert!(matches!(
        tx.outbox().attach_table(&table(), &Actor::system()).await,
        Err(AttachError::Unsupported)
    ));
    assert_eq!(tx.outbox().attached_tables().await.unwrap(), []);
}

#[tokio::test]
async fn the_table_of_the_document_is_attached_with_its_indexes_and_told() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, TRANSFER_EVENTS).await;

    let examined = bench.store.examine_table(&table()).await.unwrap();
    assert_eq!(examined.statements.len(), 2);
    assert_eq!(bench.store.index_attached(&name()).await.unwrap().len(), 2);
    assert_eq!(bench.store.index_attached(&name()).await.unwrap(), Vec::<String>::new());
    let mut tx = bench.begin().await;
    assert!(tx.outbox().attach_table(&table(), &Actor::system()).await.unwrap());
    assert!(!tx.outbox().attach_table(&table(), &Actor::system()).await.unwrap());
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().attached_table(&name()).await.unwrap(), table());
    tx.outbox().detach_table(&name(), &Actor::system()).await.unwrap();
    assert!(matches!(tx.outbox().attached_table(&name()).await, Err(AttachError::NotAttached { .. })));
    assert!(matches!(
        tx.outbox().detach_table(&name(), &Actor::system()).await,
        Err(AttachError::NotAttached { .. })
    ));
    let filter =
        AuditFilter { object: Some("outbox/public.transfer_events".into()), ..AuditFilter::default() };
    let entries = tx.audit().entries(&filter, 10).await.unwrap();
    let actions: Vec<_> = entries.iter().map(|record| record.entry.action.as_str()).collect();
    assert_eq!(actions, ["outbox.detach", "outbox.attach", "outbox.attach"]);
}

#[tokio::test]
async fn all_that_is_missing_is_named_at_once_with_the_statement_that_mends_it() {
    let Some(bench) = Bench::postgres().await else { return };
    run(
        &bench.store,
        "create table transfer_events (
             event_id bigint, aggregate_id text, payload text, headers point, status varchar(7) check (status <> 'SENDING')
         )",
    )
    .await;

    let told = faults(&bench, &table()).await;

    let whats: Vec<&str> = told.iter().map(|fault| fault.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "headers is of type point",
            "status has room for 7 characters",
            "the column next_retry_at is missing",
            "the column updated_at is missing",
            "event_id is not unique",
            "a check on status does not allow SENDING",
        ]
    );
    // What was said to mend it does.
    for fault in told.iter().filter(|fault| fault.remedy.starts_with("alter table")) {
        run(&bench.store, &fault.remedy).await;
    }
    let left = faults(&bench, &table()).await;
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn what_is_no_table_and_an_unknown_zone_are_told() {
    let Some(bench) = Bench::postgres().await else { return };
    let lost = AttachedTable::new(name(), "transfers", None, None, Some("Asia/Atlantis")).unwrap();

    let told = faults(&bench, &lost).await;

    assert_eq!(told.len(), 2);
    assert_eq!(told[0].what, "there is no table public.transfer_events");
    run(&bench.store, "create view transfer_events as select 1 as event_id").await;
    assert_eq!(faults(&bench, &table()).await[0].what, "public.transfer_events is not an ordinary table");
}

#[tokio::test]
async fn an_enum_and_large_letters_in_another_schema_are_served() {
    let Some(bench) = Bench::postgres().await else { return };
    run(&bench.store, "create schema \"Sales\"").await;
    run(&bench.store, "create type mood as enum ('PENDING', 'SENDING', 'PUBLISHED')").await;
    run(
        &bench.store,
        "create table \"Sales\".\"Events\" (
             event_id integer primary key, aggregate_id uuid not null, payload bytea, headers jsonb,
             status mood not null, next_retry_at timestamp not null, updated_at timestamp not null
         )",
    )
    .await;
    let events = TableName::new("Sales", "Events").unwrap();
    let table = AttachedTable::new(events, "sales", None, None, Some("Asia/Seoul")).unwrap();

    let told = faults(&bench, &table).await;
    assert_eq!(told.len(), 1);
    run(&bench.store, &told[0].remedy).await;
    attach(&bench, &table).await;

    let examined = bench.store.examine_table(&table).await.unwrap();
    assert_eq!(examined.statements, Vec::<String>::new());
    assert!(examined.warnings.iter().any(|warning| warning.contains("no time zone")), "{examined:?}");
}

#[tokio::test]
async fn an_index_that_was_left_half_made_is_made_anew() {
    let Some(bench) = attached().await else { return };
    let half = "update pg_index set indisvalid = false
                where indexrelid = 'tidemill_transfer_events_slot'::regclass";
    run(&bench.store, half).await;

    let made = bench.store.index_attached(&name()).await.unwrap();

    assert_eq!(made, ["tidemill_transfer_events_slot"]);
    let valid = "select count(*) from pg_index where indisvalid
                 and indexrelid in ('tidemill_transfer_events_slot'::regclass, 'tidemill_transfer_events_aggregate'::regclass)";
    assert_eq!(number(&bench, valid).await, 2);
    bench.store.drop_attached_index(&name()).await.unwrap();
    assert_eq!(
        number(&bench, "select count(*) from pg_class where relname like 'tidemill_transfer%'").await,
        0
    );
}
