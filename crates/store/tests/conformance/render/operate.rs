//! What people may do with renders, and what the audit log says of it.

use super::{
    MINUTE, ann, bring_to, claim, execute, find, ordered, policy, retried as retry, say, take_leftovers,
};
use crate::Bench;
use serde_json::{Value, json};
use tidemill_domain::render::order::OrderRefusal;
use tidemill_domain::render::selection::PriorityChange;
use tidemill_domain::render::{Act, Failure, Phase, RenderId, Status, Trouble, Work};
use tidemill_domain::time::Timestamp;
use tidemill_store::audit::AuditFilter;
use tidemill_store::render::{Notes, RenderChanged, RenderRecord, WorkerBeat, WorkerState};

crate::on_both![
    what_waits_is_cancelled_at_once,
    what_a_worker_has_is_cancelled_when_the_worker_hears_of_it,
    what_has_ended_or_is_published_is_not_cancelled,
    what_failed_is_tried_again_with_all_counts_at_nothing,
    what_could_only_not_be_published_is_not_rendered_again,
    what_was_cancelled_by_sql_and_is_wanted_again_leaves_its_ghost_behind,
    a_completed_render_is_corrected_under_another_name,
    of_two_who_correct_at_once_one_is_refused,
    a_correction_by_us_and_one_by_sql_leave_the_same_row,
    a_good_file_that_could_not_be_published_is_dropped_by_a_correction,
    a_good_file_is_dropped_though_its_job_is_still_in_nexrender,
    a_render_is_recovered_by_hand_once_its_lease_has_lapsed,
    all_whose_workers_have_vanished_are_recovered_in_somebodys_name,
    a_waiting_render_moves_in_the_queue_with_its_priority,
    an_order_for_a_render_that_is_not_there_says_so,
    workers_are_listed_while_they_are_heard_of,
];

async fn cancel(bench: &Bench, id: RenderId) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().cancel(id, &ann(), Some("not on air")).await.unwrap();
    tx.commit().await.unwrap();
    done
}

/// The table id that corrections write.
fn corrected() -> Value {
    json!({ "single_fields": { "table_id": "나" } })
}

async fn correct(bench: &Bench, id: RenderId, revision: i64) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().correct(id, revision, &corrected(), &ann(), Some("wrong table")).await.unwrap();
    tx.commit().await.unwrap();
    if let RenderChanged::Done { record, .. } = &done {
        assert_eq!(**record, find(bench, id).await, "what is answered is what is stored");
    }
    done
}

/// A render whose file is published.
async fn published(bench: &Bench) -> RenderId {
    let claimed = bring_to(bench, Phase::Publishing).await;
    let id = claimed.record.id();
    let notes = Notes { output_path: Some("/nas/Chips_1.mp4"), ..Notes::default() };
    super::say_with(bench, id, claimed.fence, Work::Published, notes).await.unwrap();
    id
}

async fn recover(bench: &Bench, id: RenderId) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().recover(id, &policy(), &ann(), Some("stuck")).await.unwrap();
    tx.commit().await.unwrap();
    done
}

/// What the audit log says was done to a render: action, from, to and why.
async fn audited(bench: &Bench, id: RenderId) -> Vec<(String, String, String, String)> {
    let filter = AuditFilter { object: Some(format!("render/{id}")), ..AuditFilter::default() };
    let entries = bench.begin().await.audit().entries(&filter, 10).await.unwrap();
    let text = |text: Option<String>| text.unwrap_or_default();
    entries
        .into_iter()
        .map(|record| record.entry)
        .map(|entry| (entry.action, text(entry.from), text(entry.to), text(entry.reason)))
        .collect()
}

fn status(ordered: &RenderChanged) -> (Status, Status) {
    match ordered {
        RenderChanged::Done { from, record } => (*from, record.render.status),
        other => panic!("{other:?}"),
    }
}

async fn what_waits_is_cancelled_at_once(bench: Bench) {
    let id = ordered(&bench).await;

    assert_eq!(status(&cancel(&bench, id).await), (Status::Pending, Status::Cancelled));

    let done = |action: &str, from: &str, to: &str, why: &str| {
        (action.to_owned(), from.to_owned(), to.to_owned(), why.to_owned())
    };
    assert_eq!(
        audited(&bench, id).await,
        [done("render.cancel", "pending", "cancelled", "not on air"), done("render.submit", "", "", "")]
    );
    let last = super::transitions(&bench, id).await.pop().unwrap();
    assert_eq!(last, (Some(Status::Pending), Status::Cancelled, "ann".to_owned()));
}

async fn what_a_worker_has_is_cancelled_when_the_worker_hears_of_it(bench: Bench) {
    for phase in [Phase::Claimed, Phase::Submitting, Phase::Rendering, Phase::Validating, Phase::Copying] {
        let claimed = bring_to(&bench, phase).await;
        let id = claimed.record.id();

        let (from, to) = status(&cancel(&bench, id).await);
        let told = say(&bench, &claimed, Work::Renew).await;

        assert_eq!((from, to), (phase.status(), phase.status()));
        assert_eq!(told.record.render.status, Status::Cancelled, "{phase}");
        let drops = matches!(told.decision.act, Act::DropJob { .. });
        assert_eq!(drops, phase > Phase::Claimed, "{phase}");
        execute(&bench, "delete from render_queue").await;
    }
}

async fn what_has_ended_or_is_published_is_not_cancelled(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Publishing).await;
    let id = claimed.record.id();

    assert_eq!(cancel(&bench, id).await, RenderChanged::Refused(OrderRefusal::TooLate));
    say(&bench, &claimed, Work::Published).await;
    let ended = OrderRefusal::Ended { status: Status::Completed };
    assert_eq!(cancel(&bench, id).await, RenderChanged::Refused(ended));
    assert_eq!(retry(&bench, id).await, RenderChanged::Refused(OrderRefusal::Completed));
    assert_eq!(audited(&bench, id).await.len(), 1, "only that it was ordered");
}

async fn a_completed_render_is_corrected_under_another_name(bench: Bench) {
    let id = published(&bench).await;
    let before = find(&bench, id).await;

    assert_eq!(status(&correct(&bench, id, before.revision).await), (Status::Completed, Status::Pending));

    let record = find(&bench, id).await;
    assert_eq!(
        (record.output_revision, record.previous_output_path.as_deref()),
        (2, Some("/nas/Chips_1.mp4"))
    );
    assert_eq!((record.output_path, record.render.job, record.completed_at), (None, None, None));
    let data = bench.begin().await.renders().data(id).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&data).unwrap(), corrected());
    let entry = audited(&bench, id).await.remove(0);
    let told = (entry.0.as_str(), entry.1.as_str(), entry.2.as_str(), entry.3.as_str());
    assert_eq!(told, ("render.correct", "completed", "pending", "wrong table"));
    let again = claim(&bench, 2).await;
    assert_eq!((again.act, again.fence.epoch.get(), again.record.output_revision), (Act::Prepare, 2, 2));
    let refused = RenderChanged::Refused(OrderRefusal::NotEnded { status: Status::Preparing });
    assert_eq!(correct(&bench, id, find(&bench, id).await.revision).await, refused);
}

async fn of_two_who_correct_at_once_one_is_refused(bench: Bench) {
    let id = published(&bench).await;
    let looked_at = find(&bench, id).await.revision;

    let [first, second] = [correct(&bench, id, looked_at).await, correct(&bench, id, looked_at).await];

    assert_eq!(status(&first).1, Status::Pending);
    let current = find(&bench, id).await.revision;
    let refused = OrderRefusal::Changed { expected: looked_at, current };
    assert_eq!(second, RenderChanged::Refused(refused));
    assert_eq!(find(&bench, id).await.output_revision, 2);
}

async fn a_correction_by_us_and_one_by_sql_leave_the_same_row(bench: Bench) {
    let (ours, by_sql) = (published(&bench).await, published(&bench).await);

    let _done = correct(&bench, ours, find(&bench, ours).await.revision).await;
    let change = format!(
        "update render_queue set status = 'pending', gfx_data = '{}' where id = {by_sql}",
        corrected()
    );
    execute(&bench, &change).await;

    let plain = |mut record: RenderRecord| {
        record.render.id = RenderId::new(0);
        let unlike = [&mut record.render.run_after, &mut record.updated_at, &mut record.created_at];
        unlike.into_iter().for_each(|at| *at = Timestamp::EPOCH);
        record.revision = 0;
        record
    };
    assert_eq!(plain(find(&bench, ours).await), plain(find(&bench, by_sql).await));
}

async fn a_good_file_that_could_not_be_published_is_dropped_by_a_correction(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    let refused = Work::Failed(Trouble::new(Failure::NasRefused, "read-only"));
    say(&bench, &claimed, refused).await;
    bench.advance(MINUTE);
    for job in take_leftovers(&bench).await {
        let mut tx = bench.begin().await;
        assert!(tx.renders().settle_leftover(id, claimed.fence.epoch).await.unwrap(), "{job:?}");
        tx.commit().await.unwrap();
    }

    assert_eq!(status(&correct(&bench, id, find(&bench, id).await.revision).await).1, Status::Pending);

    assert_eq!(take_leftovers(&bench).await[0].4, tidemill_domain::render::lifecycle::File::Delete);
    assert_eq!((claim(&bench, 2).await.act, find(&bench, id).await.output_revision), (Act::Prepare, 1));
}

async fn a_good_file_is_dropped_though_its_job_is_still_in_nexrender(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    say(&bench, &claimed, Work::Failed(Trouble::new(Failure::NasRefused, "read-only"))).await;

    assert_eq!(status(&correct(&bench, id, find(&bench, id).await.revision).await).1, Status::Pending);

    bench.advance(MINUTE);
    let files: Vec<_> = take_leftovers(&bench).await.into_iter().map(|job| job.4).collect();
    assert_eq!(files, [tidemill_domain::render::lifecycle::File::Delete], "the failure had kept it");
}

async fn what_failed_is_tried_again_with_all_counts_at_nothing(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    let missing = Work::Failed(Trouble::new(Failure::TemplateMissing, "no file"));
    assert_eq!(say(&bench, &claimed, missing).await.record.render.status, Status::Failed);

    assert_eq!(status(&retry(&bench, id).await), (Status::Failed, Status::Pending));

    let record = find(&bench, id).await;
    assert_eq!((record.render.counts.attempts, &record.render.reason), (0, &None));
    assert_eq!((record.ended_at, record.started_at, record.remote_job), (None, None, None));
    let again = claim(&bench, 2).await;
    assert_eq!((again.act, again.fence.epoch.get()), (Act::Prepare, 2));
}

async fn what_could_only_not_be_published_is_not_rendered_again(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    let refused = Work::Failed(Trouble::new(Failure::NasRefused, "read-only"));
    assert_eq!(say(&bench, &claimed, refused).await.record.render.status, Status::Failed);
    bench.advance(MINUTE);
    assert_eq!(take_leftovers(&bench).await[0].4, tidemill_domain::render::lifecycle::File::Keep);

    assert_eq!(status(&retry(&bench, id).await).1, Status::Pending);

    assert_eq!(claim(&bench, 2).await.act, Act::Copy);
}

async fn what_was_cancelled_by_sql_and_is_wanted_again_leaves_its_ghost_behind(bench: Bench) {
    let ghost = bring_to(&bench, Phase::Rendering).await;
    let id = ghost.record.id();
    execute(&bench, "update render_queue set status = 'cancelled'").await;

    assert_eq!(status(&retry(&bench, id).await), (Status::Cancelled, Status::Pending));

    assert_eq!(say(&bench, &ghost, Work::Validated).await.decision.act, Act::GiveUp);
    let left = take_leftovers(&bench).await;
    assert_eq!((left.len(), left[0].1), (1, 1), "nobody needs the job that it had");
    assert_eq!(claim(&bench, 2).await.act, Act::Prepare);
}

async fn a_render_is_recovered_by_hand_once_its_lease_has_lapsed(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    let at_work = OrderRefusal::AtWork { status: Status::Rendering };
    assert_eq!(recover(&bench, id).await, RenderChanged::Refused(at_work));
    bench.advance(MINUTE);

    assert_eq!(status(&recover(&bench, id).await), (Status::Rendering, Status::Pending));

    assert_eq!(
        status(&recover(&bench, id).await),
        (Status::Pending, Status::Pending),
        "there is nothing left to do"
    );
    let first = audited(&bench, id).await.remove(0);
    assert_eq!((first.0.as_str(), first.3.as_str()), ("render.recover", "stuck"));
    assert_eq!(super::transitions(&bench, id).await.last().unwrap().2, "ann");
}

async fn all_whose_workers_have_vanished_are_recovered_in_somebodys_name(bench: Bench) {
    let rendering = bring_to(&bench, Phase::Rendering).await.record.id();
    let cancelled = bring_to(&bench, Phase::Copying).await.record.id();
    execute(&bench, &format!("update render_queue set status = 'cancelled' where id = {cancelled}")).await;
    bench.advance(MINUTE);
    let at_work = bring_to(&bench, Phase::Rendering).await.record.id();
    let recover_all = async || {
        let mut tx = bench.begin().await;
        let all = tx.renders().recover_all(10, &policy(), &ann(), Some("host gone")).await.unwrap();
        tx.commit().await.unwrap();
        let mut all: Vec<_> =
            all.into_iter().map(|(from, now)| (now.id(), from, now.render.status)).collect();
        all.sort_by_key(|one| one.0.get());
        all
    };

    let recovered = recover_all().await;

    assert_eq!(
        recovered,
        [(rendering, Status::Rendering, Status::Pending), (cancelled, Status::Cancelled, Status::Cancelled)]
    );
    for id in [rendering, cancelled] {
        let first = audited(&bench, id).await.remove(0);
        assert_eq!((first.0.as_str(), first.3.as_str()), ("render.recover", "host gone"), "{id}");
    }
    assert_eq!(super::transitions(&bench, rendering).await.last().unwrap().2, "ann");
    assert_eq!(find(&bench, at_work).await.render.status, Status::Rendering);
    assert_eq!(recover_all().await, []);
}

async fn prioritize(bench: &Bench, id: RenderId, change: PriorityChange) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().prioritize(id, change, &ann(), Some("on air first")).await.unwrap();
    tx.commit().await.unwrap();
    if let RenderChanged::Done { record, .. } = &done {
        assert_eq!(**record, find(bench, id).await, "what is answered is what is stored");
    }
    done
}

async fn a_waiting_render_moves_in_the_queue_with_its_priority(bench: Bench) {
    let (first, second) = (ordered(&bench).await, ordered(&bench).await);

    let _raised = prioritize(&bench, second, PriorityChange::By(5)).await;
    let _lowered = prioritize(&bench, first, PriorityChange::To(-2)).await;
    let claimed = claim(&bench, 1).await;

    assert_eq!(claimed.record.id(), second);
    assert_eq!((find(&bench, second).await.priority, find(&bench, first).await.priority), (5, -2));
    let told = audited(&bench, second).await;
    let entry = ["render.prioritize", "0", "5", "on air first"].map(str::to_owned);
    assert_eq!(told[0], entry.into());
    let refused = prioritize(&bench, second, PriorityChange::By(1)).await;
    let status = Status::Preparing;
    assert_eq!(refused, RenderChanged::Refused(OrderRefusal::NotWaiting { status }));
    assert_eq!(audited(&bench, second).await.len(), told.len(), "a refusal leaves nothing");
    let nobody = prioritize(&bench, RenderId::new(999), PriorityChange::By(1)).await;
    assert_eq!(nobody, RenderChanged::NoSuchRender);
}

async fn an_order_for_a_render_that_is_not_there_says_so(bench: Bench) {
    let id = RenderId::new(404);

    assert_eq!(cancel(&bench, id).await, RenderChanged::NoSuchRender);
    assert_eq!(retry(&bench, id).await, RenderChanged::NoSuchRender);
    assert_eq!(recover(&bench, id).await, RenderChanged::NoSuchRender);
}

async fn workers_are_listed_while_they_are_heard_of(bench: Bench) {
    let beat = |number, name, in_flight, state| WorkerBeat {
        process: crate::process_id(number),
        name,
        capacity: 2,
        in_flight,
        state,
        farm: Some(MINUTE / 60),
        copy: None,
    };
    let mut tx = bench.begin().await;
    tx.renders().beat_worker(beat(1, "b", 1, WorkerState::Working)).await.unwrap();
    tx.renders().beat_worker(beat(2, "a", 0, WorkerState::Paused)).await.unwrap();
    tx.commit().await.unwrap();
    bench.advance(MINUTE);
    let mut tx = bench.begin().await;
    tx.renders().beat_worker(beat(2, "a", 2, WorkerState::Draining)).await.unwrap();
    tx.commit().await.unwrap();
    let list = async |within| {
        let all = bench.begin().await.renders().workers(within).await.unwrap();
        all.into_iter().map(|one| (one.name, one.in_flight, one.state)).collect::<Vec<_>>()
    };

    let first = bench.begin().await.renders().workers(MINUTE).await.unwrap().remove(0);
    assert_eq!((first.farm, first.copy), (Some(MINUTE / 60), None));
    let a = ("a".to_owned(), 2, WorkerState::Draining);
    assert_eq!(list(MINUTE).await, [a.clone(), ("b".to_owned(), 1, WorkerState::Working)]);
    assert_eq!(list(MINUTE / 2).await, [a]);
    let mut tx = bench.begin().await;
    tx.renders().forget_worker(crate::process_id(2)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(list(MINUTE / 2).await, []);
    bench.advance(24 * 60 * MINUTE);
    let mut tx = bench.begin().await;
    tx.renders().reap_expired(1, &policy()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(list(100 * 60 * MINUTE).await, [], "who vanished long ago is forgotten");
}
