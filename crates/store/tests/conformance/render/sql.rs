//! What a dashboard does by SQL, with nothing but the document's columns.

use super::{bring_to, claim, execute, find, outcomes, say, steps, take_leftovers, text, transitions};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::lifecycle::{Counts, File, Slot};
use tidemill_domain::render::{Act, Failure, Phase, RenderId, Status, Trouble, Work};
use tidemill_store::render::{RENDER_CANCELLED, RENDER_WAITING};
use tidemill_store::wakeup::Woken;

crate::on_both![
    a_plain_insert_is_claimed_and_its_changes_are_noted,
    cancelled_by_sql_while_it_waits_is_the_end,
    what_is_ended_by_sql_has_ended_then,
    cancelled_by_sql_in_any_phase_before_publishing_stops_the_worker,
    what_is_being_published_cannot_be_cancelled_by_sql,
    what_is_completed_cannot_be_cancelled_by_sql,
    the_job_of_a_waiting_render_that_is_cancelled_by_sql_is_left_to_be_dropped,
    cancelled_by_sql_and_its_worker_is_gone_ends_by_a_reap,
    recovered_by_hand_as_the_document_says_is_claimed_anew,
    wanted_once_more_by_sql_is_claimed_anew,
    what_failed_with_a_bad_file_and_is_wanted_once_more_by_sql_begins_anew,
    what_was_cancelled_while_it_rendered_and_is_wanted_once_more_by_sql_begins_anew,
    a_completed_render_that_is_wanted_once_more_gets_another_file,
    what_only_could_not_be_published_goes_on_when_it_is_wanted_once_more_by_sql,
    nobody_is_at_work_without_a_worker_and_a_lease,
    an_unknown_status_is_refused,
    what_another_program_has_noted_hides_nothing_of_the_render,
    a_plain_insert_wakes_where_the_database_can,
];

const INSERT: &str = "insert into render_queue (composition_id, gfx_data, cue_item_id, status)
     values ('comp_123', '{\"composition_name\": \"Chips\"}', '7', 'pending')";

/// The database's clock is in the row, and the fake one lies before it.
async fn inserted(bench: &Bench) -> RenderId {
    execute(bench, INSERT).await;
    bench.advance(Duration::from_secs(366 * 86_400));
    bench.begin().await.renders().list(&Default::default(), None, 1).await.unwrap()[0].id()
}

async fn a_plain_insert_is_claimed_and_its_changes_are_noted(bench: Bench) {
    let id = inserted(&bench).await;

    let claimed = claim(&bench, 1).await;

    assert_eq!((claimed.record.id(), claimed.act), (id, Act::Prepare));
    assert_eq!(claimed.record.composition.as_deref(), Some("comp_123"));
    assert_eq!(claimed.record.cue_item.as_deref(), Some("7"));
    let data = bench.begin().await.renders().data(id).await.unwrap().unwrap();
    assert_eq!(data.replace(' ', ""), "{\"composition_name\":\"Chips\"}");
    let noted = transitions(&bench, id).await;
    assert_eq!(noted.len(), 2);
    assert_eq!((noted[0].0, noted[0].1), (None, Status::Pending));
    assert_ne!(noted[0].2, "w1");
    assert_eq!(noted[1], (Some(Status::Pending), Status::Preparing, "w1".to_owned()));
}

async fn cancelled_by_sql_while_it_waits_is_the_end(bench: Bench) {
    let id = inserted(&bench).await;

    execute(&bench, "update render_queue set status = 'cancelled'").await;

    let record = find(&bench, id).await;
    assert_eq!(record.render.status, Status::Cancelled);
    assert!(record.render.cancel_requested_at.is_some() && record.ended_at.is_some());
    assert_eq!(super::claim_by(&bench.store, 1, 5).await.claimed, []);
    assert_eq!(take_leftovers(&bench).await, []);
}

async fn what_is_ended_by_sql_has_ended_then(bench: Bench) {
    for status in ["failed", "completed"] {
        let id = inserted(&bench).await;
        execute(&bench, &format!("update render_queue set status = '{status}' where id = {id}")).await;

        let record = find(&bench, id).await;
        assert!(record.ended_at.is_some(), "{status}");
        assert_eq!(record.ended_at, record.ended_at.max(Some(record.created_at)), "{status}");
    }
}

async fn cancelled_by_sql_in_any_phase_before_publishing_stops_the_worker(bench: Bench) {
    for phase in Phase::ALL.into_iter().filter(|phase| (Phase::Claimed..Phase::Publishing).contains(phase)) {
        let claimed = bring_to(&bench, phase).await;
        let id = claimed.record.id();
        execute(&bench, "update render_queue set status = 'cancelled', worker_id = null").await;
        let told = find(&bench, id).await;
        assert!(told.render.cancel_requested_at.is_some(), "{phase}");
        assert_eq!(told.render.lease, claimed.record.render.lease, "its worker still has to stop");

        let (work, _) = steps().into_iter().find(|(_, next)| *next > phase).unwrap();
        let told = say(&bench, &claimed, work).await;

        match told.record.render.job {
            None => assert_eq!(told.decision.act, Act::Nothing, "{phase}"),
            Some(epoch) => {
                assert!(matches!(told.decision.act, Act::DropJob { epoch: dropped, .. } if dropped == epoch));
            }
        }
        let record = find(&bench, id).await;
        assert_eq!(record.render.status, Status::Cancelled, "{phase}");
        assert_eq!(outcomes(&bench, id).await[0].1.unwrap().as_str(), "cancelled", "{phase}");
        let again = say(&bench, &claimed, Work::Published).await;
        assert_eq!(again.record, record, "{phase}");
        execute(&bench, "delete from render_queue").await;
    }
}

async fn what_is_being_published_cannot_be_cancelled_by_sql(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Publishing).await;
    let before = find(&bench, claimed.record.id()).await;

    let mut tx = bench.begin().await;
    let refused = tx.execute_for_test("update render_queue set status = 'cancelled'").await.unwrap_err();
    drop(tx);

    let why = format!("{:?}", std::error::Error::source(&refused));
    assert!(why.contains("being published") && why.contains("too late"), "{why}");
    assert_eq!(find(&bench, claimed.record.id()).await, before);
    say(&bench, &claimed, Work::Published).await;
    assert_eq!(find(&bench, claimed.record.id()).await.render.status, Status::Completed);
}

async fn what_is_completed_cannot_be_cancelled_by_sql(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Publishing).await;
    say(&bench, &claimed, Work::Published).await;

    let mut tx = bench.begin().await;
    assert!(tx.execute_for_test("update render_queue set status = 'cancelled'").await.is_err());
}

async fn the_job_of_a_waiting_render_that_is_cancelled_by_sql_is_left_to_be_dropped(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    say(&bench, &claimed, Work::Stop).await;

    execute(&bench, "update render_queue set status = 'cancelled'").await;

    bench.advance(Duration::from_secs(366 * 86_400));
    let left = take_leftovers(&bench).await;
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].0, left[0].1, &left[0].2), (id.get(), 1, &format!("rq-{id}-1")));
    assert_eq!(left[0].3, Slot::BusyUntilItEnds);
}

async fn cancelled_by_sql_and_its_worker_is_gone_ends_by_a_reap(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    execute(&bench, "update render_queue set status = 'cancelled'").await;
    let reap = async || {
        let mut tx = bench.begin().await;
        let reaped = tx.renders().reap_expired(5, &super::policy()).await.unwrap();
        tx.commit().await.unwrap();
        reaped
    };

    assert_eq!(reap().await, [], "its worker may still hear of it");
    bench.advance(super::MINUTE);
    let reaped = reap().await;

    assert_eq!(reaped.len(), 1);
    assert!(matches!(reaped[0].decision.act, Act::DropJob { .. }));
    assert_eq!(reaped[0].record.render.status, Status::Cancelled);
    assert_eq!(take_leftovers(&bench).await.len(), 1);
    assert_eq!(reap().await, []);
    assert_eq!(transitions(&bench, id).await.last().unwrap().1, Status::Cancelled);
}

async fn recovered_by_hand_as_the_document_says_is_claimed_anew(bench: Bench) {
    let ghost = bring_to(&bench, Phase::Rendering).await;
    let id = ghost.record.id();

    execute(
        &bench,
        "update render_queue set status = 'pending', worker_id = null, recovery_count = recovery_count + 1",
    )
    .await;
    let owner = claim(&bench, 2).await;

    assert_eq!((owner.record.id(), owner.act), (id, Act::LookAtJob));
    assert_eq!(owner.record.render.counts.recoveries, 1);
    assert_eq!(say(&bench, &ghost, Work::Renew).await.decision.act, Act::GiveUp);
    let all: Vec<_> =
        outcomes(&bench, id).await.into_iter().map(|(_, how)| how.map(|how| how.as_str())).collect();
    assert_eq!(all, [Some("lost"), None]);
}

async fn wanted_once_more_by_sql_is_claimed_anew(bench: Bench) {
    let id = inserted(&bench).await;
    execute(&bench, "update render_queue set status = 'cancelled'").await;

    execute(&bench, "update render_queue set status = 'pending'").await;

    bench.advance(Duration::from_secs(366 * 86_400));
    let claimed = claim(&bench, 1).await;
    assert_eq!((claimed.record.id(), claimed.record.render.cancel_requested_at), (id, None));
    assert_eq!(claimed.record.ended_at, None);
}

/// Wants it once more, and sees that all that is left of its job of this epoch is to be dropped, and nothing else.
async fn begins_anew(bench: &Bench, id: RenderId, old_job: i64) {
    execute(bench, "update render_queue set status = 'pending'").await;
    let waits = find(bench, id).await;
    assert_eq!((waits.render.phase, waits.render.job, waits.render.reason), (Phase::Queued, None, None));
    assert_eq!((waits.render.progress.get(), waits.render.counts), (0, Counts::default()));
    assert_eq!((waits.remote_job, waits.staged_path, waits.submitted_at), (None, None, None));
    assert_eq!((waits.started_at, waits.ended_at), (None, None));
    bench.advance(Duration::from_secs(366 * 86_400));

    let again = claim(bench, 2).await;
    let told = say(bench, &again, Work::Prepared).await;

    assert_eq!((again.act, told.decision.act), (Act::Prepare, Act::Submit));
    let epoch = again.fence.epoch.get();
    assert_eq!((epoch, told.record.render.job), (old_job + 1, Some(again.fence.epoch)));
    assert_eq!(told.record.remote_job, Some(format!("rq-{id}-{epoch}")));
    let mut left: Vec<i64> = take_leftovers(bench).await.into_iter().map(|one| one.1).collect();
    left.sort_unstable();
    assert_eq!(left, (1..=old_job).collect::<Vec<_>>());
}

async fn what_failed_with_a_bad_file_and_is_wanted_once_more_by_sql_begins_anew(bench: Bench) {
    let bad = || Work::Failed(Trouble::new(Failure::OutputInvalid, "cut off"));
    let mut claimed = bring_to(&bench, Phase::Validating).await;
    let id = claimed.record.id();
    while say(&bench, &claimed, bad()).await.record.render.status == Status::Pending {
        bench.advance(super::MINUTE * 60);
        claimed = claim(&bench, 1).await;
        for (work, _) in steps().into_iter().filter(|(_, next)| *next <= Phase::Validating) {
            say(&bench, &claimed, work).await;
        }
    }
    let failed = find(&bench, id).await;
    assert_eq!((failed.render.status, failed.render.phase), (Status::Failed, Phase::Validating));

    begins_anew(&bench, id, claimed.fence.epoch.get()).await;
}

async fn what_was_cancelled_while_it_rendered_and_is_wanted_once_more_by_sql_begins_anew(bench: Bench) {
    let ghost = bring_to(&bench, Phase::Rendering).await;
    let id = ghost.record.id();
    execute(&bench, "update render_queue set status = 'cancelled'").await;

    begins_anew(&bench, id, 1).await;

    assert_eq!(say(&bench, &ghost, Work::Renew).await.decision.act, Act::GiveUp, "it never heard of it");
}

async fn a_completed_render_that_is_wanted_once_more_gets_another_file(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Publishing).await;
    let id = claimed.record.id();
    say(&bench, &claimed, Work::Published).await;
    execute(&bench, "update render_queue set output_file_path = '/nas/a_1.mp4'").await;
    let output = async || {
        let record = find(&bench, id).await;
        (record.output_revision, record.previous_output_path, record.output_path)
    };

    execute(&bench, "update render_queue set status = 'pending'").await;
    let corrected = (2, Some("/nas/a_1.mp4".to_owned()), None);
    assert_eq!(output().await, corrected);
    // What was not published needs no other name.
    execute(&bench, "update render_queue set status = 'cancelled'").await;
    execute(&bench, "update render_queue set status = 'pending'").await;
    assert_eq!(output().await, corrected);
}

async fn what_only_could_not_be_published_goes_on_when_it_is_wanted_once_more_by_sql(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Copying).await;
    let id = claimed.record.id();
    say(&bench, &claimed, Work::Failed(Trouble::new(Failure::NasRefused, "read only"))).await;
    assert_eq!(find(&bench, id).await.render.status, Status::Failed);

    execute(&bench, "update render_queue set status = 'pending'").await;

    bench.advance(Duration::from_secs(366 * 86_400));
    let again = claim(&bench, 2).await;
    assert_eq!((again.act, again.record.render.job), (Act::Copy, Some(Epoch::new(1))));
    let files: Vec<File> = take_leftovers(&bench).await.into_iter().map(|one| one.4).collect();
    assert_eq!(files, [File::Keep]);
}

async fn nobody_is_at_work_without_a_worker_and_a_lease(bench: Bench) {
    inserted(&bench).await;
    for status in ["preparing", "rendering", "encoding", "uploading"] {
        let mut tx = bench.begin().await;
        let sql = format!("update render_queue set status = '{status}'");
        assert!(tx.execute_for_test(&sql).await.is_err(), "{status}");
    }
    // One way only: what a statement by hand leaves behind is no error.
    let id = "00000000-0000-0000-0000-000000000007";
    execute(&bench, &format!("update render_queue set worker_id = '{id}'")).await;
    assert_eq!(claim(&bench, 1).await.fence.epoch.get(), 1);
}

async fn an_unknown_status_is_refused(bench: Bench) {
    inserted(&bench).await;

    let mut tx = bench.begin().await;
    assert!(tx.execute_for_test("update render_queue set status = 'finished'").await.is_err());
}

async fn what_another_program_has_noted_hides_nothing_of_the_render(bench: Bench) {
    let id = inserted(&bench).await;
    let at = if bench.scratch.url().starts_with("sqlite") { "7000000" } else { "to_timestamp(7)" };

    execute(
        &bench,
        &format!(
            "insert into render_queue_audit (render_queue_id, status_from, status_to, changed_at, changed_by, phase)
             values ({id}, 'queued', 'render:dorender', {at}, 'old', null),
                    ({id}, 'render:dorender', 'failed', {at}, null, 'dreaming'),
                    ({id}, null, null, {at}, 'old', null),
                    ({id}, 'failed', 'pending', null, 'old', null)"
        ),
    )
    .await;

    let noted = transitions(&bench, id).await;
    assert_eq!(noted.len(), 2, "{noted:?}");
    assert_eq!(noted[1], (None, Status::Failed, String::new()));
}

async fn a_plain_insert_wakes_where_the_database_can(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        // There is nobody to call: workers poll.
        return;
    }
    let soon = crate::SOON;
    let mut waiting = bench.store.wakeup(RENDER_WAITING);
    // Whoever is there when listening begins is woken once; whoever comes later is not.
    assert_eq!(waiting.wait(soon).await, Woken::Called);
    let mut cancelled = bench.store.wakeup(RENDER_CANCELLED);

    execute(&bench, INSERT).await;
    assert_eq!(waiting.wait(soon).await, Woken::Called);
    bench.advance(Duration::from_secs(366 * 86_400));
    claim(&bench, 1).await;
    execute(&bench, "update render_queue set status = 'cancelled'").await;
    assert_eq!(cancelled.wait(soon).await, Woken::Called);

    let mut tx = bench.begin().await;
    let by = text(&mut tx, "select changed_by from render_queue_audit order by id desc limit 1").await;
    assert_ne!(by.as_deref(), Some("w1"), "the database user is named");
}
