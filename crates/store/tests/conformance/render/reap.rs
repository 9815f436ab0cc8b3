//! Renders whose worker has vanished.

use super::{MINUTE, bring_to, claim, find, outcomes, policy, say, take_leftovers, transitions};
use crate::{Bench, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Lease};
use tidemill_domain::render::{Act, Concern, Phase, Status, Work};
use tidemill_store::render::Reaped;

crate::on_both![
    only_a_lease_that_has_lapsed_is_taken_away,
    what_the_next_worker_does_depends_on_how_far_the_render_was,
    workers_that_vanish_one_after_the_other_are_told_of_and_end_it,
];

async fn reap(bench: &Bench) -> Vec<Reaped> {
    let mut tx = bench.begin().await;
    let reaped = tx.renders().reap_expired(10, &policy()).await.unwrap();
    tx.commit().await.unwrap();
    for one in &reaped {
        assert_eq!(one.record, find(bench, one.record.id()).await);
    }
    reaped
}

async fn only_a_lease_that_has_lapsed_is_taken_away(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    bench.advance(MINUTE - Duration::from_micros(1));
    assert_eq!(reap(&bench).await, []);

    bench.advance(Duration::from_micros(1));
    let reaped = reap(&bench).await;

    assert_eq!((reaped.len(), reaped[0].owner), (1, Some(process_id(1))));
    let record = find(&bench, id).await;
    assert_eq!((record.render.status, record.render.counts.recoveries), (Status::Pending, 1));
    assert_eq!(record.render.lease, Lease::Free { epoch: Epoch::new(1) });
    assert_eq!(record.render.job, Some(Epoch::new(1)), "its job goes on");
    assert_eq!(take_leftovers(&bench).await, []);
    assert_eq!(outcomes(&bench, id).await[0].1.unwrap().as_str(), "lost");
    assert_eq!(transitions(&bench, id).await.last().unwrap().2, "reaper");
    assert_eq!(reap(&bench).await, []);
}

async fn what_the_next_worker_does_depends_on_how_far_the_render_was(bench: Bench) {
    for (phase, act) in [
        (Phase::Claimed, Act::Prepare),
        (Phase::Submitting, Act::LookAtJob),
        (Phase::WaitingForNode, Act::LookAtJob),
        (Phase::Encoding, Act::LookAtJob),
        (Phase::Validating, Act::Validate),
        (Phase::Copying, Act::Copy),
        (Phase::Publishing, Act::LookAtFinal),
    ] {
        let ghost = bring_to(&bench, phase).await;
        bench.advance(MINUTE);
        assert_eq!(reap(&bench).await.len(), 1, "{phase}");
        bench.advance(MINUTE);

        let next = claim(&bench, 2).await;

        assert_eq!((next.act, next.fence.epoch), (act, Epoch::new(2)), "{phase}");
        assert_eq!(next.record.staged_path, ghost.record.staged_path, "{phase}");
        super::execute(&bench, "delete from render_queue").await;
    }
}

async fn workers_that_vanish_one_after_the_other_are_told_of_and_end_it(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    let mut told = Vec::new();
    for _ in 0..policy().recoveries_max {
        bench.advance(MINUTE);
        let reaped = reap(&bench).await;
        told.extend(reaped[0].decision.concerns.clone());
        bench.advance(60 * MINUTE);
        claim(&bench, 2).await;
    }
    bench.advance(MINUTE);

    let last = reap(&bench).await;

    assert_eq!(told, [Concern::Recovered { recoveries: 4 }, Concern::Recovered { recoveries: 5 }]);
    assert_eq!(last[0].record.render.status, Status::Failed);
    assert!(matches!(last[0].decision.act, Act::DropJob { .. }));
    assert_eq!(take_leftovers(&bench).await.len(), 1);
    let told = say(&bench, &claimed, Work::Renew).await;
    assert_eq!(told.decision.act, Act::GiveUp);
    assert_eq!(find(&bench, id).await.render.status, Status::Failed);
}
