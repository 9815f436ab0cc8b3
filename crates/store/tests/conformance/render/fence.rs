//! Who may write: only whoever has the lease. And what is left to others when a worker is gone.

use super::{
    MINUTE, ann, bring_to, claim, claim_by, execute, find, new_render, ordered, policy, say, say_with, steps,
    submit, take_leftovers, text,
};
use crate::{Bench, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Fence, Lease};
use tidemill_domain::render::lifecycle::Slot;
use tidemill_domain::render::{Act, Phase, Status, Work};
use tidemill_store::render::{Claims, NewRender, Notes};

crate::on_both![
    a_ghost_writes_nothing,
    whoever_works_on_a_render_that_is_gone_is_told_so,
    a_lease_is_renewed_while_it_lasts_and_nobody_minds,
    a_row_that_makes_no_sense_does_not_stand_before_the_others,
    a_leftover_is_given_to_one_at_a_time,
];

async fn a_ghost_writes_nothing(bench: Bench) {
    for phase in [Phase::Claimed, Phase::Rendering, Phase::Copying, Phase::Publishing] {
        let ghost = bring_to(&bench, phase).await;
        let id = ghost.record.id();
        bench.advance(2 * MINUTE);
        let mut tx = bench.begin().await;
        assert_eq!(tx.renders().reap_expired(10, &policy()).await.unwrap().len(), 1);
        tx.commit().await.unwrap();
        bench.advance(10 * MINUTE);
        let owner = claim(&bench, 2).await;
        assert_eq!((owner.record.id(), owner.fence.epoch), (id, Epoch::new(2)));
        let before = find(&bench, id).await;

        for (work, _) in steps() {
            let notes = Notes { output_path: Some("/nas/ghost.mp4"), ..Notes::default() };
            let told = say_with(&bench, id, ghost.fence, work, notes).await.unwrap();
            assert_eq!((told.decision.act, told.decision.write), (Act::GiveUp, None), "{phase}");
        }
        let stranger = Fence { owner: process_id(9), epoch: owner.fence.epoch };
        for fence in [ghost.fence, stranger] {
            let told = say_with(&bench, id, fence, Work::Published, Notes::default()).await.unwrap();
            assert_eq!(told.decision.act, Act::GiveUp, "{phase}");
            assert_eq!(bench.begin().await.renders().renew(&[(id, fence)], &policy()).await.unwrap(), []);
        }

        assert_eq!(find(&bench, id).await, before, "{phase}");
        let stop = say(&bench, &owner, Work::Stop).await;
        assert_eq!(stop.record.render.status, Status::Pending);
        execute(&bench, "delete from render_queue").await;
    }
}

async fn whoever_works_on_a_render_that_is_gone_is_told_so(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    execute(&bench, "delete from render_queue").await;

    let told = say_with(&bench, claimed.record.id(), claimed.fence, Work::Renew, Notes::default()).await;

    assert_eq!(told, None);
    bench.advance(Duration::from_secs(366 * 86_400));
    let left = take_leftovers(&bench).await;
    assert_eq!(left.len(), 1, "nobody else knows of its job: {left:?}");
}

async fn a_lease_is_renewed_while_it_lasts_and_nobody_minds(bench: Bench) {
    let one = bring_to(&bench, Phase::Rendering).await;
    let other = bring_to(&bench, Phase::Claimed).await;
    let held = [(one.record.id(), one.fence), (other.record.id(), other.fence)];
    bench.advance(MINUTE / 2);

    let mut tx = bench.store.alone().await.unwrap();
    let mut renewed = tx.renders().renew(&held, &policy()).await.unwrap();
    tx.commit().await.unwrap();

    renewed.sort();
    assert_eq!(renewed, [one.record.id(), other.record.id()]);
    let until = Some(bench.now().plus(policy().lease_for));
    for (id, fence) in held {
        assert_eq!(find(&bench, id).await.render.lease, Lease::Held { fence, until });
    }
    let mut tx = bench.begin().await;
    let _done = tx.renders().cancel(one.record.id(), &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    let again = bench.begin().await.renders().renew(&held, &policy()).await.unwrap();
    assert_eq!(again, [other.record.id()], "the other is to be heard of");
    let told = say(&bench, &one, Work::Renew).await;
    assert!(matches!(told.decision.act, Act::DropJob { slot: Slot::BusyUntilItEnds, .. }), "{told:?}");
    assert_eq!(told.record.render.status, Status::Cancelled);
    bench.advance(2 * MINUTE);
    assert_eq!(bench.begin().await.renders().renew(&held, &policy()).await.unwrap(), [], "it has lapsed");
}

async fn a_row_that_makes_no_sense_does_not_stand_before_the_others(bench: Bench) {
    let bad = submit(&bench, &NewRender { priority: 9, ..new_render() }).await.id();
    let good = ordered(&bench).await;
    execute(&bench, "update render_queue set attempts = -1 where priority = 9").await;

    assert_eq!(claim_by(&bench.store, 1, 1).await, Claims::default());
    assert_eq!(claim(&bench, 1).await.record.id(), good);

    let mut tx = bench.begin().await;
    let status =
        text(&mut tx, "select status || ' ' || error_code from render_queue where priority = 9").await;
    assert_eq!(status.as_deref(), Some("failed TM0212"), "{bad}");
}

async fn a_leftover_is_given_to_one_at_a_time(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let (id, epoch) = (claimed.record.id(), Epoch::new(1));
    let mut tx = bench.begin().await;
    let _done = tx.renders().cancel(id, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    say(&bench, &claimed, Work::Renew).await;
    bench.advance(MINUTE);

    assert_eq!(take_leftovers(&bench).await.len(), 1);
    assert_eq!(take_leftovers(&bench).await, [], "somebody is at it");
    let mut tx = bench.begin().await;
    assert!(tx.renders().keep_leftover(id, epoch, 5 * MINUTE).await.unwrap());
    tx.commit().await.unwrap();
    bench.advance(4 * MINUTE);
    assert_eq!(take_leftovers(&bench).await, [], "somebody watches it");
    bench.advance(MINUTE);
    assert_eq!(take_leftovers(&bench).await.len(), 1);
    let mut tx = bench.begin().await;
    assert!(tx.renders().settle_leftover(id, epoch).await.unwrap());
    assert!(!tx.renders().settle_leftover(id, epoch).await.unwrap());
    assert!(!tx.renders().keep_leftover(id, epoch, MINUTE).await.unwrap());
    tx.commit().await.unwrap();
    bench.advance(10 * MINUTE);
    assert_eq!(take_leftovers(&bench).await, []);
}
