//! Reading items that are already there.

use super::{all, check_every_restart, open, read, saved};
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::ItemsReader;
use tidemill_engine::job::component::ItemReader;

#[tokio::test]
async fn the_count_grows_with_every_call_and_is_one_more_than_the_items_at_the_end() {
    let reader = ItemsReader::new("in", 1..=5).failing_on(|item| *item == 2);
    let mut reader = open(reader, &ExecutionContext::new()).await.unwrap();
    let mut counts = Vec::new();

    for _ in 0..6 {
        read(&mut reader, 1).await;
        counts.push(saved(&mut reader).get_long("in.read.count").unwrap());
    }

    assert_eq!(counts, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_restart_drops_as_many_as_were_read_the_failed_ones_included() {
    let reader = || ItemsReader::new("in", vec!["a", "b", "c", "d"]).failing_on(|item| *item == "b");

    let seen = check_every_restart(reader).await;

    assert_eq!(seen.len(), 4);
    assert!(seen[1].is_err());
    assert_eq!(seen[3], Ok("d"));
}

#[tokio::test]
async fn errors_can_be_handed_in_with_their_kind() {
    let items = || [Ok(1), Err(ItemError::new(ErrorKind::TRANSIENT, "busy")), Ok(3)];
    let mut reader = open(ItemsReader::results("in", items), &ExecutionContext::new()).await.unwrap();

    read(&mut reader, 1).await;
    let error = reader.read().await.unwrap_err();

    assert_eq!(error.kind_in(Phase::Read), ErrorKind::TRANSIENT);
    assert_eq!(read(&mut reader, 9).await, [Ok(3)]);
}

#[tokio::test]
async fn the_total_is_known_where_the_iterator_knows_it() {
    let exact = ItemsReader::new("in", [1, 2, 3]);
    let vague = ItemsReader::new("in", (0..9).filter(|number| number % 2 == 0));

    assert_eq!((exact.total(), vague.total()), (Some(3), None));
    assert_eq!(all(vague).await.len(), 5);
}
