//! Renders that wait for a person's approval.

use super::{
    MINUTE, ann, bring_to, claim, claim_by, execute, find, new_render, ordered, outcomes, policy, retried,
    say, say_with, submit, take_leftovers,
};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::{Approval, File, Slot};
use tidemill_domain::render::order::OrderRefusal;
use tidemill_domain::render::{Act, Phase, RenderId, Status, Work};
use tidemill_store::audit::AuditFilter;
use tidemill_store::render::{Claimed, NewRender, Notes, RenderChanged, RenderRecord};

crate::on_both![
    what_waits_for_approval_is_left_alone_and_holds_nobody_up,
    what_is_approved_is_published_and_the_wait_is_not_time_of_rendering,
    whoever_is_later_or_has_seen_another_file_is_refused,
    what_is_rejected_fails_with_the_reason_and_is_rendered_again_by_a_retry,
    what_waits_for_approval_is_cancelled_like_others,
    what_waits_for_approval_and_is_ended_by_sql_is_wanted_again_by_sql,
    nobody_is_at_work_on_what_waits_for_approval,
];

const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// A render whose file waits for approval, and the claim of its worker.
async fn asked(bench: &Bench) -> Claimed {
    let claimed = bring_to(bench, Phase::Validating).await;
    let notes = Notes { output_bytes: Some(7), output_sha256: Some("abc"), ..Notes::default() };
    let asked =
        say_with(bench, claimed.record.id(), claimed.fence, Work::NeedsApproval, notes).await.unwrap();
    assert_eq!((asked.decision.act, asked.record.render.status), (Act::Nothing, Status::Pending));
    assert!(asked.record.render.awaits_approval());
    Claimed { record: asked.record, ..claimed }
}

async fn approve(bench: &Bench, id: RenderId, revision: Option<i64>) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().approve(id, revision, &ann(), Some("names are right")).await.unwrap();
    tx.commit().await.unwrap();
    done
}

async fn reject(bench: &Bench, id: RenderId, revision: Option<i64>) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().reject(id, revision, &ann(), "a wrong name").await.unwrap();
    tx.commit().await.unwrap();
    done
}

fn done(changed: RenderChanged) -> RenderRecord {
    match changed {
        RenderChanged::Done { record, .. } => *record,
        other => panic!("{other:?}"),
    }
}

async fn audited(bench: &Bench, action: &str) -> Vec<(String, Option<String>)> {
    let filter = AuditFilter { action: Some(action.to_owned()), ..AuditFilter::default() };
    let entries = bench.begin().await.audit().entries(&filter, 10).await.unwrap();
    assert!(entries.iter().all(|record| record.entry.actor.role == Role::Operator));
    entries.into_iter().map(|record| (record.entry.object, record.entry.reason)).collect()
}

async fn what_waits_for_approval_is_left_alone_and_holds_nobody_up(bench: Bench) {
    let waiting = asked(&bench).await;
    let id = waiting.record.id();
    execute(&bench, "update render_queue set priority = 9, revision = revision + 1").await;
    let before = find(&bench, id).await;
    let other = submit(&bench, &NewRender { priority: 1, ..new_render() }).await.id();
    let counts = bench.begin().await.renders().counts().await.unwrap();
    assert_eq!(
        (counts.of(Status::Pending), counts.awaiting_approval, counts.waiting_for_worker()),
        (2, 1, 1)
    );
    assert_eq!((counts.awaiting_since, counts.oldest_pending), (Some(bench.now()), Some(bench.now())));
    let record = find(&bench, other).await;
    assert_eq!(bench.begin().await.renders().ahead(&record, 10).await.unwrap(), 0, "nobody is ahead");

    bench.advance(WEEK);
    let claimed = claim_by(&bench.store, 2, 5).await.claimed;
    let mut tx = bench.begin().await;
    let reaped = tx.renders().reap_expired(10, &policy()).await.unwrap();
    let ended = tx.renders().end_waits("w2").await.unwrap();
    let metrics = tx.renders().metrics().await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(claimed.iter().map(|one| one.record.id()).collect::<Vec<_>>(), [other]);
    assert_eq!((reaped.len(), ended, metrics.recovering, metrics.failures.len()), (0, 0, 0, 0));
    assert_eq!(find(&bench, id).await, before);
    assert_eq!(outcomes(&bench, id).await, [(1, Some(AttemptOutcome::GivenBack))]);
    assert_eq!(take_leftovers(&bench).await, [], "its job and its file stay");
    let ghost = say(&bench, &waiting, Work::Copied).await;
    assert_eq!((ghost.decision.act, ghost.record.revision), (Act::GiveUp, before.revision));
}

async fn what_is_approved_is_published_and_the_wait_is_not_time_of_rendering(bench: Bench) {
    let id = asked(&bench).await.record.id();
    bench.advance(WEEK);

    let approved = done(approve(&bench, id, Some(find(&bench, id).await.revision)).await);
    let claimed = claim(&bench, 2).await;
    bench.advance(MINUTE / 2);
    say(&bench, &claimed, Work::Copied).await;
    let published = say(&bench, &claimed, Work::Published).await.record;

    assert_eq!(approved.render.approval, Some(Approval::Approved));
    assert_eq!((claimed.act, claimed.record.output_sha256.as_deref()), (Act::Copy, Some("abc")));
    assert_eq!((published.render.status, published.render.counts.attempts), (Status::Completed, 1));
    assert_eq!(published.duration_seconds, Some(30.0));
    let seconds = bench.begin().await.renders().metrics().await.unwrap().longest_seconds;
    assert_eq!(seconds, Some(30.0), "no alert about a render that takes too long");
    assert_eq!(
        audited(&bench, "render.approve").await,
        [(format!("render/{id}"), Some("names are right".into()))]
    );
}

async fn whoever_is_later_or_has_seen_another_file_is_refused(bench: Bench) {
    let refused = |changed| match changed {
        RenderChanged::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let not_awaiting = |status| OrderRefusal::NotAwaiting { status };
    let id = asked(&bench).await.record.id();
    let current = find(&bench, id).await.revision;
    let changed = OrderRefusal::Changed { expected: current - 1, current };
    assert_eq!(refused(approve(&bench, id, Some(current - 1)).await), changed);
    assert_eq!(refused(reject(&bench, id, Some(current - 1)).await), changed);
    assert_eq!(refused(retried(&bench, id).await), OrderRefusal::AwaitsApproval);

    done(approve(&bench, id, None).await);

    assert_eq!(refused(approve(&bench, id, None).await), not_awaiting(Status::Pending));
    assert_eq!(refused(reject(&bench, id, None).await), not_awaiting(Status::Pending));
    claim(&bench, 1).await;
    assert_eq!(refused(reject(&bench, id, None).await), not_awaiting(Status::Uploading));
    let other = ordered(&bench).await;
    assert_eq!(refused(approve(&bench, other, None).await), not_awaiting(Status::Pending));
    assert_eq!(approve(&bench, RenderId::new(99), None).await, RenderChanged::NoSuchRender);
    assert_eq!(audited(&bench, "render.reject").await, []);
}

async fn what_is_rejected_fails_with_the_reason_and_is_rendered_again_by_a_retry(bench: Bench) {
    let id = asked(&bench).await.record.id();

    let rejected = done(reject(&bench, id, None).await);

    let reason = rejected.render.reason.clone().unwrap();
    assert_eq!((rejected.render.status, reason.code.to_string().as_str()), (Status::Failed, "TM1557"));
    assert_eq!((reason.message.as_str(), rejected.ended_at), ("a wrong name", Some(bench.now())));
    assert_eq!(take_leftovers(&bench).await, [(id.get(), 1, format!("rq-{id}-1"), Slot::Free, File::Delete)]);
    assert_eq!(
        audited(&bench, "render.reject").await,
        [(format!("render/{id}"), Some("a wrong name".into()))]
    );
    done(retried(&bench, id).await);
    let claimed = claim(&bench, 1).await;
    assert_eq!((claimed.act, claimed.record.render.job), (Act::Prepare, None));
    let again = say(&bench, &claimed, Work::Prepared).await.record;
    assert_eq!((again.output_sha256, again.render.approval), (None, None), "it is asked for again");
}

async fn what_waits_for_approval_is_cancelled_like_others(bench: Bench) {
    let id = asked(&bench).await.record.id();
    let mut tx = bench.begin().await;
    let cancelled = done(tx.renders().cancel(id, &ann(), Some("not on air")).await.unwrap());
    tx.commit().await.unwrap();

    assert_eq!((cancelled.render.status, cancelled.render.approval), (Status::Cancelled, None));
    assert_eq!(take_leftovers(&bench).await, [(id.get(), 1, format!("rq-{id}-1"), Slot::Free, File::Delete)]);
    let refusal = OrderRefusal::NotAwaiting { status: Status::Cancelled };
    assert_eq!(approve(&bench, id, None).await, RenderChanged::Refused(refusal));
}

async fn what_waits_for_approval_and_is_ended_by_sql_is_wanted_again_by_sql(bench: Bench) {
    let id = asked(&bench).await.record.id();

    execute(&bench, "update render_queue set status = 'cancelled'").await;

    assert_eq!(find(&bench, id).await.render.approval, None);
    // Triggers have the clock of the database.
    bench.advance(Duration::from_secs(366 * 86_400));
    assert_eq!(take_leftovers(&bench).await.len(), 1, "its job is removed, with the file");
    execute(&bench, "update render_queue set status = 'pending'").await;
    assert_eq!(claim(&bench, 1).await.act, Act::Prepare);
}

async fn nobody_is_at_work_on_what_waits_for_approval(bench: Bench) {
    asked(&bench).await;
    let worker = "00000000-0000-0000-0000-000000000001";
    for bad in [
        format!("update render_queue set worker_id = '{worker}'"),
        "update render_queue set approval = 'perhaps'".to_owned(),
    ] {
        let mut tx = bench.begin().await;
        assert!(tx.execute_for_test(&bad).await.is_err(), "{bad}");
        tx.rollback().await.unwrap();
    }
}
