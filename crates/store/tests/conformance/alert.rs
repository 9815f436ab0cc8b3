//! Alerts: state, silence and deliveries, each change in one transaction.

use crate::{Bench, TTL, key};
use std::time::Duration;
use tidemill_domain::alert::delivery::{ATTEMPTS_MAX, Attempt, DeliveryState};
use tidemill_domain::alert::silence::SilenceRequest;
use tidemill_domain::alert::{AlertState, BadSilence, Notice, Reading, Severity, Subject};
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::lease::Term;
use tidemill_store::Tx;
use tidemill_store::alert::{Judgement, Judging};
use tidemill_store::audit::AuditFilter;

crate::on_both![
    an_alert_pends_fires_and_resolves,
    the_unknown_is_not_written_down,
    what_is_fine_from_the_beginning_leaves_no_row,
    a_change_goes_with_its_transaction,
    a_ghost_cannot_change_an_alert,
    a_silence_holds_back_notices_and_never_the_state,
    what_began_in_a_silence_is_told_after_it,
    what_ended_in_a_silence_is_told_after_it,
    a_silence_of_one_subject_leaves_the_others_alone,
    a_silence_covers_the_parts_of_its_subject,
    the_detail_of_an_alert_is_kept_after_its_end,
    a_silence_is_replaced_ended_and_written_down,
    a_silence_without_reason_or_end_is_refused,
    an_end_is_not_delivered_before_its_beginning,
    a_failed_delivery_waits_longer_and_longer_and_is_given_up,
    a_delivery_is_tried_again_within_ten_minutes_after_the_clock_went_back,
    a_delivery_that_has_ended_stays_so,
    the_firing_are_listed_first,
    what_is_long_over_is_forgotten,
    the_dead_and_the_living_are_counted,
];

const HOLD: Duration = Duration::from_secs(60);

fn subject(text: &str) -> Subject {
    Subject::new(text).unwrap()
}

async fn judge_in(tx: &mut Tx, about: &str, reading: Reading) -> Judgement {
    let subject = subject(about);
    let channels = ["log".to_owned(), "pager".to_owned()];
    let judging = Judging {
        rule: "slow",
        subject: &subject,
        severity: Severity::Warning,
        hold: HOLD,
        channels: &channels,
        reading,
        detail: None,
    };
    tx.alerts().judge(judging, |judgement, notice| format!("{notice} {:?}", judgement.value)).await.unwrap()
}

async fn judge(bench: &Bench, about: &str, reading: Reading) -> Judgement {
    let mut tx = bench.begin().await;
    let judgement = judge_in(&mut tx, about, reading).await;
    tx.commit().await.unwrap();
    judgement
}

/// Breaches until the alert fires.
async fn fire(bench: &Bench, about: &str) {
    judge(bench, about, Reading::Breached(7.5)).await;
    bench.advance(HOLD);
    assert_eq!(judge(bench, about, Reading::Breached(8.5)).await.notice, Some(Notice::Fired));
}

async fn silence(bench: &Bench, about: Option<&str>, length: Duration) {
    let request = SilenceRequest {
        rule: "slow".into(),
        subject: about.map(subject),
        length,
        reason: " disk is being replaced ".into(),
        actor: ann(),
    };
    let mut tx = bench.begin().await;
    tx.alerts().silence(&request).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Local, request_id: None }
}

/// What was queued, the oldest first, as channel and body.
async fn queued(bench: &Bench) -> Vec<(String, String)> {
    let mut list = bench.begin().await.alerts().deliveries(100).await.unwrap();
    list.reverse();
    list.into_iter().map(|record| (record.delivery.channel, record.delivery.body)).collect()
}

fn both(body: &str) -> [(String, String); 2] {
    [("log".into(), body.into()), ("pager".into(), body.into())]
}

/// What the audit log tells of alerts, the oldest first.
async fn told(bench: &Bench) -> Vec<String> {
    let log = bench.begin().await.audit().entries(&AuditFilter::default(), 100).await.unwrap();
    let entries = log.into_iter().rev().map(|record| record.entry);
    entries
        .filter(|entry| entry.action.starts_with("alert."))
        .map(|entry| format!("{} {} {}", entry.action, entry.object, entry.reason.unwrap_or_default()))
        .collect()
}

async fn an_alert_pends_fires_and_resolves(bench: Bench) {
    let start = bench.now();
    let pending = judge(&bench, "pool/a", Reading::Breached(7.5)).await;
    assert_eq!((pending.after, pending.notice), (AlertState::Pending { since: start }, None));

    bench.advance(HOLD);
    let firing = judge(&bench, "pool/a", Reading::Breached(8.5)).await;
    let fired_at = bench.now();
    assert_eq!(firing.after, AlertState::Firing { since: start, fired_at });
    assert_eq!((firing.notice, firing.told), (Some(Notice::Fired), Some(Notice::Fired)));

    let again = judge(&bench, "pool/a", Reading::Breached(9.5)).await;
    assert_eq!((again.after, again.notice, again.told), (firing.after, None, None));
    let stored = bench.begin().await.alerts().list(10).await.unwrap();
    assert_eq!((stored.len(), stored[0].state, stored[0].value), (1, firing.after, Some(9.5)));

    bench.advance(HOLD);
    let resolved = judge(&bench, "pool/a", Reading::Fine(0.5)).await;
    assert_eq!(resolved.after, AlertState::Resolved { fired_at, at: bench.now() });
    assert_eq!(queued(&bench).await, [both("fired Some(8.5)"), both("resolved Some(0.5)")].concat());
    assert_eq!(
        told(&bench).await,
        [
            "alert.fired alert/slow/pool/a the value is 8.5",
            "alert.resolved alert/slow/pool/a the value is 0.5"
        ]
    );
    assert!(bench.begin().await.alerts().open(10).await.unwrap().is_empty());
}

async fn the_unknown_is_not_written_down(bench: Bench) {
    fire(&bench, "pool/a").await;
    let before = bench.begin().await.alerts().list(10).await.unwrap();
    bench.advance(HOLD);

    let judged = judge(&bench, "pool/a", Reading::Unknown).await;

    assert_eq!((judged.after, judged.value), (before[0].state, Some(8.5)));
    assert_eq!(bench.begin().await.alerts().list(10).await.unwrap(), before);
}

async fn what_is_fine_from_the_beginning_leaves_no_row(bench: Bench) {
    judge(&bench, "pool/a", Reading::Fine(0.0)).await;
    judge(&bench, "pool/b", Reading::Gone).await;

    assert!(bench.begin().await.alerts().list(10).await.unwrap().is_empty());
}

async fn a_change_goes_with_its_transaction(bench: Bench) {
    judge(&bench, "pool/a", Reading::Breached(7.5)).await;
    bench.advance(HOLD);

    let mut tx = bench.begin().await;
    assert_eq!(judge_in(&mut tx, "pool/a", Reading::Breached(7.5)).await.notice, Some(Notice::Fired));
    tx.rollback().await.unwrap();

    assert!(queued(&bench).await.is_empty() && told(&bench).await.is_empty());
    assert!(matches!(
        bench.begin().await.alerts().list(1).await.unwrap()[0].state,
        AlertState::Pending { .. }
    ));
}

async fn a_ghost_cannot_change_an_alert(bench: Bench) {
    let one = bench.process(1).await;
    let mut tx = bench.begin().await;
    let ghost = tx.leases().acquire(&key("evaluator"), one, Term::Process).await.unwrap().unwrap().fence;
    tx.commit().await.unwrap();
    bench.advance(TTL);
    let two = bench.process(2).await;
    let mut tx = bench.begin().await;
    let heir = tx.leases().acquire(&key("evaluator"), two, Term::Process).await.unwrap().unwrap().fence;
    tx.commit().await.unwrap();

    for (fence, may) in [(ghost, false), (heir, true)] {
        let mut tx = bench.begin().await;
        assert_eq!(tx.leases().confirm(&key("evaluator"), fence).await.unwrap(), may);
        if may {
            judge_in(&mut tx, "pool/a", Reading::Breached(1.0)).await;
            tx.commit().await.unwrap();
        }
    }

    assert_eq!(bench.begin().await.alerts().list(10).await.unwrap().len(), 1);
}

async fn a_silence_holds_back_notices_and_never_the_state(bench: Bench) {
    silence(&bench, None, HOLD * 10).await;

    fire(&bench, "pool/a").await;
    let listed = bench.begin().await.alerts().list(10).await.unwrap();
    let resolved = judge(&bench, "pool/a", Reading::Fine(0.0)).await;

    assert!(matches!(listed[0].state, AlertState::Firing { .. }));
    assert_eq!(listed[0].silence.as_ref().unwrap().reason, "disk is being replaced");
    assert_eq!((resolved.notice, resolved.told), (Some(Notice::Resolved), None));
    assert!(resolved.silence.is_some());
    assert!(queued(&bench).await.is_empty());
    assert!(told(&bench).await.iter().any(|line| line.starts_with("alert.fired")));
    bench.advance(HOLD * 10);
    // Nobody heard of its beginning, so nobody has to hear of its end.
    assert!(bench.begin().await.alerts().open(10).await.unwrap().is_empty());
    assert_eq!(judge(&bench, "pool/a", Reading::Fine(0.0)).await.told, None);
}

async fn what_began_in_a_silence_is_told_after_it(bench: Bench) {
    silence(&bench, None, HOLD * 2).await;
    fire(&bench, "pool/a").await;
    assert_eq!(judge(&bench, "pool/a", Reading::Breached(9.5)).await.told, None);
    bench.advance(HOLD);

    let judged = judge(&bench, "pool/a", Reading::Unknown).await;

    assert_eq!((judged.notice, judged.told), (None, Some(Notice::Fired)));
    assert_eq!(queued(&bench).await, both("fired Some(9.5)"));
    assert_eq!(judge(&bench, "pool/a", Reading::Breached(9.5)).await.told, None);
}

async fn what_ended_in_a_silence_is_told_after_it(bench: Bench) {
    fire(&bench, "pool/a").await;
    silence(&bench, Some("pool/a"), HOLD).await;
    assert_eq!(judge(&bench, "pool/a", Reading::Fine(0.5)).await.told, None);
    assert_eq!(bench.begin().await.alerts().open(10).await.unwrap().len(), 1);
    bench.advance(HOLD);

    let judged = judge(&bench, "pool/a", Reading::Unknown).await;

    assert_eq!(judged.told, Some(Notice::Resolved));
    assert_eq!(queued(&bench).await, [both("fired Some(8.5)"), both("resolved Some(0.5)")].concat());
    assert!(bench.begin().await.alerts().open(10).await.unwrap().is_empty());
}

async fn a_silence_of_one_subject_leaves_the_others_alone(bench: Bench) {
    silence(&bench, Some("pool/a"), HOLD * 10).await;

    fire(&bench, "pool/a").await;
    fire(&bench, "pool/b").await;

    assert_eq!(queued(&bench).await.len(), 2);
    let listed = bench.begin().await.alerts().list(10).await.unwrap();
    let silenced: Vec<_> = listed.iter().filter(|record| record.silence.is_some()).collect();
    assert_eq!((silenced.len(), silenced[0].subject.as_str()), (1, "pool/a"));
}

async fn a_silence_covers_the_parts_of_its_subject(bench: Bench) {
    silence(&bench, Some("job/load"), HOLD * 10).await;

    fire(&bench, "job/load").await;
    fire(&bench, "job/load/instance/7").await;
    assert_eq!(queued(&bench).await.len(), 0);
    fire(&bench, "job/load_2/instance/8").await;
    assert_eq!(queued(&bench).await.len(), 2);
}

async fn the_detail_of_an_alert_is_kept_after_its_end(bench: Bench) {
    let subject = subject("job/load/instance/7");
    for (reading, detail) in [
        (Reading::Breached(1.0), Some("execution 1 failed")),
        (Reading::Breached(2.0), Some("execution 2 failed")),
        (Reading::Gone, None),
    ] {
        let judging = Judging {
            rule: "job_failed",
            subject: &subject,
            severity: Severity::Critical,
            hold: Duration::ZERO,
            channels: &[],
            reading,
            detail,
        };
        let mut tx = bench.begin().await;
        tx.alerts().judge(judging, |_, _| String::new()).await.unwrap();
        tx.commit().await.unwrap();
    }

    let listed = bench.begin().await.alerts().list(10).await.unwrap();
    assert_eq!(
        (listed[0].state.as_str(), listed[0].detail.as_deref()),
        ("resolved", Some("execution 2 failed"))
    );
}

async fn a_silence_is_replaced_ended_and_written_down(bench: Bench) {
    silence(&bench, None, HOLD).await;
    silence(&bench, None, HOLD * 2).await;
    silence(&bench, Some("pool/a"), HOLD).await;
    let in_force = bench.begin().await.alerts().silences(10).await.unwrap();
    assert_eq!(in_force.len(), 2);
    assert_eq!((in_force[0].until, in_force[0].by.as_str()), (bench.now().plus(HOLD * 2), "ann"));

    let mut tx = bench.begin().await;
    assert!(tx.alerts().unsilence("slow", None, &ann()).await.unwrap());
    assert!(!tx.alerts().unsilence("slow", None, &ann()).await.unwrap());
    assert!(!tx.alerts().unsilence("fast", None, &ann()).await.unwrap());
    assert!(tx.alerts().unsilence("slow", Some(&subject("pool/a")), &ann()).await.unwrap());
    tx.commit().await.unwrap();

    assert!(bench.begin().await.alerts().silences(10).await.unwrap().is_empty());
    assert_eq!(
        told(&bench).await,
        [
            "alert.silence alert/slow disk is being replaced",
            "alert.silence alert/slow disk is being replaced",
            "alert.silence alert/slow/pool/a disk is being replaced",
            "alert.unsilence alert/slow ",
            "alert.unsilence alert/slow/pool/a "
        ]
    );
}

async fn a_silence_without_reason_or_end_is_refused(bench: Bench) {
    let good =
        SilenceRequest { rule: "slow".into(), subject: None, length: HOLD, reason: "x".into(), actor: ann() };
    let cases = [
        (SilenceRequest { reason: " ".into(), ..good.clone() }, BadSilence::Reason),
        (SilenceRequest { length: Duration::ZERO, ..good.clone() }, BadSilence::Length),
        (SilenceRequest { rule: "Slow".into(), ..good }, BadSilence::Rule),
    ];
    let mut tx = bench.begin().await;

    for (request, bad) in cases {
        assert_eq!(tx.alerts().silence(&request).await.unwrap(), Err(bad));
    }

    assert!(tx.alerts().silences(10).await.unwrap().is_empty());
}

async fn due(bench: &Bench) -> Vec<(String, i64)> {
    let due = bench.begin().await.alerts().due_deliveries(100).await.unwrap();
    due.into_iter()
        .map(|delivery| (format!("{} {}", delivery.channel, delivery.notice), delivery.id))
        .collect()
}

async fn settle(bench: &Bench, id: i64, attempt: Attempt) -> DeliveryState {
    let mut tx = bench.begin().await;
    let error = (attempt != Attempt::Arrived).then_some("no\0 route");
    let wait = |failures: u32| Duration::from_secs(u64::from(failures));
    let state = tx.alerts().settle_delivery(id, attempt, error, wait).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    state
}

async fn an_end_is_not_delivered_before_its_beginning(bench: Bench) {
    fire(&bench, "pool/a").await;
    judge(&bench, "pool/a", Reading::Fine(0.0)).await;
    let first = due(&bench).await;
    assert_eq!(first.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["log fired", "pager fired"]);

    settle(&bench, first[0].1, Attempt::Arrived).await;
    settle(&bench, first[1].1, Attempt::FailedForNow).await;

    // The pager has not heard of the beginning, so it is not told of the end.
    let names: Vec<String> = due(&bench).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["log resolved"]);
    bench.advance(Duration::from_secs(1));
    let names: Vec<String> = due(&bench).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["log resolved", "pager fired"]);
}

async fn a_failed_delivery_waits_longer_and_longer_and_is_given_up(bench: Bench) {
    fire(&bench, "pool/a").await;
    let id = due(&bench).await[1].1;

    for failures in 1..ATTEMPTS_MAX {
        let run_after = bench.now().plus(Duration::from_secs(u64::from(failures)));
        let waiting = DeliveryState::Waiting { attempt: failures, run_after };
        assert_eq!(settle(&bench, id, Attempt::FailedForNow).await, waiting);
        assert!(due(&bench).await.iter().all(|(_, other)| *other != id));
        bench.advance(Duration::from_secs(u64::from(failures)));
        assert!(due(&bench).await.iter().any(|(_, other)| *other == id));
    }
    let given_up = settle(&bench, id, Attempt::FailedForNow).await;

    assert_eq!(given_up, DeliveryState::Failed { at: bench.now() });
    assert!(due(&bench).await.iter().all(|(_, other)| *other != id));
    assert_eq!(told(&bench).await.last().unwrap(), "alert.undelivered alert/slow/pool/a pager: no route");
    let listed = bench.begin().await.alerts().deliveries(10).await.unwrap();
    assert_eq!(listed[0].last_error.as_deref(), Some("no route"));
}

async fn a_delivery_is_tried_again_within_ten_minutes_after_the_clock_went_back(bench: Bench) {
    fire(&bench, "pool/a").await;
    let id = due(&bench).await[1].1;
    settle(&bench, id, Attempt::FailedForNow).await;
    assert_eq!(bench.shorten_waits().await, 0, "an honest clock changes nothing");
    bench.set_back(Duration::from_secs(3_600));

    // Of the other one nobody has tried anything yet.
    assert_eq!(bench.shorten_waits().await, 2);
    bench.advance(Duration::from_secs(600));

    assert!(due(&bench).await.iter().any(|(_, other)| *other == id));
}

async fn a_delivery_that_has_ended_stays_so(bench: Bench) {
    fire(&bench, "pool/a").await;
    let open = due(&bench).await;
    let delivered = settle(&bench, open[0].1, Attempt::Arrived).await;
    let failed = settle(&bench, open[1].1, Attempt::FailedForGood).await;
    bench.advance(HOLD);

    assert_eq!(settle(&bench, open[0].1, Attempt::FailedForGood).await, delivered);
    assert_eq!(settle(&bench, open[1].1, Attempt::Arrived).await, failed);
    let mut tx = bench.begin().await;
    let absent = tx.alerts().settle_delivery(99, Attempt::Arrived, None, |_| HOLD).await.unwrap();
    assert_eq!(absent, None);
}

async fn the_firing_are_listed_first(bench: Bench) {
    fire(&bench, "over").await;
    judge(&bench, "over", Reading::Fine(0.0)).await;
    fire(&bench, "firing").await;
    judge(&bench, "pending", Reading::Breached(1.0)).await;

    let mut tx = bench.begin().await;
    let names = |list: Vec<tidemill_store::alert::AlertRecord>| {
        list.into_iter().map(|record| record.subject.to_string()).collect::<Vec<_>>()
    };

    assert_eq!(names(tx.alerts().list(10).await.unwrap()), ["firing", "pending", "over"]);
    assert_eq!(names(tx.alerts().list(1).await.unwrap()), ["firing"]);
    assert_eq!(names(tx.alerts().open(10).await.unwrap()), ["firing", "pending"]);
}

async fn what_is_long_over_is_forgotten(bench: Bench) {
    fire(&bench, "over").await;
    judge(&bench, "over", Reading::Fine(0.0)).await;
    for _ in 0..2 {
        for (_, id) in due(&bench).await {
            settle(&bench, id, Attempt::Arrived).await;
        }
    }
    silence(&bench, None, HOLD).await;
    fire(&bench, "firing").await;
    let month = Duration::from_secs(30 * 86400);

    let mut tx = bench.begin().await;
    assert_eq!(tx.alerts().prune(month, 100).await.unwrap(), 0);
    bench.advance(month + HOLD);
    let pruned = tx.alerts().prune(month, 100).await.unwrap();

    // One alert, one silence and four deliveries; what fires and what waits stays.
    assert_eq!(pruned, 6);
    assert_eq!(tx.alerts().list(10).await.unwrap().len(), 1);
    assert_eq!(tx.alerts().deliveries(10).await.unwrap().len(), 2);
}

async fn the_dead_and_the_living_are_counted(bench: Bench) {
    bench.process(1).await;
    bench.advance(TTL);
    bench.process(2).await;
    let mut tx = bench.begin().await;
    let period = Duration::from_secs(300);
    assert_eq!((tx.alerts().died(period).await.unwrap(), tx.alerts().live().await.unwrap()), (0, 1));

    tx.processes().expire(10).await.unwrap();

    assert_eq!((tx.alerts().died(period).await.unwrap(), tx.alerts().live().await.unwrap()), (1, 1));
    bench.advance(period);
    assert_eq!((tx.alerts().died(period).await.unwrap(), tx.alerts().live().await.unwrap()), (0, 0));
}
