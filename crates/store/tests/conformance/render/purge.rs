//! Retention of renders: what may go, and that what was changed meanwhile stays.

use super::{MINUTE, bring_to, claim, execute, find, ordered, say, take_leftovers, text};
use crate::Bench;
use std::collections::BTreeMap;
use tidemill_domain::render::retention::{Films, Kept, Retention};
use tidemill_domain::render::{Phase, RenderId, Work};
use tidemill_store::render::{RenderShare, RenderWalk};

crate::on_both![
    what_ended_long_ago_goes_with_its_attempts_and_the_log_of_changes_stays,
    what_runs_or_has_a_job_left_is_never_taken,
    what_was_changed_after_it_was_found_stays,
    films_go_from_the_oldest_until_the_rest_fits,
    a_row_that_makes_no_sense_does_not_stop_a_purge,
];

const KEEP: Retention = Retention { older_than: MINUTE, films: Films::Keep };

async fn begin(bench: &Bench, retention: Retention) -> RenderWalk {
    bench.begin().await.renders().begin_purge(retention).await.unwrap()
}

/// All shares, in pages of two.
async fn found(bench: &Bench, retention: Retention) -> (Vec<i64>, BTreeMap<Kept, u64>) {
    let (mut walk, mut going, mut kept) = (begin(bench, retention).await, Vec::new(), BTreeMap::new());
    loop {
        let share = bench.begin().await.renders().purge_share(&mut walk, 2).await.unwrap();
        going.extend(share.going.iter().map(|record| record.id().get()));
        for (why, count) in share.kept {
            *kept.entry(why).or_default() += count;
        }
        if share.is_last {
            return (going, kept);
        }
    }
}

async fn share(bench: &Bench, retention: Retention) -> RenderShare {
    let mut walk = begin(bench, retention).await;
    bench.begin().await.renders().purge_share(&mut walk, 100).await.unwrap()
}

async fn purge(bench: &Bench, share: &RenderShare) -> Vec<i64> {
    let going: Vec<_> = share.going.iter().collect();
    let mut tx = bench.begin().await;
    let gone = tx.renders().purge(&going).await.unwrap();
    tx.commit().await.unwrap();
    let mut gone: Vec<i64> = gone.into_iter().map(RenderId::get).collect();
    gone.sort_unstable();
    gone
}

/// A render whose file is published and whose job is out of nexrender.
async fn completed(bench: &Bench) -> RenderId {
    let claimed = bring_to(bench, Phase::Publishing).await;
    say(bench, &claimed, Work::Published).await;
    let mut tx = bench.begin().await;
    tx.renders().settle_leftover(claimed.record.id(), claimed.fence.epoch).await.unwrap();
    tx.commit().await.unwrap();
    claimed.record.id()
}

async fn count(bench: &Bench, sql: &'static str) -> String {
    text(&mut bench.begin().await, sql).await.unwrap()
}

async fn what_ended_long_ago_goes_with_its_attempts_and_the_log_of_changes_stays(bench: Bench) {
    let mut old = Vec::new();
    for _ in 0..5 {
        old.push(completed(&bench).await.get());
    }
    bench.advance(MINUTE);
    assert_eq!(found(&bench, KEEP).await, (Vec::new(), BTreeMap::new()), "not old enough yet");
    bench.advance(MINUTE);
    let young = completed(&bench).await;
    let changes = count(&bench, "select cast(count(*) as text) from render_queue_audit").await;

    assert_eq!(found(&bench, KEEP).await.0, old);
    assert_eq!(purge(&bench, &share(&bench, KEEP).await).await, old);

    assert_eq!(count(&bench, "select cast(count(*) as text) from render_attempt").await, "1");
    assert_eq!(count(&bench, "select cast(count(*) as text) from render_queue_audit").await, changes);
    assert_eq!(find(&bench, young).await.id(), young);
}

async fn what_runs_or_has_a_job_left_is_never_taken(bench: Bench) {
    let left = bring_to(&bench, Phase::Publishing).await;
    say(&bench, &left, Work::Published).await;
    bring_to(&bench, Phase::Rendering).await;
    ordered(&bench).await;
    let told = ordered(&bench).await;
    claim(&bench, 2).await;
    // It was cancelled by SQL, and its worker does not know yet. The clock of the bench is not that of a trigger.
    execute(
        &bench,
        &format!(
            "update render_queue set status = 'cancelled', ended_at = (select max(ended_at) from render_queue)
             where id = {told} or status = 'preparing'"
        ),
    )
    .await;
    bench.advance(10 * MINUTE);

    let (going, kept) = found(&bench, KEEP).await;

    let held = *kept.get(&Kept::Held).unwrap_or(&0);
    assert_eq!((going.len() as u64 + held, kept.get(&Kept::JobLeft)), (2, Some(&1)), "{going:?} {kept:?}");
    assert_eq!(held, 1, "{kept:?}");
    assert_eq!(take_leftovers(&bench).await.len(), 1);
}

async fn what_was_changed_after_it_was_found_stays(bench: Bench) {
    let [corrected, by_sql, gone] =
        [completed(&bench).await, completed(&bench).await, completed(&bench).await];
    bench.advance(2 * MINUTE);
    let share = share(&bench, KEEP).await;
    assert_eq!(share.going.len(), 3);
    execute(&bench, &format!("update render_queue set status = 'pending' where id = {by_sql}")).await;
    let mut tx = bench.begin().await;
    let revision = tx.renders().find(corrected).await.unwrap().unwrap().revision;
    let data = serde_json::json!({});
    let _done = tx.renders().correct(corrected, revision, &data, &super::ann(), None).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(purge(&bench, &share).await, [gone.get()]);

    assert_eq!(find(&bench, by_sql).await.id(), by_sql);
    assert_eq!(count(&bench, "select cast(count(*) as text) from render_attempt").await, "2");
}

async fn films_go_from_the_oldest_until_the_rest_fits(bench: Bench) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(completed(&bench).await.get());
    }
    execute(&bench, "update render_queue set output_bytes = 100").await;
    bench.advance(2 * MINUTE);
    let at_most = |bytes_max| Retention { films: Films::Delete { bytes_max }, ..KEEP };

    assert_eq!(
        found(&bench, at_most(Some(250))).await,
        (ids[..2].to_vec(), BTreeMap::from([(Kept::WithinSize, 2)]))
    );
    assert_eq!(found(&bench, at_most(Some(400))).await.0, [] as [i64; 0]);
    assert_eq!(found(&bench, at_most(None)).await.0, ids);
    // The copy of a render that could not be published is no published file.
    execute(&bench, &format!("update render_queue set status = 'failed' where id = {}", ids[0])).await;
    assert_eq!(found(&bench, at_most(Some(250))).await.0, ids[..2]);
}

async fn a_row_that_makes_no_sense_does_not_stop_a_purge(bench: Bench) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(completed(&bench).await.get());
    }
    execute(&bench, &format!("update render_queue set attempts = -1 where id = {}", ids[0])).await;
    bench.advance(2 * MINUTE);

    assert_eq!(found(&bench, KEEP).await.0, ids[1..]);
}
