//! The table of the demo.

use crate::Bench;
use tidemill_store::demo::DemoPayments;

crate::on_both![the_rows_of_the_demo_are_counted_with_those_that_differ];

async fn the_rows_of_the_demo_are_counted_with_those_that_differ(bench: Bench) {
    let mut tx = bench.begin().await;
    tx.demo().create_payments().await.unwrap();
    tx.execute_for_test("insert into demo_payment values (1, 'a', 5), (2, 'b', 6), (2, 'b', 6)")
        .await
        .unwrap();

    assert_eq!(tx.demo().payments().await.unwrap(), DemoPayments { rows: 3, distinct: 2 });
}
