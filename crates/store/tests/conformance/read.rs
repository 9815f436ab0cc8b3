//! Transactions that only read.

use crate::{Bench, TTL, identity, process_id};

crate::on_both![a_reader_does_not_write, a_reader_sees_one_snapshot];

async fn a_reader_does_not_write(bench: Bench) {
    let mut reader = bench.store.read().await.unwrap();

    assert!(reader.register_process(process_id(1), &identity(1), TTL).await.is_err());
}

async fn a_reader_sees_one_snapshot(bench: Bench) {
    let mut reader = bench.store.read().await.unwrap();
    assert!(reader.processes(10).await.unwrap().is_empty());

    bench.process(1).await;

    assert!(reader.processes(10).await.unwrap().is_empty());
    reader.rollback().await.unwrap();
    assert_eq!(bench.store.read().await.unwrap().processes(10).await.unwrap().len(), 1);
}
