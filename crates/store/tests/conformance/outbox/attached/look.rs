//! What a relay sees of the table each second, and that nothing about the table keeps it from renewing its lease.

use super::{attach, attached, insert, look, table};
use crate::Bench;
use crate::outbox::reader::Reader;
use crate::outbox::run;
use crate::outbox::stage::Writer;
use std::time::Duration;
use tidemill_domain::outbox::Slot;
use tidemill_store::outbox::TableLook;

fn fault(looked: TableLook) -> String {
    match looked {
        TableLook::Fault(why) => why,
        other => panic!("{other:?}"),
    }
}

/// What cannot be looked at is the table, and not the relay: it renews, and is told which tables there are.
async fn assert_renews(relay: &Reader) {
    assert_eq!(relay.look().await.unwrap().attached, [table()]);
}

#[tokio::test]
async fn a_look_tells_what_is_due_in_its_slots() {
    let Some(bench) = attached().await else { return };
    let mut relay = Reader::join(&bench.store, 1, 10).await;
    relay.take(&[Slot::of("a")]).await.unwrap();

    insert(&bench, &["b"]).await;
    assert_eq!(look(&relay).await, TableLook::NotDue);
    insert(&bench, &["a"]).await;
    assert_eq!(look(&relay).await, TableLook::Due);
}

#[tokio::test]
async fn a_table_that_is_locked_or_gone_is_a_fault_of_the_table() {
    let Some(bench) = attached().await else { return };
    let relay = Reader::of_all(&bench.store, 1, 10).await;
    let mut other = Writer::new(bench.scratch.url()).await;
    other.begin().await;

    other.run("lock table transfer_events").await;
    assert!(fault(look(&relay).await).contains("lock timeout"));
    assert_renews(&relay).await;
    other.run("drop table transfer_events").await;
    other.commit().await;
    assert!(fault(look(&relay).await).contains("does not exist"));
    assert_renews(&relay).await;
}

#[tokio::test]
async fn a_table_without_an_index_is_not_read_and_the_remedy_is_named() {
    for word in ["slot", "aggregate"] {
        let Some(bench) = attached().await else { return };
        insert(&bench, &["a"]).await;
        let relay = Reader::of_all(&bench.store, 1, 10).await;
        let expected = format!(
            "the index tidemill_transfer_events_{word} is missing or not valid: \
             run `tidemill outbox attach transfer_events --topic transfers` again"
        );

        let half = format!(
            "update pg_index set indisvalid = false
             where indexrelid = 'tidemill_transfer_events_{word}'::regclass"
        );
        run(&bench.store, &half).await;
        assert_eq!(fault(look(&relay).await), expected);
        run(&bench.store, &format!("drop index tidemill_transfer_events_{word}")).await;
        assert_eq!(fault(look(&relay).await), expected);
        assert_renews(&relay).await;

        // What was said to help does.
        attach(&bench, &table()).await;
        assert_eq!(look(&relay).await, TableLook::Due);
    }
}

/// As if there were very much to read: each row of the table takes ten minutes.
async fn slow() -> Option<Bench> {
    let bench = attached().await?;
    insert(&bench, &["a"]).await;
    run(&bench.store, "alter table transfer_events rename to slow_events").await;
    run(
        &bench.store,
        "create view transfer_events as select * from slow_events where pg_sleep(600)::text is not null",
    )
    .await;
    Some(bench)
}

#[tokio::test]
async fn a_look_that_takes_too_long_ends_and_is_a_fault_of_the_table() {
    let Some(bench) = slow().await else { return };
    let relay = Reader::of_all(&bench.store, 1, 10).await;
    let (slots, within) = (relay.slots(), Duration::from_millis(50));
    let (table, most) = (table(), crate::SOON);

    let looking = bench.store.look_at_attached(&table, &slots, within);
    let looked =
        tokio::time::timeout(most, looking).await.expect("an answer before the table has one").unwrap();

    assert!(fault(looked).starts_with("it takes longer than 50ms to see whether something is due"));
    // That limit ends with its transaction.
    let mut tx = bench.begin().await;
    let limit: String =
        sqlx::query_scalar("show statement_timeout").fetch_one(tx.postgres().unwrap()).await.unwrap();
    assert_eq!(limit, "0");
    assert_renews(&relay).await;
}
