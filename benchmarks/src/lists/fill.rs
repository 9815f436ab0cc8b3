//! Fills the database with rows to list.

use super::Options;
use anyhow::Result;
use tidemill_store::Tx;

pub(super) async fn fill(tx: &mut Tx, options: &Options, is_sqlite: bool) -> Result<()> {
    tx.fill_history(options.executions).await?;
    let (numbers, tomorrow, now) = if is_sqlite {
        (
            "(with recursive number (n) as (select 1 union all select n + 1 from number where n < {most}) select n from number)",
            "unixepoch() * 1000000 + 86400000000",
            "unixepoch() * 1000000",
        )
    } else {
        ("(select n from generate_series(1, {most}) as n)", "now() + interval '1 day'", "now()")
    };
    let upto = |most: u64| numbers.replace("{most}", &most.to_string());
    tx.execute_for_test(&format!(
        "insert into tidemill_lease (kind, name, epoch, owner, until, acquired_at)
         select 'bench', 'thing-' || n, 1, '0198f2a0-0000-7000-8000-000000000001', {tomorrow}, {now}
         from {} as numbers",
        upto(options.leases)
    ))
    .await?;
    tx.execute_for_test(&format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
         select 'order', 'order-' || (n % 10000), 'order.paid', 'orders', '{{\"amount\": 1200}}'
         from {} as numbers",
        upto(options.events)
    ))
    .await?;
    Ok(())
}
