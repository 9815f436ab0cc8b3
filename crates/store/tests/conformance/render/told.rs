//! Renders that have ended are events, if they are to be told of.

use super::{ann, bring_to, execute, ordered, say};
use crate::Bench;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::render::{Phase, Work};
use tidemill_domain::time::Clock;
use tidemill_store::outbox::event::EventFilter;
use tidemill_store::{Store, StoreOptions};

crate::on_both![an_end_is_told_of_in_its_own_transaction];

async fn lifecycle_events(bench: &Bench, lifecycle_events: LifecycleEvents) -> Bench {
    let clock = Some(bench.clock.clone() as std::sync::Arc<dyn Clock>);
    let options = StoreOptions { clock, lifecycle_events, ..StoreOptions::default() };
    let store = Store::open(bench.scratch.url().parse().unwrap(), &options).await.unwrap();
    Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() }
}

async fn told(bench: &Bench) -> Vec<String> {
    let events = bench.begin().await.outbox().events(&EventFilter::default(), 10).await.unwrap();
    events.into_iter().map(|event| event.event_type).collect()
}

async fn an_end_is_told_of_in_its_own_transaction(bench: Bench) {
    let silent = lifecycle_events(&bench, LifecycleEvents::new("ops").unwrap().of_jobs()).await;
    let claimed = bring_to(&silent, Phase::Publishing).await;
    say(&silent, &claimed, Work::Published).await;
    assert_eq!(told(&bench).await, [] as [&str; 0]);
    let loud = lifecycle_events(&bench, LifecycleEvents::new("ops").unwrap().of_renders()).await;

    let claimed = bring_to(&loud, Phase::Publishing).await;
    assert_eq!(told(&bench).await, [] as [&str; 0], "only ends are told of, and waits for approval");
    let mut tx = loud.begin().await;
    let notes = tidemill_store::render::Notes::default();
    tx.renders()
        .work(claimed.record.id(), claimed.fence, Work::Published, notes, &super::policy())
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(told(&bench).await, [] as [&str; 0]);
    say(&loud, &claimed, Work::Published).await;
    let id = ordered(&loud).await;
    let mut tx = loud.begin().await;
    let _done = tx.renders().cancel(id, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(told(&bench).await, ["render.cancelled", "render.completed"]);
    let claimed = bring_to(&loud, Phase::Rendering).await;
    execute(&bench, "update render_queue set status = 'cancelled' where status = 'rendering'").await;
    for _ in 0..2 {
        say(&loud, &claimed, Work::Renew).await;
    }
    assert_eq!(told(&bench).await.len(), 3, "it is told of once, when its worker gives it back");
    let claimed = bring_to(&loud, Phase::Validating).await;
    say(&loud, &claimed, Work::NeedsApproval).await;
    assert_eq!(told(&bench).await[0], "render.awaiting_approval");
}
