//! Transactions that only read.

use crate::{Bench, TTL, identity, process_id};
use std::time::Duration;
use tidemill_domain::code::Code;

crate::on_both![
    a_reader_does_not_write,
    a_reader_sees_one_snapshot,
    who_waits_only_so_long_reads_only_so_long
];

async fn a_reader_does_not_write(bench: Bench) {
    let mut reader = bench.store.read().await.unwrap();

    assert!(reader.processes().register(process_id(1), &identity(1), TTL).await.is_err());
}

async fn a_reader_sees_one_snapshot(bench: Bench) {
    let mut reader = bench.store.read().await.unwrap();
    assert!(reader.processes().list(10).await.unwrap().is_empty());

    bench.process(1).await;

    assert!(reader.processes().list(10).await.unwrap().is_empty());
    reader.rollback().await.unwrap();
    assert_eq!(bench.store.read().await.unwrap().processes().list(10).await.unwrap().len(), 1);
}

async fn who_waits_only_so_long_reads_only_so_long(bench: Bench) {
    let mut reader = bench.store.read_within(Duration::from_secs(5)).await.unwrap();
    assert!(reader.processes().list(10).await.unwrap().is_empty());
    if bench.scratch.url().starts_with("postgres") {
        let ended = reader.execute_for_test("select pg_sleep(600)").await.unwrap_err();
        assert_eq!(ended.code(), Code::DatabaseBusy, "{ended}");
    }
    reader.rollback().await.unwrap();

    let mut writer = bench.store.read_within(Duration::from_secs(60)).await.unwrap();
    assert!(writer.processes().register(process_id(1), &identity(1), TTL).await.is_err());
}
