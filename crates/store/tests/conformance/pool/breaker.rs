//! The circuit breaker is stored with the pool: it survives a restart, and holds for every server.

use super::{acquire, adw, ann, ask, audited, create, give_back, pass, release, units};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::pool::breaker::Phase;
use tidemill_domain::pool::command::{Answer, Command, Release};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Breaker, BreakerChange, Reason};
use tidemill_store::pool::{Defined, Difference, PoolCache};

crate::on_both![
    a_breaker_survives_a_restart_and_holds_for_two_servers,
    an_operator_opens_and_closes_it_and_the_audit_says_why,
    a_breaker_that_is_not_as_its_log_says_is_found,
    a_holder_that_waits_for_more_gets_it_when_the_breaker_closes,
];

fn refused(run: &str) -> Release {
    Release { end: End::Refused { reason: "ORA-00018".into() }, ..release(run) }
}

async fn stored(bench: &Bench) -> Breaker {
    bench.begin().await.pools().find(&adw()).await.unwrap().unwrap().breaker
}

fn reason(answer: &Answer) -> Reason {
    let Answer::Waits(waits) = answer else { panic!("{answer:?}") };
    waits.reason
}

async fn a_breaker_survives_a_restart_and_holds_for_two_servers(bench: Bench) {
    create(&bench, 40).await;
    let (mut first, mut second) = (PoolCache::default(), PoolCache::default());
    for run in ["a", "b", "c"] {
        ask(&bench, &mut first, acquire(run, 8)).await;
    }
    assert_eq!(units(&ask(&bench, &mut second, acquire("d", 8)).await), Some(8));
    assert_eq!(stored(&bench).await, Breaker::default());

    give_back(&bench, &mut first, refused("a")).await;

    let open = stored(&bench).await;
    assert_eq!((open.units, open.reason.as_str()), (16, "ORA-00018"));
    // A server that knew the pool, and one that was started anew.
    assert_eq!(reason(&ask(&bench, &mut second, acquire("e", 2)).await), Reason::BreakerOpen);
    assert_eq!(reason(&ask(&bench, &mut PoolCache::default(), acquire("f", 2)).await), Reason::BreakerOpen);
    give_back(&bench, &mut second, refused("d")).await;
    assert_eq!(stored(&bench).await, open, "a second server reports the same moment");
    assert_eq!(audited(&bench).await, 16);

    bench.clock.advance(Duration::from_secs(30));
    assert_eq!(units(&ask(&bench, &mut PoolCache::default(), acquire("e", 2)).await), Some(2));
    assert_eq!(reason(&ask(&bench, &mut first, acquire("f", 2)).await), Reason::BreakerOpen, "one at a time");
    give_back(&bench, &mut second, release("e")).await;
    assert_eq!(stored(&bench).await.phase, Phase::Ramping);
    bench.clock.advance(Duration::from_secs(600));
    pass(&bench, &mut first, &[Command::Look { pool: adw() }]).await;
    assert_eq!(stored(&bench).await.phase, Phase::Closed);
    assert_eq!(audited(&bench).await, 18);

    let mut tx = bench.begin().await;
    let entries = tx.audit().entries(&Default::default(), 10).await.unwrap();
    let actions: Vec<&str> = entries.iter().map(|found| found.entry.action.as_str()).collect();
    assert_eq!(actions[..3], ["breaker.close", "breaker.open", "pool.create"]);
    let stories = tx.pools().events(Some(&adw()), 100).await.unwrap();
    assert!(stories.iter().any(|story| story.text.contains("(ORA-00018)")), "{stories:?}");
    let level = tx.pools().levels(10).await.unwrap().remove(0);
    assert!(!level.breaker.is_open() && level.level.limit == 40);
}

async fn an_operator_opens_and_closes_it_and_the_audit_says_why(bench: Bench) {
    create(&bench, 40).await;
    let (by, reason) = ("ann".to_owned(), "the database restarts".to_owned());
    let open = BreakerChange::Open { by: by.clone(), reason };
    let close = BreakerChange::Close { by, reason: "it is back".to_owned() };
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().set_breaker(&adw(), open, &ann()).await.unwrap(), Defined::Done);
    let unknown = "ERP".parse().unwrap();
    let missing = tx.pools().set_breaker(&unknown, close.clone(), &ann()).await.unwrap();
    assert_eq!(missing, Defined::NoSuchPool);
    tx.commit().await.unwrap();
    assert_eq!(bench.begin().await.pools().due().await.unwrap().len(), 0, "only a person can close it");
    assert_eq!(units(&ask(&bench, &mut PoolCache::default(), acquire("a", 8)).await), None);

    let mut tx = bench.begin().await;
    for _ in 0..2 {
        assert_eq!(tx.pools().set_breaker(&adw(), close.clone(), &ann()).await.unwrap(), Defined::Done);
    }
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().find(&adw()).await.unwrap().unwrap().usage, 8);
    let entries = tx.audit().entries(&Default::default(), 10).await.unwrap();
    let told: Vec<_> =
        entries.iter().map(|found| (&*found.entry.action, found.entry.reason.as_deref())).collect();
    assert_eq!(told[0], ("breaker.close", Some("it is back")));
    assert_eq!(told[1], ("breaker.open", Some("the database restarts")));
    assert_eq!(told[2].0, "pool.create", "a closed breaker is not closed again: {told:?}");
    drop(tx);
    assert_eq!(audited(&bench).await, 8);
}

async fn a_breaker_that_is_not_as_its_log_says_is_found(bench: Bench) {
    create(&bench, 40).await;
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("a", 8)).await;
    give_back(&bench, &mut cache, refused("a")).await;
    bench.execute("update tidemill_pool set breaker = null").await;

    let audited = bench.store.read().await.unwrap().pools().verify(&adw()).await.unwrap().unwrap();

    assert_eq!(audited.differences, [Difference::Breaker]);
}

async fn a_holder_that_waits_for_more_gets_it_when_the_breaker_closes(bench: Bench) {
    create(&bench, 40).await;
    let mut cache = PoolCache::default();
    let due = async || bench.begin().await.pools().due().await.unwrap();
    for run in ["a", "b"] {
        ask(&bench, &mut cache, acquire(run, 8)).await;
    }
    assert_eq!(due().await.len(), 0);
    give_back(&bench, &mut cache, refused("a")).await;
    ask(&bench, &mut cache, acquire("b", 12)).await;

    bench.clock.advance(Duration::from_secs(30));
    assert_eq!(due().await.len(), 1, "nobody is in the queue, but the time moves the breaker");
    pass(&bench, &mut cache, &[Command::Look { pool: adw() }]).await;
    assert_eq!(units(&ask(&bench, &mut cache, acquire("b", 12)).await), Some(12));
    for seconds in [60, 600] {
        bench.clock.advance(Duration::from_secs(seconds));
        pass(&bench, &mut cache, &[Command::Look { pool: adw() }]).await;
    }
    assert_eq!((stored(&bench).await.phase, due().await.len()), (Phase::Closed, 0));
}
