//! The database's clock goes back: the render of a dead worker goes to another after one lease, and a living worker keeps
//! its own.

use super::{MINUTE, bring_to, claim, claim_by, find, policy, say};
use crate::{Bench, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Lease};
use tidemill_domain::render::{Failure, Phase, Status, Trouble, Work};
use tidemill_store::url::Dialect;

crate::on_both![
    the_render_of_a_dead_worker_is_adopted_one_lease_after_the_step,
    a_living_worker_keeps_its_render_across_the_step,
    a_lease_that_an_older_program_wrote_is_an_hour_long_at_most,
    a_render_is_tried_again_when_its_wait_has_passed_after_the_step,
];

const HOUR: Duration = Duration::from_secs(3_600);
const LITTLE: Duration = Duration::from_micros(1);

/// A round of the reaper; how many renders were taken away.
async fn reap(bench: &Bench) -> usize {
    bench.shorten_leases().await;
    let mut tx = bench.begin().await;
    let reaped = tx.renders().reap_expired(10, &policy()).await.unwrap();
    tx.commit().await.unwrap();
    assert!(reaped.iter().all(|one| one.owner == Some(process_id(1))), "{reaped:?}");
    reaped.len()
}

async fn the_render_of_a_dead_worker_is_adopted_one_lease_after_the_step(bench: Bench) {
    let ghost = bring_to(&bench, Phase::Rendering).await;
    bench.set_back(HOUR);

    assert_eq!(reap(&bench).await, 0);
    bench.advance(MINUTE - LITTLE);
    assert_eq!(reap(&bench).await, 0, "it is not taken before one lease has passed");
    bench.advance(LITTLE);
    assert_eq!(reap(&bench).await, 1);
    bench.advance(MINUTE);

    let next = claim(&bench, 2).await;
    assert_eq!((next.record.id(), next.fence.epoch), (ghost.record.id(), Epoch::new(2)));
}

async fn a_living_worker_keeps_its_render_across_the_step(bench: Bench) {
    let held = bring_to(&bench, Phase::Rendering).await;
    let id = held.record.id();
    for round in 0..24 {
        if round % 8 == 4 {
            bench.set_back(HOUR);
        }
        assert_eq!(reap(&bench).await, 0);
        bench.advance(MINUTE - LITTLE);
        // Both ways in which a worker renews.
        if round % 2 == 0 {
            let mut tx = bench.begin().await;
            assert_eq!(tx.renders().renew(&[(id, held.fence)], &policy()).await.unwrap(), [id]);
            tx.commit().await.unwrap();
        } else {
            say(&bench, &held, Work::Renew).await;
        }
        let until = Some(bench.now().plus(MINUTE));
        assert_eq!(find(&bench, id).await.render.lease, Lease::Held { fence: held.fence, until });
    }
    bench.advance(MINUTE);

    assert_eq!(reap(&bench).await, 1, "and no longer than its lease when it is silent");
}

async fn a_lease_that_an_older_program_wrote_is_an_hour_long_at_most(bench: Bench) {
    bring_to(&bench, Phase::Rendering).await;
    bench.execute("update render_queue set lock_renewed_at = null, revision = revision + 1").await;
    assert_eq!(bench.shorten_leases().await, 0, "an honest clock changes nothing");
    bench.set_back(HOUR * 5);

    assert_eq!(reap(&bench).await, 0);
    bench.advance(HOUR);

    assert_eq!(reap(&bench).await, 1);
}

async fn a_render_is_tried_again_when_its_wait_has_passed_after_the_step(bench: Bench) {
    let held = bring_to(&bench, Phase::Rendering).await;
    say(&bench, &held, Work::Failed(Trouble::new(Failure::RenderFailed, "no"))).await;
    let failed = find(&bench, held.record.id()).await.render;
    assert_eq!(failed.status, Status::Pending);
    let wait = failed.run_after.since(bench.now());
    assert!(wait > Duration::ZERO);
    // Somebody else says when its own is wanted, and that stands.
    let tonight = bench.now().plus(HOUR * 9);
    let wanted = super::ordered(&bench).await;
    let stored = match bench.store.dialect() {
        Dialect::Postgres => format!("timestamptz '{tonight}'"),
        Dialect::Sqlite => tonight.as_micros().to_string(),
    };
    bench.execute(&format!("update render_queue set run_after = {stored} where id = {wanted}")).await;
    assert_eq!(bench.shorten_waits().await, 0, "an honest clock changes nothing");
    bench.set_back(HOUR);

    assert_eq!(bench.shorten_waits().await, 1);
    assert_eq!(find(&bench, wanted).await.render.run_after, tonight);
    bench.advance(wait - LITTLE);
    assert!(claim_by(&bench.store, 2, 5).await.claimed.is_empty());
    bench.advance(LITTLE);

    assert_eq!(claim_by(&bench.store, 2, 5).await.claimed.len(), 1);
}
