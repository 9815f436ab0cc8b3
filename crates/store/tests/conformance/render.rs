//! Renders: the queue that dashboards write into, and what workers say about what they have.

mod adopted;
mod approval;
mod batch;
mod board;
mod composition;
mod data;
mod fence;
mod metrics;
mod notify;
mod operate;
mod purge;
mod race;
mod reap;
mod rights;
mod sql;
mod step_back;
mod target;
mod told;
mod view;

use crate::{Bench, process_id};
use serde_json::json;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::Code;
use tidemill_domain::lease::{Epoch, Fence, Lease};
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::clock::Seen;
use tidemill_domain::render::lifecycle::{File, Slot};
use tidemill_domain::render::{Act, Failure, Phase, Policy, RenderId, Report, Status, Trouble, Work};
use tidemill_domain::schedule::Zone;
use tidemill_store::render::{
    ClaimRequest, Claimed, Claims, NewRender, Notes, RenderChanged, RenderFilter, RenderRecord, Submitted,
    Worked,
};
use tidemill_store::{Store, Tx};

crate::on_both![
    a_render_goes_from_the_queue_to_its_file,
    those_with_priority_then_the_nearest_deadline_then_the_oldest_are_claimed_first,
    what_waits_for_its_time_is_not_claimed,
    a_worker_that_stops_gives_its_render_back_and_the_next_one_adopts_the_job,
    a_failure_puts_the_render_off_and_drops_its_job,
    a_render_that_was_claimed_too_often_fails_instead,
    a_changed_mark_moves_the_clock_of_silence,
    somebody_who_clicks_twice_orders_once,
    a_character_that_no_database_takes_is_refused,
    what_is_too_long_for_a_name_is_refused,
    renders_are_listed_by_pages_and_conditions,
];

const MINUTE: Duration = Duration::from_secs(60);

fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Operator, request_id: None }
}

fn policy() -> Policy {
    Policy { lease_for: MINUTE, ..Policy::standard().unwrap() }
}

fn new_render() -> NewRender {
    NewRender {
        composition: Some("Chips".to_owned()),
        data: json!({ "single_fields": { "table_id": "가" } }),
        cue_item: None,
        priority: 0,
        deadline: None,
        broadcast_date: None,
    }
}

async fn submit(bench: &Bench, new: &NewRender) -> Submitted {
    let mut tx = bench.begin().await;
    let submitted = tx.renders().submit(new, &ann()).await.unwrap();
    tx.commit().await.unwrap();
    submitted
}

async fn ordered(bench: &Bench) -> RenderId {
    submit(bench, &new_render()).await.id()
}

/// Claims by process `number`, whose worker is named after it. At the bench's first instant it is still the day before
/// where this zone is.
async fn claim_by(store: &Store, number: u128, count: u32) -> Claims {
    let zone: Zone = "America/Los_Angeles".parse().unwrap();
    let (by, worker, policy) = (process_id(number), format!("w{number}"), policy());
    let mut tx = store.begin().await.unwrap();
    let request = ClaimRequest { by, worker: &worker, count, policy: &policy, zone: &zone };
    let claims = tx.renders().claim(request).await.unwrap();
    tx.commit().await.unwrap();
    claims
}

async fn claim(bench: &Bench, number: u128) -> Claimed {
    let mut claims = claim_by(&bench.store, number, 1).await;
    assert_eq!((claims.claimed.len(), claims.ended.len()), (1, 0), "{claims:?}");
    claims.claimed.remove(0)
}

async fn say(bench: &Bench, claimed: &Claimed, work: Work) -> Worked {
    say_with(bench, claimed.record.id(), claimed.fence, work, Notes::default()).await.unwrap()
}

async fn say_with(bench: &Bench, id: RenderId, fence: Fence, work: Work, notes: Notes<'_>) -> Option<Worked> {
    let mut tx = bench.begin().await;
    let worked = tx.renders().work(id, fence, work, notes, &policy()).await.unwrap();
    tx.commit().await.unwrap();
    if let Some(worked) = &worked {
        assert_eq!(worked.record, find(bench, id).await, "what is answered is what is stored");
    }
    worked
}

async fn retried(bench: &Bench, id: RenderId) -> RenderChanged {
    let mut tx = bench.begin().await;
    let done = tx.renders().retry(id, &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    done
}

async fn find(bench: &Bench, id: RenderId) -> RenderRecord {
    bench.begin().await.renders().find(id).await.unwrap().unwrap()
}

fn at(phase: Phase, percent: f64) -> Work {
    Work::Reported(Report::At { phase, percent: Some(percent) })
}

/// What a worker says, in order, so that a render gets to its end; and the phase after each.
fn steps() -> Vec<(Work, Phase)> {
    vec![
        (Work::Prepared, Phase::Submitting),
        (Work::Submitted, Phase::WaitingForNode),
        (at(Phase::NodePreparing, 0.0), Phase::NodePreparing),
        (at(Phase::Rendering, 50.0), Phase::Rendering),
        (at(Phase::Encoding, 80.0), Phase::Encoding),
        (Work::Reported(Report::Finished), Phase::Validating),
        (Work::Validated, Phase::Copying),
        (Work::Copied, Phase::Publishing),
    ]
}

/// Orders a render, claims it and brings it to a phase.
async fn bring_to(bench: &Bench, phase: Phase) -> Claimed {
    let id = ordered(bench).await;
    let mut claimed = claim(bench, 1).await;
    assert_eq!(claimed.record.id(), id);
    for (work, next) in steps() {
        if claimed.record.render.phase == phase {
            break;
        }
        claimed.record = say(bench, &claimed, work).await.record;
        assert_eq!(claimed.record.render.phase, next);
    }
    assert_eq!(claimed.record.render.phase, phase);
    claimed
}

/// The statuses that the trigger has noted: from, to and by whom.
async fn transitions(bench: &Bench, id: RenderId) -> Vec<(Option<Status>, Status, String)> {
    let all = bench.begin().await.renders().transitions(id).await.unwrap();
    all.into_iter().map(|one| (one.from, one.to, one.by)).collect()
}

async fn outcomes(bench: &Bench, id: RenderId) -> Vec<(i64, Option<AttemptOutcome>)> {
    let all = bench.begin().await.renders().attempts(id).await.unwrap();
    all.into_iter().map(|one| (one.epoch.get(), one.outcome)).collect()
}

async fn take_leftovers(bench: &Bench) -> Vec<(i64, i64, String, Slot, File)> {
    let mut tx = bench.begin().await;
    let taken = tx.renders().take_leftovers(10, MINUTE).await.unwrap();
    tx.commit().await.unwrap();
    taken
        .into_iter()
        .map(|one| (one.render.get(), one.epoch.get(), one.remote_job, one.slot, one.file))
        .collect()
}

async fn execute(bench: &Bench, sql: &str) {
    let mut tx = bench.begin().await;
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

/// The first column of the first row, as a text.
async fn text(tx: &mut Tx, sql: &'static str) -> Option<String> {
    if let Some(connection) = tx.postgres() {
        return sqlx_text(tidemill_store::sqlx::query_scalar(sql).fetch_one(connection).await);
    }
    let connection = tx.sqlite().unwrap();
    sqlx_text(tidemill_store::sqlx::query_scalar(sql).fetch_one(connection).await)
}

fn sqlx_text(answer: Result<Option<String>, tidemill_store::sqlx::Error>) -> Option<String> {
    answer.unwrap()
}

async fn a_render_goes_from_the_queue_to_its_file(bench: Bench) {
    let id = ordered(&bench).await;
    bench.advance(MINUTE);
    let claimed = claim(&bench, 1).await;
    assert_eq!(claimed.record, find(&bench, id).await, "what is answered is what is stored");
    assert_eq!((claimed.act, claimed.fence.epoch), (Act::Prepare, Epoch::new(1)));
    assert_eq!(claimed.record.broadcast_date.unwrap().to_string(), "2026-11-14");
    let fence = claimed.fence;

    let document = json!({ "uid": "rq-1-1", "text": "a\u{0}b" });
    let prepared = Notes { document: Some(&document), staged_path: Some("/stage/x.mp4"), ..Notes::default() };
    let told = say_with(&bench, id, fence, Work::Prepared, prepared).await.unwrap();
    assert_eq!(told.decision.act, Act::Submit);
    assert_eq!(told.record.remote_job.as_deref(), Some(format!("rq-{id}-1").as_str()));
    bench.advance(MINUTE / 2);
    let submitted = Notes { remote_job: Some("cloud-77"), ..Notes::default() };
    let told = say_with(&bench, id, fence, Work::Submitted, submitted).await.unwrap();
    assert_eq!((told.decision.act, told.record.submitted_at), (Act::Poll, Some(bench.now())));
    let since = bench.now();
    bench.advance(MINUTE / 6);
    let told = say(&bench, &claimed, at(Phase::Rendering, 50.0)).await;
    let seen = Seen {
        phase: Phase::Rendering,
        submitted_at: since,
        started_at: Some(bench.now()),
        changed_at: bench.now(),
    };
    assert_eq!(told.record.seen(), Some(seen));
    say(&bench, &claimed, Work::Reported(Report::Finished)).await;
    let report = json!({ "checks": [] });
    let validated = Notes { report: Some(&report), poster_path: Some("/nas/x.jpg"), ..Notes::default() };
    say_with(&bench, id, fence, Work::Validated, validated).await.unwrap();
    let copied = Notes { output_bytes: Some(9_000), output_sha256: Some("ab"), ..Notes::default() };
    say_with(&bench, id, fence, Work::Copied, copied).await.unwrap();
    let published = Notes { output_path: Some("\\\\NAS\\x.mp4"), ..Notes::default() };
    let told = say_with(&bench, id, fence, Work::Published, published).await.unwrap();

    let drop = Act::DropJob { epoch: Epoch::new(1), slot: Slot::Free, file: File::Delete };
    assert_eq!(told.decision.act, drop);
    let done = find(&bench, id).await;
    assert_eq!((done.render.status, done.render.progress.get()), (Status::Completed, 100));
    assert_eq!(done.render.lease, Lease::Free { epoch: Epoch::new(1) });
    assert_eq!((done.output_path.as_deref(), done.output_bytes), (Some("\\\\NAS\\x.mp4"), Some(9_000)));
    assert_eq!(
        (done.output_sha256.as_deref(), done.poster_path.as_deref()),
        (Some("ab"), Some("/nas/x.jpg"))
    );
    assert_eq!((done.duration_seconds, done.completed_at), (Some(40.0), Some(bench.now())));
    let by = |name: &str| name.to_owned();
    assert_eq!(
        transitions(&bench, id).await,
        [
            (None, Status::Pending, by("ann")),
            (Some(Status::Pending), Status::Preparing, by("w1")),
            (Some(Status::Preparing), Status::Rendering, by("w1")),
            (Some(Status::Rendering), Status::Uploading, by("w1")),
            (Some(Status::Uploading), Status::Completed, by("w1")),
        ]
    );
    let attempts = bench.begin().await.renders().attempts(id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].outcome, Some(AttemptOutcome::Completed));
    assert_eq!((attempts[0].remote_job.as_deref(), &attempts[0].report), (Some("cloud-77"), &Some(report)));
    let stored = bench.begin().await.renders().document(id, Epoch::new(1)).await.unwrap();
    assert_eq!(stored, Some(document));
    assert_eq!(take_leftovers(&bench).await, [], "the worker that dropped it has a while for it");
    bench.advance(MINUTE);
    let left = take_leftovers(&bench).await;
    assert_eq!(left, [(id.get(), 1, "cloud-77".to_owned(), Slot::Free, File::Delete)]);
}

async fn those_with_priority_then_the_nearest_deadline_then_the_oldest_are_claimed_first(bench: Bench) {
    let order = |priority, hours: Option<u32>| NewRender {
        priority,
        deadline: hours.map(|hours| bench.now().plus(60 * MINUTE * hours)),
        ..new_render()
    };
    let mut ids = Vec::new();
    for new in [order(0, None), order(0, Some(2)), order(0, Some(1)), order(5, None), order(-1, Some(0))] {
        ids.push(submit(&bench, &new).await.id());
        bench.advance(Duration::from_secs(1));
    }
    ids.push(ordered(&bench).await);

    let claims = claim_by(&bench.store, 1, 10).await;

    let order: Vec<RenderId> = claims.claimed.iter().map(|claimed| claimed.record.id()).collect();
    assert_eq!(order, [ids[3], ids[2], ids[1], ids[0], ids[5], ids[4]]);
    for claimed in claims.claimed {
        assert_eq!(claimed.record, find(&bench, claimed.record.id()).await);
    }
}

async fn what_waits_for_its_time_is_not_claimed(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let lost = Work::Failed(Trouble::new(Failure::NasFailed, "full"));
    let told = say(&bench, &claimed, lost).await;
    assert!(told.record.render.run_after > bench.now());

    assert_eq!(claim_by(&bench.store, 2, 5).await, Claims::default());
    bench.advance(10 * MINUTE);
    assert_eq!(claim(&bench, 2).await.fence.epoch, Epoch::new(2));
}

async fn a_worker_that_stops_gives_its_render_back_and_the_next_one_adopts_the_job(bench: Bench) {
    let first = bring_to(&bench, Phase::Rendering).await;
    let id = first.record.id();

    let stopped = say(&bench, &first, Work::Stop).await;
    let next = claim(&bench, 2).await;

    assert_eq!((stopped.decision.act, stopped.record.render.counts.attempts), (Act::Nothing, 0));
    assert_eq!((next.act, next.fence.epoch), (Act::LookAtJob, Epoch::new(2)));
    assert_eq!(next.record.render.job, Some(Epoch::new(1)));
    assert_eq!(next.record.remote_job, Some(format!("rq-{id}-1")), "the same job");
    assert_eq!(next.record.submitted_at, first.record.submitted_at, "its clocks go on");
    assert_eq!(outcomes(&bench, id).await, [(1, Some(AttemptOutcome::GivenBack)), (2, None)]);
}

async fn a_failure_puts_the_render_off_and_drops_its_job(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    let failed = Report::Failed { failure: Failure::RenderFailed, message: "AESend failed \u{0}".to_owned() };

    let told = say(&bench, &claimed, Work::Reported(failed)).await;

    let drop = Act::DropJob { epoch: Epoch::new(1), slot: Slot::Free, file: File::Delete };
    assert_eq!(told.decision.act, drop);
    let record = find(&bench, id).await;
    assert_eq!((record.render.status, record.render.job), (Status::Pending, None));
    assert_eq!(
        (record.remote_job.as_deref(), record.submitted_at),
        (None, None),
        "the next job is another one"
    );
    assert_eq!(record.render.reason.as_ref().unwrap().code, Failure::RenderFailed.code());
    assert_eq!(outcomes(&bench, id).await, [(1, Some(AttemptOutcome::Retried))]);
    bench.advance(MINUTE);
    assert_eq!(take_leftovers(&bench).await.len(), 1);
    bench.advance(10 * MINUTE);
    let again = claim(&bench, 2).await;
    let prepared = say(&bench, &again, Work::Prepared).await;
    assert_eq!((again.act, prepared.record.remote_job), (Act::Prepare, Some(format!("rq-{id}-2"))));
}

async fn a_render_that_was_claimed_too_often_fails_instead(bench: Bench) {
    let id = ordered(&bench).await;
    execute(&bench, "update render_queue set attempts = 100, job_epoch = 3, revision = revision + 1").await;

    let claims = claim_by(&bench.store, 1, 1).await;

    assert!(claims.claimed.is_empty());
    assert_eq!(claims.ended[0].record, find(&bench, id).await);
    assert_eq!(claims.ended[0].record.render.status, Status::Failed);
    assert!(matches!(claims.ended[0].decision.act, Act::DropJob { .. }));
    assert_eq!(take_leftovers(&bench).await[0].2, format!("rq-{id}-3"));
}

async fn a_changed_mark_moves_the_clock_of_silence(bench: Bench) {
    let claimed = bring_to(&bench, Phase::Rendering).await;
    let id = claimed.record.id();
    let hear = async |mark: &'static str| {
        bench.advance(Duration::from_secs(5));
        let notes = Notes { mark: Some(mark), ..Notes::default() };
        let told = say_with(&bench, id, claimed.fence, at(Phase::Rendering, 10.0), notes).await.unwrap();
        told.record.changed_at.unwrap()
    };

    let (first, same, other) = (hear("1").await, hear("1").await, hear("2").await);

    assert_eq!((first, same, other), (bench.now().minus(MINUTE / 6), first, bench.now()));
}

async fn somebody_who_clicks_twice_orders_once(bench: Bench) {
    let click = NewRender { cue_item: Some("cue-7".to_owned()), ..new_render() };
    let first = submit(&bench, &click).await;
    let other = NewRender { data: json!({ "single_fields": {} }), ..click.clone() };

    assert_eq!(submit(&bench, &click).await, Submitted::Known(first.id()));
    assert!(matches!(submit(&bench, &other).await, Submitted::New(_)), "other data is another order");
    claim(&bench, 1).await;
    assert_eq!(submit(&bench, &click).await, Submitted::Known(first.id()));
    let mut tx = bench.begin().await;
    let _done = tx.renders().cancel(first.id(), &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    let claimed = find(&bench, first.id()).await;
    let Lease::Held { fence, .. } = claimed.render.lease else { panic!("{claimed:?}") };
    say_with(&bench, first.id(), fence, Work::Renew, Notes::default()).await.unwrap();
    let second = submit(&bench, &click).await;
    assert!(matches!(second, Submitted::New(_)), "the first one has ended");
    let mut tx = bench.begin().await;
    let _done = tx.renders().retry(first.id(), &ann(), None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(find(&bench, first.id()).await.render.status, Status::Pending, "both are wanted now");
}

async fn a_character_that_no_database_takes_is_refused(bench: Bench) {
    let in_data = NewRender { data: json!({ "slots": [{ "a": "x\u{0}" }] }), ..new_render() };
    let in_name = NewRender { data: json!({ "a\u{0}": 1 }), ..new_render() };
    let in_composition = NewRender { composition: Some("\u{0}".to_owned()), ..new_render() };
    for bad in [in_data, in_name, in_composition] {
        let refused = bench.begin().await.renders().submit(&bad, &ann()).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadRenderData);
    }
    let harmless = NewRender { data: json!({ "a": "\\u0000" }), ..new_render() };
    assert!(matches!(submit(&bench, &harmless).await, Submitted::New(_)));
}

async fn what_is_too_long_for_a_name_is_refused(bench: Bench) {
    let text = |chars| Some("가".repeat(chars));
    let longest = NewRender { composition: text(500), cue_item: text(500), ..new_render() };
    assert!(matches!(submit(&bench, &longest).await, Submitted::New(_)));

    let long = [
        NewRender { composition: text(501), ..new_render() },
        NewRender { cue_item: text(501), ..new_render() },
    ];
    for bad in long {
        let refused = bench.begin().await.renders().submit(&bad, &ann()).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadRenderData);
    }
}

async fn renders_are_listed_by_pages_and_conditions(bench: Bench) {
    let mut ids = Vec::new();
    for number in 0..5 {
        let composition = Some(format!("C{}", number % 2));
        let broadcast_date = Some(format!("2026-11-{:02}", 10 + number).parse().unwrap());
        ids.push(submit(&bench, &NewRender { composition, broadcast_date, ..new_render() }).await.id());
    }
    claim(&bench, 1).await;
    let list = async |filter: RenderFilter, before, limit| {
        let all = bench.begin().await.renders().list(&filter, before, limit).await.unwrap();
        all.iter().map(RenderRecord::id).collect::<Vec<_>>()
    };
    let any = RenderFilter::default;

    assert_eq!(list(any(), None, 2).await, [ids[4], ids[3]]);
    assert_eq!(list(any(), Some(ids[3]), 9).await, [ids[2], ids[1], ids[0]]);
    let composition = Some("C1".to_owned());
    assert_eq!(list(RenderFilter { composition, ..any() }, None, 9).await, [ids[3], ids[1]]);
    assert_eq!(list(RenderFilter { status: Some(Status::Preparing), ..any() }, None, 9).await, [ids[0]]);
    assert_eq!(list(RenderFilter { worker: Some("w1".to_owned()), ..any() }, None, 9).await, [ids[0]]);
    let date = Some("2026-11-12".parse().unwrap());
    assert_eq!(list(RenderFilter { date, ..any() }, None, 9).await, [ids[2]]);
    let counts = bench.begin().await.renders().counts().await.unwrap();
    assert_eq!(counts.by_status[&Status::Pending], 4);
    assert_eq!((counts.by_status[&Status::Preparing], counts.oldest_pending), (1, Some(bench.now())));
}
