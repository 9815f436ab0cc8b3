//! Creating the schema and bringing it up to date. That a killed migration restarts cleanly is tested with real
//! processes, in the tests of the command line.

use crate::Bench;
use tidemill_domain::audit::Actor;
use tidemill_store::migration::{MigrationState, known, schema_sql};
use tidemill_store::scratch::Scratch;
use tidemill_store::{Init, Store, StoreError, StoreOptions};

crate::on_both![
    an_empty_database_is_behind_until_it_is_migrated,
    migrating_twice_changes_nothing,
    processes_that_start_at_once_migrate_once,
    a_schema_applied_by_hand_is_accepted,
    a_foreign_breaking_migration_is_refused,
    an_edited_migration_is_refused,
];

/// An empty database beside the bench's own, of the same kind.
async fn empty(bench: &Bench) -> Scratch {
    if bench.scratch.url().starts_with("sqlite") {
        Scratch::file()
    } else {
        Scratch::postgres().await.unwrap()
    }
}

async fn open(scratch: &Scratch) -> Store {
    Store::open(scratch.url().parse().unwrap(), &StoreOptions::default()).await.unwrap()
}

async fn an_empty_database_is_behind_until_it_is_migrated(bench: Bench) {
    let scratch = empty(&bench).await;
    let store = open(&scratch).await;
    assert!(matches!(store.initialise(Init::Never).await, Err(StoreError::SchemaBehind { .. })));
    let status = store.migration_status().await.unwrap();
    assert!(status.iter().all(|line| line.state == MigrationState::Pending));

    let mut told = Vec::new();
    let count = store.migrate(&Actor::system(), |migration| told.push(migration.version)).await.unwrap();

    assert_eq!(count, known(store.dialect()).len());
    assert_eq!(told.len(), count);
    store.initialise(Init::Never).await.unwrap();
    let status = store.migration_status().await.unwrap();
    assert!(status.iter().all(|line| line.state == MigrationState::Applied && line.applied_at.is_some()));
}

async fn migrating_twice_changes_nothing(bench: Bench) {
    assert_eq!(bench.store.migrate(&Actor::system(), |_| {}).await.unwrap(), 0);
}

async fn processes_that_start_at_once_migrate_once(bench: Bench) {
    let scratch = empty(&bench).await;
    let mut rivals = Vec::new();
    for _ in 0..8 {
        let url = scratch.url().to_owned();
        // A store each, as separate processes would have.
        rivals.push(tokio::spawn(async move {
            let store = Store::open(url.parse().unwrap(), &StoreOptions::default()).await.unwrap();
            store.migrate(&Actor::system(), |_| {}).await.unwrap()
        }));
    }

    let mut applied = 0;
    for rival in rivals {
        applied += rival.await.unwrap();
    }

    assert_eq!(applied, known(bench.store.dialect()).len());
}

async fn a_schema_applied_by_hand_is_accepted(bench: Bench) {
    let scratch = empty(&bench).await;
    let store = open(&scratch).await;
    let sql = schema_sql(store.dialect());
    // The script brings its own transaction.
    let body = sql.replace("begin;\n\n", "").replace("\ncommit;\n", "");
    let mut tx = store.begin().await.unwrap();
    tx.execute_for_test(&body).await.unwrap();
    tx.commit().await.unwrap();

    store.initialise(Init::Never).await.unwrap();
    assert_eq!(store.migrate(&Actor::system(), |_| {}).await.unwrap(), 0);
}

async fn record(bench: &Bench, statement: &str) {
    let mut tx = bench.begin().await;
    tx.execute_for_test(statement).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_foreign_breaking_migration_is_refused(bench: Bench) {
    let at = if bench.scratch.url().starts_with("sqlite") { "0" } else { "now()" };
    let insert = |version: u32, breaking: &str| {
        format!("insert into tidemill_migration values ({version}, 'later', 'x', {breaking}, {at})")
    };
    let (no, yes) = if at == "0" { ("0", "1") } else { ("false", "true") };

    record(&bench, &insert(9001, no)).await;
    bench.store.initialise(Init::Never).await.unwrap();
    record(&bench, &insert(9002, yes)).await;

    let refused = bench.store.initialise(Init::Always).await;
    assert!(matches!(refused, Err(StoreError::SchemaAhead { version: 9002, .. })), "{refused:?}");
}

async fn an_edited_migration_is_refused(bench: Bench) {
    record(&bench, "update tidemill_migration set checksum = 'other' where version = 1").await;

    let refused = bench.store.initialise(Init::Always).await;

    assert!(matches!(refused, Err(StoreError::MigrationChanged { version: 1, .. })), "{refused:?}");
}
