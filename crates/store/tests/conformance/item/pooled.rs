//! Readers and the writer behind a pooler that lends a server connection per transaction. PostgreSQL alone has
//! one.

use super::source::Reader;
use tidemill_domain::item::Value;
use tidemill_domain::job::ExecutionContext;
use tidemill_store::item::{Database, Mode, SqlQuery, TableWriter};
use tidemill_store::{Init, Store, StoreOptions};
use tidemill_testkit::{PoolMode, PostgresOptions, PrivatePgbouncer, PrivatePostgres};
use tidemill_testkit::{pgbouncer, postgres, skip};

const ROWS: i64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_transaction_pooler_readers_do_not_take_the_statements_of_others() {
    let found = skip::require("pgbouncer", pgbouncer::find_binary());
    if found.and_then(|_| skip::require("postgres", postgres::find_binaries())).is_none() {
        return;
    }
    let server = PrivatePostgres::start(&PostgresOptions::default()).unwrap();
    let pooler = PrivatePgbouncer::start(PoolMode::Transaction, server.port(), "postgres").unwrap();
    let store = Store::open(pooler.url().parse().unwrap(), &StoreOptions::default()).await.unwrap();
    store.initialise(Init::Always).await.unwrap();
    assert!(store.is_behind_transaction_pooler());
    server
        .psql("postgres", "create table t (id int8 primary key); create table u (id int8 primary key)")
        .unwrap();
    server.psql("postgres", &format!("insert into t select generate_series(1, {ROWS})")).unwrap();
    let query = SqlQuery::new("select id from t where id > $1").bind(0);
    let ordered = SqlQuery::new("select id from t where id > $1 order by id").bind(0);

    // All of them at once, so that they are lent each other's connections.
    let mut readers = Vec::new();
    for size in [1, 7, 100] {
        readers.extend(Reader::all(&Database::of(&store), &query, &ordered, &["id"], size));
    }
    // A cursor keeps its connection, and the pooler has five.
    readers.retain(|reader| !matches!(reader, Reader::Cursor(_)));
    readers.extend(Reader::all(&Database::of(&store), &query, &ordered, &["id"], 3).into_iter().take(1));
    for reader in &mut readers {
        reader.open(&ExecutionContext::new()).await.unwrap();
    }
    let mut writer = TableWriter::new("u").mode(Mode::Upsert { key: vec!["id".to_owned()] });
    writer.open(&store).await.unwrap();
    for expected in 1..=ROWS {
        for reader in &mut readers {
            let row = reader.read().await.unwrap().unwrap();
            assert_eq!(row.values(), [Value::Long(expected)]);
            writer.push_row(&row).unwrap();
        }
        let mut tx = store.begin().await.unwrap();
        writer.flush(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
    }

    for reader in &mut readers {
        assert!(reader.read().await.unwrap().is_none());
    }
    assert_eq!(server.psql("postgres", "select count(*) from u").unwrap(), ROWS.to_string());
}
