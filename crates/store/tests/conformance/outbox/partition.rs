//! Partitions that are made ahead, on PostgreSQL: SQLite has none.

use super::{go_to, numbers, read_all, write};
use crate::Bench;
use tidemill_domain::outbox::partition::Range;
use tidemill_store::outbox::Extended;

crate::on_both![where_there_are_enough_nothing_is_made];

const MILLION: i64 = 1_000_000;

fn range(from: i64, to: i64) -> Range {
    Range { from, to }
}

async fn where_there_are_enough_nothing_is_made(bench: Bench) {
    let extended = bench.store.extend_outbox(MILLION, 2).await.unwrap();

    assert_eq!(extended, Extended::default());
}

#[tokio::test]
async fn ranges_are_made_ahead_and_take_events() {
    let Some(bench) = Bench::postgres().await else { return };
    go_to(&bench.store, 1_500_000).await;

    let extended = bench.store.extend_outbox(MILLION, 2).await.unwrap();

    let made = [range(2_000_001, 3_000_001), range(3_000_001, 4_000_001)];
    assert_eq!(extended, Extended { made: made.into(), is_short: false });
    go_to(&bench.store, 2_500_000).await;
    write(&bench.store, "a", bench.now()).await;
    assert_eq!(
        numbers(&bench.store, "select id from outbox_event_p2000001 where slot = 12").await,
        [2_500_001]
    );
    assert_eq!(numbers(&bench.store, "select count(*) from outbox_event_default").await, [0]);
    let mut tx = bench.begin().await;
    let bad = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic)
               values ('order', 'a', 'order.paid', 'no topic')";
    assert!(tx.execute_for_test(bad).await.is_err());
}

/// What is made later is like what the migration made.
#[tokio::test]
async fn a_partition_is_like_the_first_one() {
    let Some(bench) = Bench::postgres().await else { return };
    go_to(&bench.store, 1_500_000).await;
    bench.store.extend_outbox(MILLION, 1).await.unwrap();

    let columns = "select string_agg(attname::text || attnotnull::text || attgenerated::text || format_type(atttypid, atttypmod)
                              || coalesce(pg_get_expr(d.adbin, d.adrelid), ''), ',' order by attname)
                   from pg_attribute a
                   left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
                   where attnum > 0 and attrelid in ('outbox_event_p1'::regclass, 'outbox_event_p2000001'::regclass)
                   group by attrelid";
    let indexes = "select string_agg(replace(pg_get_indexdef(indexrelid), indrelid::regclass::text, ''), ','
                              order by indisprimary)
                   from pg_index
                   where indrelid in ('outbox_event_p1'::regclass, 'outbox_event_p2000001'::regclass)
                   group by indrelid";
    let checks = "select string_agg(pg_get_constraintdef(oid), ',' order by pg_get_constraintdef(oid))
                  from pg_constraint
                  where conrelid in ('outbox_event_p1'::regclass, 'outbox_event_p2000001'::regclass)
                  group by conrelid";

    for (what, sql) in [("columns", columns), ("indexes", indexes), ("checks", checks)] {
        let found = super::texts(&bench.store, sql).await;
        assert_eq!(found.len(), 2, "{what}");
        assert_eq!(found[0], found[1], "{what}");
    }
}

#[tokio::test]
async fn who_is_writing_is_not_waited_for() {
    let Some(bench) = Bench::postgres().await else { return };
    go_to(&bench.store, 1_500_000).await;
    let mut writer = bench.begin().await;
    super::write_in(&mut writer, "a", bench.now()).await;

    let extended = bench.store.extend_outbox(MILLION, 2).await.unwrap();

    assert_eq!(extended.made.len(), 2);
    writer.commit().await.unwrap();
}

#[tokio::test]
async fn who_is_in_the_way_is_not_waited_for_long() {
    let Some(bench) = Bench::postgres().await else { return };
    go_to(&bench.store, 1_500_000).await;
    let mut reader = bench.begin().await;
    reader.execute_for_test("lock table outbox_event_default in access share mode").await.unwrap();

    let hindered = bench.store.extend_outbox(MILLION, 2).await.unwrap();
    reader.rollback().await.unwrap();
    let again = bench.store.extend_outbox(MILLION, 2).await.unwrap();

    assert_eq!(hindered, Extended { made: Vec::new(), is_short: true });
    assert_eq!(again.made.len(), 2);
}

#[tokio::test]
async fn what_came_into_the_default_partition_stays_there_and_is_relayed() {
    let Some(bench) = Bench::postgres().await else { return };
    read_all(&bench.store).await;
    go_to(&bench.store, 5_000_000).await;
    write(&bench.store, "a", bench.now()).await;

    let extended = bench.store.extend_outbox(MILLION, 2).await.unwrap();
    write(&bench.store, "a", bench.now()).await;

    assert_eq!(extended.made, [range(6_000_001, 7_000_001), range(7_000_001, 8_000_001)]);
    let mut tx = bench.store.read().await.unwrap();
    let lag = tx.outbox().lag(10).await.unwrap().unwrap();
    assert_eq!(lag.iter().map(|lag| lag.rows.least()).sum::<u64>(), 2);
    assert_eq!(tx.outbox().default_rows(10).await.unwrap().unwrap().to_string(), "2");
    assert_eq!(tx.outbox().default_rows(1).await.unwrap().unwrap().to_string(), "at least 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_at_once_one_wins_quietly() {
    let Some(bench) = Bench::postgres().await else { return };
    for round in 1..5 {
        go_to(&bench.store, round * 3 * MILLION).await;

        let (one, two) =
            tokio::join!(bench.store.extend_outbox(MILLION, 2), bench.store.extend_outbox(MILLION, 2));

        let (one, two) = (one.unwrap(), two.unwrap());
        assert!(one.made.len() + two.made.len() >= 1, "{one:?} {two:?}");
        assert!(one.made.iter().all(|range| !two.made.contains(range)));
        bench.store.extend_outbox(MILLION, 2).await.unwrap();
        let ahead = "select count(*) from pg_inherits where inhparent = 'outbox_event'::regclass";
        assert_eq!(numbers(&bench.store, ahead).await[0], 3 + 2 * round);
    }
}

#[tokio::test]
async fn partitions_are_listed_with_their_ranges() {
    let Some(bench) = Bench::postgres().await else { return };

    let partitions = bench.store.read().await.unwrap().outbox().partitions().await.unwrap();

    let names: Vec<_> = partitions.iter().map(|partition| partition.name.as_str()).collect();
    assert_eq!(names, ["outbox_event_p1", "outbox_event_p1000001", "outbox_event_default"]);
    assert_eq!(partitions[0].range, Some(range(1, 1_000_001)));
    assert_eq!((partitions[2].range, partitions[2].rows), (None, None));
    assert!(partitions[0].bytes > 0);
}
