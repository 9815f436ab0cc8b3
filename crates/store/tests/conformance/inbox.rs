//! The inbox: a message that comes again is known, if what was done about it has committed.

use crate::Bench;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::inbox::{CONSUMER_BYTES_MAX, MESSAGE_ID_BYTES_MAX};
use tidemill_store::inbox::first_time_on;
use tidemill_store::sqlx::{self, Connection};

crate::on_both![
    a_message_comes_for_the_first_time_once_for_each_consumer,
    what_was_rolled_back_comes_for_the_first_time_again,
    of_two_at_once_one_is_told_that_it_is_the_first,
    whatever_is_accepted_can_be_kept,
    names_that_cannot_be_kept_are_refused,
    what_was_seen_long_ago_is_forgotten,
    in_a_transaction_of_the_users_own_it_shares_its_end,
    the_plain_statement_of_the_guide_does_the_same,
];

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Asks in a transaction that commits.
async fn first(bench: &Bench, consumer: &str, id: &str) -> bool {
    let mut tx = bench.begin().await;
    let first = tx.first_time(consumer, id).await.unwrap();
    tx.commit().await.unwrap();
    first
}

async fn a_message_comes_for_the_first_time_once_for_each_consumer(bench: Bench) {
    assert!(first(&bench, "billing", "1").await);

    assert!(!first(&bench, "billing", "1").await);
    assert!(first(&bench, "billing", "2").await);
    assert!(first(&bench, "shipping", "1").await);
    let mut tx = bench.begin().await;
    assert!(tx.first_time("billing", "3").await.unwrap());
    assert!(!tx.first_time("billing", "3").await.unwrap(), "also within one transaction");
}

async fn what_was_rolled_back_comes_for_the_first_time_again(bench: Bench) {
    let mut tx = bench.begin().await;
    assert!(tx.first_time("billing", "1").await.unwrap());
    tx.rollback().await.unwrap();

    assert!(first(&bench, "billing", "1").await);
}

async fn of_two_at_once_one_is_told_that_it_is_the_first(bench: Bench) {
    for id in 0..10 {
        let asking = (0..4).map(|_| {
            let store = bench.store.clone();
            tokio::spawn(async move {
                let mut tx = store.begin().await.unwrap();
                let first = tx.first_time("billing", &id.to_string()).await.unwrap();
                tokio::task::yield_now().await;
                tx.commit().await.unwrap();
                first
            })
        });
        let mut firsts = 0;
        for asked in asking.collect::<Vec<_>>() {
            firsts += u32::from(asked.await.unwrap());
        }
        assert_eq!(firsts, 1, "of message {id}");
    }
}

async fn whatever_is_accepted_can_be_kept(bench: Bench) {
    let long = "x".repeat(CONSUMER_BYTES_MAX);
    let id = "한".repeat(MESSAGE_ID_BYTES_MAX / 3);
    for (consumer, id) in [(long.as_str(), id.as_str()), ("it's", "a'b\"c\\ --;"), (" ", " ")] {
        assert!(first(&bench, consumer, id).await);
        assert!(!first(&bench, consumer, id).await);
    }
}

async fn names_that_cannot_be_kept_are_refused(bench: Bench) {
    let long = "x".repeat(MESSAGE_ID_BYTES_MAX + 1);
    for (consumer, id) in [("", "1"), ("billing", ""), ("billing", "a\0"), ("billing", &long), (&long, "1")] {
        let error = bench.begin().await.first_time(consumer, id).await.unwrap_err();
        assert_eq!(error.code(), Code::BadMessageId);
        assert!(!error.fix().is_empty());
    }
}

async fn what_was_seen_long_ago_is_forgotten(bench: Bench) {
    let mut tx = bench.begin().await;
    for id in 0..2_500 {
        tx.first_time("billing", &id.to_string()).await.unwrap();
    }
    tx.commit().await.unwrap();
    bench.advance(DAY * 29);
    assert!(first(&bench, "billing", "young").await);
    bench.advance(DAY * 2);

    let some = bench.store.retain_inbox(DAY * 30, 1).await.unwrap();
    let rest = bench.store.retain_inbox(DAY * 30, 10).await.unwrap();

    assert_eq!((some, rest), (1_000, 1_500));
    assert!(first(&bench, "billing", "7").await);
    assert!(!first(&bench, "billing", "young").await);
}

async fn in_a_transaction_of_the_users_own_it_shares_its_end(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // Of SQLite there is one writer, which is the store's.
    }
    let mut connection = sqlx::PgConnection::connect(bench.scratch.url()).await.unwrap();
    let mut never = connection.begin().await.unwrap();
    assert!(first_time_on(&mut never, "billing", "1").await.unwrap());
    never.rollback().await.unwrap();
    let mut once = connection.begin().await.unwrap();
    assert!(first_time_on(&mut once, "billing", "1").await.unwrap());
    once.commit().await.unwrap();

    assert!(!first(&bench, "billing", "1").await);
    assert_eq!(first_time_on(&mut connection, "", "1").await.unwrap_err().code(), Code::BadMessageId);
}

async fn the_plain_statement_of_the_guide_does_the_same(bench: Bench) {
    let guide = include_str!("../../../../docs/guide/inbox.md");
    let statement = guide.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let statement = statement.replace("$1", "'billing'").replace("$2", "'1'");
    let mut tx = bench.begin().await;

    tx.execute_for_test(&statement).await.unwrap();
    assert!(!tx.first_time("billing", "1").await.unwrap());
    assert!(tx.first_time("billing", "2").await.unwrap());
    tx.execute_for_test(&statement.replace("'1'", "'2'")).await.unwrap();
    tx.commit().await.unwrap();
}
