//! Many workers at once, and the one statement that renews compared with the rule.

use super::{claim_by, execute, policy};
use crate::{Bench, process_id};
use std::collections::BTreeSet;
use tidemill_domain::lease::{Epoch, Fence};
use tidemill_domain::render::lifecycle::Event;
use tidemill_domain::render::{RenderId, Status, Work, decide};
use tidemill_domain::time::Clock;
use tidemill_store::render::RenderFilter;
use tidemill_store::{Store, StoreOptions};

crate::on_both![
    each_render_is_claimed_once_however_many_workers_there_are,
    the_statement_that_renews_does_what_the_rule_says,
];

/// On SQLite writers wait for each other, so there are fewer.
async fn each_render_is_claimed_once_however_many_workers_there_are(bench: Bench) {
    let is_sqlite = bench.scratch.url().starts_with("sqlite");
    let (workers, renders) = if is_sqlite { (4_u32, 200_usize) } else { (16, 2_000) };
    let options = StoreOptions {
        max_connections: workers,
        clock: Some(bench.clock.clone() as std::sync::Arc<dyn Clock>),
        ..StoreOptions::default()
    };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    execute(
        &bench,
        &format!(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < {renders})
             insert into render_queue (composition_id, gfx_data) select 'c', '{{}}' from n"
        ),
    )
    .await;
    bench.advance(std::time::Duration::from_secs(366 * 86_400));

    let mut rivals = Vec::new();
    for number in 0..workers {
        let store = store.clone();
        rivals.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claims = claim_by(&store, number.into(), 5).await;
                assert!(claims.ended.is_empty());
                if claims.claimed.is_empty() {
                    let mut tx = store.alone_reading().await.unwrap();
                    let counts = tx.renders().counts().await.unwrap();
                    tx.commit().await.unwrap();
                    if !counts.by_status.contains_key(&Status::Pending) {
                        return mine;
                    }
                }
                for claimed in claims.claimed {
                    assert_eq!(
                        claimed.fence,
                        Fence { owner: process_id(number.into()), epoch: Epoch::new(1) }
                    );
                    mine.push(claimed.record.id());
                }
            }
        }));
    }
    let mut all = Vec::new();
    for rival in rivals {
        all.extend(rival.await.unwrap());
    }

    assert_eq!(all.len(), renders, "none is lost and none is given twice");
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), renders);
}

async fn the_statement_that_renews_does_what_the_rule_says(bench: Bench) {
    let mut rows = Vec::new();
    for status in Status::ALL {
        for phase in ["rendering", "publishing"] {
            for cancel in [false, true] {
                for lock in [-1, 0, 1] {
                    for epoch in [1, 2] {
                        rows.push((status, phase, cancel, lock, epoch));
                    }
                }
            }
        }
    }
    let is_sqlite = bench.scratch.url().starts_with("sqlite");
    let instant = |seconds: i64| {
        let micros = bench.now().as_micros() + seconds * 1_000_000;
        let at = tidemill_domain::time::Timestamp::from_micros(micros);
        if is_sqlite { micros.to_string() } else { format!("'{at}'") }
    };
    let values: Vec<String> = rows
        .iter()
        .map(|(status, phase, cancel, lock, epoch)| {
            let cancel = if *cancel { instant(-5) } else { "null".to_owned() };
            let worker = process_id(1);
            format!("('c', '{{}}', '{status}', '{phase}', {cancel}, {}, {epoch}, '{worker}')", instant(*lock))
        })
        .collect();
    execute(
        &bench,
        &format!(
            "insert into render_queue
                 (composition_id, gfx_data, status, phase, cancel_requested_at, lock_expires_at, epoch, worker_id)
             values {}",
            values.join(", ")
        ),
    )
    .await;
    let records = bench.begin().await.renders().list(&RenderFilter::default(), None, 1_000).await.unwrap();
    assert_eq!(records.len(), rows.len());
    for owner in [process_id(1), process_id(2)] {
        let fence = Fence { owner, epoch: Epoch::new(1) };
        let held: Vec<(RenderId, Fence)> = records.iter().map(|record| (record.id(), fence)).collect();
        let event = Event::Work { fence, work: Work::Renew };
        let expected: BTreeSet<RenderId> = records
            .iter()
            .filter(|record| {
                let written = decide(&record.render, &event, &policy(), bench.now()).write;
                written.is_some_and(|written| {
                    written.status == record.render.status && written.status.is_active()
                })
            })
            .map(|record| record.id())
            .collect();

        let renewed = bench.begin().await.renders().renew(&held, &policy()).await.unwrap();

        assert_eq!(renewed.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(expected.is_empty(), owner == process_id(2));
    }
}
