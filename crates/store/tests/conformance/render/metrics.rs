//! How renders go, as alerts and metrics see it.

use super::{MINUTE, at, bring_to, claim, find, new_render, ordered, say, submit};
use crate::Bench;
use tidemill_domain::render::clock::{Clocks, Seen, Verdict, look};
use tidemill_domain::render::{Failure, Phase, Trouble, Work};
use tidemill_store::render::{NewRender, RenderMetrics};

crate::on_both![
    where_nothing_happens_there_is_nothing_to_see,
    what_has_ended_lately_is_counted_and_forgotten_again,
    a_render_at_work_is_seen_to_take_long_before_it_ends,
    what_waits_to_be_tried_again_is_seen_with_its_reason,
    what_comes_too_late_and_what_no_node_takes_is_seen,
    a_job_that_its_node_puts_back_waits_as_if_it_had_only_now_come,
];

async fn metrics(bench: &Bench) -> RenderMetrics {
    bench.begin().await.renders().metrics().await.unwrap()
}

async fn where_nothing_happens_there_is_nothing_to_see(bench: Bench) {
    assert_eq!(metrics(&bench).await, RenderMetrics::default());
}

async fn what_has_ended_lately_is_counted_and_forgotten_again(bench: Bench) {
    let good = bring_to(&bench, Phase::Publishing).await;
    bench.advance(MINUTE / 2);
    say(&bench, &good, Work::Published).await;
    let bad = bring_to(&bench, Phase::Rendering).await;
    say(&bench, &bad, Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"))).await;

    let now = metrics(&bench).await;
    bench.advance(MINUTE * 60);
    let in_an_hour = metrics(&bench).await;
    bench.advance(MINUTE * 60 * 24);

    assert_eq!((now.completed, now.failed, now.longest_seconds), (1, 1, Some(30.0)));
    assert_eq!(now.failures, [("TM1524".to_owned(), 1)]);
    assert_eq!((in_an_hour.completed, in_an_hour.failed, in_an_hour.longest_seconds), (1, 1, None));
    assert_eq!(in_an_hour.failures, []);
    assert_eq!(metrics(&bench).await, RenderMetrics::default());
}

async fn a_render_at_work_is_seen_to_take_long_before_it_ends(bench: Bench) {
    let good = bring_to(&bench, Phase::Publishing).await;
    bench.advance(MINUTE);
    say(&bench, &good, Work::Published).await;
    let long = bring_to(&bench, Phase::Rendering).await;
    bench.advance(MINUTE * 25);

    assert_eq!(metrics(&bench).await.longest_seconds, Some(25.0 * 60.0));
    say(&bench, &long, Work::Failed(Trouble::new(Failure::TemplateMissing, "gone"))).await;
    assert_eq!(metrics(&bench).await.longest_seconds, Some(60.0));
}

async fn what_waits_to_be_tried_again_is_seen_with_its_reason(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Submitting).await;
    say(&bench, &claimed, Work::Failed(Trouble::new(Failure::WrongSecret, "403"))).await;

    assert_eq!(metrics(&bench).await.failures, [("TM1521".to_owned(), 1)]);
    bench.advance(MINUTE);
    claim(&bench, 1).await;
    assert_eq!(metrics(&bench).await.failures, []);
}

async fn what_comes_too_late_and_what_no_node_takes_is_seen(bench: Bench) {
    let ordered_at = find(&bench, ordered(&bench).await).await.created_at;
    let deadline = Some(ordered_at.plus(MINUTE));
    submit(&bench, &NewRender { deadline, priority: 1, ..new_render() }).await;
    let claimed = claim(&bench, 1).await;
    assert_eq!(metrics(&bench).await.late, 0);

    // It is tried again only when it should be on air.
    say(&bench, &claimed, Work::Failed(Trouble::new(Failure::NexrenderDown, "down"))).await;
    bench.advance(MINUTE);
    let again = claim(&bench, 1).await;
    for work in [Work::Prepared, Work::Submitted] {
        say(&bench, &again, work).await;
    }
    let submitted_at = find(&bench, again.record.id()).await.submitted_at;

    let seen = metrics(&bench).await;
    assert_eq!((seen.late, seen.waiting_since), (1, submitted_at));
    say(&bench, &again, at(Phase::Rendering, 1.0)).await;
    assert_eq!(metrics(&bench).await.waiting_since, None);
}

async fn a_job_that_its_node_puts_back_waits_as_if_it_had_only_now_come(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    bench.advance(MINUTE / 2);

    let told = say(&bench, &claimed, at(Phase::WaitingForNode, 50.0)).await;

    let put_back_at = bench.now();
    let waits = Seen {
        phase: Phase::WaitingForNode,
        submitted_at: put_back_at,
        started_at: None,
        changed_at: put_back_at,
    };
    assert_eq!(told.record.seen(), Some(waits));
    assert_eq!(look(waits, &Clocks::default(), put_back_at.plus(MINUTE * 29)), Verdict::WaitsLong);
    assert_eq!(metrics(&bench).await.waiting_since, Some(put_back_at));
    bench.advance(MINUTE / 4);
    let told = say(&bench, &claimed, at(Phase::Rendering, 50.0)).await;
    let seen = told.record.seen().unwrap();
    assert_eq!((seen.submitted_at, seen.started_at), (put_back_at, Some(bench.now())));
}
